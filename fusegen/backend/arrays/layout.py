"""A call's arrays laid out as kernels read and write them: the way in and out of this folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fusegen.backend.arrays.columns import check_columns
from fusegen.backend.arrays.labels import check_labels
from fusegen.backend.arrays.phases import phase_of
from fusegen.backend.arrays.results import (
    Result,
    check_distinct,
    given_result,
    hand_back,
    new_result,
)
from fusegen.backend.arrays.rows import SPANNING, Axes, Rows, rows_known, rows_of
from fusegen.backend.arrays.strips import side_by_side
from fusegen.backend.arrays.vectors import batch_rows_of
from fusegen.backend.arrays.views import as_rows, as_rows_of_vectors, shape_alone
from fusegen.backend.memory import Adopted, Memory, Shape
from fusegen.backend.problem import Phase
from fusegen.backend.words import address
from fusegen.ir import graph as g
from fusegen.ir.dtypes import INT64
from fusegen.ir.kernel import Param
from fusegen.ir.nesting import flatten, nest
from fusegen.ir.shared import Recent
from fusegen.ir.vectors import row_numbers


@dataclass(frozen=True, slots=True)
class Layout:
    """`arrays` by parameter name, as an executable takes them; `results` in output order."""

    graph: g.Graph
    params: tuple[Param, ...]
    adopted: Mapping[str, Adopted]
    rows: Rows
    arrays: Mapping[str, Any]
    results: tuple[Result, ...]

    @property
    def outputs(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.output)

    @property
    def like(self) -> Adopted:
        """The array whose kind and place results have."""
        return next(iter(self.adopted.values()))

    @property
    def memory(self) -> Memory:
        return self.like.memory

    @property
    def phase(self) -> Phase:
        """Of vectors, where there are some."""
        return phase_of(self.params, self.arrays, side_by_side=self.rows.inner is not None)

    @property
    def batch_rows(self) -> int | None:
        return batch_rows_of(self.params, self.arrays, self.rows.n_rows)

    @property
    def copies(self) -> list[Any]:
        """What kernels read or write beside the caller's memory and results that were made."""
        read = [(self.arrays[self.graph.names[i]], self.adopted[i.name].array)
                for i in self.graph.inputs]
        found = [array for array, given in read if address(array) != address(given)]
        return found + [r.written for r in self.results if r.copy]

    def fresh(self) -> dict[str, Any]:
        """The arrays with outputs that nobody else has."""
        made = {p.name: new_result(p, self.rows, self.like).written for p in self.outputs}
        return {**self.arrays, **made}

    def hand_back(self) -> Any:
        """The results as the user's kind of arrays, nested as the pipeline returns them."""
        like = self.like
        if like.family == "labelled" and g.have_vectors(self.graph.inputs):
            like = replace(like, family="numpy")  # its last axis is none of the rows and columns
        with self.memory.working(like):
            found = [hand_back(r, p, self.rows, like)
                     for r, p in zip(self.results, self.outputs, strict=True)]
        return nest(self.graph.structure, found)


def lay_out(
    graph: g.Graph, params: tuple[Param, ...], adopted: Mapping[str, Adopted], axis: Axes = -1,
    out: Any = None, keepdims: bool = False, strips: bool = False,
) -> Layout:
    """Inputs as kernels read them, without a copy wherever strides allow, and results.

    params: what kernels read and write; an input that they do without is checked all the same,
    and never copied.
    strips: rows that lie side by side may stay so. Raises ShapeError, DTypeError, ArgumentError.
    """
    like, outputs = next(iter(adopted.values())), tuple(p for p in params if p.output)
    shapes = {n: tuple(a.array.shape) for n, a in adopted.items()}
    rows = rows_of(graph.inputs, shapes, axis, keepdims)
    check_labels(graph, adopted, rows)
    check_columns(graph, rows.n_cols)
    given = flatten(graph.structure, out, len(outputs))
    with like.memory.working(like):  # copies that strides may need run there too
        rows, arrays = _inputs(graph, _unread(graph, params), adopted, rows, strips)
        results = _results(given, outputs, adopted, rows)
    written = {p.name: r.written for p, r in zip(outputs, results, strict=True)}
    return Layout(graph, params, adopted, rows, arrays | written, results)


def lay_out_piece(
    graph: g.Graph, adopted: Mapping[str, Adopted], like: Adopted, lead: Shape = (),
    n_cols: int = 0,
) -> tuple[Rows, dict[str, Any]]:
    """Pieces of rows along the last axis, with no column or more: (rows, those inputs that are
    there by the kernel's names). lead, n_cols: rows where no input that is there says how many;
    like: what lies where they do. What a text asks of the number of columns is asked when all
    pieces have met."""
    shapes = {n: tuple(a.array.shape) for n, a in adopted.items()}
    inputs = tuple(i for i in graph.inputs if i.name in adopted)
    if any(i.axis in SPANNING for i in inputs):
        rows = rows_of(inputs, shapes, -1, piece=True)
    else:
        rows = rows_known(inputs, shapes, lead, n_cols)
    check_labels(graph, adopted, rows)
    lay = _way(graph)
    return rows, _numbers_in(graph, like, rows) | {
        graph.names[i]: lay(adopted[i.name].array, i.axis, rows) for i in inputs}


def _way(graph: g.Graph) -> Callable[[Any, g.Axis, Rows], Any]:
    return as_rows_of_vectors if g.have_vectors(graph.inputs) else as_rows


def _unread(graph: g.Graph, params: tuple[Param, ...]) -> frozenset[str]:
    """Inputs of which the shape and type count alone; none where nothing is said of inputs."""
    read = {p.name for p in params if not p.output}
    return frozenset(i.name for i in graph.inputs if read and graph.names[i] not in read)


def _inputs(
    graph: g.Graph, unread: frozenset[str], adopted: Mapping[str, Adopted], rows: Rows,
    strips: bool,
) -> tuple[Rows, dict[str, Any]]:
    """The rows, which may stay side by side, and inputs by the kernel's names."""
    views = _side_by_side(graph, adopted, rows) if strips else {}
    if views:
        rows = replace(rows, inner=math.prod(rows.lead[rows.axes[0] :]))
    like = next(iter(adopted.values()))
    numbers, lay = _numbers_in(graph, like, rows), _way(graph)
    arrays = {
        graph.names[i]: shape_alone(adopted[i.name].array, i.axis, rows)
        if i.name in unread and rows.n_rows else lay(adopted[i.name].array, i.axis, rows)
        for i in graph.inputs if graph.names[i] not in views}
    return rows, views | arrays | numbers


_MOST_NUMBERED = 1 << 22  # rows whose numbers are kept for later calls
_NUMBERS: Recent[Any, Any] = Recent(16)
"""Rows' numbers by memory, device, and how many rows there are."""


def _numbers_in(graph: g.Graph, like: Adopted, rows: Rows) -> dict[str, Any]:
    """The rows' numbers, among those of their last axis, where the text asks for them."""
    numbering = row_numbers(graph)
    if numbering is None:
        return {}
    period = rows.lead[-1] if rows.lead else 1
    key = (like.memory.name, like.index, period, rows.n_rows)
    found = _NUMBERS.get(key)
    if found is None:
        made = np.resize(np.arange(period, dtype=np.int64), rows.n_rows)
        found = like.memory.from_host(made, INT64)
        if rows.n_rows <= _MOST_NUMBERED:
            _NUMBERS.put(key, found)
    return {numbering: found}


def _side_by_side(graph: g.Graph, adopted: Mapping[str, Adopted], rows: Rows) -> dict[str, Any]:
    """Element inputs as kernels read rows that lie side by side; empty: rows are to be laid out."""
    if rows.last or len(rows.axes) > 1 or math.prod(rows.lead[rows.axes[0] :]) == 1:
        return {}  # columns are neighbours, or several axes
    elements = [i for i in graph.inputs if i.axis is g.Axis.ELEMENT]
    arrays = [np.broadcast_to(adopted[i.name].array, rows.whole) for i in elements]
    views: Sequence[Any] = side_by_side(arrays, rows.axes[0]) or ()
    return {graph.names[i]: v for i, v in zip(elements, views, strict=bool(views))}


def _results(
    given: Sequence[Any], outputs: tuple[Param, ...], adopted: Mapping[str, Adopted], rows: Rows
) -> tuple[Result, ...]:
    """Of each output: what out= gives for it, or new memory where that is None."""
    like = next(iter(adopted.values()))
    results = tuple([
        new_result(p, rows, like) if o is None
        else given_result(p, rows, o, adopted, len(outputs))
        for p, o in zip(outputs, given, strict=True)
    ])
    check_distinct(results)
    return results
