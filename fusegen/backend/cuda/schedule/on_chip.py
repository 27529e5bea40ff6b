"""What a kernel over stored rows keeps on chip, and what of shared memory that takes."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.anchors import loader_of
from fusegen.backend.cuda.schedule.band_entries import waiting_lists
from fusegen.backend.cuda.schedule.collected import bytes_of
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import Sizes
from fusegen.ir.kernel import Kernel, Param, Sweep


def kept_params(kernel: Kernel, schedule: CudaSchedule) -> tuple[Param, ...]:
    """Element arrays that stay on chip: read by the first sweep and by a later one."""
    if not schedule.home.keeps:
        return ()
    later = {n for s in kernel.sweeps[1:] for n in s.streams}
    found = [kernel.param(n) for n in kernel.sweeps[0].streams if n in later]
    return tuple(p for p in found if p.shape == "element")


def pivots_first(sweep: Sweep, schedule: CudaSchedule) -> bool:
    """Does a thread hold its whole part of a row, and meet the others twice for little? Then no sum
    has to move."""
    return schedule.in_warp and schedule.home.of_threads and knows_pivots(sweep)


def knows_pivots(sweep: Sweep) -> bool:
    """Can lanes that hold a row know its pivots before they make sums about them?"""
    monoid = sweep.monoid
    return bool(monoid.levels) and not monoid.lists and not monoid.own


_MOST_BESIDE = 4  # vectors of what all rows share that threads have registers for beside their own


def asks_before(param: Param, sweep: Sweep, kernel: Kernel, schedule: CudaSchedule) -> bool:
    """Is an array that all rows share asked for by the sweep before the first that reads it? Then
    it arrives while states meet, and takes registers meanwhile: rows of warps are worth them, those
    of blocks if there is one such array (it saves 3 to 10 %; two may cost 50)."""
    if not schedule.home.threads_keep or schedule.home.band_rows or param.shape != "per_column":
        return False
    before = kernel.sweeps[: kernel.sweeps.index(sweep)]
    if not before or any(param.name in s.streams for s in before):
        return False
    alone = sum(kernel.param(n).shape == "per_column" for n in sweep.streams) == 1
    in_order = schedule.in_warp and schedule.load == "aligned"
    return in_order or (alone and schedule.vectors <= _MOST_BESIDE)


def ring_params(kernel: Kernel, sweep: Sweep) -> tuple[Param, ...]:
    """Arrays that come through a ring, where there is one: of the rows' own size."""
    return tuple(p for n in sweep.streams if (p := kernel.param(n)).shape == "element")


def shared_bytes(kernel: Kernel, schedule: CudaSchedule) -> int:
    """Dynamic shared memory of a block: its slices of the arrays that stay on chip, a ring, or a
    list that blocks of a cluster collect."""
    if schedule.clustered and schedule.lists == "collected":
        (best,) = kernel.sweeps[0].monoid.lists
        return bytes_of(best.k, schedule)
    read, kept = ring_params(kernel, kernel.sweeps[0]), kept_params(kernel, schedule)
    return schedule.home.shared_bytes(Sizes(
        schedule.threads, schedule.vectors, schedule.width,
        kept=sum(p.dtype.itemsize for p in kept), read=sum(p.dtype.itemsize for p in read),
        elements=tuple(p.dtype.itemsize for p in kernel.elements),
        entries=tuple(w.row_bytes for w in waiting_lists(kernel, schedule)),
        apart=sum(loader_of(p, kernel, schedule.load) == "load_shifted" for p in kept),
    ))
