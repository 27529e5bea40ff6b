"""Programs as CUDA C++: one translation unit that compiles as it stands under nvcc and NVRTC."""

from __future__ import annotations

from fusegen.emit.cuda.source import cuda_source as row_source
from fusegen.emit.cuda.strips import strip_source
from fusegen.kernel import Program
from fusegen.schedule.cuda import CudaSchedule


def cuda_source(program: Program, schedule: CudaSchedule) -> str:
    """The program as CUDA C++; the same program and schedule give the same bytes."""
    source = strip_source if schedule.strip else row_source
    return source(program, schedule)


__all__ = ["cuda_source"]
