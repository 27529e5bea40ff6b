"""What rows cost that are read once, for states whose merges take longer than elements do.

Issuing instructions may take longer than bytes do, and few warps leave schedulers idle: so rows are
split where blocks are few, and held by few lanes where they are many. All in microseconds, which
add up, except what happens at the same time.
"""

from __future__ import annotations

import math

from fusegen.backend.cuda.schedule.cuda import MAX_WIDTH, VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures, Folds
from fusegen.backend.cuda.schedule.instructions import effort
from fusegen.backend.cuda.schedule.occupancy import resident, slots, uneven
from fusegen.backend.cuda.schedule.short_row_prices import Short, waves_of_row
from fusegen.backend.cuda.schedule.work import Price, Work
from fusegen.backend.target import WARP, CudaTarget
from fusegen.ir.kernel import Program

_MANY = 100  # rows for every multiprocessor
_HEAVY = 64  # elements of a chunk: all their registers are in use
_UNDER_WAY = 8  # vectors of a thread that are asked for together


def many_rows(work: Work, target: CudaTarget) -> int:
    """Rows, or many where it is not known how many there are."""
    return work.rows or _MANY * target.multiprocessors


def price_of_folds(
    one: CudaSchedule, work: Work, program: Program, n_cols: int, figures: Figures = FIGURES,
    short: Short | None = None,
) -> Price:
    """Price of a schedule in microseconds, for few rows and for many. short: of rows that are."""
    f, many, target, home = figures.folds, figures.many, one.target, one.home
    there = target.multiprocessors
    rows = many_rows(work, target)
    blocks = -(-rows // one.block_rows) * one.blocks
    here = resident(one, work)
    places = slots(one, here, many)
    unlike = uneven(blocks, places if blocks > places else there) - 1.0
    turns = max(1.0, blocks / there) * (1.0 + f.uneven * unlike)  # of a multiprocessor's blocks
    warps = min(here, turns) * one.threads / WARP
    issued = effort(program, one).of_row(one, n_cols) * one.block_rows / one.blocks  # by a block
    issue = turns * issued * (1.0 + f.warps / warps) / f.rate * 1e6 * _weight(one, f)
    part = one.block_rows / one.blocks * work.vectors * work.vector_bytes  # of rows, of a block
    asked = one.threads * min(one.vectors, _UNDER_WAY) * VECTOR_BYTES
    flying = min(blocks, places) * (part if home.band_rows else asked)
    memory = blocks * part * max(1e6 / (f.bandwidth * target.bandwidth), f.latency / flying)
    shared = waves_of_row(one, short) * rows / there / f.waves * 1e6 if short else 0.0
    ahead = f.ahead if home.next_chunk and one.width == MAX_WIDTH else 1.0
    meeting = one.top.merge.latency(one.threads, one.blocks, figures.few_others)
    meeting += f.cluster * one.blocks**2 if one.clustered else 0.0
    # Clusters that find no place wait for others, which have multiprocessors to themselves.
    waits = one.clustered and here == 1 and blocks > places
    return Price((
        ("launch", f.launch + f.thread * one.threads), ("blocks", f.block * turns),
        ("elements", f.item * one.items if home.of_threads else 0.0),
        ("merges", meeting * (2 if waits else 1)),
        ("bytes and instructions", math.hypot(memory, issue, shared) * ahead),
    ), adds=True)


def _weight(one: CudaSchedule, f: Folds) -> float:
    """On instructions: rows that threads hold have one loop, whose state needs no move."""
    if one.home.of_threads:
        return 1.0 if one.home.band_rows else f.holding
    return f.heavy if one.items >= _HEAVY else 1.0
