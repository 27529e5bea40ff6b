"""What is asked of a framework's arrays where a call is differentiated, or mapped over batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fusegen.backend.arrays.rows import Axes, Rows
from fusegen.backend.arrays.vectors import length_of
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.library.gradient.column_sums import Flat


@dataclass(frozen=True, slots=True)
class Like:
    """What stands for an array where its shape and type alone are asked for."""

    shape: Any
    dtype: Any


class Framework(Protocol):
    """A module of these functions. Arrays have `shape`, `ndim`, `reshape` and slices."""

    def dtype_in(self, array: Any) -> DType: ...

    def is_on_host(self, array: Any) -> bool:
        """Does it lie where processors compute, or will it?"""

    def rows_in(
        self, inputs: Sequence[g.Input], arrays: Mapping[str, Any], axis: Axes,
        keepdims: bool = False,
    ) -> Rows:
        """Rows and columns that the arrays agree on. Raises ShapeError."""

    def is_known(self, shapes: Sequence[Any]) -> bool:
        """Are the sizes in (name, shape, type) numbers, and no symbols?"""

    def flat(self, like: Any) -> Flat:
        """What lays rows out for sums over them, where this array lies."""

    def zeros_in(self, like: Any) -> Any:
        """An array of this one's shape and type."""

    def summed_to(self, array: Any, shape: Sequence[Any]) -> Any:
        """The array, summed over the axes along which this shape was broadcast to it."""

    def packed(self, array: Any) -> Any:
        """The array as kernels read it, so that calls with others like it are remembered: one that
        was broadcast, as cotangents of sums are, is copied."""

    def fronted(self, array: Any, axis: int) -> Any:
        """The array with this axis before all others."""

    def entries(self, array: Any) -> Sequence[Any]:
        """The array's parts along its first axis."""

    def spread_to(self, array: Any, shape: Sequence[Any]) -> Any:
        """The array broadcast to this shape."""


def types_in(
    vectors: Collection[str], arrays: Mapping[str, Any], dtype_in: Callable[[Any], DType]
) -> dict[str, DType]:
    """Types of inputs; `vectors` among them have the length of their last axis. Raises
    ShapeError."""
    return {n: dtype_in(a).vector(length_of(n, tuple(a.shape))) if n in vectors else dtype_in(a)
            for n, a in arrays.items()}
