"""How many blocks a multiprocessor has room for, and how many run at a time."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.cuda import MAX_WIDTH, VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.figures import ManyRows
from fusegen.backend.cuda.schedule.homes import Sizes
from fusegen.backend.cuda.schedule.merges import MAX_CLUSTER
from fusegen.backend.cuda.schedule.work import Work

_LEAST = {64: 0, 80: 72, 128: 88, 255: 136}
"""Registers that a thread uses at least, by how many it was given: fewer do not suffice."""
_BESIDE = 20  # registers beside a row that a lane only folds


def resident(one: CudaSchedule, work: Work) -> int:
    """Blocks of a multiprocessor, at the registers that kernels of this kind use."""
    found = min(one.target.threads_per_sm // one.threads, one.target.blocks_per_sm,
                one.target.registers_per_sm // (used_registers(one, work) * one.threads))
    shared = slice_room(one, work)
    if shared:
        found = min(found, one.target.shared_per_sm // (shared + 4096))
    return max(1, found)


def slots(one: CudaSchedule, here: int, many: ManyRows) -> int:
    """Blocks that run at a time, `here` of them on a multiprocessor: clusters do not find room on
    all of these."""
    part = 1.0
    if one.clustered and one.blocks > 2:
        part = many.clustered_16 if one.blocks == MAX_CLUSTER else many.clustered
    return max(1, int(one.target.multiprocessors * part) * here // one.blocks) * one.blocks


def uneven(parts: int, places: int) -> float:
    """How much longer a few turns take than if all places had the same to do."""
    turns = parts / places
    return -(-parts // places) / turns if 1.0 < turns < 4.0 else 1.0


def slice_room(one: CudaSchedule, work: Work) -> int:
    """What a block keeps of rows in shared memory."""
    kept = work.vector_bytes // one.width
    return one.home.shared_bytes(Sizes(one.threads, one.vectors, one.width, kept, read=0))


def _beside(one: CudaSchedule, work: Work, words: int) -> int:
    """Registers of a thread that holds so many words of a row, and maps them with other arrays:
    with as many words of each, but where rows have edges, as these map few vectors at a time."""
    if one.has_edges:
        return 12 * (1 + work.extra) + words if work.extra > 1 else 0
    return 14 + words * (2 + work.extra) if work.extra else 0


def used_registers(one: CudaSchedule, work: Work) -> int:
    """Registers that a thread uses, of those that it may."""
    if one.in_warp and one.home.of_threads:
        if work.stores or one.width == 1:
            return min(one.registers, 16 + max(16, one.items))
        return min(one.registers, _BESIDE + max(12, one.vectors * VECTOR_BYTES // 4))
    arrays = work.vector_bytes // VECTOR_BYTES if one.home.keeps else 1
    if one.home.of_threads and work.stores:
        if one.registers < 64:  # what compilers are told
            return one.registers
        words = one.vectors * VECTOR_BYTES // 4 * max(1, arrays)
        alone = 32 if words <= 8 else 40 + words * 3 // 4
        return min(one.registers, -(-max(alone, _beside(one, work, words)) // 8) * 8)
    several = 64 if one.width == MAX_WIDTH else 72  # what maps vectors with several arrays takes
    least = (several if work.extra > 1 else 0) if one.home.keeps else _LEAST[one.registers]
    most = one.registers
    more = one.vectors * VECTOR_BYTES // 4 if one.home.next_chunk else 0
    return min(most, max(least, min(most, 32 + one.items * max(1, arrays))) + more)
