"""Schedules for rows of which lists of the K best elements are kept, and what they cost.

A row goes by in tiles, straight to registers or through a ring in shared memory. Prices are fitted
to times of the candidates on an H200, as the others are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from fusegen.backend.cuda.schedule.cuda import MAX_WIDTH, VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures, Lists
from fusegen.backend.cuda.schedule.homes import Ring
from fusegen.backend.cuda.schedule.levels import Cluster, Lanes
from fusegen.backend.cuda.schedule.noted import notes_chunks, noting_schedules
from fusegen.backend.cuda.schedule.occupancy import uneven
from fusegen.backend.cuda.schedule.on_chip import ring_params, shared_bytes
from fusegen.backend.cuda.schedule.passing import over_blocks
from fusegen.backend.cuda.schedule.topk import ListPlan, in_device_memory, list_plan
from fusegen.backend.cuda.schedule.work import Price, Work
from fusegen.backend.problem import Problem
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Program

_STATIC, _RESERVED = 256, 1024  # of a block beside its lists, and what CUDA takes
_CLUSTERED = 0.92  # of the places of a device: parts of it have none for another whole cluster


def list_candidates(
    program: Program, problem: Problem, base: CudaSchedule, n_vectors: int, items: int
) -> Iterator[CudaSchedule]:
    """Schedules worth a thought; a thread's chunk has up to `items` elements."""
    for shape in _shapes(program, problem, base, n_vectors, max(1, min(items // base.width, 8))):
        one = replace(shape, sampled=n_vectors > 2 * shape.blocks * shape.threads * shape.vectors)
        needed = _shared(program, one)
        if not one.home.stages or needed <= base.target.shared_per_block:
            room = max(1, base.target.shared_per_sm // (needed + _RESERVED))
            yield replace(one, per_sm=min(one.per_sm, room))


def _shared(program: Program, one: CudaSchedule) -> int:
    """Bytes of a block's lists and rings, and of what else it has."""
    return _STATIC + max(
        sum(_list_bytes(list_plan(k, best, one), in_device_memory(k, one))
            for s in k.sweeps for best in s.monoid.lists) + shared_bytes(k, one)
        for k in program.kernels
    )


def _list_bytes(plan: ListPlan, elsewhere: bool) -> int:
    return plan.tally_bytes + (0 if elsewhere else plan.n_bytes)


def _shapes(
    program: Program, problem: Problem, base: CudaSchedule, n_vectors: int, most: int
) -> Iterator[CudaSchedule]:
    few = min(most, -(-n_vectors // WARP))
    largest = max(c.k for s in program.sweeps for c in s.monoid.lists)
    if n_vectors <= WARP * few and largest <= WARP:
        yield base.having(team=Lanes(), threads=128, vectors=few, fixed=True, per_sm=6)
        return
    if notes_chunks(program, base, most):
        yield from noting_schedules(base, problem.n_rows, n_vectors)
        return
    yield from _blocks(base, n_vectors, largest, most)
    rings = tuple(_ring_blocks(base)) if _rings(program, base) and most >= 4 else ()
    yield from (one for one in rings if n_vectors > 3 * one.threads * one.vectors)
    if problem.n_rows and problem.n_rows <= 2 * base.target.multiprocessors:
        for one in _large_blocks(base, most):
            chunks = -(-n_vectors // (one.threads * one.vectors))
            beside = range(1, one.per_sm + 1)
            yield from over_blocks(one, problem.n_rows, chunks, beside, (1, 2, 4, 8, 16, 32))
        if len(program.sweeps) == 1:
            yield from _clusters(program, base, problem.n_rows, n_vectors, most)


def _blocks(
    base: CudaSchedule, n_vectors: int, largest: int, most: int
) -> Iterator[CudaSchedule]:
    """A row each; as many as registers leave room for. What warps do once a row counts where rows
    are short."""
    edges = _edges(base)
    yield base.having(threads=128, vectors=min(most, -(-n_vectors // 128)), fixed=True,
                      per_sm=7 if edges else 8)
    if n_vectors <= 64 * (64 if largest <= WARP else most):
        yield base.having(threads=64, vectors=min(most, -(-n_vectors // 64)), fixed=True,
                          per_sm=14 if edges else 16)


def _ring_blocks(base: CudaSchedule) -> Iterator[CudaSchedule]:
    edges = _edges(base)
    one = base.having(threads=256, vectors=4, home=Ring(3), fixed=True, per_sm=3 if edges else 4,
                      caching="kept")  # copies have no say: see caching.py
    yield one
    yield one.having(threads=128, per_sm=6 if edges else 7)


def _large_blocks(base: CudaSchedule, most: int) -> Iterator[CudaSchedule]:
    """For rows that are few; of very few, more parts run on a multiprocessor."""
    yield base.having(threads=512, vectors=min(4, most), fixed=True, per_sm=2)
    yield base.having(threads=256, vectors=most, fixed=True, per_sm=4)


def _edges(base: CudaSchedule) -> bool:
    """Are elements at the edges of a row in registers beside many others?"""
    return base.width == MAX_WIDTH and base.has_edges


def _clusters(
    program: Program, base: CudaSchedule, rows: int, n_vectors: int, most: int
) -> Iterator[CudaSchedule]:
    """A row over blocks that tell one another what they find; each has a tile of whole warps."""
    for blocks in base.target.cluster_sizes:
        share = -(-n_vectors // blocks)
        for threads, per_sm in ((512, 1), (256, 2)):
            one = base.having(team=Cluster(blocks), threads=threads, fixed=True, per_sm=per_sm,
                              vectors=min(most, -(-share // threads)))
            whole = n_vectors - (blocks - 1) * share >= threads
            if whole and rows <= _at_once(one) \
                    and not any(in_device_memory(k, one) for k in program.kernels):
                yield one


def _at_once(one: CudaSchedule) -> int:
    """Clusters that a device holds: parts of it have no room for another whole one."""
    room = one.per_sm * one.target.multiprocessors // one.blocks
    return int(_CLUSTERED * room) if one.blocks > 2 else room


def _rings(program: Program, base: CudaSchedule) -> bool:
    """Can a row come through shared memory? Copies there are 16 bytes each."""
    kernel = program.kernels[0]
    if not base.target.ampere or len(program.sweeps) > 1 or base.load == "scalar":
        return False
    read = ring_params(kernel, kernel.sweeps[0])
    return bool(read) and all(p.dtype.itemsize * base.width % VECTOR_BYTES == 0 for p in read)


def price_of_lists(
    one: CudaSchedule, work: Work, k: int, figures: Figures = FIGURES
) -> Price:
    """Price of a schedule for lists of up to k elements."""
    lists = figures.lists
    if work.rows is not None and work.few(one.target):
        few = _cluster_latencies if one.clustered else _latencies
        return Price(tuple(few(one, work, work.rows, k, lists)), adds=True)
    row = work.vectors * work.vector_bytes / one.target.bandwidth
    rate = one.target.multiprocessors * figures.short_lists.rate
    entries = 1.0 + lists.entry * k / (1.0 + k / lists.entries) / rate / row
    factors = [("loads", _loads(one, lists)), ("lists", _lists(one, work, k, lists)),
               ("warps", _warps(one, work, lists)), ("entries", entries)]
    if work.rows is not None:
        factors.append(("parallelism", _idle(one, work.rows, lists)))
    return Price(tuple(factors), adds=False)


def _loads(one: CudaSchedule, lists: Lists) -> float:
    """Loads of small elements wait for a tile's candidates, unless they are under way in a ring;
    that has to fill. Blocks of few threads wait less for one another."""
    narrow = one.width == MAX_WIDTH
    if not one.home.stages:
        return 1.0 + (lists.narrow if narrow else 0.0)
    fill = 0.0 if narrow else lists.ring
    return 1.0 + fill + (lists.ring_block if one.threads > 128 else 0.0)


def _warps(one: CudaSchedule, work: Work, lists: Lists) -> float:
    """What each warp does once a row; a multiprocessor wants 32 warps."""
    once = 1.0 + lists.warp * one.team_threads / WARP / work.vectors
    few = work.rows is not None and work.rows < one.per_sm * one.target.multiprocessors
    if few or one.home.stages:
        return once
    return once / min(1.0, math.sqrt(one.per_sm * one.threads / (32 * WARP)))


def _lists(one: CudaSchedule, work: Work, k: int, lists: Lists) -> float:
    """Work on candidates: long lists need the memory of rings."""
    crowded = lists.crowded if one.home.stages and k >= 256 else 0.0
    merges = lists.merge * one.blocks / work.vectors if one.blocks > 1 else 0.0
    return 1.0 + crowded + merges


def _idle(one: CudaSchedule, rows: int, lists: Lists) -> float:
    """Few blocks keep few loads under way: a ring has two more chunks of them. Where rows take a
    few turns, the last leaves places empty."""
    there, blocks = one.target.multiprocessors, rows * one.blocks / one.rows_per_block
    chunks = max(1, one.home.stages) * one.vectors * one.threads
    last = 1.0 + lists.uneven * (uneven(math.ceil(blocks), one.per_sm * there) - 1.0)
    return last * math.sqrt(max(1.0, lists.idle * there / (blocks * chunks)))


def _latencies(
    one: CudaSchedule, work: Work, rows: int, k: int, lists: Lists
) -> list[tuple[str, float]]:
    """Microseconds of a few rows."""
    beside = -(-rows * one.blocks // one.target.multiprocessors)  # blocks on one multiprocessor
    tiles = work.vectors / one.blocks / (one.team_threads * one.vectors)
    tile = one.team_threads * one.vectors / 2048  # of the largest kind
    each = max(lists.least_tile, lists.tile * (1 + beside) * tile)
    if one.width == MAX_WIDTH:
        each *= 1.0 + lists.tile_narrow + lists.tile_narrow_entry * k
    if one.home.stages:  # tiles are there when they are looked at
        each = lists.ring_tile + beside * tile
    slices = one.blocks if one.blocks > 1 else 0
    gathered = lists.slice * slices * (1 + k * lists.slice_entry)
    merging = 2 if one.blocks > 1 else 1
    sorting = merging * k / one.threads * beside + lists.sort * math.sqrt(k)
    launch = lists.launch_grid if one.blocks > 1 else lists.launch
    start = launch + one.threads * lists.launch_thread + sorting
    return [("launch and list", start), ("tiles", tiles * each), ("slices", gathered)]


def _cluster_latencies(
    one: CudaSchedule, work: Work, rows: int, k: int, lists: Lists
) -> list[tuple[str, float]]:
    """Likewise, where blocks of a cluster share a row."""
    tile = one.team_threads * one.vectors  # of a block
    tiles = -(-work.vectors // (one.blocks * tile))
    together = rows * one.blocks * tile * VECTOR_BYTES / 1e6  # megabytes of all blocks' tiles
    each = max(lists.least_tile, lists.cluster_megabyte * together)
    each += lists.cluster_tile + tile * lists.cluster_tile_vector
    each += lists.cluster_entry * math.sqrt(min(k, 256))
    start = lists.cluster + one.threads * lists.cluster_thread
    start += one.vectors * lists.cluster_vector
    sorting = lists.cluster_sort * math.sqrt(k) + k / one.threads * lists.cluster_merge
    return [("launch and list", start + sorting), ("tiles", tiles * each)]
