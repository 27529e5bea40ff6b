"""Gradients of calls: pipelines again, of rows that lie on the same ranks.

    y = step(x_shard)        # x_shard requires a gradient: y remembers it
    loss(y).backward()       # on every rank: x_shard.grad is this shard's part

A result is the same on every rank, and so has to be what is made of it: cotangents of row values
are taken as they are on each rank, and are not added up. Each gradient pipeline folds, exchanges
its own states once, and writes this shard's part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from fusegen.distributed.calls import Call
from fusegen.distributed.vector_gradients import Step, VectorPart
from fusegen.ir import graph as g
from fusegen.ir.errors import FusegenError
from fusegen.ir.nesting import flatten, nest
from fusegen.library.calls.backward import moving_outputs, reaching
from fusegen.library.gradient.columns import ColumnGradient
from fusegen.library.gradient.grad import Gradient, gradient_of
from fusegen.library.gradient.vectors.grad import VectorGradient
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.states.roles import Roles


@dataclass(frozen=True, eq=False)
class _Part:
    """One gradient pipeline: of all inputs of elements and rows, or of one input per column."""

    pipeline: Gradient
    wrt: tuple[str, ...]
    exchanges: bool  # does it need anything of whole rows?

    def gradients(
        self, step: Step, cotangents: Sequence[Any], present: Mapping[str, Any],
        constants: Mapping[str, Any], at: int | None, columns: int | None,
    ) -> dict[str, Any]:
        """By input, in its type and shape."""
        given = {name: cotangents[i] for i, name in self.pipeline.cotangents.items()}
        given |= present
        if self.exchanges:
            call = Call(self.pipeline, (), {**given, **constants}, at, columns)
            made, _, _ = step.of(self.pipeline).found(call)
        else:
            made = self.pipeline(**given, **constants)
        every = (made,) if len(self.wrt) == 1 else made
        return {n: _as_given(v, present[n]) for n, v in zip(self.wrt, every, strict=True)}


@dataclass(frozen=True, eq=False)
class Backward:
    """What differentiates calls of a step by the inputs `wanted`."""

    step: Step
    parts: tuple[_Part | VectorPart, ...]
    moving: tuple[bool, ...]  # of every output: does one of these inputs take part in it?
    structure: g.Structure

    def gradients(
        self, cotangents: Sequence[Any], present: Mapping[str, Any],
        constants: Mapping[str, Any], at: int | None, columns: int | None,
    ) -> dict[str, Any]:
        """By input, in its type and shape."""
        found: dict[str, Any] = {}
        for part in self.parts:
            found |= part.gradients(self.step, cotangents, present, constants, at, columns)
        return found


def backward_of(
    step: Step, present: Mapping[str, Any], constants: Mapping[str, Any], asked: Sequence[str]
) -> Backward:
    """Raises TraceError, ArgumentError or PipelineError for what has no gradient over ranks."""
    pipeline = step.pipeline
    graph = pipeline.traces.varied(frozenset(present), dict(constants)).graph
    reached = reaching(graph)
    wanted = tuple(n for n in asked if n in reached)
    moving = moving_outputs(graph, wanted)
    if wanted and pipeline.vectors:
        found = gradient_of(pipeline, wanted, constants)
        assert isinstance(found, VectorGradient)
        return Backward(step, (VectorPart.of(found, graph),), moving, graph.structure)
    columns = [i.name for i in graph.inputs if i.axis is g.Axis.PER_COLUMN and i.name in wanted]
    rowwise = tuple(n for n in wanted if n not in columns)
    groups = [rowwise, *((n,) for n in columns)]
    parts = tuple(_part(pipeline, wrt, present, constants) for wrt in groups if wrt)
    return Backward(step, parts, moving, graph.structure)


def _part(
    pipeline: Pipeline, wrt: tuple[str, ...], present: Mapping[str, Any],
    constants: Mapping[str, Any],
) -> _Part:
    found = gradient_of(pipeline, wrt, constants)
    made = found.contributions if isinstance(found, ColumnGradient) else found
    assert isinstance(made, Gradient)
    inputs = [n for n in present if n in made.signature.optional]
    dtypes, values = made.assumed("float32", inputs, constants)
    graph = made.traced(frozenset(dtypes), values).graph
    exchanges = any(isinstance(n, g.Reduction) for n in graph.nodes)
    if exchanges:
        _ = Roles(made, dtypes, values).layout  # says now what has no states
    return _Part(made, wrt, exchanges)


def _as_given(value: Any, like: Any) -> Any:
    """A gradient in the shape of its input, which may have been broadcast to the rows, or have kept
    the reduced axis."""
    if value.ndim < like.ndim:
        return value.reshape(like.shape)
    if value.shape == like.shape:
        return value
    return value.float().sum_to_size(like.shape).to(like.dtype) if value.itemsize < 4 \
        else value.sum_to_size(like.shape)


def is_recorded(call: Call) -> bool:
    """Does autograd want the gradient of an input?"""
    return torch.is_grad_enabled() and any(map(_asks, (*call.arrays, *call.named.values())))


def _asks(array: Any) -> bool:
    return isinstance(array, torch.Tensor) and bool(array.requires_grad)


def record(step: Step, call: Call) -> Any:
    """The results of a call, which remember it."""
    try:
        present, constants = call.bound
        asked = [n for n, a in present.items() if _asks(a)]
        backward = backward_of(step, present, constants, asked)
    except FusegenError as error:  # for the other ranks to hear
        return step.found(replace(call, error=error))
    flat = _Recorded.apply(backward, call, tuple(present), *present.values())
    return nest(backward.structure, list(flat))


class _Recorded(torch.autograd.Function):  # type: ignore[misc]
    """apply(backward, call, names, *arrays): flat results."""

    @staticmethod
    def forward(
        ctx: Any, backward: Backward, call: Call, names: tuple[str, ...], *arrays: Any
    ) -> Any:
        found, *ctx.place = backward.step.found(call)
        flat = flatten(backward.structure, found, len(backward.moving))
        ctx.call = backward, call.bound[1], names
        ctx.save_for_backward(*arrays)
        ctx.mark_non_differentiable(*(f for f, moves in zip(flat, backward.moving, strict=True)
                                      if not moves or not f.is_floating_point()))
        return tuple(flat)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *cotangents: Any) -> Any:
        backward, constants, names = ctx.call
        present = dict(zip(names, ctx.saved_tensors, strict=True))
        packed = [c.contiguous() for c in cotangents]
        found = backward.gradients(packed, present, constants, *ctx.place)
        return None, None, None, *(found.get(n) for n in names)
