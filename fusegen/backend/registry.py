"""The places where kernels run: all that answers to a name of a device or a target."""

from __future__ import annotations

from typing import Any

from fusegen.backend.backend import Backend, Target
from fusegen.backend.cpu.backend import CPU
from fusegen.backend.cuda.backend import CUDA
from fusegen.backend.memory import Memory
from fusegen.backend.numpy import NUMPY
from fusegen.ir.errors import ArgumentError, BackendError

BACKENDS: tuple[Backend, ...] = (CUDA, CPU, NUMPY)
"""Of those on one memory, the first serves arrays there; what lies nowhere else is for the last."""

HERE = "cpu"  # the target that is meant where neither one is named nor an array is given
SHOWN = "sm_90"  # the target whose source is shown unless another is named


def backend_of(target: Target) -> Backend:
    """Whose target it is."""
    return next(b for b in BACKENDS if b.name == target.backend)


def memories() -> tuple[Memory, ...]:
    """Each once, as their backends stand."""
    return tuple({b.memory.name: b.memory for b in BACKENDS}.values())


def backend_at(memory: Memory) -> Backend:
    """What serves arrays there unless a target says otherwise."""
    return next(b for b in BACKENDS if b.memory.name == memory.name)


def best_memory() -> Memory:
    """Where arrays are best made on this machine: the first whose backend can run."""
    for backend in BACKENDS:
        try:
            backend.here()
        except BackendError:
            continue
        return backend.memory
    return BACKENDS[-1].memory


def memory_named(name: str) -> Memory:
    """The one that `device=` calls so. Raises ArgumentError."""
    known = {m.name: m for m in memories()}
    if name not in known:
        raise ArgumentError(f"unknown device {name!r}",
                            why=f"Devices: {', '.join(['auto', *sorted(known)])}.")
    return known[name]


def memory_of(given: Any) -> Memory:
    """Where the object lies: the last one's where no other knows it."""
    *others, last = memories()
    return next((m for m in others if m.takes(given)), last)


def target_named(name: object) -> Target:
    """A Target from its name: "cpu", a CPU level, "sm_90", "numpy". Raises ArgumentError."""
    known = ", ".join(n for b in BACKENDS for n in b.targets)
    if not isinstance(name, str):
        raise ArgumentError(f"target is {name!r:.60}", fix="Name one as a string.",
                            why=f"Known targets: {known}.")
    for backend in BACKENDS:
        found = backend.target(name)
        if found is not None:
            return found
    raise ArgumentError(f"unknown target {name!r}", why=f"Known targets: {known}.")
