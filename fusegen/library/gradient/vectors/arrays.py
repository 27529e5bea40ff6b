"""Arrays of rows and of columns seen from the other side: see rewrite/transposed.py.

Rows are (*batch, n_rows), elements (*batch, n_rows, n_cols). Seen from the columns, rows are
(*own, n_cols): `own` are the batch axes along which what belongs to columns varies, and rows along
all others are columns side by side, `n_rows` the last of them. Of queries (batch, 8, 4, n_rows)
that share the keys of (batch, 8, 1, n_cols), each key has 4 · n_rows columns.

Arrays are NumPy's or CuPy's, torch's tensors or JAX's arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.backend.memory import Shape
from fusegen.ir import graph as g


@dataclass(frozen=True, slots=True)
class Sides:
    """batch, n_rows, n_cols: of the elements; own: the batch axes that stay rows."""

    batch: Shape
    n_rows: int
    n_cols: int
    own: tuple[int, ...]

    @property
    def shared(self) -> tuple[int, ...]:
        """The batch axes whose rows become columns."""
        return tuple(i for i in range(len(self.batch)) if i not in self.own)

    @property
    def lead(self) -> Shape:
        """Of the rows seen from the columns."""
        return (*(self.batch[i] for i in self.own), self.n_cols)

    @property
    def count(self) -> int:
        """Of the columns seen from there."""
        return math.prod(self.batch[i] for i in self.shared) * self.n_rows

    def seen(self, array: Any, axis: g.Axis) -> Any:
        """The input's array from the other side."""
        match axis:
            case g.Axis.ROW_VECTOR:
                return self._of_rows(array, 1, ())
            case g.Axis.PER_ROW if array.ndim > len(self.batch) + 1:  # kept axes
                return self._of_rows(array.reshape(array.shape[:-1]), 0, ())
            case g.Axis.PER_ROW:
                return self._of_rows(array, 0, ())
            case g.Axis.ELEMENT:
                return self._of_rows(array, 1, (self.n_cols,))
            case g.Axis.COLUMN_VECTOR:
                return self._of_columns(array, 2)
            case _:
                return self._of_columns(array, 1)

    def _of_rows(self, array: Any, own: int, whole: Shape) -> Any:
        """(*batch, n_rows, …own) as (*own, columns, …own); elements, which have all columns, as
        (*own, n_cols, columns)."""
        n = len(self.batch)
        shape = (1,) * (n + 1 + own - array.ndim) + tuple(array.shape)
        array = array.reshape(shape)
        wide = [self.batch[i] if i in self.shared else shape[i] for i in range(n)]
        array = broadcast(array, (*wide, self.n_rows, *(whole or shape[n + 1 :])))
        tail = tuple(range(n, n + 1 + own))
        order = (*self.own, *tail[1:], *self.shared, n) if whole else \
            (*self.own, *self.shared, *tail)
        array = permuted(array, order)
        lead = tuple(array.shape[: len(self.own)])
        rest = (self.n_cols, self.count) if whole else (self.count, *array.shape[n + 1 :])
        return array.reshape(*lead, *rest)

    def _of_columns(self, array: Any, own: int) -> Any:
        """(*batch, n_cols, …) as (*own, n_cols, …)."""
        n = len(self.batch)
        shape = (1,) * (n + own - array.ndim) + tuple(array.shape)
        return array.reshape(*(shape[i] for i in self.own), *shape[n:])

    def whole(self, found: Any) -> Any:
        """What was found for `lead`, with an axis for every batch axis."""
        sizes = [n if i in self.own else 1 for i, n in enumerate(self.batch)]
        return found.reshape(*sizes, *found.shape[len(self.own) :])


def varies_along(array: Any, axis: g.Axis, batch: Shape) -> frozenset[int]:
    """The batch axes along which what belongs to columns is another."""
    lead = array.shape[: -2 if axis is g.Axis.COLUMN_VECTOR else -1]
    first = len(batch) - len(lead)
    return frozenset(first + i for i, n in enumerate(lead) if n != 1)


# ---- of whichever library ----


def broadcast(array: Any, shape: Sequence[int]) -> Any:
    shape = tuple(shape)
    if tuple(array.shape) == shape:
        return array
    if hasattr(array, "expand"):
        return array.expand(shape)
    of_its_own = not hasattr(array, "__array_function__")  # neither NumPy's nor CuPy's
    library = array.__array_namespace__() if of_its_own else np
    return library.broadcast_to(array, shape)


def permuted(array: Any, order: Sequence[int]) -> Any:
    if tuple(order) == tuple(range(array.ndim)):
        return array
    return array.permute(*order) if hasattr(array, "permute") else array.transpose(order)


def summed_to(array: Any, shape: Sequence[int]) -> Any:
    """Summed over the axes along which this shape was broadcast, as this shape."""
    shape = tuple(shape)
    if tuple(array.shape) == shape:
        return array
    if math.prod(array.shape) == math.prod(shape) and math.prod(shape):
        return array.reshape(shape)
    given = (1,) * (array.ndim - len(shape)) + shape
    axes = tuple(i for i, (n, m) in enumerate(zip(array.shape, given, strict=True)) if n != m)
    return (array.sum(axes) if axes else array).reshape(shape)


def typed(array: Any, dtype: Any) -> Any:
    """As this type of the array's own library."""
    if array.dtype == dtype:
        return array
    return array.to(dtype) if hasattr(array, "to") else array.astype(dtype)


def zeros_like(array: Any) -> Any:
    """Of the array's own library; 0 · NaN would be NaN."""
    return typed(array != array, array.dtype) * 0


def anchor(like: Any, shape: Sequence[int]) -> Any:
    """An array of this shape, of no memory to speak of; JAX's that are in parts are not cut."""
    if hasattr(like, "__array_namespace__") and not hasattr(like, "__array_function__"):
        library = like.__array_namespace__()
        return broadcast(library.zeros((1,) * len(tuple(shape)), like.dtype), shape)
    first = like[(slice(0, 1),) * like.ndim].reshape(-1)[:1]
    return broadcast(first.reshape((1,) * len(tuple(shape))), shape)
