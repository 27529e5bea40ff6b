"""Sums over rows, for the gradients of per-column inputs: pipelines, and the arrays they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.backend.arrays.results import hand_back, new_result
from fusegen.backend.arrays.rows import Rows
from fusegen.backend.memory import Adopted
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError, InternalError
from fusegen.ir.kernel import Param
from fusegen.pipeline.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Stages:
    """The two pipelines of a column gradient.

    rows: the row statistics that the contributions need, one value per row each, in the precision
    of the sums, from the arrays that they read; None if they need none. columns: Σ over rows, to
    be called with axis=0 on (n_rows, n_cols) arrays. There, what is one per row is one per entry of
    the reduced axis, a `PerColumn` input, and what is one per column is a `PerRow` input.
    each: in place of both for a framework that sums over rows itself: the contributions in the
    `precision` of their sums, or the name of the input that they are. result: the sum's type.
    """

    rows: Pipeline | None
    columns: Pipeline
    each: Pipeline | str
    precision: str
    result: str


class Summing:
    """Both stages of a column gradient, for arrays of one kind."""

    def __init__(self, stages: Stages, graph: g.Graph, rows: Rows) -> None:
        self.stages, self.rows = stages, rows
        self._varying = tuple(sorted(graph.varying))  # constants that the stages have still
        self._statistics = () if stages.rows is None else stages.rows.signature.arrays
        self._columns = stages.columns.signature.arrays
        each = stages.each
        self._each = (each,) if isinstance(each, str) else each.signature.arrays
        asked = {*self._statistics, *self._columns, *self._each}
        self._inputs = tuple(i for i in graph.inputs if i.name in asked)
        self._shape = (rows.n_rows, rows.n_cols)  # of elements that are taken as they are
        self._elements = {i for i in self._inputs if i.axis is g.Axis.ELEMENT and rows.last}

    def run(
        self, arrays: Mapping[str, Any], constants: Mapping[str, Any], known: Flat | None = None,
        statistics: Mapping[str, Any] | None = None,
    ) -> Any:
        """The sum over one row at least: (n_cols,). statistics: of rows, if they are known."""
        numbers = {n: constants[n] for n in self._varying}
        flat = Flat() if known is None else known
        given = {i.name: a if i in self._elements and (a := arrays[i.name]).shape == self._shape
                 else flat.of(i, arrays[i.name], self.rows) for i in self._inputs}
        if flat.sums:
            every = [given[n] for n in self._each]
            each = every[0] if isinstance(self.stages.each, str) else \
                self.stages.each(*every, **numbers)
            return flat.summed(each, self.stages.precision, self.stages.result)
        if statistics is not None:
            lead = self.rows.lead
            given |= {n: _broadcast(n, a, lead).reshape(-1) for n, a in statistics.items()}
        elif self.stages.rows is not None:
            given |= self.stages.rows(*[given[n] for n in self._statistics], **numbers)
        return self.stages.columns(*[given[n] for n in self._columns], axis=0, **numbers)


class Flat:
    """Arrays with all rows along one axis, each made once. sums: by the framework?"""

    sums = False

    def __init__(self) -> None:
        self._made: dict[Any, tuple[Any, Any]] = {}  # with what it was made of, which lives on

    def of(self, node: g.Input, array: Any, rows: Rows) -> Any:
        """(n_rows, n_cols), (n_rows,) or (n_cols,)."""
        key = id(array), node.axis
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = array, _flat(node, array, rows)
        return known[1]

    def summed(self, each: Any, precision: str, result: str) -> Any:
        """(n_rows, n_cols), summed over rows in this precision, as this type."""
        raise NotImplementedError


def _flat(node: g.Input, array: Any, rows: Rows) -> Any:
    """The user's array with all rows along one axis: (n_rows, n_cols), (n_rows,) or (n_cols,)."""
    match node.axis:
        case g.Axis.PER_COLUMN:
            return array if len(array.shape) == 1 else array.reshape(rows.n_cols)
        case g.Axis.PER_ROW:
            return _broadcast(node.name, array, rows.lead).reshape(rows.n_rows)
        case g.Axis.ELEMENT:
            if tuple(array.shape) == (rows.n_rows, rows.n_cols) and rows.last:
                return array
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


def shaped(found: Any, weight: Adopted) -> Any:
    """A sum, (n_cols,), in the shape of its input."""
    shape = weight.array.shape
    return found if len(shape) == 1 else found.reshape(shape)


def zeros(like: Adopted, weight: Adopted) -> Any:
    """A sum over no rows, as the kind of `like`."""
    shape = tuple(weight.array.shape)
    param, rows = Param("grad", weight.dtype, "row", output=True), Rows(shape, (1,), (len(shape),))
    with like.memory.working(like):
        result = new_result(param, rows, like)
        result.written[...] = 0
        return hand_back(result, param, rows, like)
