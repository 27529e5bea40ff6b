"""What differentiates calls: pipelines that fg.grad derives, and what of a call they read.

One pipeline gives the gradients of all element and per-row inputs; each per-column input has a
`ColumnGradient`, which sums over rows. Like the graphs of a text they are for all values of a
constant that varies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusegen.compile.typed import Traced
from fusegen.ir import graph as g
from fusegen.ir.shared import Recent
from fusegen.ir.varying import names_in
from fusegen.lang.signature import constants_key
from fusegen.library.gradient.columns import ColumnGradient
from fusegen.library.gradient.grad import Gradient, gradient_of
from fusegen.library.gradient.lean import LeanGradient
from fusegen.pipeline.pipeline import Pipeline
from fusegen.rewrite.adjoint.reverse import reached_nodes

_MOST = 256
_KNOWN: Recent[Any, Backward] = Recent(_MOST)


@dataclass(frozen=True, eq=False)
class Call:
    """A call but for its arrays."""

    pipeline: Pipeline
    constants: Mapping[str, Any]
    axis: Any = -1
    keepdims: bool = False
    form: str = "auto"
    deterministic: bool = False
    precision: str = "float32"

    def run(self, arrays: Sequence[Any]) -> Any:
        """As the user calls it; what is not there is None."""
        return self.pipeline(*arrays, axis=self.axis, keepdims=self.keepdims, form=self.form,
                             deterministic=self.deterministic, precision=self.precision,
                             **self.constants)

    def traced(self, arrays: Sequence[Any]) -> g.Graph:
        present = frozenset(n for n, a in zip(self.pipeline.signature.arrays, arrays, strict=True)
                            if a is not None)
        return self.of(present).graph

    def of(self, present: Collection[str]) -> Traced:
        """Its text, for these inputs and all constants like these."""
        return self.pipeline.traces.varied(frozenset(present), dict(self.constants))


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


def needed_numbers(graph: g.Graph, backward: Backward, present: frozenset[str], call: Call
                   ) -> frozenset[str]:
    """Constants that vary in a text's graph, and of which a gradient needs more: the number, or
    another answer than the text's own questions."""
    constants = dict(call.constants)
    graphs = [c.text(present.union(c.cotangents.values()), constants)
              for c in backward.columns.values()]
    graphs += [backward.rowwise.text] if backward.rowwise else []
    known = {*graph.guards}
    found: set[str] = set()
    for one in graphs:
        found |= graph.varying - one.varying
        for guard in one.guards:
            own = guard.question == "magnitude" and isinstance(guard.args[0], str)
            if not own and guard not in known:
                found = found.union(*map(names_in, guard.args))
    return graph.varying & found


def backward_of(
    call: Call, present: frozenset[str], asked: tuple[str, ...], *, outputs: bool
) -> Backward:
    """For these inputs; those that reach no output have no gradient.

    outputs: may results stand for inputs? They have the inputs' types. Raises TraceError."""
    traced = call.of(present)
    fixed = {n: v for n, v in call.constants.items() if n not in traced.graph.varying}
    reached = reaching(traced.graph)
    wanted = tuple(n for n in asked if n in reached)
    key = (call.pipeline, traced.digest, traced.graph.guards, constants_key(fixed), wanted)
    found = _KNOWN.get((*key, outputs))
    if found is None:
        found = _KNOWN.put((*key, outputs), _backward(call, traced.graph, wanted, outputs))
        if not found.outputs:
            _KNOWN.put((*key, False), found)
    return found


def reaching(graph: g.Graph) -> frozenset[str]:
    """Inputs that take part in an output of floats: they have a gradient, which may be 0."""
    return frozenset(i.name for i in graph.inputs if any(moving_outputs(graph, [i.name])))


def moving_outputs(graph: g.Graph, asked: Collection[str]) -> tuple[bool, ...]:
    """Of every output: does one of these inputs take part in it?"""
    reached = reached_nodes(graph.nodes, [i for i in graph.inputs if i.name in asked])
    return tuple(n in reached for n in graph.outputs)


def _backward(
    call: Call, graph: g.Graph, wanted: tuple[str, ...], same: bool
) -> Backward:
    pipeline, constants = call.pipeline, dict(call.constants)
    present = frozenset(i.name for i in graph.inputs)
    moving = [i for i in graph.inputs if i.name in wanted]
    columns: dict[str, ColumnGradient] = {}
    for node in moving:
        if node.axis is g.Axis.PER_COLUMN:
            found = gradient_of(pipeline, node.name, constants)
            assert isinstance(found, ColumnGradient)
            columns[node.name] = found
    reads: set[str] = set()
    for one in columns.values():
        reads |= one.reads(present.union(one.cotangents.values()), constants) & present
    names = tuple(i.name for i in moving if i.name not in columns)
    rowwise = None
    if names:
        gradient = gradient_of(pipeline, names, constants)
        assert isinstance(gradient, Gradient)
        rowwise = LeanGradient(gradient, present, constants, same and not reads)
        reads |= {*rowwise.inputs}
    return Backward(rowwise, columns, frozenset(reads),
                    frozenset(rowwise.outputs if rowwise else ()))
