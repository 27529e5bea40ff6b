"""Rows in registers and shared memory of blocks all over the device, the next one coming in where
one leaves: the schedules that are offered."""

from __future__ import annotations

from collections.abc import Iterator

from fusegen.backend.cuda.schedule.cuda import MAX_WIDTH, VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.homes import Chip
from fusegen.backend.cuda.schedule.levels import Grid
from fusegen.backend.cuda.schedule.work import Work
from fusegen.backend.target import WARP

STATIC_SHARED = 8192  # bytes of a block beside its slice: states that meet, and CUDA's own
_THREADS = 512  # of a block
_HELD = 48  # words, and elements of each array, of a thread that hold a few rows
_HELD_SHIFTED = 32  # elements of all arrays, where these are shifted


def chip_schedules(
    base: CudaSchedule, work: Work, shifted: int, *, wide: bool
) -> Iterator[CudaSchedule]:
    """No block stands idle: where rows are fewer than there is room for, all blocks share them.
    `shifted`: arrays on chip that lie out of phase; `wide`: do states have words of 64 bits?"""
    if base.load == "scalar":
        return
    target, few, one_array = base.target, work.rows or 0, work.vector_bytes == VECTOR_BYTES
    for per_sm, vectors in _homes(base, work, wide=wide):
        held, slots = _THREADS * vectors, target.multiprocessors * per_sm
        shared = target.shared_per_sm // per_sm - STATIC_SHARED
        room = WARP * shared // (WARP * work.vector_bytes + VECTOR_BYTES * shifted)
        teams = slots // -(-work.vectors // (room + held))
        for n in (few,) if 0 < few < teams else _teams(teams, few if one_array else 0):
            blocks = slots // n if n > 0 else 1
            share = -(-work.vectors // blocks)
            if blocks > 1 and share > held:
                yield _having(base, blocks, vectors, share - held, per_sm)
    # Without shared memory, where registers suffice.
    slots = target.multiprocessors
    if 0 < few <= slots // 2:
        blocks = slots // few
        vectors = -(-work.vectors // (blocks * _THREADS))
        least = work.vector_bytes // VECTOR_BYTES * base.width if base.load == "shifted" else 0
        if vectors * max(work.vector_bytes // 4, base.width) <= _HELD \
                and vectors * least <= _HELD_SHIFTED:
            yield _having(base, blocks, vectors, 0, 1)


def _teams(most: int, rows: int) -> tuple[int, ...]:
    """Teams that rows may have: as many as there is room for, or as few as take as many turns, if
    rows are known."""
    even = -(-rows // -(-rows // most)) if most > 0 and rows > 0 else most
    return tuple(dict.fromkeys((most, most - 1, most - 2, even)))


def _having(
    base: CudaSchedule, blocks: int, vectors: int, rest: int, per_sm: int
) -> CudaSchedule:
    return base.having(team=Grid(blocks), threads=_THREADS, vectors=vectors, home=Chip(rest),
                       per_sm=per_sm)


def _homes(base: CudaSchedule, work: Work, *, wide: bool) -> tuple[tuple[int, int], ...]:
    """Blocks of a multiprocessor, and vectors of a thread in registers: two blocks are better,
    with chunks so small that nothing spills; for a few rows, all that the registers hold."""
    if wide:
        return ((1, 4),)
    if base.width == MAX_WIDTH:
        return ((2, 1),)
    if work.extra or work.vector_bytes > VECTOR_BYTES:
        return ((2, 2),)
    return ((2, 4),) if base.has_edges else ((2, 4), (1, 12))
