"""The (rows, columns) views of the user's arrays that kernels read.

Kernels see a 2-D array with neighbouring columns and one row stride. Where strides allow (also
stride 0 of a broadcast array) that is a view of the user's memory, else a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegen.backend.arrays.rows import Rows
from fusegen.backend.arrays.spans import VECTOR
from fusegen.backend.arrays.vectors import numbers_of_columns, of_columns, of_rows
from fusegen.backend.words import address
from fusegen.ir import graph as g

_FEW, _TILE = 1 << 17, 1 << 14  # elements: copied as fast in any order; of a tile, at least


def as_rows(array: Any, axis: g.Axis, rows: Rows) -> Any:
    """The array as a kernel reads it; a view of the same memory wherever strides allow."""
    match axis:
        case g.Axis.ROW_VECTOR:
            return of_rows(array, rows.lead)
        case g.Axis.COLUMN_VECTOR:
            return of_columns(array, rows.lead)
        case g.Axis.PER_COLUMN:
            # Aligned rows read it in whole vectors, so it must be aligned as they are.
            return _packed(array if array.ndim == 1 else array.reshape(rows.n_cols), VECTOR)
        case g.Axis.PER_ROW:
            if array.ndim > len(rows.lead):
                array = array.reshape(rows.lead)
            return _packed(np.broadcast_to(array, rows.lead).reshape(rows.n_rows), array.itemsize)
        case g.Axis.ELEMENT:
            if array.shape != rows.whole:
                array = np.broadcast_to(array, rows.whole)
            if not rows.last:
                array = columns_last(array, rows.axes)
            if array.ndim != 2 or len(rows.cols) != 1:
                array = array.reshape(rows.n_rows, rows.n_cols)
            return array if readable(array) else _in_rows(array)


def as_rows_of_vectors(array: Any, axis: g.Axis, rows: Rows) -> Any:
    """The same beside vectors, where columns may be other ones for rows of other leading axes."""
    if axis is g.Axis.PER_COLUMN:
        return numbers_of_columns(array, rows.lead)
    return as_rows(array, axis, rows)


def shape_alone(array: Any, axis: g.Axis, rows: Rows) -> Any:
    """As `as_rows`, of an array whose values nobody reads: its first element everywhere."""
    first = array[(slice(0, 1),) * array.ndim].reshape(-1)
    match axis:
        case g.Axis.PER_COLUMN:
            return np.broadcast_to(first, rows.n_cols)
        case g.Axis.PER_ROW:
            return np.broadcast_to(first, rows.n_rows)
        case _:
            return np.broadcast_to(first, (rows.n_rows, rows.n_cols))


def columns_last(array: Any, axes: tuple[int, ...]) -> Any:
    """These axes moved behind all others."""
    return np.moveaxis(array, axes, range(array.ndim - len(axes), array.ndim))


def readable(array: Any) -> bool:
    """Neighbouring columns, a row stride of whole elements, aligned."""
    size = array.itemsize
    row, col = array.strides
    return bool(col == size and row % size == 0 and address(array) % size == 0)


def _in_rows(array: Any) -> Any:
    """A copy with neighbouring columns. On hosts, where rows are neighbours, by tiles as wide as a
    line of the cache: NumPy's own reads such a line for every number."""
    n_rows, n_cols = array.shape
    size, on_host = array.itemsize, isinstance(array, np.ndarray)
    if not on_host or array.strides[0] != size or array.size < _FEW:
        return array.copy(order="C")
    found, width = np.empty(array.shape, array.dtype), max(64 // size, _TILE // n_rows)
    for first in range(0, n_cols, width):
        found[:, first : first + width] = array[:, first : first + width]
    return found


def _packed(array: Any, boundary: int) -> Any:
    """Neighbouring elements from a multiple of `boundary` bytes on; a copy where they are not. One
    element has no neighbour, whatever its stride."""
    straight = array.size == 1 or array.strides == (array.itemsize,)
    return array if straight and address(array) % boundary == 0 else array.copy(order="C")
