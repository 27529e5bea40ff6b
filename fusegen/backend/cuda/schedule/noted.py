"""Lists of an entry or two of rows that go by: threads note the chunks that have their best items.

Nobody waits for anybody until the row has ended, as where only states are folded: prices are those,
with a few figures of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures
from fusegen.backend.cuda.schedule.fold_prices import many_rows, price_of_folds
from fusegen.backend.cuda.schedule.homes import Noted
from fusegen.backend.cuda.schedule.passing import over_blocks
from fusegen.backend.cuda.schedule.topk import key_plan
from fusegen.backend.cuda.schedule.work import Price, Work
from fusegen.ir.kernel import Kernel, Program
from fusegen.ir.monoid import KBest

_ENTRIES = 2  # of a list at most; with more, every chunk costs as much as waiting for others does
_VECTORS = 4  # of a chunk
_SIZES = ((64, 16), (128, 8), (256, 4), (512, 2))  # threads of a block, blocks of a multiprocessor
_BESIDE = (1, 2, 3, 4, 6, 8, 12, 16)  # blocks of few rows that a multiprocessor may get


def notes_chunks(program: Program, base: CudaSchedule, most: int) -> bool:
    """Do threads note chunks, of up to `most` vectors? Their lists have few entries, and a word
    says all of a value's order."""
    lists = [(k, c) for k in program.kernels for s in k.sweeps for c in s.monoid.lists]
    return most >= _VECTORS and all(
        c.k <= _ENTRIES and _in_a_word(k, c, base) for k, c in lists)


def _in_a_word(kernel: Kernel, best: KBest, base: CudaSchedule) -> bool:
    """Also of the least value, which is more than that of no item: so it is of floats."""
    plan = key_plan(kernel, best, base.wide_columns)
    return plan.order == "FloatOrder" and not plan.wide


def noting_schedules(
    base: CudaSchedule, rows: int | None, n_vectors: int
) -> Iterator[CudaSchedule]:
    """A row each, or a few rows over several blocks, each of which has a chunk at least."""
    few = rows if rows and rows <= 2 * base.target.multiprocessors else 0
    for threads, per_sm in _SIZES:
        chunks = n_vectors // (threads * _VECTORS)
        if chunks == 0 and threads > _SIZES[0][0]:
            continue
        one = base.having(threads=threads, vectors=_VECTORS, home=Noted(), fixed=True,
                          per_sm=per_sm)
        yield one
        if few:
            yield from (s for s in over_blocks(one, few, chunks, _BESIDE) if s.split)


def price_of_noted(
    one: CudaSchedule, work: Work, program: Program, n_cols: int, figures: Figures = FIGURES
) -> Price:
    """Price of a schedule: microseconds for few rows, else times what moving the bytes takes."""
    price = price_of_folds(one, work, program, n_cols, replace(figures, folds=figures.noted))
    if work.rows is not None and work.few(one.target):
        return price
    moved = many_rows(work, one.target) * work.vectors * work.vector_bytes
    whole = price.total * one.target.bandwidth / 1e6
    return Price((("bytes and instructions", whole / moved),), adds=False)
