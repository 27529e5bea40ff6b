"""Sums over rows, for the gradients of per-column inputs: two pipelines, and the arrays they take.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.backend.arrays.rows import Rows
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError, InternalError
from fusegen.pipeline.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Stages:
    """The two pipelines of a column gradient.

    rows: the row statistics that the contributions need, one value per row each, in the precision
    of the sums; None if they need none. columns: Σ over rows, to be called with axis=0 on
    (n_rows, n_cols) arrays. There, what is one per row is one per entry of the reduced axis, a
    `PerColumn` input, and what is one per column is a `PerRow` input.
    """

    rows: Pipeline | None
    columns: Pipeline


@dataclass(frozen=True, slots=True)
class Summing:
    """Both stages of a column gradient, for arrays of one kind."""

    stages: Stages
    inputs: tuple[g.Input, ...]
    rows: Rows
    varying: tuple[str, ...]  # constants that the stages have still

    def run(
        self, arrays: Mapping[str, Any], constants: Mapping[str, Any], known: Flat | None = None
    ) -> Any:
        """The sum over one row at least: (n_cols,)."""
        rows, columns = self.stages.rows, self.stages.columns
        numbers = {n: constants[n] for n in self.varying}
        flat = Flat() if known is None else known
        given = {i.name: flat.of(i, arrays[i.name], self.rows) for i in self.inputs}
        if rows is not None:
            given |= rows(*[given.get(n) for n in rows.signature.arrays], **numbers)
        elements = [i.name for i in self.inputs if i.axis is g.Axis.ELEMENT]
        return flat.summed(columns, given, elements, numbers)


class Flat:
    """Arrays with all rows along one axis, each made once."""

    def __init__(self) -> None:
        self._made: dict[Any, tuple[Any, Any]] = {}  # with what it was made of, which lives on

    def of(self, node: g.Input, array: Any, rows: Rows) -> Any:
        """(n_rows, n_cols), (n_rows,) or (n_cols,)."""
        key = id(array), node.axis
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = array, _flat(node, array, rows)
        return known[1]

    def summed(
        self, columns: Pipeline, given: Mapping[str, Any], elements: Collection[str],
        numbers: Mapping[str, Any],
    ) -> Any:
        """The second stage, on the rows of (n_rows, n_cols) arrays."""
        return columns(*[given[n] for n in columns.signature.arrays], axis=0, **numbers)


def _flat(node: g.Input, array: Any, rows: Rows) -> Any:
    """The user's array with all rows along one axis: (n_rows, n_cols), (n_rows,) or (n_cols,)."""
    match node.axis:
        case g.Axis.PER_COLUMN:
            return array if len(array.shape) == 1 else array.reshape(rows.n_cols)
        case g.Axis.PER_ROW:
            return _broadcast(node.name, array, rows.lead).reshape(rows.n_rows)
        case g.Axis.ELEMENT:
            array = _broadcast(node.name, array, rows.whole)
            if not rows.last:
                last = tuple(range(len(rows.lead), array.ndim))
                moved = hasattr(array, "movedim")
                array = (array.movedim(rows.axes, last) if moved
                         else np.moveaxis(array, rows.axes, last))
            return array.reshape(rows.n_rows, rows.n_cols)
        case g.Axis.SCALAR:
            raise InternalError(f"{node.name} is no array")


def _broadcast(name: str, array: Any, shape: tuple[int, ...]) -> Any:
    if tuple(array.shape) == shape:
        return array
    if hasattr(array, "expand"):
        return array.expand(shape)
    if hasattr(array, "__array_function__"):
        return np.broadcast_to(array, shape)
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__().broadcast_to(array, shape)
    raise ArgumentError(f"{name} has shape {tuple(array.shape)}, the rows {shape}",
                        fix="Broadcast it first.")
