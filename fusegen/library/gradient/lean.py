"""A gradient that reads as little as it can: for who keeps what it reads from the forward call to
the backward one.

softmax's gradient y·(g − Σ g·y) needs x for nothing where y is there: y is kept, as the operation
that comes next keeps it, and x can be freed. Of an input of a sum only the shape and the type
count: nothing is kept.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from inspect import Parameter
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.names import Taken
from fusegen.lang.trace import leaves
from fusegen.lang.value import Value, lift
from fusegen.library.gradient.grad import Gradient
from fusegen.pipeline.pipeline import Pipeline
from fusegen.rewrite.adjoint.transplant import (
    Text,
    scalars_of,
    transplant,
    varying_parameters,
)


class LeanGradient(Pipeline):
    """What a gradient computes for one set of inputs and constants, from as little as it can.

    Arrays, in this order: the cotangents of the outputs at the positions `cotangents`; the outputs
    of the forward call at `outputs`; its inputs `inputs`; and arrays shaped and typed like its
    inputs `shapes`, whose values do not count. Constants: those that vary. Results as `Gradient`'s.
    """

    def __init__(
        self, gradient: Gradient, present: frozenset[str], constants: dict[str, Any],
        outputs: bool,
    ) -> None:
        self.wrt, self.cotangents = gradient.wrt, tuple(gradient.cotangents)
        graph = _probe(gradient).traces.varied(
            frozenset({*gradient.cotangents.values(), *present}), constants).graph
        self._graph, n = graph, len(self.wrt)
        self.varying = tuple(sorted(graph.varying))
        self._wanted, made = graph.outputs[:n], graph.outputs[n:]
        own = [i for i in graph.inputs if i.name in present]
        self.outputs = _readable(self._wanted, made, own) if outputs else ()
        self._made = [made[i] for i in self.outputs]
        nodes = {*g.topological(self._wanted, {*self._made}.__contains__)}
        self.inputs = tuple(i.name for i in own if i in nodes)
        self.shapes = self._counted(own, [made[i] for i in self.cotangents])
        taken = Taken(i.name for i in graph.inputs)
        names = [taken.free(f"result_{graph.output_names[n + i]}") for i in self.outputs]
        text = Text(gradient.name, f"{gradient.name}, from what was kept.", gradient.forward.fn,
                    self._parameters(gradient, names), self._text)
        super().__init__(text, allow_cancellation=gradient.allow_cancellation)
        self.like = tuple(n if n in (*self.inputs, *self.shapes) else names[0] for n in self.wrt)

    @property
    def text(self) -> g.Graph:
        """Of the gradient and the forward text, for constants like these."""
        return self._graph

    def _counted(self, own: Sequence[g.Input], outputs: Sequence[g.Node]) -> tuple[str, ...]:
        """Inputs of which shape and type count: those whose type a result takes, and one with all
        columns where nothing else has them."""
        found = [n for n in self.wrt if n not in self.inputs and not self.outputs]
        elements = [i.name for i in own if i.axis is g.Axis.ELEMENT]
        whole = any(g.extent(n) is g.Extent.ELEMENT for n in (*outputs, *self._made))
        if not whole and not {*elements} & {*self.inputs, *found}:
            found.append(elements[0])
        return tuple(n for n in elements + [i.name for i in own if i.name not in elements]
                     if n in found)

    def _parameters(self, gradient: Gradient, names: Collection[str]) -> list[Parameter]:
        theirs = inspect.signature(gradient.fn).parameters
        kept = [*gradient.cotangents.values(), *self.inputs, *self.shapes]
        own = {n: theirs[n].replace(default=Parameter.empty) for n in kept}
        made = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, annotation=Value) for n in names]
        n = len(self.cotangents)
        return [*[*own.values()][:n], *made, *[*own.values()][n:],
                *varying_parameters(self._graph)]

    def _text(self, *arrays: Value, **constants: Any) -> Any:
        graph, n = self._graph, len(self.cotangents)
        by_name = {i.name: i for i in graph.inputs}
        stands_for: list[g.Node] = [*graph.inputs[:n], *self._made]
        stands_for += [by_name[name] for name in (*self.inputs, *self.shapes)]
        given: dict[g.Node, g.Node] = {
            node: lift(a) for node, a in zip(stands_for, arrays, strict=True)}
        given |= scalars_of(graph, constants)
        moved = [Value(node) for node in transplant(self._wanted, given, graph)]
        return moved[0] if len(moved) == 1 else tuple(moved)

    def recipe(self) -> tuple[Any, ...]:
        raise TypeError(f"{self.name} is of one process")


def _probe(gradient: Gradient) -> Pipeline:
    """The gradient and the forward text in one: equal values are the same nodes."""
    every = [*inspect.signature(gradient.fn).parameters.values()]
    arrays = [p for p in every if p.kind is not Parameter.KEYWORD_ONLY]
    n = len(gradient.cotangents)

    def both(*given: Value | None, **constants: Any) -> Any:
        return (*leaves(gradient(*given, **constants)),
                *leaves(gradient.forward(*given[n:], **constants)))

    own = [p.replace(default=None) for p in arrays[n:]]
    return Pipeline(Text(gradient.name, gradient.__doc__ or "", gradient.forward.fn,
                         [*arrays[:n], *own, *every[len(arrays):]], both))


def _readable(
    wanted: Sequence[g.Node], made: Sequence[g.Node], own: Sequence[g.Input]
) -> tuple[int, ...]:
    """Full rows that spare the gradient every full row of input; none where they do not."""
    rows = {n: i for i, n in enumerate(made)
            if g.extent(n) is g.Extent.ELEMENT and not isinstance(n, g.Input)}
    nodes = {*g.topological(wanted, rows.__contains__)}
    if any(i.axis is g.Axis.ELEMENT and i in nodes for i in own):
        return ()
    reached = {*wanted}.union(*map(g.operands, nodes))
    return tuple(sorted(i for n, i in rows.items() if n in reached))
