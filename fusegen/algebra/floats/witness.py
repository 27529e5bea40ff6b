"""A short row on which a merge that is equal over the reals is not the text in float32."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusegen.algebra.floats.replay import Chain
from fusegen.algebra.floats.values import Spelled
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting
from fusegen.algebra.short_rows import Rows, ShortRows
from fusegen.ir import graph as g
from fusegen.ir.derivation import RefusalKind
from fusegen.ir.witness import Stray, number

Column = NDArray[Any]

_LOST, _NOISE = 0.1, 1e-5  # of the result; of the sum of magnitudes
_NOTHING = 1e-6  # of the greatest element: beside it, a result other than 0 is one
_MOST = 2048  # rows tried at once
_STEP = 1_000_003  # a prime: where there are more, every so many
_SMALL = (0.0, 1.0, 110.0, -110.0)
_FAR = (0.0, 1.0, 1e5, -1e5)
_SPREAD = (0.0, 1.0, 1e4, 1e-25)
_CLOSE = (0.0, -1e-6, -1e-7)
_INFINITE = (0.0, float("-inf"), float("inf"), math.nan)
_EDGE = (0.0, 1.0, 1e25, 1e-25)
_FEW = (0.0, 1.0, 1e5)
_REPEATS, _REPEATED = (8, 32), 800


def stray(
    graph: g.Graph, node: g.Reduce | g.TopK, setting: Setting, closed: Closed, kind: RefusalKind
) -> Stray | None:
    """The first row, shortest first, whose text is right in float32 and whose merge is not; for
    SPECIAL of rows with infinities, for RANGE of far ones too. None if none is found."""
    short = ShortRows(graph, node)
    if any(isinstance(n, g.Own | g.TopK | g.Take) for n in short.needed) or not short.elements:
        return None
    if not closed.basis:  # nothing is left of the term
        return None
    chain = Chain(short, Spelled(setting, closed))
    mean = isinstance(node, g.Reduce) and node.fold is g.Fold.MEAN
    for rows, chunk in _tried(short, kind):
        merged = chain.results(rows, chunk) / np.float32(rows.shape[1] if mean else 1)
        text, right = ((short.values((node,), rows, w)[0][:, 0]) for w in ("float32", "float64"))
        if kind is RefusalKind.SPECIAL:
            bad = ~np.isnan(text) & _differ(merged, text, 0.0)
        else:
            (terms,) = short.values((node.arg,), rows)
            least = np.where(text == 0, _NOTHING * np.abs(rows).max((1, 2)), 0.0)
            bad = _beyond(merged, text, right, _NOISE * np.abs(terms).sum(1) + least)
        if bad.any():
            i = int(np.argmax(bad))
            return _told(short, rows[i], merged[i], text[i])
    return None


def _beyond(merged: Column, text: Column, right: Column, noise: Column) -> Column:
    """Rows that the text gets right in float32, and the merge wrong by a tenth, and beyond noise:
    what rounds any sum of such terms."""
    with np.errstate(all="ignore"):
        exact = np.abs(text - right) <= 1e-3 * np.abs(right)
        sound = exact & np.isfinite(right) & np.isfinite(text)
        return np.asarray(sound & _differ(merged, text, noise))


def _differ(merged: Column, text: Column, noise: Column | float) -> Column:
    with np.errstate(all="ignore"):
        near = np.abs(merged - text) <= _LOST * np.abs(text) + noise + 1e-30
        return np.asarray(~near & (merged != text))


def _tried(short: ShortRows, kind: RefusalKind) -> Iterator[tuple[Rows, int]]:
    """Rows, and how many of their columns make a piece: short rows of small numbers, then of far
    ones, then such that repeat."""
    if kind is RefusalKind.SPECIAL:
        yield from ((_rows(short, length, _INFINITE), 1) for length in (1, 2, 3))
        return
    others = _EDGE if kind is RefusalKind.RANGE else _CLOSE
    for length, values in itertools.product((1, 2, 3, 4), (_SMALL, _FAR, _SPREAD, others)):
        yield _rows(short, length, values), 1
    for times, values in itertools.product(_REPEATS, (_FEW, _CLOSE)):
        rows = _rows(short, 3, values)
        yield np.repeat(rows[:: 1 + len(rows) // _REPEATED], times, axis=1), 1
    if kind is RefusalKind.MIXED_SIGN:
        yield from _little_apart(len(short.elements))


def _little_apart(inputs: int) -> Iterator[tuple[Rows, int]]:
    """Long rows far from 0, little apart, in all inputs or in one beside ones."""
    beside = [np.ones(inputs, np.bool_), *(np.eye(inputs, dtype=np.bool_) if inputs > 1 else ())]
    for apart, columns in itertools.product((1, 1 / 2, 1 / 1024), (64, 1024, 4096)):
        for start, chosen in itertools.product(sorted({64, 4096, columns}), beside):
            pair = np.where(chosen, np.array([[start], [start + apart]]), 1.0)
            rows = np.stack([np.repeat(pair, columns // 2, axis=0),
                             np.repeat(pair[1:], columns, axis=0)])
            yield rows, columns // 4


def _rows(short: ShortRows, length: int, values: tuple[float, ...]) -> Rows:
    """Rows over these values (whole numbers and conditions over 0 and 1): all, or some of many."""
    kinds = [short.dtypes[e.name].kind for e in short.elements]
    each = [values if kind == "float" else (0.0, 1.0) for kind in kinds]
    places = np.array(list(itertools.product(*each)))
    total = len(places) ** length
    numbers = np.arange(total) if total <= _MOST else np.arange(_MOST) * _STEP % total
    digits = [numbers // len(places) ** k % len(places) for k in reversed(range(length))]
    return np.asarray(places[np.stack(digits, axis=1)])


def _told(short: ShortRows, row: Rows, merged: float, text: float) -> Stray:
    values = tuple((e.name, tuple(map(number, row[:, k]))) for k, e in enumerate(short.elements))
    given = ", ".join(f"{n} = {v}" for n, v in short.given)
    return Stray(values, given, number(merged), number(text))
