"""Σ p·(1 − p) of shares p = exp(x) / Σ exp(x), without the difference that cancels where one p is
nearly 1.

With m the greatest x, c elements equal to it, and N, Q the sums of exp(x − m) and of its square
over all others, Σ exp(x − m) = c + N =: d, and

  d²·Σ p·(1 − p) = d² − c − Q = c·(c − 1) + 2·c·N + (N² − Q).

No term is negative, for N² holds each square of Q. The last may cancel, but not beside the others:
each exp(x − m) ≤ 1, so Q ≤ N, and N² + Q ≤ N² − Q + 2·N.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.algebra.facts.terms import literal as number_of
from fusegen.ir import graph as g
from fusegen.ir.loc import Loc
from fusegen.rewrite.build import call_it, fold, length, literal, name_of, op
from fusegen.rewrite.exponent import gathered, linear, parts, scaled, spelled
from fusegen.rewrite.repair.sums import Known, Repaired, name_pivot


def shares(total: g.Reduce, known: Known) -> Repaired | None:
    """The sum or mean, if its term is p·(1 − p); `known`: what the text computes."""
    exponent = _exponent(total.arg)
    if exponent is None:
        return None
    varying, _ = parts(linear(exponent))
    if not varying or any(g.reductions_of(n) for n in varying):
        return None
    ((x, c),) = gathered(varying, total.loc).items()
    if x not in known:  # a sum of elements that the text does not form may cancel
        return None
    greatest = g.Fold.MAX if c > 0 else g.Fold.MIN
    m = fold(greatest, x, total.loc)
    name_pivot(m, x, greatest.value)
    e = op("exp", total.loc, spelled({x: c, m: -c}, total.loc))
    square = op("exp", total.loc, spelled(scaled({x: c, m: -c}, 2), total.loc))
    plain = _Beside(x, m, total.loc).read(e, square)
    if total.fold is g.Fold.MEAN:
        plain = op("div", total.loc, plain, length(total.loc))
    value = op("add", total.loc, plain, op("sub", total.loc, m, m))  # NaN of an infinite m
    return Repaired(value, plain, (m,))


def _exponent(term: g.Node) -> g.Node | None:
    """The exponent, where the term is p·(1 − p) with p = exp(…) / Σ exp(…)."""
    if not (isinstance(term, g.Map) and term.op == "mul"):
        return None
    for p, rest in (term.args, term.args[::-1]):
        match rest, p:
            case g.Map(op="sub", args=(one, q)), g.Map(
                op="div", args=(g.Map(op="exp", args=(e,)) as power, g.Reduce() as whole)
            ) if q is p and number_of(one) == 1:
                return e if whole.fold is g.Fold.SUM and whole.arg is power else None
    return None


@dataclass(frozen=True)
class _Beside:
    """Sums over the elements that are the greatest, and over those that are not."""

    x: g.Node
    m: g.Node
    loc: Loc

    def op(self, name: str, *args: g.Node) -> g.Node:
        return op(name, self.loc, *args)

    def number(self, value: float) -> g.Node:
        return literal(value, self.loc)

    def named(self, node: g.Node, what: str) -> g.Node:
        name = name_of(self.x)
        return call_it(node, f"{name}_{what}" if name else f"own_{what}")

    def others(self, value: g.Node, what: str) -> g.Node:
        greatest = self.op("eq", self.x, self.m)
        # A product, not a choice: where m is infinite NaN must stay NaN.
        other = self.op("where", greatest, self.number(0.0), self.number(1.0))
        chosen = self.op("mul", other, value)
        return self.named(fold(g.Fold.SUM, chosen, self.loc), what)

    def read(self, e: g.Node, square: g.Node) -> g.Node:
        """(c·(c − 1) + 2·c·N + (N² − Q)) / (c + N)²."""
        ones = self.op("where", self.op("eq", self.x, self.m), self.number(1.0), self.number(0.0))
        c = self.named(fold(g.Fold.SUM, ones, self.loc), "ties")
        n, q = self.others(e, "others"), self.others(square, "squares")
        ties = self.op("mul", c, self.op("sub", c, self.number(1.0)))
        twice = self.op("mul", self.op("mul", self.number(2.0), c), n)
        rest = self.op("sub", self.op("mul", n, n), q)
        pairs, d = self.op("add", self.op("add", ties, twice), rest), self.op("add", c, n)
        return self.op("div", self.op("div", pairs, d), d)
