"""Gradients of per-column inputs: sums over rows, as a second pipeline along the other axis."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any

import numpy as np

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.results import hand_back, new_result
from fusegen.backend.arrays.rows import Rows, rows_of
from fusegen.backend.memory import Adopted
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError, DTypeError, TraceError
from fusegen.ir.kernel import Param
from fusegen.ir.shared import Recent
from fusegen.lang import lang as fg
from fusegen.lang.blame import blames
from fusegen.lang.lines import here
from fusegen.lang.signature import constants_key
from fusegen.lang.trace import is_tracing
from fusegen.lang.value import PerColumn, PerRow, Value
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.traces import MOST
from fusegen.rewrite.adjoint.transplant import Text, transplant


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
    _known: Recent[Any, Stages] = field(default_factory=lambda: Recent(MOST), repr=False)

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
                             "one row.", fix="Call it on its own.")
        present, constants = self.contributions.bind(arrays, named)
        adopted = adopt_all(present)
        one_memory(adopted)
        inputs = self._graph(frozenset(present), constants).inputs
        rows = rows_of(inputs, {n: tuple(a.array.shape) for n, a in adopted.items()}, axis)
        weight = adopted[self.wrt]
        if weight.dtype.kind != "float":
            raise DTypeError(f"{self.wrt} holds {weight.dtype} values: it has no gradient")
        if rows.n_rows == 0:
            return _zeros(next(iter(adopted.values())), weight)
        wide = any(a.dtype.name == "float64" for a in adopted.values())
        types = ("float64" if wide else "float32", weight.dtype.name)
        found = self.summed(present, constants, rows, *types)
        shape = weight.array.shape
        return found if len(shape) == 1 else found.reshape(shape)

    def reads(self, present: frozenset[str], constants: Mapping[str, Any]) -> frozenset[str]:
        """The arrays, cotangents among them, whose values count, not only their shapes."""
        graph = self._graph(present, constants)
        return frozenset(i.name for i in g.topological(graph.outputs) if isinstance(i, g.Input))

    def summed(
        self, arrays: Mapping[str, Any], constants: Mapping[str, Any], rows: Rows, precision: str,
        result: str,
    ) -> Any:
        """Both stages on at least one row: (n_cols,) of type `result`."""
        present = frozenset(arrays)
        stages = self.stages(present, constants, precision, result)
        flat = {i.name: _flat(i, arrays[i.name], rows)
                for i in self._graph(present, constants).inputs}
        if stages.rows is not None:
            flat |= stages.rows(*[flat.get(n) for n in stages.rows.signature.arrays])
        return stages.columns(*[flat[n] for n in stages.columns.signature.arrays], axis=0)

    def stages(
        self, present: frozenset[str], constants: Mapping[str, Any], precision: str = "float32",
        result: str = "float32",
    ) -> Stages:
        """Both pipelines for these inputs and constants, and types of statistics and sum."""
        traced = self.contributions.traced(present, dict(constants))
        key = (present, constants_key(constants), precision, result, traced.digest)
        found = self._known.get(key)
        if found is None:
            found = self._known.put(key, _split(traced.graph, self.contributions, precision,
                                                result))
        return found

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
                parameters, columns_text)
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
                             fix="Pass the column numbers as a per-column input.")
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


def _zeros(like: Adopted, weight: Adopted) -> Any:
    """A sum over no rows, as the kind of `like`."""
    shape = tuple(weight.array.shape)
    param, rows = Param("grad", weight.dtype, "row", output=True), Rows(shape, (1,), (len(shape),))
    with like.memory.working(like):
        result = new_result(param, rows, like)
        result.written[...] = 0
        return hand_back(result, param, rows, like)
