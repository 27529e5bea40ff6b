"""Rows on which f(x) does not have the order of x: why a top-K of f(x) is not one of x."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusegen.algebra import numbers
from fusegen.algebra.setting import Setting
from fusegen.algebra.short_rows import LONGEST, Rows, ShortRows
from fusegen.ir import graph as g
from fusegen.ir.witness import Disorder
from fusegen.oracle.rows import top_columns

_ROWS, _LOOKED_AT = 1000, 8
_LEAST = (g.Fold.MIN, g.Fold.ARGMIN)


def disorder(
    graph: g.Graph, node: g.Reduce | g.TopK, setting: Setting
) -> Disorder | None:
    """A row whose result is found neither by the order of f's one element nor by its reverse.

    Rows without ties of f come first: they show that f is not monotone, others that it is not
    strictly so. None if there is no such short row, or f has several elements.
    """
    start = max(min(_best(node) + 1, 3), ShortRows(graph, node).shortest_of(node.arg))
    if len(setting.elements) != 1 or start > LONGEST:
        return None
    (element,) = setting.elements
    for ties, step, more in product((False, True), (Fraction(1), Fraction(1, 2)), range(3)):
        short = ShortRows(graph, node, step=step)
        rows = short.rising(start + more, _ROWS)
        x, f = (v.astype(np.float64) for v in short.values((element, node.arg), rows))
        wanted = _distinct(x) & np.isfinite(f).all(1)
        if not ties:
            wanted &= _distinct(f)
        if not wanted.any():
            continue
        rows, x, f = rows[wanted], x[wanted], f[wanted]
        columns = _picked(node, x, f)
        for i in np.flatnonzero(_missed(node, f, *columns))[:_LOOKED_AT]:
            if _is_exact(short, rows[i], columns[0][i]):
                return _told(short, element, rows[i], x[i], f[i], [c[i] for c in columns])
    return None


def _distinct(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Rows whose values are all different."""
    with np.errstate(invalid="ignore"):  # infinities apart from each other are NaN, so not apart
        return np.asarray((np.abs(np.diff(np.sort(values, axis=1), axis=1)) > 1e-9).all(1))


def _best(node: g.Reduce | g.TopK) -> int:
    """How many columns are compared: the first two of a top-K are enough."""
    return min(node.k, 2) if isinstance(node, g.TopK) else 1


def _sign(node: g.Reduce | g.TopK) -> int:
    least = not node.largest if isinstance(node, g.TopK) else node.fold in _LEAST
    return -1 if least else 1


def _picked(
    node: g.Reduce | g.TopK, x: NDArray[Any], f: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The first columns (rows, 1 or 2) by f, as the text says; by x; by −x."""
    k, sign = _best(node), _sign(node)
    return top_columns(sign * f, k), top_columns(sign * x, k), top_columns(-sign * x, k)


def _missed(
    node: g.Reduce | g.TopK, f: NDArray[Any], text: NDArray[Any], *others: NDArray[Any]
) -> NDArray[np.bool_]:
    """Rows where both orders miss the text's columns, or its value if that is all it gives."""
    if isinstance(node, g.Reduce) and node.fold in (g.Fold.MAX, g.Fold.MIN):
        best = np.take_along_axis(f, text, axis=1)
        missed = [(np.take_along_axis(f, c, axis=1) != best).any(1) for c in others]
    else:
        missed = [(c != text).any(1) for c in others]
    return np.asarray(np.logical_and.reduce(missed))


def _is_exact(short: ShortRows, row: Rows, columns: NDArray[Any]) -> bool:
    """Are these the best columns of f in exact arithmetic too?"""
    try:
        (f,) = short.exactly((short.node.arg,), short.row(row))
    except numbers.Outside:
        return False
    assert isinstance(f, list)
    signed = [_sign(short.node) * v for v in f]
    return numbers.best_columns(signed, len(columns)) == [int(c) for c in columns]


def _told(
    short: ShortRows, element: g.Node, row: Rows, x: NDArray[Any], f: NDArray[Any],
    columns: list[NDArray[Any]],
) -> Disorder:
    text, rising, falling = (tuple(int(i) for i in c) for c in columns)
    terms = tuple((float(p), float(q)) for p, q in zip(x, f, strict=True))
    name = short.graph.names[element]
    return Disorder(short.row(row), name, short.given, terms, text, rising, falling)
