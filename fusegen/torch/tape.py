"""What one call leaves for its gradient, and the gradient from that.

What is saved is in torch's care; here are the shapes of the rest. The same work is done in eager
mode, where the pipelines that it calls are recorded again, and by operators, `fusegen::…_backward`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fusegen.library.backward import Call, backward_of, gradients, moving_inputs
from fusegen.library.lists import Lists, lists_of
from fusegen.torch import shapes


@dataclass(frozen=True, eq=False)
class Task:
    """A gradient to be found: by these inputs, from what a call left."""

    call: Call
    wanted: tuple[str, ...]
    kept: frozenset[str]  # the inputs whose values are there
    arrays: Mapping[str, Any]  # all inputs; of those that are not kept, shape and type
    outputs: Mapping[int, Any]  # results that are kept
    columns: Sequence[Any]  # of the call's top-Ks
    cotangents: Sequence[Any]

    def found(self) -> dict[str, Any]:
        """Gradients by input. Raises RuntimeError where a text, that has changed since the call,
        needs what was not kept."""
        call, arrays, cotangents = self.call, dict(self.arrays), self.cotangents
        lists = lists_of(call, arrays, shapes)
        if lists is not None:
            cotangents = lists.cotangents(cotangents, arrays)
            arrays |= lists.named(self.columns, arrays)
            call = lists.call
        backward = backward_of(call, frozenset(arrays), self.wanted, outputs=bool(self.outputs))
        if not (backward.inputs & {*self.arrays} <= self.kept
                and backward.outputs <= {*self.outputs}):
            raise RuntimeError(f"the text of {self.call.pipeline.name} has changed between a call "
                               "and its gradient")
        return gradients(call, backward, arrays, self.outputs, cotangents, shapes)


class Tape:
    """One call's; `traced` finds the gradients where torch traces."""

    def __init__(
        self, call: Call, needed: Sequence[bool], traced: Callable[[Task], dict[str, Any]] | None
    ) -> None:
        self.call, self.names, self.traced = call, call.pipeline.signature.arrays, traced
        self.asked = tuple(n for n, asked in zip(self.names, needed, strict=True) if asked)
        self.wanted: tuple[str, ...] = ()  # those of them that have a gradient
        self.like: dict[str, tuple[Any, ...]] = {}  # shape, type, device of what is not saved
        self.kept: tuple[str | int, ...] = ()  # inputs and positions of outputs, as saved; behind
        # them are the columns of lists

    def save(self, arrays: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """The tensors to save. Raises what fg.grad raises."""
        present = {n: a for n, a in zip(self.names, arrays, strict=True) if a is not None}
        if not moving_inputs(self.call, frozenset(present)) & {*self.asked}:
            return []
        call, given, columns = self.call, present, []
        lists: Lists | None = lists_of(call, present, shapes)
        if lists is not None:
            columns = lists.columns(present, outputs)
            call, given = lists.call, {**present, **lists.named(columns, present)}
        same = lists is None and all(
            o.dtype == present[n].dtype for n in self.asked for o in outputs)
        backward = backward_of(call, frozenset(given), self.asked, outputs=same)
        self.wanted = backward.wanted
        self.kept = (*(n for n in present if n in backward.inputs), *sorted(backward.outputs))
        self.like = {n: (a.shape, a.dtype, a.device) for n, a in present.items()
                     if n not in backward.inputs}
        kept = [outputs[k] if isinstance(k, int) else present[k] for k in self.kept]
        return kept + columns

    def gradients(self, saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """One for each array of the signature, None where there is none."""
        if not self.wanted:
            return [None] * len(self.names)
        n = len(self.kept)
        kept = dict(zip(self.kept, saved[:n], strict=True))
        arrays = {name: kept[name] if name in kept else _like(*self.like[name])
                  for name in self.names if name in kept or name in self.like}
        task = Task(self.call, self.wanted, frozenset(k for k in kept if isinstance(k, str)),
                    arrays, {k: v for k, v in kept.items() if isinstance(k, int)}, saved[n:],
                    cotangents)
        traced = self.traced if _is_traced((*saved, *cotangents)) else None
        found = task.found() if traced is None else traced(task)
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
