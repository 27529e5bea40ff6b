"""Logarithms of sums whose exponential is pending: plain numbers, a shift and a rest."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir import graph as g
from fusegen.rewrite.build import is_one, literal, op
from fusegen.rewrite.exponent import Scaled, gathered, linear, spelled


@dataclass(frozen=True, slots=True)
class _Log:
    """A logarithm written as shift + rest, the shift a multiple of max(element)."""

    element: g.Node
    shift: g.Node
    rest: g.Node

    def belongs_to(self, other: g.Node) -> bool:
        """Is the other a sum with the element in it, or with the element at some column?"""
        return any(
            n is self.element or (isinstance(n, g.Take) and n.arg is self.element)
            for n in linear(other)
        )


class Logarithms:
    """Those of one text, each known by the node that it became."""

    def __init__(self) -> None:
        self._known: dict[g.Node, _Log] = {}

    def of(self, node: g.Map, inside: Scaled) -> g.Node:
        """log(core · exp(e)) = e + log(core); an infinite pivot is the result, as in the text."""
        loc, name = node.loc, "log2" if node.op == "log2" else "log"
        e = spelled(gathered(inside.log, loc), loc)
        if name == "log2":
            e = op("div", loc, e, op("log", loc, literal(2.0, loc)))
        core = inside.core
        if isinstance(core, g.Map) and core.op == "div":
            top, bottom = core.args
            up = e if is_one(top) else op("add", loc, e, op(name, loc, top))
            return op("sub", loc, up, op(name, loc, bottom))
        if is_one(core):
            return e
        rest = op(name, loc, core)
        total = op("add", loc, e, rest)
        (pivot, *more) = inside.log
        if more or not isinstance(pivot, g.Reduce):
            return total
        guarded = op("where", loc, op("isinf", loc, pivot), e, total)
        self._known[guarded] = _Log(pivot.arg, e, rest)
        return guarded

    def paired(self, node: g.Map) -> Scaled | None:
        """x − (m + log d) = (x − m) − log d: large numbers meet first, and lose no digits."""
        if node.op != "sub":
            return None
        (a, b), loc = node.args, node.loc
        if b in self._known and self._known[b].belongs_to(a):
            m, d = self._known[b].shift, self._known[b].rest
            return Scaled(op("sub", loc, op("sub", loc, a, m), d))
        if a in self._known and self._known[a].belongs_to(b):
            m, d = self._known[a].shift, self._known[a].rest
            return Scaled(op("add", loc, op("sub", loc, m, b), d))
        return None
