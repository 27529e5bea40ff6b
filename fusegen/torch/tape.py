"""What one call of tensors leaves for its gradient.

What is saved is in torch's care; here are the shapes of the rest. The gradient is found in eager
mode, where the pipelines that it calls are recorded again, and by operators, `fusegen::…_backward`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fusegen.library.backward import Call
from fusegen.library.left import Task, left_by
from fusegen.torch import shapes


class Tape:
    """One call's; `traced` finds the gradients where torch traces."""

    def __init__(
        self, call: Call, needed: Sequence[bool], traced: Callable[[Task], dict[str, Any]] | None
    ) -> None:
        self.call, self.names, self.traced = call, call.pipeline.signature.arrays, traced
        self.asked = tuple(n for n, asked in zip(self.names, needed, strict=True) if asked)
        self.wanted: tuple[str, ...] = ()  # those of them that have a gradient
        self.kept: tuple[str | int, ...] = ()  # see `Left`
        self.like: dict[str, tuple[Any, ...]] = {}  # shape, type, device of what is not saved

    def save(self, arrays: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """The tensors to save. Raises what fg.grad raises."""
        present = {n: a for n, a in zip(self.names, arrays, strict=True) if a is not None}
        left = left_by(self.call, present, outputs, self.asked, shapes)
        if left is None:
            return []
        self.wanted, self.kept = left.wanted, left.kept
        self.like = {n: (a.shape, a.dtype, a.device) for n, a in present.items()
                     if n not in left.kept}
        return left.saved

    def gradients(self, saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """One for each array of the signature, None where there is none."""
        if not self.wanted:
            return [None] * len(self.names)
        inputs = dict(zip(self.kept, saved, strict=False))
        like = {n: inputs[n] if n in inputs else _like(*self.like[n])
                for n in self.names if n in inputs or n in self.like}
        task = Task.of(self.call, self.wanted, self.kept, saved, like, cotangents)
        traced = self.traced if _is_traced((*saved, *cotangents)) else None
        found = task.found(shapes) if traced is None else traced(task)
        return [found.get(name) for name in self.names]


def _is_traced(tensors: Sequence[Any]) -> bool:
    """Does torch trace, other than for derivatives of this gradient?"""
    if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
        return False
    return torch._C._len_torch_dispatch_stack() > 0 or any(
        type(t).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        for t in tensors if isinstance(t, torch.Tensor))


def _like(shape: Any, dtype: Any, device: Any) -> Any:
    """A tensor that is not there, in one element of memory."""
    return torch.zeros((), dtype=dtype, device=device).expand(shape)
