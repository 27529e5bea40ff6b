"""Calls of pipelines over vectors whose tensors require gradients: recorded in eager mode.

The forward call keeps what its gradient asks of whole rows, as FlashAttention-2 keeps a
log-sum-exp: a few numbers a row, beside results and inputs, which are there. See
library/vector_stages.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fusegen.backend.arrays.adopt import adopt_all
from fusegen.compile.typed import Traced
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError
from fusegen.ir.nesting import flatten, nest
from fusegen.library.backward import reaching
from fusegen.library.grad import grad
from fusegen.library.grad_lists import Picked, columns_of, has_lists
from fusegen.library.grad_vectors import VectorGradient
from fusegen.library.vector_run import Run
from fusegen.pipeline.by_torch import Rest, is_disguised
from fusegen.pipeline.numbers_only import check_numbers
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.remembered import MISS

_DETACHED = "Call it outside, on tensors that are detached."


class _Recorded(torch.autograd.Function):  # type: ignore[misc]
    """apply(gradient, constants, options, names, *arrays): flat results."""

    @staticmethod
    def forward(
        ctx: Any, gradient: VectorGradient, constants: dict[str, Any], options: Mapping[str, Any],
        names: Sequence[str], *arrays: Any,
    ) -> Any:
        given = {n: a.detach() for n, a in zip(names, arrays, strict=True)}
        run = Run(gradient.remembered, adopt_all(given), constants)
        found = run.forward(options)
        results = [found[n] for n in run.text.forward]
        kept = {n: a for n, a in found.items() if n not in run.text.forward}
        ctx.call = gradient, constants, tuple(names), run.text, tuple(kept)
        ctx.save_for_backward(*arrays, *results, *kept.values())
        whole = [r for r in results if not r.is_floating_point()]
        if whole:
            ctx.mark_non_differentiable(*whole)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        gradient, constants, names, text, kept = ctx.call
        arrays = ctx.saved_tensors
        n, m = len(names), len(names) + len(text.forward)
        given = dict(zip(names, arrays[:n], strict=True))
        given |= {name: cotangents[i] for i, name in gradient.cotangents.items()}
        made = dict(zip((*text.forward, *kept), arrays[n:m] + arrays[m:], strict=True))
        again = torch.is_grad_enabled()  # create_graph
        with torch._C._DisableAutocast(), torch.no_grad():
            adopted = adopt_all({k: a.detach() for k, a in given.items()})
            found = Run(gradient.remembered, adopted, constants, text).gradients(made)
        if again:
            every = _Once.apply(gradient.forward.name, len(found), *found.values(), *arrays[:n],
                                *(c for c in cotangents if c is not None))
            found = dict(zip(found, every, strict=True))
        return None, None, None, None, *(found.get(name) for name in names)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(
            f"{ctx.call[0].forward.name} has no forward-mode derivative: take "
            "torch.autograd.grad, or detach its inputs")


class _Once(torch.autograd.Function):  # type: ignore[misc]
    """apply(name, n, *gradients, *inputs): the n gradients, which remember the inputs that they are
    of, and say so where they are differentiated."""

    @staticmethod
    def forward(ctx: Any, name: str, n: int, *tensors: Any) -> Any:
        ctx.name = name
        return tuple(t.view_as(t) for t in tensors[:n])

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        raise NotImplementedError(
            f"{ctx.name} has no second derivative here: fg.grad's gradient of a text over vectors "
            "has stages, which are not differentiated again")


def call(
    pipeline: Pipeline, arrays: Sequence[Any], named: dict[str, Any], out: Any, rest: Rest
) -> Any:
    """The results, recorded; MISS where there is nothing to record. Raises PipelineError where
    torch traces or transforms, and what fg.grad raises."""
    axis, form, device, deterministic, keepdims = rest
    present, constants = pipeline.bind(tuple(arrays), named)
    tensors = [a for a in present.values() if isinstance(a, torch.Tensor)]
    if any(map(is_disguised, tensors)) or torch._C._len_torch_dispatch_stack() > 0 or \
            torch._C._is_tracing() or torch._C._are_functorch_transforms_active():
        check_numbers(pipeline, "transform or traced call", _DETACHED)
    asked = [n for n, a in present.items() if isinstance(a, torch.Tensor) and a.requires_grad]
    if not asked or not torch.is_grad_enabled():
        return MISS
    if out is not None:
        raise ArgumentError("out= has no gradient", why="A tensor requires one.",
                            fix="Leave out= away, or call under torch.no_grad().")
    traced = pipeline.traces.varied(frozenset(present), constants)
    graph = traced.graph
    key = ("asked", traced.digest, graph.guards)
    known: tuple[bool, frozenset[str]] | None = pipeline.derived.get(key)
    if known is None:
        known = pipeline.derived.put(key, (has_lists(graph), reaching(graph)))
    lists, there = known
    if lists:
        return _with_lists(pipeline, traced, present, constants, rest)
    wanted = tuple(n for n in asked if n in there)
    if not wanted:
        with torch.no_grad():
            return pipeline(*arrays, **named, axis=axis, keepdims=keepdims, form=form,
                            device=device, deterministic=deterministic)
    gradient = grad(pipeline, wanted, **constants)
    assert isinstance(gradient, VectorGradient)
    options = {"axis": axis, "form": form, "device": device, "deterministic": deterministic}
    given = [a if isinstance(a, torch.Tensor) else torch.as_tensor(a, device=tensors[0].device)
             for a in present.values()]
    flat = _Recorded.apply(gradient, constants, options, tuple(present), *given)
    if keepdims:
        flat = [_with_kept_axis(o, node) for o, node in zip(flat, graph.outputs, strict=True)]
    return nest(graph.structure, list(flat))


def _with_lists(
    pipeline: Pipeline, traced: Traced, present: Mapping[str, Any], constants: dict[str, Any],
    rest: Rest,
) -> Any:
    """The columns are those of a call without gradients; what stands there is taken of the vectors
    again, by a text that is given the columns (library/grad_lists.py), and recorded."""
    axis, form, device, deterministic, keepdims = rest
    graph, options = traced.graph, {"form": form, "device": device, "deterministic": deterministic}
    key = ("picked", traced.digest, graph.guards)
    known: tuple[Picked, Pipeline] | None = pipeline.derived.get(key)
    if known is None:
        text = Picked(pipeline, graph)
        known = pipeline.derived.put(key, (text, columns_of(pipeline, text)))
    picked, chosen = known
    varying = {n: constants[n] for n in graph.varying}
    with torch.no_grad():
        made = pipeline(**present, **constants, axis=axis, keepdims=keepdims, **options)
        columns = chosen(*present.values(), **varying, **options)
    every = [c.select(-1, i) for c in columns for i in range(c.shape[-1])]
    found = picked(*present.values(), *every, axis=axis, **varying, **options)
    flat, entries = flatten(graph.structure, made, len(graph.outputs)), iter(found)
    for place, size in zip(picked.positions, picked.sizes, strict=True):
        if size:
            flat[place] = torch.stack([next(entries) for _ in range(size)], -1)
        else:
            one, node = next(entries), graph.outputs[place]
            flat[place] = _with_kept_axis(one, node) if keepdims else one
    return nest(graph.structure, flat)


def _with_kept_axis(result: Any, node: g.Node) -> Any:
    """A row value with the axis of columns, of size 1."""
    if g.extent(node) is not g.Extent.ROW:
        return result
    return result.unsqueeze(-2 if g.is_vector(node) else -1)
