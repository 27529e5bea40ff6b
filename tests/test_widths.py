"""A state's components may be vectors one day: until a backend holds them, it says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import cpu_cases, own_cases
from support.cuda_cases import library_case

from fusegen.backend.cuda.emit import cuda_source
from fusegen.backend.cuda.schedule.state_bytes import state_bytes
from fusegen.ir.errors import BackendError, InternalError
from fusegen.ir.kernel import Program
from fusegen.ir.monoid import Component
from fusegen.ir.verify import verify_program

GROUPS = {"folded": "logsumexp", "moving": "logsumexp", "best": "argmax", "lists": "topk"}


def lowered(group: str) -> tuple[Program, object]:
    if group == "own":
        work = own_cases.scan.work(target="sm_90", n_cols=1000)
    else:
        work = library_case(GROUPS[group], 3, 1000).work()
    return work.result("lower"), work.schedule


def widened(program: Program, group: str, width: int) -> Program:
    """The program with vectors in one group of components."""

    def wide(components: tuple[Component, ...]) -> tuple[Component, ...]:
        return tuple(replace(c, width=width) for c in components)

    kernels = []
    for kernel in program.kernels:
        sweeps = [
            replace(s, monoid=replace(s.monoid, **{group: wide(getattr(s.monoid, group))}))
            for s in kernel.sweeps
        ]
        kernels.append(replace(kernel, sweeps=tuple(sweeps)))
    return replace(program, kernels=tuple(kernels))


@pytest.mark.parametrize("group", [*GROUPS, "own"])
def test_vectors_are_refused_by_name(group: str) -> None:
    program, schedule = lowered(group)
    wide = widened(program, group, 128)
    assert wide != program
    (name, *_) = [c.name for s in wide.sweeps for c in getattr(s.monoid, group)]
    verify_program(wide)  # the IR knows vectors
    with pytest.raises(BackendError, match=f"{name} is a vector of 128 .* CUDA"):
        cuda_source(wide, schedule)  # type: ignore[arg-type]
    with pytest.raises(BackendError, match=f"{name} is a vector of 128 .* CPU"):
        cpu_cases.source(wide)


@pytest.mark.parametrize("group", [*GROUPS, "own"])
def test_a_component_holds_something(group: str) -> None:
    program, _ = lowered(group)
    with pytest.raises(InternalError, match="hold nothing"):
        verify_program(widened(program, group, 0))


@pytest.mark.parametrize("group", ["folded", "moving", "best", "own"])
def test_states_take_as_many_bytes_as_their_numbers(group: str) -> None:
    program, _ = lowered(group)
    one, two, three = (sum(map(state_bytes, widened(program, group, w).sweeps)) for w in (1, 2, 3))
    assert two > one
    assert three - two == two - one
