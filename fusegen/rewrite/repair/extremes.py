"""Maxima and minima that hold row values still to come, read out of extremes without them.

  factor  max c·h = c·max h                          c ≥ 0 of row values, h of elements alone
  ends    max |g(x)| = max(|g(max x)|, |g(min x)|)   g follows the order of x, or reverses it
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from fusegen.algebra.extremes import factored, follows
from fusegen.algebra.facts.pivots import Pivots
from fusegen.algebra.facts.terms import literal as number_of
from fusegen.algebra.symbols import is_nonnegative, is_positive
from fusegen.ir import graph as g
from fusegen.rewrite.build import at_element, call_it, fold, name_of, op
from fusegen.rewrite.repair.product import moves
from fusegen.rewrite.repair.sums import Repaired


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Π over / Π under · rest: the factors are row values still to come, and ≥ 0."""

    over: tuple[g.Node, ...]
    under: tuple[g.Node, ...]
    rest: g.Node | None  # None: 1

    @property
    def has_factors(self) -> bool:
        return bool(self.over or self.under)

    def times(self, value: g.Node) -> g.Node:
        for factor in self.over:
            value = op("mul", value.loc, value, factor)
        for factor in self.under:
            value = op("div", value.loc, value, factor)
        return value


def extreme(total: g.Reduce, name: str) -> Repaired | None:
    """The maximum or minimum out of others, if it is a product, or a magnitude, that allows it."""
    term = _taken_apart(total.arg)
    rest = term.rest
    if rest is None or g.extent(rest) is not g.Extent.ELEMENT:
        return None
    if not all(_is_usable(factor, rest) for factor in (*term.over, *term.under)):
        return None
    proofs = []
    if term.has_factors:
        proofs.append(functools.partial(factored, name, total.arg, term.times(rest)))
    if not g.reductions_of(rest):
        if not term.has_factors:
            return None
        best = call_it(fold(total.fold, rest, total.loc), f"{name_of(total) or 'best'}_unscaled")
    else:
        ends = ends_of(rest) if total.fold is g.Fold.MAX else None
        if ends is None:
            return None
        inner, x = ends
        high, low = (fold(kind, x, total.loc) for kind in (g.Fold.MAX, g.Fold.MIN))
        best = op("maximum", total.loc, at_element(rest, x, high), at_element(rest, x, low))
        proofs.append(functools.partial(follows, name, inner, x))
    value = term.times(best)
    return Repaired(value, value, proofs=tuple(proofs))


def _is_usable(factor: g.Node, rest: g.Node) -> bool:
    """Is it never 0, or only where all of the rest is one number? 0 · ∞ is NaN at one element, and
    the greatest of the rest may be another."""
    elements = [i for i in g.topological((rest,)) if isinstance(i, g.Input) and not i.per_row]
    return is_positive(factor) or all(Pivots().is_zero_of_equals(x, factor) for x in elements)


def _taken_apart(node: g.Node) -> _Scaled:
    """The factors of a product, or of its magnitude, that are row values still to come and ≥ 0."""
    if moves(node) and is_nonnegative(node):
        return _Scaled((node,), (), None)
    match node:
        case g.Map(op="mul", args=(a, b)):
            left, right = _taken_apart(a), _taken_apart(b)
            return _Scaled((*left.over, *right.over), (*left.under, *right.under),
                           _product(left.rest, right.rest, a, b, node))
        case g.Map(op="div", args=(a, b)) if moves(b) and is_nonnegative(b):
            inner = _taken_apart(a)
            return _Scaled(inner.over, (*inner.under, b), inner.rest)
        case g.Map(op="abs", args=(a,)):
            inner = _taken_apart(a)
            if inner.rest is not None and inner.has_factors:
                return _Scaled(inner.over, inner.under, op("abs", node.loc, inner.rest))
    return _Scaled((), (), node)


def _product(
    left: g.Node | None, right: g.Node | None, a: g.Node, b: g.Node, node: g.Node
) -> g.Node | None:
    if left is a and right is b:
        return node
    if left is None or right is None:
        return right if left is None else left
    return op("mul", node.loc, left, right)


def ends_of(node: g.Node) -> tuple[g.Node, g.Node] | None:
    """(g, x) where the node is |g| or an even power of it, and g depends on elements by x alone."""
    match node:
        case g.Map(op="abs" | "square", args=(inner,)):
            pass
        case g.Map(op="mul", args=(inner, other)) if inner is other:
            pass
        case g.Map(op="pow", args=(inner, power)) if _is_even(number_of(power)):
            pass
        case _:
            return None
    found = elements_of((inner,))
    return (inner, found[0]) if len(found) == 1 else None


def _is_even(power: float | None) -> bool:
    return power is not None and power > 0 and power % 2 == 0


def elements_of(roots: Sequence[g.Node]) -> tuple[g.Node, ...]:
    """The largest element expressions that hold no row value still to come."""
    largest = g.outermost(
        roots, lambda n: g.extent(n) is not g.Extent.ELEMENT or not g.reductions_of(n))
    return tuple(n for n in largest if g.extent(n) is g.Extent.ELEMENT)
