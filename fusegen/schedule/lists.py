"""Schedules for rows of which lists of the K best elements are kept, and what they cost.

A row goes by in tiles, straight to registers or through a ring in shared memory. Prices are fitted
to times of the candidates on an H200, as the others are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from fusegen.kernel import Program
from fusegen.schedule.cuda import MAX_WIDTH, VECTOR_BYTES, CudaSchedule
from fusegen.schedule.launch import ring_params, shared_bytes
from fusegen.schedule.price import Price, Work
from fusegen.schedule.problem import Problem
from fusegen.schedule.target import WARP
from fusegen.schedule.topk import ListPlan, in_device_memory, list_plan

_STATIC, _RESERVED = 256, 1024  # of a block beside its lists, and what CUDA takes


def list_candidates(
    program: Program, problem: Problem, base: CudaSchedule, n_vectors: int, items: int
) -> Iterator[CudaSchedule]:
    """Schedules worth a thought; a thread's chunk has up to `items` elements."""
    for shape in _shapes(program, problem, base, n_vectors, max(1, min(items // base.width, 8))):
        one = replace(shape, sampled=n_vectors > 2 * shape.blocks * shape.threads * shape.vectors)
        needed = _shared(program, one)
        if not one.stages or needed <= base.target.shared_per_block:
            room = max(1, base.target.shared_per_sm // (needed + _RESERVED))
            yield replace(one, per_sm=min(one.per_sm, room))


def _shared(program: Program, one: CudaSchedule) -> int:
    """Bytes of a block's lists and rings, and of what else it has."""
    return _STATIC + max(
        sum(_list_bytes(list_plan(k, best, one), in_device_memory(k, one))
            for s in k.sweeps for best in s.monoid.lists) + shared_bytes(k, one)
        for k in program.kernels
    )  # fmt: skip


def _list_bytes(plan: ListPlan, elsewhere: bool) -> int:
    return plan.tally_bytes + (0 if elsewhere else plan.n_bytes)


def _shapes(
    program: Program, problem: Problem, base: CudaSchedule, n_vectors: int, most: int
) -> Iterator[CudaSchedule]:
    few = min(most, -(-n_vectors // WARP))
    largest = max(c.k for s in program.sweeps for c in s.monoid.lists)
    if n_vectors <= WARP * few and largest <= WARP:
        yield replace(base, team="lanes", threads=128, vectors=few, fixed=True, per_sm=6)
        return
    yield from _blocks(base, n_vectors, largest, most)
    rings = tuple(_ring_blocks(base)) if _rings(program, base) and most >= 4 else ()
    yield from (one for one in rings if n_vectors > 3 * one.threads * one.vectors)
    if problem.n_rows and problem.n_rows <= 2 * base.target.multiprocessors:
        for one in _large_blocks(base, most, problem.n_rows):
            yield from _shared_rows(one, problem.n_rows, n_vectors)
        if len(program.sweeps) == 1:
            yield from _clusters(program, base, problem.n_rows, n_vectors, most)


def _blocks(
    base: CudaSchedule, n_vectors: int, largest: int, most: int
) -> Iterator[CudaSchedule]:
    """A row each; as many as registers leave room for. What warps do once a row counts where rows
    are short."""
    edges = _edges(base)
    yield replace(base, threads=128, vectors=min(most, -(-n_vectors // 128)), fixed=True,
                  per_sm=7 if edges else 8)  # fmt: skip
    if n_vectors <= 64 * (64 if largest <= WARP else most):
        yield replace(base, threads=64, vectors=min(most, -(-n_vectors // 64)), fixed=True,
                      per_sm=14 if edges else 16)  # fmt: skip


def _ring_blocks(base: CudaSchedule) -> Iterator[CudaSchedule]:
    edges = _edges(base)
    one = replace(base, threads=256, vectors=4, fixed=True, per_sm=3 if edges else 4, stages=3)
    yield one
    yield replace(one, threads=128, per_sm=6 if edges else 7)


def _large_blocks(base: CudaSchedule, most: int, rows: int) -> Iterator[CudaSchedule]:
    """For rows that are few; of very few, more parts run on a multiprocessor."""
    yield replace(base, threads=512, vectors=min(4, most), fixed=True, per_sm=1)
    per_sm = 4 if 2 * rows <= base.target.multiprocessors else 2
    yield replace(base, threads=256, vectors=most, fixed=True, per_sm=per_sm)


def _edges(base: CudaSchedule) -> bool:
    """Are elements at the edges of a row in registers beside many others?"""
    return base.width == MAX_WIDTH and base.load == "peeled"


def _shared_rows(one: CudaSchedule, rows: int, n_vectors: int) -> Iterator[CudaSchedule]:
    """Each row in a block, or over several blocks; all of them run at once."""
    chunks, there = -(-n_vectors // (one.threads * one.vectors)), one.target.multiprocessors
    alone = min(there // rows, 64)
    for blocks in sorted({1, 2, 4, 8, 16, 32, alone, 2 * alone}):
        if 0 < blocks <= min(chunks, one.per_sm * there // rows):
            room = next(n for n in (1, 2, 4) if rows * blocks <= n * there)
            yield replace(one, team="grid" if blocks > 1 else "block", blocks=blocks, per_sm=room)


def _clusters(
    program: Program, base: CudaSchedule, rows: int, n_vectors: int, most: int
) -> Iterator[CudaSchedule]:
    """A row over blocks that tell one another what they find; each has a tile of whole warps."""
    for blocks in base.target.cluster_sizes:
        share = -(-n_vectors // blocks)
        for threads, per_sm in ((512, 1), (256, 2)):
            one = replace(
                base, team="cluster", blocks=blocks, threads=threads, fixed=True, per_sm=per_sm,
                vectors=min(most, -(-share // threads)),
            )  # fmt: skip
            whole = n_vectors - (blocks - 1) * share >= threads
            if whole and rows <= _at_once(one) \
                    and not any(in_device_memory(k, one) for k in program.kernels):
                yield one


def _at_once(one: CudaSchedule) -> int:
    """Clusters that a device holds: parts of it have no room for another whole one."""
    room = one.per_sm * one.target.multiprocessors // one.blocks
    return int(0.92 * room) if one.blocks > 2 else room


def _rings(program: Program, base: CudaSchedule) -> bool:
    """Can a row come through shared memory? Copies there are 16 bytes each."""
    kernel = program.kernels[0]
    if not base.target.ampere or len(program.sweeps) > 1 or base.load == "scalar":
        return False
    read = ring_params(kernel, kernel.sweeps[0])
    return bool(read) and all(p.dtype.itemsize * base.width % VECTOR_BYTES == 0 for p in read)


def price_of_lists(one: CudaSchedule, work: Work, k: int) -> Price:
    """Price of a schedule for lists of up to k elements."""
    if work.rows is not None and work.few(one.target):
        few = _cluster_latencies if one.team == "cluster" else _latencies
        return Price(tuple(few(one, work, work.rows, k)), adds=True)
    factors = [("loads", _loads(one, work)), ("lists", _lists(one, work, k)),
               ("warps", _warps(one, work))]  # fmt: skip
    if work.rows is not None:
        factors.append(("parallelism", _idle(one, work.rows)))
    return Price(tuple(factors), adds=False)


def _loads(one: CudaSchedule, work: Work) -> float:
    """Loads of small elements wait for a tile's candidates, unless they are under way in a ring;
    that has to fill. Blocks of few threads wait less for one another."""
    narrow = one.width == MAX_WIDTH
    if not one.stages:
        return 1.05 if narrow else 1.0
    return (1.0 if narrow else 1.03) + (0.18 if one.threads > 128 else 0.0)


def _warps(one: CudaSchedule, work: Work) -> float:
    """What each warp does once a row; a multiprocessor wants 32 warps."""
    once = 1.0 + 100 * one.team_threads / WARP / work.vectors
    few = work.rows is not None and work.rows < one.per_sm * one.target.multiprocessors
    if few or one.stages:
        return once
    return once / min(1.0, math.sqrt(one.per_sm * one.threads / (32 * WARP)))


def _lists(one: CudaSchedule, work: Work, k: int) -> float:
    """Work on candidates: long lists need the memory of rings."""
    crowded = 0.15 if one.stages and k >= 256 else 0.0
    merges = 1000 * one.blocks / work.vectors if one.blocks > 1 else 0.0
    return 1.0 + crowded + merges


def _idle(one: CudaSchedule, rows: int) -> float:
    """Few blocks keep few loads under way: a ring has two more chunks of them."""
    blocks = rows * one.blocks / one.rows_per_block
    chunks = max(1, one.stages) * one.vectors * one.threads
    return math.sqrt(max(1.0, 1.6 * one.target.multiprocessors * 1024 * 3 / (blocks * chunks)))


def _latencies(
    one: CudaSchedule, work: Work, rows: int, k: int
) -> list[tuple[str, float]]:
    """Microseconds of a few rows."""
    beside = -(-rows * one.blocks // one.target.multiprocessors)  # blocks on one multiprocessor
    tiles = work.vectors / one.blocks / (one.team_threads * one.vectors)
    tile = one.team_threads * one.vectors / 2048  # of the largest kind
    each = max(0.8, 1.1 * (1 + beside) * tile)
    gathered = 0.09 * one.blocks * (1 + k / 340) if one.blocks > 1 else 0.0
    merging = 2 if one.blocks > 1 else 1
    sorting = merging * k / one.threads * beside + 0.2 * math.sqrt(k)
    start = (8.5 if one.blocks > 1 else 4.1) + one.threads / 640 + sorting
    return [("launch and list", start), ("tiles", tiles * each), ("slices", gathered)]


def _cluster_latencies(
    one: CudaSchedule, work: Work, rows: int, k: int
) -> list[tuple[str, float]]:
    """Likewise, where blocks of a cluster share a row."""
    tile = one.team_threads * one.vectors  # of a block
    tiles = -(-work.vectors // (one.blocks * tile))
    together = rows * one.blocks * tile * VECTOR_BYTES / 1e6  # megabytes of all blocks' tiles
    each = max(0.8, 0.42 * together) + 0.2 + tile / 10_000 + 0.06 * math.sqrt(min(k, 256))
    if rows * one.blocks > one.target.multiprocessors:
        each += 0.6
    start = 6.9 + one.threads / 1000 + 0.05 * one.vectors
    sorting = 0.15 * math.sqrt(k) + k / 4 / one.threads
    return [("launch and list", start + sorting), ("tiles", tiles * each)]
