"""Rows that go by, which threads read a chunk at a time and do not hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import MEMORY, Ahead, Home
from fusegen.backend.cuda.schedule.levels import Block, Grid
from fusegen.ir.kernel import Program

_SMALL, _SIZES, _LARGEST = 64, (128, 256, 512), 256
"""Threads of a block: where every warp has much to do once a row; of others; at most where a second
chunk is on its way to registers."""
_MOST_BLOCKS = 64  # that share a row
_CHUNK = 4  # vectors of a thread
_MANY = 4096  # vectors of a block's chunk that leave no registers, of 16-bit elements


def homes_of_folds(program: Program, width: int) -> tuple[Home, ...]:
    """Where rows may be that are folded as they go by."""
    (kernel,) = program.kernels
    shared = any(p.shape == "per_column" for p in kernel.params)
    return (MEMORY,) if shared or width == 1 else (MEMORY, Ahead())


def sizes(folds: Sequence[Home]) -> tuple[int, ...]:
    """Threads that blocks may have."""
    return (_SMALL, *_SIZES) if folds else _SIZES


def passing_blocks(
    base: CudaSchedule, n_vectors: int, folds: Sequence[Home], *, stores: bool, heavy: bool
) -> Iterator[CudaSchedule]:
    """Blocks that a row goes by. folds: where rows are, if they are read once, for states whose
    merges take longer than elements do; heavy: chunks of 16-bit elements, beside a state."""
    for threads in sizes(folds):
        for vectors in (_CHUNK,) if stores else (2 * _CHUNK, _CHUNK) if heavy else (2 * _CHUNK,):
            if threads * vectors >= min(2 * n_vectors, _MANY if heavy else 10**9):
                continue
            one = base.having(threads=threads, vectors=vectors)
            yield from with_ahead(one, folds if vectors == _CHUNK else ())


def over_blocks(
    one: CudaSchedule, rows: int, chunks: int, beside: Iterable[int], others: Iterable[int] = ()
) -> Iterator[CudaSchedule]:
    """Each row in a block, or over several with a chunk each at least; all of them run at once, on
    multiprocessors that have as many each, or nearly, as `beside` says, or so many `others`."""
    there = one.target.multiprocessors
    even = {min(n * there // rows, _MOST_BLOCKS) for n in beside}
    for blocks in sorted(even.union(others)):
        if 0 < blocks <= min(chunks, one.per_sm * there // rows):
            team = Grid(blocks) if blocks > 1 else Block(one.threads)
            yield one.having(team=team, per_sm=-(-rows * blocks // there))


def with_ahead(one: CudaSchedule, folds: Sequence[Home]) -> Iterator[CudaSchedule]:
    """It, and the same a chunk ahead: where rows are only folded as they go by, and blocks are not
    so large that threads have no registers for it."""
    yield one
    if one.threads <= _LARGEST:
        yield from (one.having(home=home) for home in folds if home.next_chunk)
