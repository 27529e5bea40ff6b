"""Maxima and minima over what a mask takes, with row values still to come: of the elements taken.

  order  max where(c, g(x), −∞) = max g(where(c, x, ∓∞))     g follows the order of x
  ends   max where(c, |g(x)|, 0) = max(|g(max x)|, |g(min x)|)   of the x that c takes

Where c takes nothing of a row, what the text says of all else is the answer.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import inf

from fusegen.algebra.extremes import follows, order_of
from fusegen.algebra.symbols import is_nonnegative
from fusegen.ir import graph as g
from fusegen.rewrite.build import at_element, call_it, fold, literal, op
from fusegen.rewrite.repair.extremes import elements_of, ends_of
from fusegen.rewrite.repair.sums import Repaired

_HIGH = (g.Fold.MAX, g.Fold.ARGMAX)


@dataclass(frozen=True, slots=True)
class _Masked:
    """where(condition, term, nothing), of which no `nothing` is taken beside a term."""

    condition: g.Node
    term: g.Node
    nothing: g.Literal


def masked_extreme(total: g.Reduce, name: str) -> Repaired | None:
    """The maximum or minimum, or its column, of the elements that the mask takes alone."""
    found = _masked(total)
    if found is None:
        return None
    both = ends_of(found.term) if total.fold is g.Fold.MAX else None
    if both is not None:
        inner, x = both
        best = op("maximum", total.loc, *(
            at_element(found.term, x, fold(kind, _taken(found, x, -end), total.loc))
            for kind, end in ((g.Fold.MAX, inf), (g.Fold.MIN, -inf))))
    else:
        (x, *others), inner = elements_of((found.term,)), found.term
        way = 0 if others else order_of(inner, x)
        if way == 0:
            return None
        losing = -inf if (total.fold in _HIGH) == (way > 0) else inf
        best = fold(total.fold, at_element(inner, x, _taken(found, x, losing)), total.loc)
    value = best if total.fold in (g.Fold.ARGMAX, g.Fold.ARGMIN) else _if_any(total, found, best)
    return Repaired(value, value, proofs=(functools.partial(follows, name, inner, x),))


def _masked(total: g.Reduce) -> _Masked | None:
    match total.arg:
        case g.Map(op="where", args=(c, a, g.Literal() as b)):
            found = _Masked(c, a, b)
        case g.Map(op="where", args=(c, g.Literal() as a, b)):
            found = _Masked(op("not", total.loc, c), b, a)
        case _:
            return None
    if g.reductions_of(found.condition) or g.extent(found.condition) is not g.Extent.ELEMENT:
        return None
    if not g.reductions_of(found.term) or not elements_of((found.term,)):
        return None
    return found if _loses(total.fold, found) else None


def _loses(kind: g.Fold, found: _Masked) -> bool:
    """Is what stands for the rest never better than a term?"""
    nothing = found.nothing.value
    if kind in (g.Fold.ARGMAX, g.Fold.ARGMIN):
        return nothing == (-inf if kind is g.Fold.ARGMAX else inf)
    return nothing == (-inf if kind is g.Fold.MAX else inf) or (
        kind is g.Fold.MAX and nothing == 0 and is_nonnegative(found.term))


def _taken(found: _Masked, x: g.Node, nothing: float) -> g.Node:
    return op("where", found.condition.loc, found.condition, x, literal(nothing, x.loc))


def _if_any(total: g.Reduce, found: _Masked, best: g.Node) -> g.Node:
    one, zero = literal(1.0, total.loc), literal(0.0, total.loc)
    some = fold(g.Fold.MAX, op("where", total.loc, found.condition, one, zero), total.loc)
    any_taken = op("gt", total.loc, call_it(some, "selected"), zero)
    return op("where", total.loc, any_taken, best, found.nothing)
