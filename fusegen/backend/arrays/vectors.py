"""Vectors in the user's arrays: one per row, (…rows, d), or per column, (…, n_cols, d).

Kernels read (n_rows, d), and (batches, n_cols, d): a batch is a run of neighbouring rows that share
the columns' vectors, as the queries of a head share its keys, also when several heads do.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fusegen.backend.memory import Adopted, Shape
from fusegen.backend.words import address
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import ShapeError
from fusegen.ir.kernel import Param


def types_of(adopted: Mapping[str, Adopted], vectors: Collection[str]) -> dict[str, DType]:
    """Types of the inputs; vectors among them have the length of their last axis. Raises
    ShapeError for those without one."""
    return {n: a.dtype.vector(length_of(n, tuple(a.array.shape))) if n in vectors else a.dtype
            for n, a in adopted.items()}


def length_of(name: str, shape: Shape) -> int:
    """Numbers in each vector. Raises ShapeError."""
    if not shape or shape[-1] == 0:
        raise ShapeError(f"{name} has shape {shape}", why="Its last axis holds vectors: it has one "
                         "number at least.", fix="An array of one number per row is fg.PerRow.")
    return int(shape[-1])  # known to a kernel, also where sizes are symbols


def rows_and_columns(node: g.Input, shape: Shape) -> Shape:
    """What the input says of the rows' and columns' axes, broadcasting against the others'."""
    if node.axis is g.Axis.ROW_VECTOR:
        return (*shape[:-1], 1)
    if len(shape) < 2:
        raise ShapeError(f"{node.name} has shape {shape}",
                         why="It holds a vector per column: (…, n_cols, d).",
                         fix="An array of one vector per row, (…, d), is fg.RowVector.")
    return shape[-2:-1] if len(shape) == 2 else (*shape[:-2], 1, shape[-2])


def of_rows(array: Any, lead: Shape) -> Any:
    """(n_rows, d), each vector's numbers side by side."""
    length = array.shape[-1]
    found = np.broadcast_to(array, (*lead, length)).reshape(math.prod(lead), length)
    size = array.itemsize
    readable = found.strides[1] == size and found.strides[0] % size == 0
    return found if readable and address(found) % size == 0 else found.copy(order="C")


def of_columns(array: Any, lead: Shape) -> Any:
    """(batches, n_cols, d), with as few batches as there can be."""
    return _readable(_batches(array, lead, 2))


def numbers_of_columns(array: Any, lead: Shape) -> Any:
    """The same of one number per column: (batches, n_cols)."""
    return _readable(_batches(array, lead, 1))


def _batches(array: Any, lead: Shape, own: int) -> Any:
    """The leading axes as one; own: how many axes are a batch's."""
    whole, spread, flat = shapes_of_batches(tuple(array.shape), lead, own)
    return np.broadcast_to(array.reshape(whole), spread).reshape(flat)


def shapes_of_batches(shape: Shape, lead: Shape, own: int) -> tuple[Shape, Shape, Shape]:
    """What an array of columns is reshaped to, broadcast to, and reshaped to, so that its leading
    axes are one: as few batches as there can be. own: how many axes are a batch's."""
    batch = (1,) * (len(lead) - 1 - (len(shape) - own)) + shape[:-own]
    shared = len(batch)  # rows from this axis on have the same columns
    while shared and batch[shared - 1] == 1:
        shared -= 1
    tail = shape[-own:]  # axes of one come and go: a view
    whole = (*batch[:shared], *tail)
    return whole, (*lead[:shared], *tail), (math.prod(lead[:shared]), *tail)


def batch_rows_of(params: Sequence[Param], arrays: Mapping[str, Any], n_rows: int) -> int | None:
    """Neighbouring rows that share all vectors of columns; None: there are none."""
    shapes = [arrays[p.name].shape for p in params if p.shape in ("column_vector", "columns")]
    batches = [s[0] for s in shapes if len(s) > 1]
    return min((n_rows // max(1, n) for n in batches), default=None)


def _readable(array: Any) -> Any:
    """The array with neighbouring numbers at its end, and whole numbers between all others."""
    size, strides = array.itemsize, array.strides
    fits = strides[-1] == size and not any(s % size for s in strides)
    return array if fits and address(array) % size == 0 else array.copy(order="C")
