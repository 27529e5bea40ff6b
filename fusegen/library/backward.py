"""Gradients of a call, by pipelines that fg.grad derives; what of the call they read is kept.

One pipeline gives the gradients of all element and per-row inputs; each per-column input has a
`ColumnGradient`, which sums over rows. These are called as users call pipelines: recorded again
for second derivatives, as operators where a framework traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.errors import ZeroGradient
from fusegen.ir.shared import Recent
from fusegen.lang.signature import constants_key
from fusegen.library.framework import Framework
from fusegen.library.grad import Gradient, grad
from fusegen.library.grad_columns import ColumnGradient
from fusegen.library.grad_lean import LeanGradient
from fusegen.pipeline.pipeline import Pipeline
from fusegen.rewrite.adjoint.reverse import active_nodes

_MOST = 256
_KNOWN: Recent[Any, Backward] = Recent(_MOST)
_MOVING: Recent[Any, frozenset[str]] = Recent(_MOST)


@dataclass(frozen=True, eq=False)
class Call:
    """A call but for its arrays."""

    pipeline: Pipeline
    constants: Mapping[str, Any]
    axis: Any = -1
    keepdims: bool = False
    form: str = "auto"
    deterministic: bool = False

    def run(self, arrays: Sequence[Any]) -> Any:
        """As the user calls it; what is not there is None."""
        return self.pipeline(*arrays, axis=self.axis, keepdims=self.keepdims, form=self.form,
                             deterministic=self.deterministic, **self.constants)

    def traced(self, arrays: Sequence[Any]) -> g.Graph:
        present = frozenset(n for n, a in zip(self.pipeline.signature.arrays, arrays, strict=True)
                            if a is not None)
        return self.pipeline.traced(present, dict(self.constants)).graph


@dataclass(frozen=True, eq=False)
class Backward:
    """What differentiates calls of a kind, and what of them it reads."""

    rowwise: LeanGradient | None
    columns: Mapping[str, ColumnGradient]
    inputs: frozenset[str]
    outputs: frozenset[int]

    @property
    def wanted(self) -> tuple[str, ...]:
        """The inputs that have a gradient, of those asked for."""
        return (*(self.rowwise.wrt if self.rowwise else ()), *self.columns)


def backward_of(
    call: Call, present: frozenset[str], asked: tuple[str, ...], *, outputs: bool
) -> Backward:
    """For these inputs; those that no output moves with have no gradient.

    outputs: may results stand for inputs? They have the inputs' types. Raises TraceError."""
    pipeline, constants = call.pipeline, dict(call.constants)
    traced = pipeline.traced(present, constants)
    moving = moving_inputs(call, present)
    wanted = tuple(n for n in asked if n in moving)
    key = (pipeline, traced.digest, constants_key(constants), wanted)
    found = _KNOWN.get((*key, outputs))
    if found is None:
        found = _KNOWN.put((*key, outputs), _moved(pipeline, constants, traced.graph, wanted,
                                                   outputs))
        if not found.outputs:
            _KNOWN.put((*key, False), found)
    return found


def moving_inputs(call: Call, present: frozenset[str]) -> frozenset[str]:
    """Those that an output of floats follows: they have a gradient."""
    traced = call.pipeline.traced(present, dict(call.constants))
    key = (call.pipeline, traced.digest)
    found = _MOVING.get(key)
    if found is None:
        graph = traced.graph
        found = _MOVING.put(key, frozenset(i.name for i in graph.inputs if _moves(graph, i)))
    return found


def _moved(
    pipeline: Pipeline, constants: dict[str, Any], graph: g.Graph, wanted: tuple[str, ...],
    same: bool,
) -> Backward:
    """Of the inputs that the outputs move with: a constant that is 0, or what cancels, may hold
    them, which only the gradient's text shows."""
    while True:
        try:
            return _backward(pipeline, constants, graph, wanted, same)
        except ZeroGradient as zero:
            wanted = tuple(n for n in wanted if n != zero.wrt)


def _backward(
    pipeline: Pipeline, constants: dict[str, Any], graph: g.Graph, wanted: tuple[str, ...],
    same: bool,
) -> Backward:
    present = frozenset(i.name for i in graph.inputs)
    moving = [i for i in graph.inputs if i.name in wanted]
    columns: dict[str, ColumnGradient] = {}
    for node in moving:
        if node.axis is g.Axis.PER_COLUMN:
            found = grad(pipeline, node.name, **constants)
            assert isinstance(found, ColumnGradient)
            columns[node.name] = found
    reads: set[str] = set()
    for one in columns.values():
        cotangents = _contributions(one).cotangents.values()
        reads |= one.reads(present.union(cotangents), constants) & present
    names = tuple(i.name for i in moving if i.name not in columns)
    rowwise = _rowwise(pipeline, constants, names, present, outputs=same and not reads)
    if rowwise is not None:
        reads |= {*rowwise.inputs}
    return Backward(rowwise, columns, frozenset(reads),
                    frozenset(rowwise.outputs if rowwise else ()))


def _rowwise(
    pipeline: Pipeline, constants: dict[str, Any], names: tuple[str, ...],
    present: frozenset[str], outputs: bool,
) -> LeanGradient | None:
    if not names:
        return None
    gradient = grad(pipeline, names, **constants)
    assert isinstance(gradient, Gradient)
    return LeanGradient(gradient, present, constants, outputs)


def _moves(graph: g.Graph, node: g.Input) -> bool:
    active = active_nodes(graph.nodes, [node])
    return any(n in active for n in graph.outputs)


# ---- run ----


def gradients(
    call: Call, backward: Backward, arrays: Mapping[str, Any], outputs: Mapping[int, Any],
    cotangents: Sequence[Any], framework: Framework,
) -> dict[str, Any]:
    """By input. arrays: those that `backward` reads; of the others, something of their shape and
    type. outputs: those that it reads."""
    found: dict[str, Any] = {}
    lean = backward.rowwise
    if lean is not None:
        given = [*(cotangents[i] for i in lean.cotangents), *(outputs[i] for i in lean.outputs),
                 *(arrays[n] for n in (*lean.inputs, *lean.shapes))]
        made = lean(*given, axis=call.axis, deterministic=call.deterministic)
        found |= dict(zip(lean.wrt, made if isinstance(made, tuple) else (made,), strict=True))
    found = {n: _as_given(value, arrays[n], framework) for n, value in found.items()}
    for name, column in backward.columns.items():
        named = {n: cotangents[i] for i, n in _contributions(column).cotangents.items()}
        found[name] = _summed(call, column, named, arrays, framework)
    return found


def _summed(
    call: Call, column: ColumnGradient, cotangents: Mapping[str, Any], arrays: Mapping[str, Any],
    framework: Framework,
) -> Any:
    """The gradient of a per-column input, in its shape."""
    graph = call.pipeline.traced(frozenset(arrays), dict(call.constants)).graph
    rows, weight = framework.rows_in(graph.inputs, arrays, call.axis), arrays[column.wrt]
    if rows.n_rows == 0:
        return framework.zeros_in(weight)
    every = {**cotangents, **arrays}
    wide = any(framework.dtype_in(a).name == "float64" for a in every.values())
    total = column.summed(every, call.constants, rows, "float64" if wide else "float32",
                          framework.dtype_in(weight).name)
    return total.reshape(weight.shape)


def _contributions(column: ColumnGradient) -> Gradient:
    assert isinstance(column.contributions, Gradient)
    return column.contributions


def _as_given(value: Any, array: Any, framework: Framework) -> Any:
    """A gradient in the shape of its input, which may have been broadcast to the rows, or have
    kept the reduced axes."""
    if value.shape == array.shape:
        return value
    if value.ndim < array.ndim:
        return value.reshape(array.shape)
    return framework.summed_to(value, array.shape)
