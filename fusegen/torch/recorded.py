"""Calls recorded for gradients in eager mode: torch's autograd, without its dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._functorch.autograd_function import enable_single_level_autograd_function

from fusegen.ir.nesting import nest
from fusegen.library.backward import Call
from fusegen.torch.tape import Tape, Traced


class _Recording:
    """A call whose results remember it: apply(tape, constants, run, traced, *arrays), flat
    results. tape: or the call, for one of its own. run: what computes them, None for the pipeline
    itself."""

    @staticmethod
    def forward(
        ctx: Any, tape: Tape | Call, constants: Mapping[str, Any],
        run: Callable[..., Any] | None, traced: Traced | None, *arrays: Any,
    ) -> Any:
        if isinstance(tape, Call):
            tape = Tape(tape, arrays, ctx.needs_input_grad[4:])
        ctx.call = tape, constants, traced
        found = tape.run(constants, arrays) if run is None else run(*arrays)
        outputs = (found,) if isinstance(found, torch.Tensor) else tuple(found)
        saved, flat = tape.save(constants, arrays, outputs)
        ctx.save_for_backward(*saved)
        if flat:
            ctx.mark_non_differentiable(*flat)
        return outputs

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        tape, constants, traced = ctx.call
        with torch._C._DisableAutocast():  # types are those of the call
            found = tape.gradients(constants, ctx.saved_tensors, cotangents, traced)
        return None, None, None, None, *found

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(
            f"{ctx.call[0].call.pipeline.name} has no forward-mode derivative: take "
            "torch.func.vjp, grad or jacrev, or detach its inputs")


class Recorded(_Recording, torch.autograd.Function):  # type: ignore[misc]
    """In the backend of an operator."""


_OneLevel: Any = torch.autograd.function._SingleLevelFunction


class RecordedAtOneLevel(_Recording, _OneLevel):  # type: ignore[misc]
    """In eager mode, and inside an operator that torch.func calls once for each of its
    transforms."""


def is_recorded(arrays: Sequence[Any]) -> bool:
    """Does autograd have to know of a call with these tensors?"""
    tensors = [a for a in arrays if isinstance(a, torch.Tensor)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return True
    forward = torch.autograd.forward_ad
    return forward._current_level >= 0 and any(
        forward.unpack_dual(t).tangent is not None for t in tensors)


def recorded(
    call: Call, run: Callable[..., Any], arrays: Sequence[Any], traced: Traced
) -> tuple[Any, ...]:
    """Flat results of `run`, recorded; at one level of torch.func's transforms, if there are."""
    if not torch._C._are_functorch_transforms_active():
        found: tuple[Any, ...] = Recorded.apply(call, call.constants, run, traced, *arrays)
        return found
    with enable_single_level_autograd_function():
        found = RecordedAtOneLevel.apply(call, call.constants, run, traced, *arrays)
        return found


def record(tape: Tape, constants: Mapping[str, Any], arrays: Sequence[Any]) -> Any:
    """Run a call in eager mode whose tensors require gradients, nested as the pipeline nests."""
    found = RecordedAtOneLevel.apply(tape, constants, None, None, *arrays)
    structure = tape.graph.structure
    return found[0] if structure == 0 else nest(structure, list(found))
