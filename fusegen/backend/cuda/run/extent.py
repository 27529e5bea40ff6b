"""Sizes of a call, and how far its rows lie apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusegen.backend.cuda.schedule.launch import Launch, element_shape
from fusegen.ir.kernel import Program


@dataclass(frozen=True, slots=True)
class Extent:
    """Sizes of a call, and row strides by name: (row), or (outer, column) of rows side by side."""

    n_rows: int
    n_cols: int
    inner: int | None  # rows side by side; None: the columns of a row are neighbours
    strides: tuple[tuple[str, tuple[int, ...]], ...]  # of arrays of elements or vectors
    first_column: int = 0  # its number in the whole row, of a piece
    batches: tuple[tuple[str, int], ...] = ()  # neighbouring rows that share columns' vectors

    @property
    def batch_rows(self) -> int:
        """Neighbouring rows that share all vectors of columns."""
        return min((n for _, n in self.batches), default=self.n_rows)

    @property
    def n_batches(self) -> int:
        return self.n_rows // max(1, self.batch_rows)


def extent_of(
    program: Program, arrays: Mapping[str, Any], n_rows: int, n_cols: int, first_column: int = 0
) -> Extent:
    """The extent of arrays (n_rows, n_cols), or (outer, n_cols, inner), of vectors, and of a
    workspace."""
    elements = {n: a for n, a in arrays.items() if a.ndim > 1}
    vectors = {p.name for p in program.inputs if p.shape in ("column_vector", "columns")}
    inner = next((int(a.shape[2]) for n, a in elements.items()
                  if a.ndim == 3 and n not in vectors), None)
    strides = {n: tuple(s // a.itemsize for s in a.strides[:-1]) for n, a in elements.items()}
    shape = element_shape(n_rows, n_cols, inner)
    between = tuple(math.prod(shape[i:]) for i in range(1, len(shape)))
    strides |= {p.name: between for p in program.workspace if p.shape == "element"}
    strides |= {p.name: (p.k,) for p in program.workspace if p.shape == "row_vector"}
    batches = {n: n_rows // arrays[n].shape[0] for n in elements if n in vectors}
    for p in program.workspace:  # an array of columns is called after the one that it is made of
        if p.shape in ("column_vector", "columns"):
            batches[p.name] = batches[p.name.rsplit("_", 1)[0]]
            strides[p.name] = (n_cols * p.k, p.k)[: 1 if p.shape == "columns" else 2]
    return Extent(n_rows, n_cols, inner, tuple(strides.items()), first_column,
                  tuple(batches.items()))


def column_tiles(launch: Launch, extent: Extent) -> int:
    """That the columns fill, the last one in part."""
    assert launch.tile
    return -(-extent.n_cols // launch.tile.columns)
