"""Rows that go by, which threads read a chunk at a time and do not hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import MEMORY, Ahead, Home
from fusegen.ir.kernel import Program

_SMALL, _SIZES, _LARGEST = 64, (128, 256, 512), 256
"""Threads of a block: where every warp has much to do once a row; of others; at most where a second
chunk is on its way to registers."""
_CHUNK = 4  # vectors of a thread
_MANY = 4096  # vectors of a block's chunk that leave no registers, of 16-bit elements


def homes_of_folds(program: Program, width: int) -> tuple[Home, ...]:
    """Where rows may be that are folded as they go by."""
    (kernel,) = program.kernels
    shared = any(p.shape == "per_column" for p in kernel.params)
    return (MEMORY,) if shared or width == 1 else (MEMORY, Ahead())


def passing_blocks(
    base: CudaSchedule, n_vectors: int, folds: Sequence[Home], *, stores: bool, heavy: bool
) -> Iterator[CudaSchedule]:
    """Blocks that a row goes by. folds: where rows are, if they are read once, for states whose
    merges take longer than elements do; heavy: chunks of 16-bit elements, beside a state."""
    for threads in (_SMALL, *_SIZES) if folds else _SIZES:
        for vectors in (_CHUNK,) if stores else (2 * _CHUNK, _CHUNK) if heavy else (2 * _CHUNK,):
            if threads * vectors >= min(2 * n_vectors, _MANY if heavy else 10**9):
                continue
            one = base.having(threads=threads, vectors=vectors)
            yield one
            if vectors == _CHUNK:
                yield from ahead_of(one, folds)


def ahead_of(one: CudaSchedule, folds: Sequence[Home]) -> Iterator[CudaSchedule]:
    """The same, a chunk ahead; nothing where rows are not only folded as they go by, or where
    blocks are so large that threads have no registers for it."""
    if one.threads <= _LARGEST:
        yield from (one.having(home=home) for home in folds if home.next_chunk)
