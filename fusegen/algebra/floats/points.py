"""Numbers of a term's elements and row values, at which it is looked at: usual ones, and 0,
infinities and NaN by turns, as they may stand beside each other in a row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np

from fusegen.algebra.domain import Bound
from fusegen.algebra.facts.pivots import outside
from fusegen.algebra.facts.questions import answer, is_mask, questions_in
from fusegen.algebra.facts.terms import Mask, masks_of
from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import is_nonnegative, is_positive
from fusegen.ir import graph as g
from fusegen.ir.conditions import is_condition
from fusegen.ir.expr import FLOATS
from fusegen.ir.ops import OPS
from fusegen.ir.shared import lazy

Numbers = dict[g.Node, Any]
"""What elements and row values are."""

_ABOVE, _BELOW, _USUAL = 2.0, 0.25, 0.75
_ELEMENTS = (_USUAL, -_USUAL, 0.0, 3.0)
_MOST = 64  # combinations of them, to find one that masks take


@dataclass(frozen=True)
class Points:
    """The term of a setting on numbers of its elements and row values."""

    setting: Setting

    @lazy
    def usual(self) -> Numbers:
        """Extremes on their side of the elements; all else apart from each other. Elements are such
        as the term's masks take, where such are found."""
        asked = [n for n in self.setting.elements if not is_mask(n) and any(
            n in g.topological((c,)) for c, _ in self._taken)]
        values = itertools.islice(itertools.product(_ELEMENTS, repeat=len(asked)), _MOST)
        tried = (self._beside(dict(zip(asked, v, strict=True))) for v in values)
        first = next(tried, {})  # there is one at least
        return first if self._takes_all(first) else next(filter(self._takes_all, tried), first)

    @lazy
    def _taken(self) -> Mask:
        """The masks that say something of these elements and row values."""
        given = {*self.setting.elements, *self.setting.rows}
        return frozenset((c, holds) for c, holds in masks_of(self.setting.arg) if all(
            n in given or isinstance(n, g.Map | g.Literal | g.Cast)
            for n in g.topological((c,), given.__contains__)))

    def _takes_all(self, numbers: Numbers) -> bool:
        return all(bool(self.at(c, numbers)) is holds for c, holds in self._taken) and all(
            self._takes(n, numbers[n]) for n in self.setting.elements if not is_condition(n))

    def _beside(self, elements: Mapping[g.Node, float]) -> Numbers:
        """Usual numbers beside these elements."""
        near = {n: elements.get(n, _USUAL) for n in self.setting.elements}
        found: Numbers = {n: np.float32(v + k / 64 if v else 0)
                          for k, (n, v) in enumerate(near.items())}
        found |= {m: np.bool_((m, False) not in self._taken) for m in found if is_mask(m)}
        found |= self._masks(found)
        for k, (n, r) in enumerate(self.setting.rows.items()):
            found[n] = np.bool_(True) if is_condition(n) else np.float32(1.25 + k / 64)
            for b in (b for b in self.setting.bounds if b.row == r.symbol):
                x = found[self._element(b)]
                end = max(_ABOVE, x + 0.5) if b.above else min(_BELOW, x - 0.5)
                found[n] = np.float32(end + k / 64)
        return found

    def of(self, special: tuple[float, ...]) -> Iterator[tuple[g.Node, Numbers]]:
        """One node special, then an element together with the extreme that it is; conditions of the
        row hold, or do not."""
        conditions = [n for n in self.usual if is_condition(n)]
        for holds in (True, False)[:1 + bool(conditions)]:
            usual = {**self.usual, **dict.fromkeys(conditions, np.bool_(holds))}
            for node, number in itertools.product(usual, special):
                if self._takes(node, number):
                    yield from self.feasible(node, {**usual, node: np.float32(number)})
            for b, number in itertools.product(self.setting.bounds, (inf, -inf, 0.0)):
                x, row = self._element(b), self.setting.row(b.row).node
                if self._takes(x, number) and self._takes(row, number):
                    both = {x: np.float32(number), row: np.float32(number)}
                    yield from self.feasible(x, {**usual, **both})

    def beside_a_choice(self, node: g.Node, numbers: Numbers) -> Numbers:
        """The numbers, with a usual one for what is given where no condition of the row holds: a
        factor beside where(r > 0, …, 0) counts as inside of it, and 0·inf is 0."""
        rows = self.setting.rows
        given = (node not in rows or rows[node].constant) and node not in self._chosen
        conditions = [n for n in rows if is_condition(n)]
        none = bool(conditions) and not any(numbers[n] for n in conditions)
        return {**numbers, node: self.usual[node]} if given and none else numbers

    @lazy
    def _chosen(self) -> frozenset[g.Node]:
        """What conditions of the row choose between."""
        parts = g.topological((self.setting.arg,), self.setting.rows.__contains__)
        return frozenset(g.topological(a for n in parts if isinstance(n, g.Map) and n.op == "where"
                                       and n.args[0] in self.setting.rows for a in n.args[1:]))

    def ignored(self) -> Iterator[tuple[g.Node, Numbers]]:
        """An element that is NaN, beside row values that may have left it out: where(x == x, x, 0).
        There the term may leave it out, too."""
        for x in self.setting.elements:
            led = [r for r in self.setting.rows if _is_led(x, r)]
            if len(led) < sum(x in set(outside(set(), r)) for r in self.setting.rows) or not led:
                yield x, {**self.usual, **dict.fromkeys((x, *led), np.float32(nan))}

    def is_nan_at(self, x: g.Node, extreme: g.Node) -> bool:
        """Is the term NaN where the element is the extreme, and infinite?"""
        return all(np.isnan(self.text(
            {**self.usual, x: np.float32(number), extreme: np.float32(number)}
        )) for number in (inf, -inf))

    def _takes(self, node: g.Node, number: float) -> bool:
        """May the node be this number?"""
        if isinstance(node, g.Length | g.Index) or is_condition(node):
            return False
        return not (number <= 0 and is_positive(node)) and not (number < 0 and is_nonnegative(node))

    def _element(self, bound: Bound) -> g.Node:
        return next(n for n, s in self.setting.elements.items() if s == bound.element)

    def feasible(self, node: g.Node, numbers: Numbers) -> Iterator[tuple[g.Node, Numbers]]:
        """With elements on their side of a special extreme, the extreme beyond a special element,
        and NaN where a NaN leads."""
        if np.isnan(numbers[node]):
            led = (n for n in self.setting.rows
                   if node in set(outside(set(), n)) and (node is n or _is_led(node, n)))
            numbers = {**numbers, **dict.fromkeys(led, np.float32(nan))}
        for b in self.setting.bounds:
            x, row = self._element(b), self.setting.row(b.row).node
            if _within(b, numbers[x], numbers[row]):
                continue
            if x is not node:
                numbers = {**numbers, x: numbers[row] + np.float32(-_USUAL if b.above else _USUAL)}
            elif np.isfinite(numbers[x]) and row is not node:
                numbers = {**numbers, row: 2 * numbers[x] if numbers[x] else -numbers[row]}
        numbers |= self._masks(numbers)
        if all(self._holds(b, numbers) for b in self.setting.bounds):
            yield node, numbers

    def _masks(self, numbers: Numbers) -> Numbers:
        """What masks say of these numbers, where they ask of nothing else."""
        asked = {m: [q.args[0] for q in questions_in(m)] for m in numbers if is_mask(m)}
        return {m: np.bool_(answer(m, {n: numbers[n] for n in of}))
                for m, of in asked.items() if numbers.keys() >= set(of)}

    def _holds(self, b: Bound, numbers: Numbers) -> bool:
        x, row = self._element(b), self.setting.row(b.row).node
        size = isinstance(row, g.Reduce) and row.arg is not x  # max |x|
        return _within(b, abs(numbers[x]) if size else numbers[x], numbers[row]) and not any(
            numbers[n] < 0 and is_nonnegative(n) for n in (x, row))

    def named(self, numbers: Numbers) -> Mapping[str, Any]:
        return {self.setting.symbols[n].name: v for n, v in numbers.items()}

    def text(self, numbers: Numbers) -> Any:
        """The term as written, in float32."""
        return np.float32(self.at(self.setting.arg, numbers))

    def at(self, node: g.Node, numbers: Numbers) -> Any:
        """A part of it."""
        known = dict(numbers)
        with np.errstate(all="ignore"):
            for n in g.topological((node,), known.__contains__):
                match n:
                    case _ if n in known:
                        continue
                    case g.Literal(value=v):
                        known[n] = np.bool_(v) if isinstance(v, bool) else np.float32(v)
                    case g.Map(op=op, args=args):
                        known[n] = FLOATS.functions[op](*(known[a] for a in args))
                    case g.Cast(arg=arg):
                        known[n] = known[arg]  # to floats: others have no model
        return known[node]


def _is_led(x: g.Node, node: g.Node) -> bool:
    """Is the value NaN wherever some x is? A condition that asks x may leave it out."""
    led: dict[g.Node, bool] = {}
    for n in g.topological((node,)):
        match n:
            case _ if n is x:
                led[n] = True
            case g.Map(op="where", args=(c, a, b)):
                led[n] = x not in g.topological((c,)) and (led[a] or led[b])
            case g.Map(op=op) if OPS[op].rule in ("bool", "logic"):
                led[n] = False
            case _:
                led[n] = any(led[a] for a in g.operands(n))
    return led[node]


def _within(bound: Bound, x: Any, row: Any) -> bool:
    return bool(np.isnan(x) or np.isnan(row) or (x <= row if bound.above else x >= row))
