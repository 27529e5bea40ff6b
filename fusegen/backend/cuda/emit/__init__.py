"""Programs as CUDA C++: one translation unit that compiles as it stands under nvcc and NVRTC."""

from __future__ import annotations

from fusegen.backend.cuda.emit.merge import merge_source
from fusegen.backend.cuda.emit.source import cuda_source as row_source
from fusegen.backend.cuda.emit.strips import strip_source
from fusegen.backend.cuda.emit.tiles.source import tile_source
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.products import ProductSchedule, with_stored
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule
from fusegen.backend.emit.source import Source
from fusegen.backend.emit.widths import check_widths
from fusegen.ir.kernel import Program


def cuda_source(
    program: Program, schedule: CudaSchedule | TileSchedule | ProductSchedule
) -> Source:
    """The program as CUDA C++; the same program and schedule give the same bytes."""
    if isinstance(schedule, ProductSchedule):
        return cuda_source(with_stored(program, schedule.factor), schedule.rows)
    if isinstance(schedule, TileSchedule):
        return tile_source(program, schedule)
    if program.role == "merge":
        return merge_source(program, schedule)
    check_widths(program, "CUDA kernels")
    source = strip_source if schedule.strip else row_source
    return source(program, schedule)


__all__ = ["cuda_source"]
