"""Questions whether a value is NaN, infinite or finite, and what such a value makes of others.

The algebra speaks of finite reals. A question about an element is to it a mask, as a condition
that is an input; one about an extreme is asked when the row is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, nan
from typing import Any

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.expr import FLOATS
from fusegen.ir.ops import OPS

ASKED = ("isinf", "isnan", "isfinite")
_SPECIAL = (nan, inf, -inf)
_Answer = bool | None  # None: not known


def asked_extreme(node: g.Node) -> g.Reduce | None:
    """The maximum or minimum of which the node asks whether it is a number."""
    match node:
        case g.Map(op=op, args=(g.Reduce(fold=g.Fold.MAX | g.Fold.MIN) as m,)) if op in ASKED:
            return m if g.is_reduction(m) else None
        case _:
            return None


def is_mask(node: g.Node) -> bool:
    """Is it made of nothing but questions about elements, of which no value of the row is a part?
    x == x is such a question."""
    match node:
        case g.Map(op="not" | "and" | "or", args=args):
            return all(map(is_mask, args))
        case g.Map(op=op, args=(a, *rest)) if op in ASKED or (op in ("eq", "ne") and a is rest[0]):
            return g.extent(a) is g.Extent.ELEMENT and not g.reductions_of(a)
        case _:
            return False


def questions_in(mask: g.Node) -> Iterator[g.Map]:
    for n in g.topological((mask,)):
        if isinstance(n, g.Map) and is_mask(n) and n.op not in ("not", "and", "or"):
            yield n


def answer(mask: g.Node, values: Mapping[g.Node, float]) -> bool:
    """Of a mask, for values of what its questions are about."""
    known: dict[g.Node, Any] = {n: np.float32(v) for n, v in values.items()}
    for n in g.topological((mask,), known.__contains__):
        if isinstance(n, g.Map) and n not in known:
            known[n] = FLOATS.functions[n.op](*(known[a] for a in n.args))
    return bool(known[mask])


def asks_for_specials(term: g.Node, known: Iterable[g.Node]) -> g.Map | None:
    """The first isinf, isnan or isfinite in the term, outside of what is known there."""
    seen = set(known)
    todo = [term]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, g.Map) and node.op in ASKED:
            return node
        if not (isinstance(node, g.Reduction) and g.is_reduction(node)):
            todo += g.operands(node)
    return None


def leads(question: g.Map, row: g.Node) -> bool:
    """May the row value be NaN or infinite for a special element that the mask tells from numbers?
    max(where(isnan(x), -inf, x)) is a number beside any NaN, and max(x) is not."""
    (asked, *_) = question.args
    usual = answer(question, {asked: 1.0})
    special = [v for v in _SPECIAL if answer(question, {asked: v}) is not usual]
    arrays = [n for n in g.topological((question,)) if isinstance(n, g.Input)]
    return any(_Led(question, not usual, x, v).of(row) for v in special for x in arrays)


@dataclass
class _Led:
    """What may be special where one element of an array is, and the mask says so."""

    question: g.Map
    says: bool
    array: g.Node
    value: float
    known: dict[g.Node, bool] = field(default_factory=dict)

    def of(self, node: g.Node) -> bool:
        for n in g.topological((node,), self.known.__contains__):
            self.known[n] = self._one(n)
        return self.known[node]

    def _one(self, node: g.Node) -> bool:
        match node:
            case _ if node is self.array:
                return True
            case g.Map(op="where", args=(c, a, b)):
                holds = self._answer(c)
                taken = (a, b) if holds is None else (a,) if holds else (b,)
                return any(self.known[n] for n in taken)
            case g.Map(op=op) if OPS[op].rule in ("bool", "logic"):
                return False
            case _:
                return any(self.known[n] for n in g.operands(node))

    def _answer(self, c: g.Node) -> _Answer:
        match c:
            case g.Map() if c is self.question:
                return self.says
            case g.Map(args=(a, *_)) if a is self.array and is_mask(c):
                return answer(c, {a: self.value})
            case g.Map(op="not", args=(a,)):
                held = self._answer(a)
                return None if held is None else not held
            case g.Map(op="and" | "or" as op, args=(a, b)):
                return _both(self._answer, a, b, op == "and")
            case _:
                return None


def _both(ask: Callable[[g.Node], _Answer], a: g.Node, b: g.Node, neutral: bool) -> _Answer:
    """`and` with True as its neutral element, `or` with False."""
    answers = {ask(a), ask(b)}
    if (not neutral) in answers:
        return not neutral
    return None if None in answers else neutral
