"""Gradients of per-column inputs: sums over rows, as a second pipeline along the other axis."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.rows import Rows, rows_of
from fusegen.backend.memory import Adopted
from fusegen.compile.typed import Traced
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import DTypeError, PipelineError, TraceError
from fusegen.ir.shared import Recent
from fusegen.lang import lang as fg
from fusegen.lang.blame import blames
from fusegen.lang.lines import here
from fusegen.lang.signature import Signature, constants_key
from fusegen.lang.trace import is_tracing
from fusegen.lang.value import PerColumn, PerRow, Value
from fusegen.library.gradient.column_sums import Stages, Summing, shaped, zeros
from fusegen.library.gradient.states import StatefulGradient
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.states.finished import first_of
from fusegen.pipeline.states.record import States
from fusegen.pipeline.traces import MOST
from fusegen.rewrite.adjoint.transplant import (
    Text,
    scalars_of,
    transplant,
    varying_parameters,
)


@dataclass(frozen=True, slots=True)
class ColumnGradient(StatefulGradient):
    """The gradient with respect to a per-column input, such as a weight.

    Call it like a `Gradient`: cotangents, then the forward pipeline's arrays. `contributions` is
    the element pipeline whose sum over rows it is: g·(x − mean)·rstd for layer_norm's weight.
    Rows in pieces: see `gradient.states`.
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
        inputs = self.text(frozenset(present), constants).inputs
        rows = rows_of(inputs, {n: tuple(a.array.shape) for n, a in adopted.items()}, axis)
        types = self._types({n: a.dtype for n, a in adopted.items()})
        if rows.n_rows == 0:
            return zeros(next(iter(adopted.values())), adopted[self.wrt])
        found = self.summing(frozenset(present), constants, rows, *types).run(present, constants)
        return shaped(found, adopted[self.wrt])

    def _types(self, dtypes: Mapping[str, DType]) -> tuple[str, str]:
        """(of sums, of the result). Raises DTypeError."""
        own = dtypes[self.wrt]
        if own.kind != "float":
            raise DTypeError(f"{self.wrt} holds {own} values: it has no gradient")
        wide = any(d.name == "float64" for d in dtypes.values())
        return "float64" if wide else "float32", own.name

    # ---- states: see states.py ----

    @property
    def name(self) -> str:
        return self.contributions.name

    @property
    def signature(self) -> Signature:
        return self.contributions.signature

    @property
    def vectors(self) -> frozenset[str]:
        return self.contributions.vectors

    @property
    def origin(self) -> Pipeline:
        return self.contributions

    def statistics(self, dtypes: Mapping[str, DType], constants: dict[str, Any]) -> Pipeline:
        """See StatefulGradient."""
        rows = self.stages(frozenset(dtypes), constants, *self._types(dtypes)).rows
        if rows is None:
            raise PipelineError(f"{self.name} has no states: it takes nothing of whole rows",
                                where=self.text(frozenset(dtypes), constants).loc,
                                why="It is a sum over rows, of what every column has itself.",
                                fix="Call it on each piece.")
        return rows

    def of_columns(
        self, whole: States, made: Mapping[str, Any], taken: Mapping[str, Adopted], at: int | None
    ) -> Any:
        """See StatefulGradient."""
        given, constants = {n: a.given for n, a in taken.items()}, dict(whole.constants)
        inputs = self.text(frozenset(given), constants).inputs
        shapes = {n: tuple(a.array.shape) for n, a in taken.items()}
        rows, weight = rows_of(inputs, shapes, -1, piece=True), taken[self.wrt]
        first_of(self.name, whole, rows.n_cols, at, numbered=False)
        if rows.n_rows == 0 or rows.n_cols == 0:
            return zeros(next(iter(taken.values())), weight)
        types = self._types(dict(whole.dtypes))
        summing = self.summing(frozenset(given), constants, rows, *types)
        return shaped(summing.run(given, constants, statistics=made), weight)

    @property
    def cotangents(self) -> Mapping[int, str]:
        """See `Gradient`."""
        found: Mapping[int, str] = self.contributions.cotangents  # type: ignore[attr-defined]
        return found

    def reads(self, present: frozenset[str], constants: Mapping[str, Any]) -> frozenset[str]:
        """The arrays, cotangents among them, whose values count, not only their shapes."""
        nodes = g.topological(self.text(present, constants).outputs)
        return frozenset(i.name for i in g.arrays_in(nodes))

    def text(self, present: frozenset[str], constants: Mapping[str, Any]) -> g.Graph:
        """The contributions', for these inputs and constants like these."""
        return self._traced(present, constants).graph

    def summing(
        self, present: frozenset[str], constants: Mapping[str, Any], rows: Rows, precision: str,
        result: str,
    ) -> Summing:
        """What sums for these inputs, constants like these, rows, and types of statistics and
        result."""
        graph = self.text(present, constants)
        stages = self.stages(present, constants, precision, result)
        return Summing(stages, graph, rows)

    def stages(
        self, present: frozenset[str], constants: Mapping[str, Any], precision: str = "float32",
        result: str = "float32",
    ) -> Stages:
        """Both pipelines for these inputs and constants, and types of statistics and sum."""
        traced = self._traced(present, constants)
        fixed = {n: v for n, v in constants.items() if n not in traced.graph.varying}
        key = (present, constants_key(fixed), traced.graph.guards, precision, result,
               traced.digest)
        return self._known.get_or_make(
            key, lambda: _split(traced.graph, self.contributions, precision, result))

    @property
    def _usual(self) -> Stages:
        signature = self.contributions.signature
        return self.stages(frozenset(signature.arrays), signature.bind_constants({}))

    def _traced(self, present: frozenset[str], constants: Mapping[str, Any]) -> Traced:
        return self.contributions.traces.varied(present, dict(constants))


def _each(graph: g.Graph, origin: Pipeline, precision: str) -> Pipeline | str:
    """The contributions in the precision of their sums; of those that an input is, its name."""
    (output,) = graph.outputs
    if isinstance(output, g.Input) and output.axis is g.Axis.ELEMENT:
        return output.name
    read = _read([output], graph)

    def text(*arrays: Value, **numbers: Any) -> Value:
        leaves = scalars_of(graph, numbers) | dict(zip(read, map(_node, arrays), strict=True))
        each = Value(transplant([output], leaves, graph)[0])
        if g.extent(each.node) is not g.Extent.ELEMENT:  # the same for every column
            wide = next(a for a in arrays if g.extent(a.node) is g.Extent.ELEMENT)
            each = fg.where(fg.index(wide) >= 0, each, 0.0)
        return fg.cast(each, precision)

    own = inspect.signature(origin.fn).parameters
    arrays = [own[i.name].replace(default=Parameter.empty) for i in read]
    return Pipeline(Text(f"{origin.name}_each", f"{origin.name} in {precision}.", origin.fn,
                         [*arrays, *varying_parameters(graph)], text))


def _split(graph: g.Graph, origin: Pipeline, precision: str, result: str) -> Stages:
    """Cut the contributions where values of a whole row enter."""
    (output,) = graph.outputs
    constants = varying_parameters(graph)
    statistics, inputs = _cut(output, graph)
    names = [graph.names[n] for n in statistics]
    rows = None

    read = _read(statistics, graph)

    def statistics_text(*arrays: Value, **numbers: Any) -> dict[str, Value]:
        leaves = scalars_of(graph, numbers) | dict(zip(read, map(_node, arrays), strict=True))
        moved = transplant(statistics, leaves, graph)
        return {name: fg.cast(Value(n), precision) for name, n in zip(names, moved, strict=True)}

    def columns_text(*arrays: Value, **numbers: Any) -> Value:
        stands_for = [*statistics, *inputs]
        leaves = {n: _node(a) for n, a in zip(stands_for, arrays, strict=True)}
        (moved,) = transplant([output], scalars_of(graph, numbers) | leaves, graph)
        each = Value(moved)
        if g.extent(moved) is g.Extent.ROW:  # a number, the same for every row
            wide = next(a for a in arrays if g.extent(a.node) is g.Extent.ELEMENT)
            each = fg.where(fg.index(wide) >= 0, each, 0.0)
        total = fg.sum(each)
        double = precision == "float64"  # whether or not what is float64 takes part here
        return fg.cast(fg.cast(total, precision) if double else total, result)

    if statistics:
        doc = f"Row statistics of {origin.name}: {', '.join(names)}."
        own = inspect.signature(origin.fn).parameters
        arrays = [own[i.name].replace(default=Parameter.empty) for i in read]
        rows = Pipeline(Text(f"{origin.name}_rows", doc, origin.fn, [*arrays, *constants],
                             statistics_text))
    swapped = {g.Axis.ELEMENT: Value, g.Axis.PER_COLUMN: PerRow, g.Axis.PER_ROW: PerColumn}
    parameters = [_parameter(name, PerColumn) for name in names]
    parameters += [_parameter(i.name, swapped[i.axis]) for i in inputs]
    text = Text(f"{origin.name}_columns", f"{origin.name}, summed over rows.", origin.fn,
                [*parameters, *constants], columns_text)
    return Stages(rows, Pipeline(text), _each(graph, origin, precision), precision, result)


def _cut(output: g.Node, graph: g.Graph) -> tuple[list[g.Node], list[g.Input]]:
    """The greatest row values inside the contributions, and the inputs that remain."""
    statistics: dict[g.Node, None] = {}
    inputs: dict[g.Input, None] = {}

    def visit(node: g.Node) -> None:
        if isinstance(node, g.Input) and node.axis is g.Axis.SCALAR:
            return
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


def _read(nodes: list[g.Node], graph: g.Graph) -> list[g.Input]:
    """The inputs that these are made of, one with all columns among them."""
    found = {*g.arrays_in(g.topological(nodes))}
    if not any(i.axis is g.Axis.ELEMENT for i in found):
        found.add(next(i for i in graph.inputs if i.axis is g.Axis.ELEMENT))
    return [i for i in graph.inputs if i in found]


def _node(value: Value | None) -> g.Node:
    assert value is not None
    return value.node


def _parameter(name: str, annotation: type) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
