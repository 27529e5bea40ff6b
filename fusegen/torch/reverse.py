"""Gradients as operators, for graphs: `fusegen::softmax_backward`, one beside each operator.

A graph that torch.compile made is kept on disk and used by processes that trace nothing, so all
that stands in it has a name that every process knows: its operators are registered together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from fusegen.library.backward import Call
from fusegen.library.left import Task
from fusegen.pipeline.by_torch import KERNEL
from fusegen.pipeline.pipeline import Pipeline
from fusegen.torch import shapes
from fusegen.torch.overloads import NAMESPACE, Kind, backward_schema


class Forward(Protocol):
    """The operator whose gradient it is."""

    pipeline: Pipeline
    kind: Kind
    name: str

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


def traced_backward(forward: Forward, task: Task) -> dict[str, Any]:
    """The task as one operator of the graph that torch makes."""
    packet = getattr(getattr(torch.ops, NAMESPACE), f"{forward.name}_backward").default
    arrays = [task.arrays.get(n) for n in forward.pipeline.signature.arrays]
    positions: Sequence[int] = tuple(task.outputs)
    found = packet(list(task.cotangents), arrays, [task.outputs[i] for i in positions],
                   list(task.columns), list(task.wanted), sorted(task.kept), list(positions),
                   **forward.named(task.call))
    return dict(zip(task.wanted, found, strict=True))
