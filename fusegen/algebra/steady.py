"""Row values that stay near the data while the row is read, so that pivots can be made of them.

A pivot is only a place to measure from: any value serves in exact arithmetic. In floating point
one that wanders off and returns takes digits with it. Extremes and averages stay within the range
of what they are made of; sums of one sign only grow; a quotient whose denominator may pass through
0 goes anywhere.
"""

from __future__ import annotations

import functools

from fusegen import graph as g
from fusegen.algebra.symbols import is_nonnegative

_TAME = ("add", "sub", "mul", "neg", "abs", "maximum", "minimum", "sqrt", "exp", "log", "pow",
         "exp2", "square", "where", "isinf", "eq", "gt", "lt")  # fmt: skip


@functools.lru_cache(maxsize=4096)
def is_steady(node: g.Node) -> bool:
    """Does the value of a part of the row stay in the range that the row's elements span?"""
    match node:
        case g.Literal() | g.Length() | g.Input():
            return True
        case g.Reduce(fold=g.Fold.MAX | g.Fold.MIN | g.Fold.MEAN):
            return True
        case g.Reduce(fold=g.Fold.SUM, arg=arg):
            return is_nonnegative(arg)
        case g.Map(op="div", args=(over, under)):
            return _is_average(over, under) or (is_steady(over) and not g.reductions_of(under))
        case g.Map(op=op, args=args) if op in _TAME:
            return all(is_steady(a) for a in args)
        case g.Cast(arg=arg):
            return is_steady(arg)
        case _:
            return False


def _is_average(over: g.Node, under: g.Node) -> bool:
    """Σ w·x / Σ w with w ≥ 0."""
    if not (isinstance(over, g.Reduce) and isinstance(under, g.Reduce)):
        return False
    weights = under.arg
    sums = over.fold in (g.Fold.SUM, g.Fold.MEAN) and under.fold is over.fold
    product = over.arg
    return (
        sums and is_nonnegative(weights)
        and isinstance(product, g.Map) and product.op == "mul" and weights in product.args
    )  # fmt: skip
