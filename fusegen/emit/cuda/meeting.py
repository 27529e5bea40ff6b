"""Where the states of a row's threads, warps and blocks meet."""

from __future__ import annotations

from fusegen.schedule.cuda import MAX_CLUSTER, CudaSchedule
from fusegen.schedule.target import WARP


def reduce_function(schedule: CudaSchedule) -> str:
    """The C++ function that merges the states of a team."""
    return {
        "lanes": "lanes_reduce<kTeam>", "block": "block_reduce", "cluster": "cluster_reduce",
        "grid": "grid_reduce" if schedule.steady else "block_reduce",
    }[schedule.team]  # fmt: skip


def meeting_arguments(schedule: CudaSchedule, sweep: int) -> str:
    """Arguments of that function but the first, each with its comma."""
    if schedule.team == "lanes":
        return ""
    place = f", meeting{sweep}{'[parity]' if schedule.steady else ''}"
    if schedule.team != "grid" or not schedule.steady:
        return place
    team = "blockIdx.x / blocks"
    return (f"{place}, partial_states + ({team} * 2 + parity) * blocks, tickets + {team}, "
            "blocks, slice")  # fmt: skip


def meeting_array(schedule: CudaSchedule, sweep: int, lists: bool) -> str:
    """Declaration of the shared memory where warps meet; "" for teams inside a warp. Of a sweep
    with lists, only totals of blocks leave their block."""
    if schedule.team == "lanes":
        return ""
    warps = "kMostThreads / 32"
    size = warps
    if schedule.team == "cluster":
        size = f"kBlocks + {warps}" if lists else f"{MAX_CLUSTER} * {warps}"
    return f"meeting{sweep}{'[2]' if schedule.steady else ''}[{size}]"


def meeting_lanes(schedule: CudaSchedule) -> int:
    """Lanes that hold the totals of a block's warps: as many, if that is a known power of two."""
    warps = schedule.team_threads // WARP
    known = schedule.fixed and schedule.rows_per_block == 1
    return warps if known and warps > 0 and warps & (warps - 1) == 0 else WARP
