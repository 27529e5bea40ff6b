"""Rows on which f(x) does not have the order of x: why a top-K of f(x) is not one of x."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusegen import graph as g
from fusegen.algebra import exact
from fusegen.algebra.setting import Setting
from fusegen.algebra.short_rows import Rows, ShortRows
from fusegen.reference import top_columns
from fusegen.witness import Disorder

_ROWS = 2500
_LEAST = (g.Fold.MIN, g.Fold.ARGMIN)


def disorder(
    graph: g.Graph, node: g.Reduce | g.TopK, setting: Setting
) -> Disorder | None:
    """A row whose result is found neither by the order of f's one element nor by its reverse.

    Rows without ties of f come first: they show that f is not monotone, others that it is not
    strictly so. None if there is no such row, or f has several elements.
    """
    if len(setting.elements) != 1:
        return None
    (element,) = setting.elements
    short = ShortRows(graph, node)
    start = max(2, short.shortest)
    for ties in (False, True):
        for length in range(start, start + 3):
            rows = short.rows(length, 3, _ROWS)
            x, f = (v.astype(np.float64) for v in short.values((element, node.arg), rows))
            wanted = _distinct(x) & np.isfinite(f).all(1)
            if not ties:
                wanted &= _distinct(f)
            for i in np.flatnonzero(wanted):
                found = _on(short, element, rows[i], x[i], f[i])
                if found is not None:
                    return found
    return None


def _distinct(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Rows whose values are all different."""
    return np.asarray((np.abs(np.diff(np.sort(values, axis=1), axis=1)) > 1e-9).all(1))


def _on(
    short: ShortRows, element: g.Node, row: Rows, x: NDArray[Any], f: NDArray[Any]
) -> Disorder | None:
    """The witness on this row, if it is one."""
    node = short.node
    k = node.k if isinstance(node, g.TopK) else 1
    sign = -1 if isinstance(node, g.Reduce) and node.fold in _LEAST else 1
    text, rising, falling = (top_columns(v[None], k)[0] for v in (sign * f, sign * x, -sign * x))
    if isinstance(node, g.Reduce) and node.fold in (g.Fold.MAX, g.Fold.MIN):
        missed = all(f[c[0]] != f[text[0]] for c in (rising, falling))
    else:
        missed = all((c != text).any() for c in (rising, falling))
    if not missed or not _is_exact(short, row, sign, text):
        return None
    a, b, c = (tuple(int(i) for i in columns) for columns in (text, rising, falling))
    terms = tuple((float(p), float(q)) for p, q in zip(x, f, strict=True))
    name = short.graph.names[element]
    return Disorder(short.row(row), name, short.given, terms, a, b, c)


def _is_exact(short: ShortRows, row: Rows, sign: int, columns: NDArray[Any]) -> bool:
    """Are these the best columns of f in exact arithmetic too?"""
    try:
        (f,) = short.exactly((short.node.arg,), short.row(row))
    except exact.Outside:
        return False
    assert isinstance(f, list)
    return exact.best_columns([sign * v for v in f], len(columns)) == columns.tolist()
