"""What sympy has decided or cancelled, found by special numbers.

Over the reals r − r = 0, r / r = 1 and exp(y) > 0, and sympy says so as it reads a text. In floats
none holds for every number: r may be infinite, or 0; exp(y) is 0 at last. So every element and row
value takes special numbers by turns, beside usual ones of all others: there the term as written and
what stands for it must agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np

from fusegen.algebra.choice import Choice
from fusegen.algebra.domain import Bound
from fusegen.algebra.facts.pivots import outside
from fusegen.algebra.facts.questions import answer, asked_extreme, is_mask, questions_in
from fusegen.algebra.floats.values import Spelled, value
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting, as_vars
from fusegen.algebra.symbols import is_nonnegative, is_positive
from fusegen.algebra.thaw import thaw
from fusegen.ir import graph as g
from fusegen.ir.conditions import is_condition
from fusegen.ir.expr import FLOATS, Expr
from fusegen.ir.ops import OPS
from fusegen.ir.shared import lazy

Numbers = dict[g.Node, Any]
"""What elements and row values are."""

_SPECIAL = (0.0, inf, -inf, nan)
_HARD = (1e4, -1e4, 1e30, -1e30)  # exp of them is infinite, or 0, and so are squares
_ABOVE, _BELOW, _USUAL = 2.0, 0.25, 0.75


def cancelled(setting: Setting, closed: Closed) -> g.Node | None:
    """An element or row value with which the sums read out are another number than the term, where
    they should be the same, or NaN; None: there is none."""
    probes, form = _Probes(setting), _Form(setting, closed)
    for node, numbers in probes.of(_SPECIAL):
        if form.is_guarded(numbers) or _agree(probes.text(numbers), form.at(numbers)):
            continue
        if not _agree(probes.text(probes.beside_a_choice(node, numbers)), form.at(numbers)):
            return node
    for node, numbers in probes.ignored():
        text, read = probes.text(numbers), form.at(numbers)
        if not form.is_guarded(numbers) and np.isnan(read) and not np.isnan(text):
            return node
    return None


def decided(setting: Setting) -> g.Node | None:
    """An element or row value with which the term is not the f that its trend is told of."""
    probes = _Probes(setting)
    f = thaw(setting.f, as_vars(setting), frozenset())
    for node, numbers in probes.of((*_SPECIAL, *_HARD)):
        got = value(f, probes.named(numbers))
        text = probes.text(numbers)
        noise = max((abs(v) for v in numbers.values() if np.isfinite(v)), default=0)
        if not (_agree(text, got, noise) and np.isnan(text) == np.isnan(got)):
            return node
    return None


def undefined(setting: Setting) -> g.Node | None:
    """A row value of the term that may be 0 while it has none: 0 · ∞ or 0 / 0, at an element that
    need not be the greatest. Row values that are 0 only where every element is say NaN of all."""
    probes = _Probes(setting)
    (x,) = setting.elements
    for row in setting.changing:
        if is_positive(row.node) or setting.facts.is_zero_of_equals(x, row.node):
            continue
        usual = {**probes.usual, row.node: np.float32(0)}
        if np.isinf(probes.text(usual)):  # divided by it, and some element may be what makes 0 / 0
            return row.node
        for number in (0.0, inf, -inf):
            numbers = {**usual, x: np.float32(number)}
            if any(np.isnan(probes.text(n)) for _, n in probes.feasible(x, numbers)):
                return row.node
    return None


def answered(setting: Setting, closed: Closed) -> Iterator[g.Node]:
    """Conditions that ask whether an extreme is a number, where the text is NaN if it is none: at
    the element that is the extreme, which no condition leaves out, or of which the sum knows."""
    probes, parts = _Probes(setting), g.topological((setting.arg,), setting.rows.__contains__)
    if closed.taken is None and any(isinstance(n, g.Map) and n.op == "where"
           and g.extent(n.args[0]) is g.Extent.ELEMENT for n in parts):
        return
    for node in parts:
        extreme = asked_extreme(node)
        if extreme in setting.rows and setting.rows[extreme].symbol in setting.finite and any(
                setting.facts.is_of_taken(x, extreme) and probes.is_nan_at(x, extreme)
                for x in setting.elements):
            yield node


def told_simpler(graph: g.Graph, node: g.Node) -> tuple[str, str]:
    """Why a text that cancels this element or row value is computed as written, and what to do."""
    name = graph.names.get(node, "a value")
    why = ("over the reals the expression is simpler than it is written, and for special values of "
           f"{name},\nas 0, infinity or NaN, it is another number than the text has.")
    return why, f"To share the sweep, write the simpler expression, where {name} does not cancel."


def _agree(text: Any, form: Any, noise: Any = 0) -> bool:
    """To rounding, of sums of numbers up to `noise`; or the form is NaN."""
    if np.isnan(form):
        return True
    with np.errstate(invalid="ignore"):
        return bool(text == form or abs(text - form) <= 1e-4 * (1 + abs(text)) + 1e-6 * noise)


@dataclass(frozen=True)
class _Probes:
    """The term of a setting on numbers of its elements and row values."""

    setting: Setting

    @lazy
    def usual(self) -> Numbers:
        """Extremes on their side of the elements; all else apart from each other."""
        sides = {b.row: _ABOVE if b.above else _BELOW for b in self.setting.bounds}
        found: Numbers = {n: np.float32(_USUAL + k / 64)
                          for k, n in enumerate(self.setting.elements)}
        found |= {m: np.bool_(answer(m, {q.args[0]: _USUAL for q in questions_in(m)}))
                  for m in found if is_mask(m)}
        for k, (n, r) in enumerate(self.setting.rows.items()):
            found[n] = np.bool_(True) if is_condition(n) else np.float32(
                sides.get(r.symbol, 1.25) + k / 64)
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
        given = node not in rows or rows[node].constant
        if not given or node in self._chosen or any(numbers[n] for n in rows if is_condition(n)):
            return numbers
        return {**numbers, node: self.usual[node]}

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
        symbols = {**self.setting.elements, **{n: r.symbol for n, r in self.setting.rows.items()}}
        return {symbols[n].name: v for n, v in numbers.items()}

    def text(self, numbers: Numbers) -> Any:
        """The term as written, in float32."""
        known = dict(numbers)
        with np.errstate(all="ignore"):
            for n in g.topological((self.setting.arg,), known.__contains__):
                match n:
                    case _ if n in known:
                        continue
                    case g.Literal(value=v):
                        known[n] = np.bool_(v) if isinstance(v, bool) else np.float32(v)
                    case g.Map(op=op, args=args):
                        known[n] = FLOATS.functions[op](*(known[a] for a in args))
                    case g.Cast(arg=arg):
                        known[n] = known[arg]  # to floats: others have no model
        return np.float32(known[self.setting.arg])


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


@dataclass(frozen=True)
class _Form:
    """What stands for the term: Σ c·h of one element, nothing guarded."""

    setting: Setting
    closed: Closed

    @lazy
    def _choices(self) -> tuple[Choice, ...]:
        return tuple(c for c in self.closed.candidate.choices
                     if c.pivot is not None and c.action != "same")

    def is_guarded(self, numbers: Numbers) -> bool:
        """Is the sum NaN anyway, by the guard policy?"""
        units = {c.unit.node for c in self._choices if c.unit is not None}
        units |= {c.pivot.node for c in self._choices if c.pivot and c.action == "scale"}
        pivots = {c.pivot.node for c in self._choices if c.pivot is not None}
        finite = {self.setting.row(s).node for s in self.setting.finite}
        ordered = {self.setting.row(s).node for s in self.setting.ordered}
        return any(np.isnan(numbers[n]) for n in ordered) or any(
            not np.isfinite(numbers[n]) for n in units | pivots | finite
        ) or any(numbers[n] == 0 for n in units)

    @lazy
    def _spelled(self) -> Spelled:
        return Spelled(self.setting, self.closed)

    @lazy
    def _terms(self) -> list[Expr]:
        """Conditions of the row choose, as they do in read-outs."""
        terms = self.closed.candidate.terms.items()
        return [thaw(c * h, self._spelled.words, frozenset()) for h, c in terms if c != 0]

    def at(self, numbers: Numbers) -> Any:
        env = dict(_Probes(self.setting).named(numbers))
        with np.errstate(all="ignore"):
            env |= self._spelled.relative(env)
            return sum((np.float32(value(t, env)) for t in self._terms), np.float32(0))
