"""Source made to run where it is for, and what runs without a compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fusegen.compiler import PASSES, Work
from fusegen.dumps import DUMPED
from fusegen.kernel import Program
from fusegen.schedule.target import CpuTarget, CudaTarget


class Executable(Protocol):
    """A compiled program: fills the output arrays of `arrays` (by parameter name)."""

    def __call__(self, arrays: Mapping[str, Any], n_rows: int, n_cols: int) -> None: ...


def executable(work: Work) -> Executable:
    """The work's program, compiled for where it runs. Raises BackendError."""
    if DUMPED:
        for one in PASSES:
            work.result(one.name)
    match work.target:
        case CudaTarget():
            from fusegen.runtime.cuda import CudaExecutable

            return CudaExecutable(work.program, work.schedule, work.source)
        case CpuTarget():
            from fusegen.runtime.cpu import CpuExecutable

            return CpuExecutable(work.program, work.schedule, work.source)


def numpy_executable(work: Work) -> Executable:
    """The same result without a compiler. Raises ArgumentError for an impossible chunk."""
    from fusegen.runtime.numpy_path import NumpyExecutable

    program: Program = work.result("lower")
    if work.chunk is not None:
        _ = work.schedule  # what no kernel may have is refused without kernels too
    return NumpyExecutable(
        graph=work.graph, dtypes=work.dtypes, outputs=program.outputs,
        compute=program.kernels[0].compute,
    )  # fmt: skip
