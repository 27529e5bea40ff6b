"""What reductions, selections and casts do to a block of rows, in NumPy: (rows, cols) arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.ir.ops import saturate

Array = NDArray[Any]


def widened(array: Array, n_cols: int) -> Array:
    """With the last axis at full length."""
    if array.shape[-1:] == (n_cols,) and array.ndim == 2:
        return array
    return np.broadcast_to(array, (array.shape[0] if array.ndim > 1 else 1, n_cols))


def cast(value: Array, dtype: DType, float_dtype: np.dtype[Any]) -> Array:
    """fg.cast: floats round to the type, integers saturate; the result is kept in compute types."""
    if dtype.kind == "float":
        wide = value.astype(float_dtype)
        return wide.astype(dtype.numpy).astype(float_dtype) if dtype.itemsize < 4 else wide
    if dtype.kind == "bool":
        return np.not_equal(value, 0)
    if value.dtype.kind == "b":
        return value.astype(np.int64)
    return np.asarray(saturate(value, dtype.numpy)).astype(np.int64)


def _argmin(x: Array) -> Array:
    return np.asarray(np.argmin(x, axis=1, keepdims=True), np.int64)


def _argmax(x: Array) -> Array:
    # NumPy takes the first NaN if there is one, else the first of the greatest: our order.
    return np.asarray(np.argmax(x, axis=1, keepdims=True), np.int64)


REDUCTIONS: dict[g.Fold, Callable[[Array], Array]] = {
    g.Fold.MAX: lambda x: np.max(x, axis=1, keepdims=True),
    g.Fold.MIN: lambda x: np.min(x, axis=1, keepdims=True),
    g.Fold.SUM: lambda x: np.sum(x, axis=1, keepdims=True),
    g.Fold.PROD: lambda x: np.prod(x, axis=1, keepdims=True),
    g.Fold.MEAN: lambda x: np.sum(x, axis=1, keepdims=True) / x.shape[1],
    g.Fold.ARGMAX: _argmax,
    g.Fold.ARGMIN: _argmin,
}


def top_columns(x: Array, k: int) -> Array:
    """Columns of the K greatest of each row, best first: NaN greatest, ties to low columns."""
    rows = x.shape[0]
    nan = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, np.bool_)
    # NumPy sorts NaN last, which is where the greatest stand.
    kth = np.partition(x, x.shape[1] - k, axis=1)[:, -k][:, None]
    bound_is_nan = np.isnan(kth) if x.dtype.kind == "f" else np.zeros(kth.shape, np.bool_)
    better = np.where(bound_is_nan, False, (x > kth) | nan)
    equal = np.where(bound_is_nan, nan, x == kth)
    wanted = k - better.sum(axis=1, keepdims=True)
    chosen = better | (equal & (np.cumsum(equal, axis=1) <= wanted))
    columns = np.nonzero(chosen)[1].reshape(rows, k)
    values = np.take_along_axis(x, columns, axis=1)
    # Stable: equal values stay in column order. ~v and −v reverse the order of int and float.
    falling = -values if x.dtype.kind == "f" else ~values
    first = np.where(np.take_along_axis(nan, columns, axis=1), 0, 1)
    order = np.lexsort((falling, first), axis=1)
    return np.take_along_axis(columns, order, axis=1).astype(np.int64)


def least_columns(x: Array, k: int) -> Array:
    """Columns of the K least of each row, least first: NaN greatest, ties to low columns."""
    # NumPy sorts NaN last, which is where the greatest stand.
    return np.argsort(x, axis=1, kind="stable")[:, :k].astype(np.int64)


def take(x: Array, columns: Array) -> Array:
    """x at these columns; NaN where there is no such column."""
    n_cols, columns = x.shape[1], np.atleast_2d(columns)  # one number: the same of every row
    rows = np.broadcast_shapes((x.shape[0], 1), (columns.shape[0], 1))[0]
    at = np.broadcast_to(columns, (rows, columns.shape[1]))
    inside = (at >= 0) & (at < n_cols)
    found = np.take_along_axis(np.broadcast_to(x, (rows, n_cols)), np.where(inside, at, 0), axis=1)
    return np.where(inside, found, np.nan).astype(x.dtype)
