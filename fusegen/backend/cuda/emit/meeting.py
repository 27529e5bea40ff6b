"""Where the states of a row's threads, warps and blocks meet."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.target import WARP


def meeting_lanes(schedule: CudaSchedule) -> int:
    """Lanes that hold the totals of a block's warps: as many, if that is a known power of two."""
    warps = schedule.team_threads // WARP
    known = schedule.fixed and schedule.rows_per_block == 1
    return warps if known and warps > 0 and warps & (warps - 1) == 0 else WARP
