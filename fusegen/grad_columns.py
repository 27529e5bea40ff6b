"""Gradients of per-column inputs: sums over rows, as a second pipeline along the other axis."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any

import numpy as np

from fusegen import graph as g
from fusegen import lang as fg
from fusegen.adjoint.transplant import Text, transplant
from fusegen.blame import blames
from fusegen.errors import ArgumentError, DTypeError, TraceError
from fusegen.kernel import Param
from fusegen.pipeline import Pipeline
from fusegen.runtime import arrays as ar
from fusegen.runtime import results as rs
from fusegen.runtime.rows import Rows, rows_of
from fusegen.signature import constants_key
from fusegen.trace import is_tracing
from fusegen.value import PerColumn, PerRow, Value, here


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
class ColumnGradient:
    """The gradient with respect to a per-column input, such as a weight.

    Call it like a `Gradient`: cotangents, then the forward pipeline's arrays. `contributions` is
    the element pipeline whose sum over rows it is: g·(x − mean)·rstd for layer_norm's weight.
    """

    contributions: Pipeline
    _known: dict[Any, Stages] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return ColumnGradient, (self.contributions,)

    @property
    def wrt(self) -> str:
        """The per-column input; the gradient has its type and shape."""
        return self.contributions.like[0]

    @property
    def rows(self) -> Pipeline | None:
        """The first stage, for all inputs, default constants, and sums in float32."""
        return self._usual.rows

    @property
    def columns(self) -> Pipeline:
        """The second stage; see `rows`."""
        return self._usual.columns

    @blames
    def __call__(self, *arrays: Any, axis: int = -1, **named: Any) -> Any:
        """Run both stages; the result has the input's shape and type, zeros for zero rows.

        Raises as Pipeline.__call__.
        """
        if is_tracing():
            raise TraceError(f"the column gradient {self.contributions.name} was called inside a "
                             "pipeline", where=here(), why="It sums over rows; a pipeline works on "
                             "one row.", fix="Call it on its own.")  # fmt: skip
        present, constants = self.contributions.bind(arrays, named)
        adopted = {n: ar.adopt(n, a) for n, a in present.items()}
        ar.one_device(adopted, "auto")
        inputs = self._graph(frozenset(present), constants).inputs
        rows = rows_of(inputs, {n: tuple(a.array.shape) for n, a in adopted.items()}, axis)
        weight = adopted[self.wrt]
        if weight.dtype.kind != "float":
            raise DTypeError(f"{self.wrt} holds {weight.dtype} values: it has no gradient")
        if rows.n_rows == 0:
            return _zeros(next(iter(adopted.values())), weight)
        wide = any(a.dtype.name == "float64" for a in adopted.values())
        types = ("float64" if wide else "float32", weight.dtype.name)
        stages = self.stages(frozenset(present), constants, *types)
        flat = {i.name: _flat(i, present[i.name], rows) for i in inputs}
        if stages.rows is not None:
            flat |= stages.rows(*[flat.get(n) for n in stages.rows.signature.arrays])
        found = stages.columns(*[flat[n] for n in stages.columns.signature.arrays], axis=0)
        shape = weight.array.shape
        return found if len(shape) == 1 else found.reshape(shape)

    def stages(
        self, present: frozenset[str], constants: Mapping[str, Any], precision: str = "float32",
        result: str = "float32",
    ) -> Stages:  # fmt: skip
        """Both pipelines for these inputs and constants, and types of statistics and sum."""
        key = (present, constants_key(constants), precision, result)
        if key not in self._known:
            graph = self._graph(present, constants)
            self._known[key] = _split(graph, self.contributions, precision, result)
        return self._known[key]

    @property
    def _usual(self) -> Stages:
        signature = self.contributions.signature
        return self.stages(frozenset(signature.arrays), signature.bind_constants({}))

    def _graph(self, present: frozenset[str], constants: Mapping[str, Any]) -> g.Graph:
        return self.contributions.traced(present, dict(constants)).graph


def _split(graph: g.Graph, origin: Pipeline, precision: str, result: str) -> Stages:
    """Cut the contributions where values of a whole row enter."""
    (output,) = graph.outputs
    statistics, inputs = _cut(output, graph)
    names = [graph.names[n] for n in statistics]
    rows = None

    def statistics_text(*arrays: Value | None, **_: Any) -> dict[str, Value]:
        given = dict(zip(origin.signature.arrays, arrays, strict=True))
        leaves: dict[g.Node, g.Node] = {i: _node(given[i.name]) for i in graph.inputs}
        moved = transplant(statistics, leaves, graph)
        return {name: fg.cast(Value(n), precision) for name, n in zip(names, moved, strict=True)}

    def columns_text(*arrays: Value) -> Value:
        stands_for = [*statistics, *inputs]
        leaves = {n: _node(a) for n, a in zip(stands_for, arrays, strict=True)}
        (moved,) = transplant([output], leaves, graph)
        total = fg.sum(Value(moved))
        wide = precision == "float64"  # whether or not what is float64 takes part here
        return fg.cast(fg.cast(total, precision) if wide else total, result)

    if statistics:
        doc = f"Row statistics of {origin.name}: {', '.join(names)}."
        own = inspect.signature(origin.fn).parameters.values()
        arrays = [p for p in own if p.kind is not Parameter.KEYWORD_ONLY]
        rows = Pipeline(Text(f"{origin.name}_rows", doc, origin.fn, arrays, statistics_text))
    swapped = {g.Axis.ELEMENT: Value, g.Axis.PER_COLUMN: PerRow, g.Axis.PER_ROW: PerColumn}
    parameters = [_parameter(name, PerColumn) for name in names]
    parameters += [_parameter(i.name, swapped[i.axis]) for i in inputs]
    text = Text(f"{origin.name}_columns", f"{origin.name}, summed over rows.", origin.fn,
                parameters, columns_text)  # fmt: skip
    return Stages(rows, Pipeline(text))


def _cut(output: g.Node, graph: g.Graph) -> tuple[list[g.Node], list[g.Input]]:
    """The greatest row values inside the contributions, and the inputs that remain."""
    statistics: dict[g.Node, None] = {}
    inputs: dict[g.Input, None] = {}

    def visit(node: g.Node) -> None:
        if isinstance(node, g.Input):
            inputs[node] = None
        elif isinstance(node, g.Index):
            raise TraceError("this gradient with respect to a per-column input uses fg.index",
                             where=node.loc, why="Its sum runs over rows, along the other axis.",
                             fix="Pass the column numbers as a per-column input.")  # fmt: skip
        elif g.extent(node) is g.Extent.ROW and not isinstance(node, g.Literal):
            statistics[node] = None
        else:
            for operand in g.operands(node):
                visit(operand)

    visit(output)
    if not any(i.axis is g.Axis.ELEMENT for i in inputs):
        inputs[next(i for i in graph.inputs if i.axis is g.Axis.ELEMENT)] = None  # the shape
    return list(statistics), list(inputs)


def _node(value: Value | None) -> g.Node:
    assert value is not None
    return value.node


def _parameter(name: str, annotation: type) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)


def _flat(node: g.Input, array: Any, rows: Rows) -> Any:
    """The user's array with all rows along one axis: (n_rows, n_cols), (n_rows,) or (n_cols,)."""
    match node.axis:
        case g.Axis.PER_COLUMN:
            return array
        case g.Axis.PER_ROW:
            return _broadcast(node.name, array, rows.lead).reshape(rows.n_rows)
        case g.Axis.ELEMENT:
            array = _broadcast(node.name, array, rows.whole)
            if not rows.last:
                last = tuple(range(len(rows.lead), array.ndim))
                moved = hasattr(array, "movedim")
                array = (array.movedim(rows.axes, last) if moved
                         else np.moveaxis(array, rows.axes, last))  # fmt: skip
            return array.reshape(rows.n_rows, rows.n_cols)


def _broadcast(name: str, array: Any, shape: tuple[int, ...]) -> Any:
    if tuple(array.shape) == shape:
        return array
    if hasattr(array, "expand"):
        return array.expand(shape)
    if hasattr(array, "__array_function__"):
        return np.broadcast_to(array, shape)
    raise ArgumentError(f"{name} has shape {tuple(array.shape)}, the rows {shape}",
                        fix="Broadcast it first.")  # fmt: skip


def _zeros(like: ar.Adopted, weight: ar.Adopted) -> Any:
    """A sum over no rows, as the kind of `like`."""
    shape = tuple(weight.array.shape)
    param, rows = Param("grad", weight.dtype, "row", output=True), Rows(shape, (1,), (len(shape),))
    with ar.caller_stream({"like": like}):
        result = rs.new_result(param, rows, like)
        result.written[...] = 0
        return rs.hand_back(result, param, rows, like)
