"""What calls of tensors leave for their gradients: found for the first call of a kind.

What is saved is in torch's care; here are the shapes of the rest. Gradients are found in eager
mode, where the pipelines that they call are recorded again, and by operators,
`fusegen::…_backward`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from fusegen.ir.nesting import flatten
from fusegen.library.calls.backward import Call
from fusegen.library.calls.left import Left, Task, left_by
from fusegen.library.calls.vector_left import VectorLeft
from fusegen.torch import shapes


class Within(Protocol):
    """An operator in the dispatcher's hands: what makes a call of it, below autograd."""

    def run(self, *arrays: Any) -> Sequence[Any]:
        """Flat results."""

    def below(self) -> AbstractContextManager[None]:
        """Where pipelines are called as `run` is."""

    def with_more(self, present: Mapping[str, Any], wanted: Sequence[str]) -> Sequence[Any]:
        """Flat results, and what gradients by `wanted` need beside them, in a graph."""

    def gradients(self, task: Task) -> dict[str, Any]:
        """The task in a graph."""


class Tape:
    """Of one kind of calls: these inputs, of which those are `needed`, and constants like these.

    again: are there to be more of them?"""

    def __init__(
        self, call: Call, arrays: Sequence[Any], needed: Sequence[bool], again: bool = False
    ) -> None:
        self.call, self.names = call, call.pipeline.signature.arrays
        self.asked = tuple(n for n, asked in zip(self.names, needed, strict=True) if asked)
        self._like = {n: (a.shape, a.dtype, a.device)
                      for n, a in zip(self.names, arrays, strict=True) if a is not None}
        self.graph = call.of(self._like).graph
        self._options = {"axis": call.axis, "keepdims": call.keepdims, "form": call.form,
                         "deterministic": call.deterministic, "precision": call.precision}
        self._left: tuple[Left | VectorLeft | None] | None = None
        self._again, self._shown = again, dict[str, Any]()

    def constants(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """All of a call of this kind that names some of them."""
        return {**self.call.constants, **{n: v for n, v in named.items() if type(v) is float}}

    def forward(
        self, constants: Mapping[str, Any], arrays: Sequence[Any], within: Within | None
    ) -> tuple[Sequence[Any], list[Any], Sequence[Any]]:
        """The call's flat results, the tensors to save, and the results that have no derivative.
        Raises what fg.grad raises."""
        present = {n: a for n, a in zip(self.names, arrays, strict=True) if a is not None}
        left = self._of(present, ()) if self.call.pipeline.vectors else None
        extra: Sequence[Any] = ()
        if isinstance(left, VectorLeft) and left.joint:
            outputs, extra = self._with_more(left, constants, present, within)
        else:
            outputs = self._run(constants, arrays) if within is None else within.run(*arrays)
            left = self._of(present, outputs)
        if left is None:
            return outputs, [], outputs
        flat = [o for o, moves in zip(outputs, left.moving, strict=True)
                if not moves or not o.is_floating_point()]
        return outputs, [*left.saved(constants, present, outputs), *extra], flat

    def _with_more(
        self, left: VectorLeft, constants: Mapping[str, Any], present: Mapping[str, Any],
        within: Within | None,
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Flat results, and what is saved beside them."""
        if within is None:
            return left.made(constants, present)
        if not _is_traced([*present.values()]):
            with within.below():
                return left.made(constants, present)
        found = within.with_more(present, left.wanted)
        n = len(self.graph.outputs)
        return found[:n], found[n:]

    def _run(self, constants: Mapping[str, Any], arrays: Sequence[Any]) -> Sequence[Any]:
        found = self.call.pipeline(*arrays, **self._options, **constants)
        structure = self.graph.structure
        return (found,) if structure == 0 else flatten(structure, found, len(self.graph.outputs))

    def _of(
        self, present: Mapping[str, Any], outputs: Sequence[Any]
    ) -> Left | VectorLeft | None:
        if self._left is None:
            same = all(o.dtype == present[n].dtype for n in self.asked for o in outputs)
            self._left = (left_by(self.call, present, self.asked, outputs=same,
                                  framework=shapes),)
            if self._again:
                self._shown = self._shapes_of(self._left[0])
        return self._left[0]

    def _shapes_of(self, left: Left | VectorLeft | None) -> dict[str, Any]:
        """What stands for inputs that are not saved: tensors of one element of memory."""
        kept = () if left is None else left.kept
        return {n: torch.zeros((), dtype=dtype, device=device).expand(shape)
                for n, (shape, dtype, device) in self._like.items() if n not in kept}

    def gradients(
        self, constants: Mapping[str, Any], saved: Sequence[Any], cotangents: Sequence[Any],
        within: Within | None,
    ) -> list[Any]:
        """One for each array of the signature, None where there is none."""
        assert self._left is not None
        (left,) = self._left
        if left is None:
            return [None] * len(self.names)
        inputs: dict[str, Any] = {**(self._shown if self._again else self._shapes_of(left))}
        outputs: dict[int, Any] = {}
        for k, one in zip(left.kept, saved, strict=False):
            if isinstance(k, int):
                outputs[k] = one
            else:
                inputs[k] = one
        columns = saved[len(left.kept) :]
        if isinstance(left, VectorLeft) and left.joint and _is_differentiated():
            columns = ()  # they are no results, which would remember what they are made of
        if within is not None and _is_traced((*saved, *cotangents)):
            call = Call(self.call.pipeline, constants, **self._options)
            arrays = {n: inputs[n] for n in self.names if n in inputs}
            kept = frozenset(n for n in left.kept if n in inputs)
            found = within.gradients(Task(call, left.wanted, kept, arrays, outputs, columns,
                                          cotangents))
        else:
            found = left.gradients(constants, inputs, outputs, columns, cotangents)
        return [found.get(name) for name in self.names]


def _is_differentiated() -> bool:
    """Is a gradient found in eager mode that may have one itself?"""
    return torch.is_grad_enabled() and not torch._C._are_functorch_transforms_active()


def _is_traced(tensors: Sequence[Any]) -> bool:
    """Does torch trace, other than for derivatives of this gradient?"""
    if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
        return False
    return torch._C._len_torch_dispatch_stack() > 0 or any(
        type(t).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        for t in tensors if isinstance(t, torch.Tensor))
