"""Gradients as operators, for graphs: `fusegen::softmax_backward`, one beside each operator.

A graph that torch.compile made is kept on disk and used by processes that trace nothing, so all
that stands in it has a name that every process knows: its operators are registered together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch.autograd.forward_ad import _set_fwd_grad_enabled

from fusegen.library.calls.backward import Call
from fusegen.library.calls.left import Task, left_of
from fusegen.library.calls.vector_left import VectorLeft
from fusegen.pipeline.by_torch import KERNEL
from fusegen.pipeline.pipeline import Pipeline
from fusegen.torch import shapes
from fusegen.torch.overloads import NAMESPACE, Kind, backward_schema, with_more_schema


class Forward(Protocol):
    """The operator whose gradient it is."""

    pipeline: Pipeline
    kind: Kind
    name: str
    packet: Any

    def call(self, named: Mapping[str, Any]) -> Call: ...

    def named(self, call: Call) -> dict[str, Any]: ...


@contextmanager
def computing() -> Iterator[None]:
    """In a kernel: pipelines compute, and torch, which has seen the call, is not asked again."""
    token = KERNEL.set(True)
    try:
        with torch.no_grad():
            yield
    finally:
        KERNEL.reset(token)


def register_backward(library: Any, forward: Forward) -> None:
    """Add the operator to torch's registry."""
    names, name = forward.pipeline.signature.arrays, f"{forward.name}_backward"

    def kernel(
        cotangents: Any, arrays: Any, outputs: Any, columns: Any, wanted: Any, kept: Any,
        positions: Any, **named: Any,
    ) -> Any:
        present = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
        task = Task(forward.call(named), tuple(wanted), frozenset(kept), present,
                    dict(zip(positions, outputs, strict=True)), columns, cotangents)
        with computing():
            found = task.found(shapes)
        return [found[n].contiguous() for n in wanted]

    def fake(
        cotangents: Any, arrays: Any, outputs: Any, columns: Any, wanted: Any, *_: Any,
        **named: Any,
    ) -> Any:
        present = dict(zip(names, arrays, strict=True))
        return [present[n].new_empty(present[n].shape) for n in wanted]

    library.define(f"{name}{backward_schema(forward.pipeline, forward.kind)}",
                   tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)


def register_with_more(library: Any, forward: Forward) -> None:
    """Add to torch's registry what makes a call over vectors and leaves what its gradient needs:
    `fusegen::attention_with_more`."""
    names, name = forward.pipeline.signature.arrays, f"{forward.name}_with_more"

    def left(call: Call, present: Mapping[str, Any], wanted: Any) -> VectorLeft:
        found = left_of(call, present, tuple(wanted), outputs=True, framework=shapes)
        assert isinstance(found, VectorLeft)
        return found

    def kernel(arrays: Any, wanted: Any, **named: Any) -> Any:
        present = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
        call = forward.call(named)
        with computing():
            outputs, extra = left(call, present, wanted).made(call.constants, present)
        return [o.contiguous() for o in (*outputs, *extra)]

    def fake(arrays: Any, wanted: Any, **named: Any) -> Any:
        present = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
        call = forward.call(named)
        made = left(call, present, wanted).making(call.constants)
        return shapes.results(made, present)

    library.define(f"{name}{with_more_schema(forward.pipeline, forward.kind)}",
                   tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)


class Dispatched:
    """A call of an operator in the dispatcher's hands: see `tape.Within`.

    An autograd function turns derivatives off inside of it, which would be off for the transforms
    further out too: they are what they were when this was made."""

    def __init__(self, forward: Forward, keys: Any, named: Mapping[str, Any]) -> None:
        self._forward, self._named = forward, named
        self._keys = keys & torch._C._after_autograd_keyset
        self._grad, self._forward_mode = torch.is_grad_enabled(), torch._C._is_fwd_grad_enabled()

    def run(self, *arrays: Any) -> Sequence[Any]:
        with self.below():
            found = self._forward.packet.redispatch(self._keys, *arrays, **self._named)
        return (found,) if isinstance(found, torch.Tensor) else tuple(found)

    @contextmanager
    def below(self) -> Iterator[None]:
        with torch._C._AutoDispatchBelowAutograd():
            if not torch._C._are_functorch_transforms_active():
                yield
                return
            with torch.set_grad_enabled(self._grad), _set_fwd_grad_enabled(self._forward_mode):
                yield

    def with_more(self, present: Mapping[str, Any], wanted: Sequence[str]) -> Sequence[Any]:
        arrays = [present.get(n) for n in self._forward.pipeline.signature.arrays]
        with self.below():
            found: Sequence[Any] = _packet(self._forward, "with_more")(
                arrays, list(wanted), **self._named)
        return found

    def gradients(self, task: Task) -> dict[str, Any]:
        """The task as one operator of the graph that torch makes."""
        forward = self._forward
        arrays = [task.arrays.get(n) for n in forward.pipeline.signature.arrays]
        positions: Sequence[int] = tuple(task.outputs)
        found = _packet(forward, "backward")(
            list(task.cotangents), arrays, [task.outputs[i] for i in positions],
            list(task.columns), list(task.wanted), sorted(task.kept), list(positions),
            **forward.named(task.call))
        return dict(zip(task.wanted, found, strict=True))


def _packet(forward: Forward, what: str) -> Any:
    return getattr(getattr(torch.ops, NAMESPACE), f"{forward.name}_{what}").default
