"""What calls of tensors leave for their gradients: found for the first call of a kind.

What is saved is in torch's care; here are the shapes of the rest. Gradients are found in eager
mode, where the pipelines that they call are recorded again, and by operators,
`fusegen::…_backward`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fusegen.ir.nesting import flatten
from fusegen.library.backward import Call
from fusegen.library.left import Left, Task, left_by
from fusegen.torch import shapes

Traced = Callable[[Task], dict[str, Any]]


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
                         "deterministic": call.deterministic}
        self._left: tuple[Left | None] | None = None
        self._again, self._shown = again, dict[str, Any]()

    def constants(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """All of a call of this kind that names some of them."""
        return {**self.call.constants, **{n: v for n, v in named.items() if type(v) is float}}

    def run(self, constants: Mapping[str, Any], arrays: Sequence[Any]) -> Sequence[Any]:
        """The call's flat results."""
        found = self.call.pipeline(*arrays, **self._options, **constants)
        structure = self.graph.structure
        return (found,) if structure == 0 else flatten(structure, found, len(self.graph.outputs))

    def save(
        self, constants: Mapping[str, Any], arrays: Sequence[Any], outputs: Sequence[Any]
    ) -> tuple[list[Any], Sequence[Any]]:
        """The tensors to save, and the outputs that have no derivative. Raises what fg.grad raises.
        """
        left = self._of(arrays, outputs)
        if left is None:
            return [], outputs
        flat = [o for o, moves in zip(outputs, left.moving, strict=True)
                if not moves or not o.is_floating_point()]
        return left.saved(constants, dict(zip(self.names, arrays, strict=True)), outputs), flat

    def _of(self, arrays: Sequence[Any], outputs: Sequence[Any]) -> Left | None:
        if self._left is None:
            present = {n: a for n, a in zip(self.names, arrays, strict=True) if a is not None}
            same = all(o.dtype == present[n].dtype for n in self.asked for o in outputs)
            self._left = (left_by(self.call, present, self.asked, outputs=same,
                                  framework=shapes),)
            if self._again:
                self._shown = self._shapes_of(self._left[0])
        return self._left[0]

    def _shapes_of(self, left: Left | None) -> dict[str, Any]:
        """What stands for inputs that are not saved: tensors of one element of memory."""
        kept = () if left is None else left.kept
        return {n: torch.zeros((), dtype=dtype, device=device).expand(shape)
                for n, (shape, dtype, device) in self._like.items() if n not in kept}

    def gradients(
        self, constants: Mapping[str, Any], saved: Sequence[Any], cotangents: Sequence[Any],
        traced: Traced | None,
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
        if traced is not None and _is_traced((*saved, *cotangents)):
            call = Call(self.call.pipeline, constants, **self._options)
            arrays = {n: inputs[n] for n in self.names if n in inputs}
            found = traced(Task(call, left.wanted, frozenset(n for n in left.kept if n in inputs),
                                arrays, outputs, columns, cotangents))
        else:
            found = left.gradients(constants, inputs, outputs, columns, cotangents)
        return [found.get(name) for name in self.names]


def _is_traced(tensors: Sequence[Any]) -> bool:
    """Does torch trace, other than for derivatives of this gradient?"""
    if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
        return False
    return torch._C._len_torch_dispatch_stack() > 0 or any(
        type(t).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        for t in tensors if isinstance(t, torch.Tensor))
