"""Calls recorded for gradients in eager mode: torch's autograd, without its dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch.autograd_function import enable_single_level_autograd_function

from fusegen.ir.nesting import flatten, nest
from fusegen.library.backward import Call
from fusegen.library.left import Task
from fusegen.torch.tape import Tape

Traced = Callable[[Task], dict[str, Any]]


class _Recording:
    """A call whose results remember it: apply(call, run, traced, *arrays), flat results."""

    @staticmethod
    def forward(
        ctx: Any, call: Call, run: Callable[..., Any], traced: Traced | None, *arrays: Any
    ) -> Any:
        tape = ctx.tape = Tape(call, ctx.needs_input_grad[3:], traced)
        found = run(*arrays)
        outputs = [found] if isinstance(found, torch.Tensor) else list(found)
        ctx.save_for_backward(*tape.save(arrays, outputs))
        ctx.mark_non_differentiable(*(o for o in outputs if not o.is_floating_point()))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return None, None, None, *ctx.tape.gradients(ctx.saved_tensors, cotangents)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(
            f"{ctx.tape.call.pipeline.name} has no forward-mode derivative: take torch.func.vjp, "
            "grad or jacrev, or detach its inputs")


class Recorded(_Recording, torch.autograd.Function):  # type: ignore[misc]
    """In eager mode, and in the backend of an operator."""


_OneLevel: Any = torch.autograd.function._SingleLevelFunction


class RecordedAtOneLevel(_Recording, _OneLevel):  # type: ignore[misc]
    """Inside an operator that torch.func calls once for each of its transforms."""


def is_recorded(arrays: Sequence[Any]) -> bool:
    """Does autograd have to know of a call with these tensors?"""
    tensors = [a for a in arrays if isinstance(a, torch.Tensor)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return True
    forward = torch.autograd.forward_ad
    return forward._current_level >= 0 and any(
        forward.unpack_dual(t).tangent is not None for t in tensors)


def recorded(
    call: Call, run: Callable[..., Any], arrays: Sequence[Any], traced: Traced | None = None
) -> tuple[Any, ...]:
    """Flat results of `run`, recorded; at one level of torch.func's transforms, if there are."""
    if not torch._C._are_functorch_transforms_active():
        found: tuple[Any, ...] = Recorded.apply(call, run, traced, *arrays)
        return found
    with enable_single_level_autograd_function():
        found = RecordedAtOneLevel.apply(call, run, traced, *arrays)
        return found


def record(call: Call, arrays: Sequence[Any]) -> Any:
    """Run a call in eager mode whose tensors require gradients."""
    graph = call.traced(arrays)

    def run(*arrays: Any) -> Any:
        return tuple(flatten(graph.structure, call.run(arrays), len(graph.outputs)))

    return nest(graph.structure, list(recorded(call, run, arrays)))
