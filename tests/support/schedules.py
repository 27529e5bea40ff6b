"""One schedule of every kind that is offered for a case."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.target import CUDA_TARGETS
from support.cuda_cases import Case

MOST_TOGETHER = 64  # blocks that the emulator runs at a time


def kinds_of(
    case: Case, aligned: bool, n_rows: int, in_phase: bool = True
) -> dict[str, CudaSchedule]:
    """One schedule for every kind of source that is offered, the smallest that way."""
    work = case.work(aligned=aligned, n_rows=n_rows, in_phase=in_phase)
    found: dict[str, CudaSchedule] = {}
    for c in candidates(work.result("lower"), work.problem, CUDA_TARGETS["sm_90"]):
        s = c.schedule
        if s.waits and s.blocks * min(2, case.n_rows) > MOST_TOGETHER:
            continue
        kind = f"{s.shape}, {s.lanes} lanes"
        if kind not in found or s.blocks * s.threads < found[kind].blocks * found[kind].threads:
            found[kind] = s
    return found
