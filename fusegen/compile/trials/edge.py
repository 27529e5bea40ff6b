"""Terms at the edge of the range: where a merged sum may leave it though the text does not.

A row value that multiplies or divides comes out of the sum: Σ (x / s)·y is kept as (Σ x·y) / s. The
text divides first, and x·y may underflow, or overflow, where x / s · y does not. So may p·Σ x,
where Σ (x / s)·p is read out as p·(Σ x) / s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.ops import OPS
from fusegen.oracle.rounding import SUM

Array = np.ndarray[Any, Any]
Values = Mapping[g.Node, Array]

_AS_THEY_ARE = frozenset({"exp", "exp2", "expm1", "sigmoid", "tanh"})
_ELEMENTS, _OVER, _UNDER = (frozenset({kind}) for kind in ("elements", "over", "under"))
_MARGIN = 64.0  # so far from the end of the range, sums of a row's terms stay within it


def lost_at_edge(node: g.Reduce, values: Values, n_cols: int, info: np.finfo[Any]) -> Array:
    """Σ|terms| of the elements that leave the range without the row values, or without those that
    divide; (rows, 1). Infinite where the row values alone do.

    `values`: of all nodes, in a type of wider range.
    """
    least, most = info.tiny / info.eps, info.max / (_MARGIN * n_cols)

    def beyond(value: Array) -> Array:
        size = np.abs(value)
        return np.asarray((size < least) | (size > most))

    with np.errstate(all="ignore"):
        term = np.abs(values[node.arg])
        outside = np.zeros((), np.bool_)
        for product in _products(node.arg):
            for kept in (_ELEMENTS, _ELEMENTS | _OVER):
                outside = outside | beyond(_factor(product, values, kept))
        lost = np.where(outside & (term != 0), term, 0)
        whole = np.broadcast_to(lost, (*lost.shape[:-1], n_cols))
        total = whole.sum(axis=-1, keepdims=True)
        alone = np.zeros((), np.bool_)
        for product in _products(node.arg):
            rows = beyond(_factor(product, values, _OVER | _UNDER))
            alone = alone | rows.any(axis=-1, keepdims=True)
        return np.where(alone, np.inf, total / n_cols if node.fold is g.Fold.MEAN else total)


def beside(node: g.Reduce, values: Values, n_cols: int, unit: float) -> Array:
    """Σ|terms|, or their mean, on elements as far away as a sum of them, one by one, rounds;
    (rows, 1). Row values, conditions and exponentials are as they are: a power of x − P has no
    digits below."""
    off = unit * max(SUM, n_cols) * (1 - 2.0 * (np.arange(n_cols) % 2))
    moved: dict[g.Node, Array] = {}
    with np.errstate(all="ignore"):
        for n in g.topological((node.arg,)):
            moved[n] = values[n]
            if g.extent(n) is g.Extent.ROW or values[n].dtype.kind != "f":
                continue
            if isinstance(n, g.Input):
                moved[n] = values[n] * (1 + off)
            elif isinstance(n, g.Map) and n.op not in _AS_THEY_ARE:
                moved[n] = OPS[n.op].numpy(*(moved[a] for a in n.args))
        whole = np.broadcast_to(moved[node.arg], (*moved[node.arg].shape[:-1], n_cols))
        total = np.asarray(np.abs(whole).sum(axis=-1, keepdims=True))
    return total / n_cols if node.fold is g.Fold.MEAN else total


def _products(term: g.Node) -> list[g.Node]:
    """The term, and what is added within it."""
    sums = [n for n in g.topological((term,)) if _adds(n) and not _is_row(n)]
    return [term, *(a for n in sums for a in g.operands(n) if not _is_row(a))]


def _factor(
    node: g.Node, values: Values, kept: frozenset[str], side: str = "over"
) -> Array:
    """What is left of the node: of its elements, and its row values that multiply or divide."""

    def part(n: g.Node, side: str = side) -> Array:
        return _factor(n, values, kept, side)

    match node:
        case g.Map(op="mul", args=(a, b)):
            return np.asarray(part(a) * part(b))
        case g.Map(op="div", args=(a, b)):
            return np.asarray(part(a) / part(b, "under" if side == "over" else "over"))
        case _ if _is_row(node):
            return values[node] if side in kept else np.ones(())
        case g.Map(op="pow", args=(a, g.Literal() as power)) if not _is_quotient(a):
            return np.asarray(np.abs(part(a)) ** values[power])
        case g.Map(op="square", args=(a,)) if not _is_quotient(a):
            return np.asarray(part(a) ** 2)
        case g.Map(op="neg" | "abs", args=(a,)):
            return part(a)
        case g.Map(op="where", args=(condition, a, b)):
            return np.where(values[condition], part(a), part(b))
        case _:
            return values[node] if kept >= _ELEMENTS else np.ones(())


def _is_quotient(node: g.Node) -> bool:
    """By a row value: powers of these are kept as they are (algebra/floats/range.py)."""
    return any(isinstance(n, g.Map) and n.op == "div" and _is_row(n.args[1])
               for n in g.topological((node,)))


def _adds(node: g.Node) -> bool:
    return isinstance(node, g.Map) and node.op in ("add", "sub")


def _is_row(node: g.Node) -> bool:
    """Is it a value of the row, also a given one, and not a number of the text?"""
    return g.extent(node) is g.Extent.ROW and bool(
        g.outermost((node,), lambda n: g.is_reduction(n) or isinstance(n, g.Input)))
