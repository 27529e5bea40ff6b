"""What a kernel over stored rows keeps on chip, and what of shared memory that takes."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.anchors import loader_of
from fusegen.backend.cuda.schedule.band_entries import waiting_lists
from fusegen.backend.cuda.schedule.collected import bytes_of
from fusegen.backend.cuda.schedule.cuda import VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.homes import Sizes
from fusegen.ir.kernel import COLUMN, Kernel, Param, Sweep
from fusegen.ir.kernel_walk import names_in


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


def mapped_at_once(sweep: Sweep, kernel: Kernel, schedule: CudaSchedule) -> int:
    """How many of a chunk's vectors are mapped at a time, where not all are: the words around them
    take so many registers that there were fewer warps. 0: all."""
    shared = [p for n in sweep.streams if (p := kernel.param(n)).shape == "per_column"]
    if not any(loader_of(p, kernel, schedule) == "load_within" for p in shared):
        return 0
    return 1 if schedule.home.threads_keep or schedule.home.steady else min(2, schedule.vectors)


_MOST_BESIDE = 4  # vectors of what all rows share that threads have registers for beside their own
_MOST_BESIDE_BAND = 32  # likewise registers, where rows of a band are one after the other


def asks_before(param: Param, sweep: Sweep, kernel: Kernel, schedule: CudaSchedule) -> bool:
    """Is an array that all rows share asked for by the sweep before the first that reads it? Then
    it arrives while states meet, and takes registers meanwhile: rows of warps are worth them, those
    of blocks if there is one such array (it saves 3 to 10 %; two may cost 50). Lanes that own the
    rows of a band one after the other ask once, before the first."""
    if not schedule.home.threads_keep or param.shape != "per_column":
        return False
    if schedule.home.band_rows:
        return asks_once(kernel, schedule) and loader_of(param, kernel, schedule) == "load_items"
    if mapped_at_once(sweep, kernel, schedule):
        return False
    before = kernel.sweeps[: kernel.sweeps.index(sweep)]
    if not before or any(param.name in s.streams for s in before):
        return False
    alone = sum(kernel.param(n).shape == "per_column" for n in sweep.streams) == 1
    in_order = schedule.in_warp and schedule.load == "aligned"
    return in_order or (alone and schedule.vectors <= _MOST_BESIDE)


def asks_once(kernel: Kernel, schedule: CudaSchedule) -> bool:
    """Have lanes that own rows of a band registers for their part of all that rows share?"""
    sizes = [p.dtype.itemsize for p in kernel.params if p.shape == "per_column"]
    words = [max(1, schedule.width * size // 4) for size in sizes]  # of a vector
    return schedule.vectors * sum(words) <= _MOST_BESIDE_BAND


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
        apart=sum(loader_of(p, kernel, schedule) == "load_shifted" for p in kept),
    ))


def folds_as_it_lies(kernel: Kernel, schedule: CudaSchedule) -> bool:
    """Does the first sweep fold words of a slice as memory has them, whole vectors of the array's
    own? Then only later sweeps read around vectors and shift. Elements at the edges are others than
    for these, and no sweep may ask for columns, whose numbers are those of the others' vectors."""
    first, kept = kernel.sweeps[0], kept_params(kernel, schedule)
    if not schedule.home.lies or len(kept) != 1 or first.streams != (kept[0].name,):
        return False
    apart = loader_of(kept[0], kernel, schedule) == "load_shifted"
    whole = kept[0].dtype.itemsize * schedule.width == VECTOR_BYTES
    plain = not first.element_stores and not first.monoid.best and not first.monoid.lists
    return apart and whole and plain and COLUMN.name not in names_in(first)


def margin(kernel: Kernel, schedule: CudaSchedule) -> int:
    """Vectors at both ends of a row that are left to single elements: one where more than a vector
    is read around each, so that all that is read is the row's."""
    if not schedule.has_edges:
        return 0
    slices = kept_params(kernel, schedule) if schedule.home.slice_vectors else ()
    shared = [p for p in kernel.params if p.shape == "per_column"]
    words = any(loader_of(p, kernel, schedule) == "load_shifted" for p in slices) or any(
        loader_of(p, kernel, schedule) == "load_within" for p in shared)
    return 1 if words else 0
