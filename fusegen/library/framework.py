"""What is asked of a framework's arrays where a call is differentiated, or mapped over batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fusegen.backend.arrays.rows import Axes, Rows
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType


class Framework(Protocol):
    """A module of these functions. Arrays have `shape`, `ndim`, `reshape` and slices."""

    def dtype_in(self, array: Any) -> DType: ...

    def rows_in(
        self, inputs: Sequence[g.Input], arrays: Mapping[str, Any], axis: Axes,
        keepdims: bool = False,
    ) -> Rows:
        """Rows and columns that the arrays agree on. Raises ShapeError."""

    def zeros_in(self, like: Any) -> Any:
        """An array of this one's shape and type."""

    def summed_to(self, array: Any, shape: Sequence[Any]) -> Any:
        """The array, summed over the axes along which this shape was broadcast to it."""

    def fronted(self, array: Any, axis: int) -> Any:
        """The array with this axis before all others."""

    def spread_to(self, array: Any, shape: Sequence[Any]) -> Any:
        """The array broadcast to this shape."""
