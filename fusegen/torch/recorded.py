"""Calls recorded for gradients in eager mode: torch's autograd, without its dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._functorch.autograd_function import enable_single_level_autograd_function

from fusegen.ir.nesting import nest
from fusegen.library.calls.backward import Call
from fusegen.torch.tape import Tape, Within


class _Recording:
    """A call whose results remember it: apply(tape, constants, within, *arrays), flat results.
    tape: or the call, for one of its own. within: what makes it, None for the pipeline itself."""

    @staticmethod
    def forward(
        ctx: Any, tape: Tape | Call, constants: Mapping[str, Any], within: Within | None,
        *arrays: Any,
    ) -> Any:
        if isinstance(tape, Call):
            tape = Tape(tape, arrays, ctx.needs_input_grad[3:])
        ctx.call = tape, constants, within
        outputs, saved, flat = tape.forward(constants, arrays, within)
        ctx.save_for_backward(*saved)
        if flat:
            ctx.mark_non_differentiable(*flat)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        tape, constants, within = ctx.call

        def found(*cotangents: Any) -> Any:
            return tape.gradients(constants, ctx.saved_tensors, cotangents, within)

        with torch._C._DisableAutocast():  # types are those of the call
            batch = any(map(_is_batched, cotangents))
            every = _of_batch(found, cotangents) if batch else found(*cotangents)
        return None, None, None, *every

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


def recorded(call: Call, within: Within, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Flat results, recorded; at one level of torch.func's transforms, if there are."""
    if not torch._C._are_functorch_transforms_active():
        found: tuple[Any, ...] = Recorded.apply(call, call.constants, within, *arrays)
        return found
    with enable_single_level_autograd_function():
        found = RecordedAtOneLevel.apply(call, call.constants, within, *arrays)
        return found


def record(tape: Tape, constants: Mapping[str, Any], arrays: Sequence[Any]) -> Any:
    """Run a call in eager mode whose tensors require gradients, nested as the pipeline nests."""
    found = RecordedAtOneLevel.apply(tape, constants, None, *arrays)
    structure = tape.graph.structure
    return found[0] if structure == 0 else nest(structure, list(found))


# ---- torch.autograd's own batches of cotangents: is_grads_batched, vectorize=True ----


def _is_batched(cotangent: Any) -> bool:
    return cotangent is not None and bool(
        torch._C._functorch.is_legacy_batchedtensor(cotangent))


def _of_batch(
    gradients: Callable[..., Sequence[Any]], cotangents: Sequence[Any]
) -> Sequence[Any]:
    """The gradients of every cotangent of a batch, by torch.func.vmap; a batch again."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    dims = tuple(0 if _is_batched(c) else None for c in cotangents)
    given = [c if d is None else torch._remove_batch_dim(c, level, 1, d)
             for c, d in zip(cotangents, dims, strict=True)]
    if any(map(_is_batched, given)):
        raise NotImplementedError(
            "a gradient of batches of cotangents within batches (is_grads_batched, "
            "vectorize=True): take torch.func.vmap of torch.func.vjp, or vectorize=False")
    there: list[bool] = []

    def found(*cotangents: Any) -> tuple[Any, ...]:
        every = gradients(*cotangents)
        there[:] = [one is not None for one in every]
        return tuple(one for one in every if one is not None)

    batches = iter(torch.func.vmap(found, dims)(*given))
    return [torch._add_batch_dim(next(batches), 0, level) if here else None for here in there]
