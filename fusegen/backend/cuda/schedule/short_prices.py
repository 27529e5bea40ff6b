"""What lists of short rows cost: instructions of a warp, by rough count."""

from __future__ import annotations

import math

from fusegen.backend.cuda.schedule.band_entries import waiting_lists
from fusegen.backend.cuda.schedule.collected import by_lanes, few_keys
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures, ShortLists
from fusegen.backend.cuda.schedule.merges import MAX_CLUSTER
from fusegen.backend.cuda.schedule.networks import made_to_sort
from fusegen.backend.cuda.schedule.occupancy import slots
from fusegen.backend.cuda.schedule.price import price_of
from fusegen.backend.cuda.schedule.short_lists import (
    ShortPlan,
    candidates_of,
    kept_of,
    merging_of,
    short_plan,
)
from fusegen.backend.cuda.schedule.short_row_prices import Short, waves_of_row
from fusegen.backend.cuda.schedule.team_lists import Merging, merging
from fusegen.backend.cuda.schedule.work import Price, Work
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Kernel, Program
from fusegen.ir.monoid import KBest

_INDEX_BYTES = 8  # of an entry's column
_WORD = 4  # bytes of a register
_LINE = 128  # bytes of memory that a warp touches at a time
_HELD = 32  # items of a lane that registers hold beside what is done with them
_FULL = 80 << 10  # bytes of a block's items that leave room for one or two blocks
_ISSUING = 4  # schedulers of a multiprocessor
_WAITING = 5.0  # turns until an instruction's result is there
_SHARP = 2  # how little what takes less adds to what takes most


def price_of_short_lists(
    program: Program, one: CudaSchedule, work: Work, rows: Short | None,
    figures: Figures = FIGURES,
) -> Price:
    """Price of a schedule: instructions of a warp beside bytes, by rough count. rows None: long
    ones, which do not come in bands."""
    short = figures.short_lists
    lists = [(k, c) for k in program.kernels for s in k.sweeps for c in s.monoid.lists]
    if one.clustered:
        return _of_clusters(program, one, work, figures)
    price = price_of(one, work, figures)
    cost = sum(_cost(kernel, best, one, short) for kernel, best in lists)
    cost += _reading(program, one, short)
    cost += short.wave * waves_of_row(one, rows) if rows else 0.0
    lines = short.line * sum(_lines(kernel, best, one, work) for kernel, best in lists)
    if one.home.band_rows:
        cost += sum(_entry(kernel, one, short) * best.k for kernel, best in lists)
    if one.in_warp:
        cost *= 1.0 + short.registers * (one.registers / 64 - 1.0)
        cost *= 1.0 + short.many * max(0.0, one.items / _HELD - 1.0)
    if price.adds:
        part = (cost + lines) * WARP / one.team_threads * short.few * _crowd(one, work)
        meeting = sum(_gathered(best.k, one, work, short) for _, best in lists)
        return Price((*price.parts, ("lists", part), ("slices of lists", meeting)), price.adds)
    written = sum(best.k for _, best in lists) * (_INDEX_BYTES + work.vector_bytes // one.width)
    row = (work.vectors * work.vector_bytes + written) / one.target.bandwidth
    idle = _idle(one, work, len(lists), short)
    issue, access = (n * idle / (one.target.multiprocessors * short.rate) / row
                     for n in (cost, lines))
    whole = (1.0 + issue**_SHARP + access**_SHARP) ** (1 / _SHARP)
    if not one.in_warp and one.threads * one.vectors * work.vector_bytes > _FULL:
        whole *= 1.0 + short.full
    kept = [(name, n) for name, n in price.parts if name in ("home", "parallelism")]
    return Price((*kept, ("instructions", whole)), adds=False)


def _entry(kernel: Kernel, one: CudaSchedule, short: ShortLists) -> float:
    """On its way from a lane to memory, of rows that come in bands."""
    if waiting_lists(kernel, one):
        return short.entry_waiting
    return short.entry_banded if one.home.rows_apart == 1 else short.entry_apart


def _idle(one: CudaSchedule, work: Work, lists: int, short: ShortLists) -> float:
    """Few warps leave schedulers idle while instructions wait for those before them; those of
    several lists do not wait for one another."""
    if work.rows is None:
        return 1.0
    warps = work.rows / one.rows_per_block * one.threads / WARP / one.target.multiprocessors
    return 1.0 + short.lonely / max(1.0, warps * lists)


def _crowd(one: CudaSchedule, work: Work) -> float:
    """Warps that take turns to issue an instruction, or, of fewer, turns that one waits for what it
    needs. Slices' blocks: as if alone, the rest is in what their lists cost."""
    if one.split:
        return 1.0
    blocks = -(-(work.rows or 1) // one.rows_per_block)
    beside = min(-(-blocks // one.target.multiprocessors), one.per_sm)
    return max(_WAITING, one.threads * beside / (_ISSUING * WARP))


def _of_clusters(
    program: Program, one: CudaSchedule, work: Work, figures: Figures
) -> Price:
    """Rows in rounds: as many as there is room for come, find their bars and meet together."""
    many, short = figures.many, figures.short_lists
    k = sum(best.k for s in program.sweeps for best in s.monoid.lists)
    at_once = slots(one, one.per_sm, many) // one.blocks
    row = work.vectors * work.vector_bytes / one.target.bandwidth * 1e6
    life = short.cluster_round + short.cluster_entry * k
    life += short.cluster_warp * one.blocks * one.threads / WARP
    life += short.cluster_member * one.items * _members(program)
    life += short.cluster_word * one.vectors * work.vector_bytes / _WORD
    life += short.cluster_16 if one.blocks == MAX_CLUSTER else 0.0
    if work.rows is None:
        return Price((("rounds", 1.0 + life / at_once / row),), adds=False)
    rounds, moving = -(-work.rows // at_once), work.rows * row
    if work.few(one.target):
        return Price((("launch", short.cluster), ("elements", moving), ("rounds", rounds * life)),
                     adds=True)
    return Price((("rounds", 1.0 + (short.cluster + rounds * life) / moving),), adds=False)


def _gathered(k: int, one: CudaSchedule, work: Work, short: ShortLists) -> float:
    """Microseconds until the last block of a row has the best of its slices' lists."""
    if not one.split:
        return 0.0
    rounds = -(-(work.rows or 1) * one.blocks // (one.per_sm * one.target.multiprocessors))
    each = short.gathered_slice * one.blocks + short.gathered_entry * k
    return short.gathered * rounds + each


def _reading(program: Program, one: CudaSchedule, short: ShortLists) -> float:
    """What threads do with a row beside its lists: elements come, and statistics of them meet."""
    members = _members(program)
    if one.width > 1:
        come = one.vectors * short.vector
    else:
        come = one.items * (short.alone_banded if one.home.band_rows else short.alone)
    lane = (short.row_banded if one.home.band_rows else short.row) + come
    lane += (short.edges if one.has_edges else 0.0) + one.items * members * short.member
    lane += members * math.log2(one.lanes) * short.round / 2
    return lane * one.team_threads / WARP


def _members(program: Program) -> int:
    """Of the state beside lists."""
    return max(len(s.monoid.components) - len(s.monoid.lists) for s in program.sweeps)


def _lines(kernel: Kernel, best: KBest, one: CudaSchedule, work: Work) -> float:
    """Lines of memory that the accesses of a row's warps touch, one after another: lanes of few
    threads reach as many as they have rows."""
    lanes, rows = one.lanes, WARP // one.lanes
    found = 0.0
    if not one.home.band_rows:
        for p in kernel.elements:
            size = p.dtype.itemsize
            stride = work.vectors * one.width * size
            found += one.vectors * _touched(rows, stride, lanes * one.width * size)
    value = min((p.dtype.itemsize for p in kernel.elements), default=kernel.compute.itemsize)
    if waiting_lists(kernel, one):  # all rows' entries in one piece
        return best.k * sum(max(size / _LINE, 1 / WARP) for size in (value, _INDEX_BYTES))
    for size in (value, _INDEX_BYTES):
        found += -(-best.k // one.team_threads) * _touched(rows, best.k * size, lanes * size)
    return found * one.team_threads / WARP


def _touched(rows: int, stride: float, run: int) -> float:
    """Lines of so many rows' neighbouring bytes, wherever these begin."""
    each = 1.0 + (run - 1) / _LINE
    return min(rows * each, (rows - 1) * stride / _LINE + each)


def _cost(kernel: Kernel, best: KBest, schedule: CudaSchedule, short: ShortLists) -> float:
    plan = short_plan(kernel, best, schedule)
    if schedule.lists == "sorted":
        return _sorted_cost(schedule, plan, best.k, short)
    if schedule.lists == "rounded":
        return _rounded_cost(schedule, best.k, short)
    return _collected_cost(schedule, plan, best.k, short)


def _collected_cost(schedule: CudaSchedule, plan: ShortPlan, k: int, short: ShortLists) -> float:
    """Rounds that count peaks, items that reach the bar, candidates that find their places."""
    threads, pairs = schedule.team_threads, bool(plan.pair)
    warps = threads // WARP
    peaks = schedule.vectors * plan.parts / plan.together * (0.5 if pairs else 1.0)
    found = k * short.collected_more / threads
    item = short.collected_key if plan.collects_keys else short.collected_mark
    cost = item * schedule.items
    if by_lanes(k, schedule):
        cost += short.collected_few
    else:
        cost += short.collected + short.collected_peak * peaks
    if not plan.collects_keys:  # the lane that has most of them
        cost += short.collected_column * (found + 2.5 * math.sqrt(found))
        cost += short.again * math.ceil(found)
    cost += short.written * math.ceil(k / threads)
    if found * threads <= few_keys(warps):  # by those warps that have one
        cost += short.collected_rank * found * threads * math.ceil(found * warps) / warps
    else:
        cost += short.collected_entry * math.ceil(found)
        cost += short.collected_bin * math.ceil((1 << plan.bin_bits) / threads)
    if not schedule.in_warp:
        cost += short.collected_block
    held = schedule.items * (0.5 if pairs else 1.0) + 3 * math.ceil(plan.room / threads)
    return cost * (1.0 + held * short.collected_crowded) * threads / WARP


def _sorted_cost(schedule: CudaSchedule, plan: ShortPlan, k: int, short: ShortLists) -> float:
    """Keys, a network of each lane's, and lists that merge, of the lanes of one row."""
    costs = exchange, key, _ = _of_keys(plan, short)
    lanes, width, items = schedule.lanes, schedule.width, schedule.items
    if plan.pruned:
        peaks = made_to_sort(schedule.vectors, schedule.vectors) * exchange / 2
        cost = schedule.vectors * (width + key) + peaks
        cost += _merging(merging(k, schedule.vectors, lanes), costs, short)
        visited = -(-k // lanes)
        most = min(k, width)
        vector = short.again + width * key + made_to_sort(width, most) * exchange / 2
        merge = made_to_sort(k + most, k) - made_to_sort(k, k) - made_to_sort(most, most)
        cost += visited * vector + (visited - 1) * merge * exchange / 2
        cost += _merging(merging(k, k, lanes), costs, short)
    else:
        cost = items * key + made_to_sort(candidates_of(schedule), plan.kept) * exchange / 2
        cost += _merging(merging_of(k, schedule), costs, short)
    return cost * lanes / WARP * (1.0 + items * plan.words * short.crowded)


def _merging(merged: Merging, costs: tuple[float, float, float], short: ShortLists) -> float:
    """Lists of a row's lanes that become one."""
    exchange, _, shuffle = costs
    return (merged.made + short.settled * merged.settled) * exchange / 2 + merged.sent * shuffle


def _rounded_cost(schedule: CudaSchedule, k: int, short: ShortLists) -> float:
    """Words, their network and lists that merge; entries are looked up and held to their
    neighbours."""
    costs = exchange, key, shuffle = _of_words(short)
    lanes, items = schedule.lanes, schedule.items
    own = -(-k // lanes)
    cost = items * (key + short.rounded_item) + own * short.rounded_entry
    cost += made_to_sort(items, kept_of(k, schedule)) / 2 * exchange
    cost += _merging(merging_of(k, schedule), costs, short)
    cost += 2 * own * shuffle if lanes > 1 else 0.0
    return cost * lanes / WARP * (1.0 + items * short.crowded)


def _of_keys(plan: ShortPlan, short: ShortLists) -> tuple[float, float, float]:
    """Instructions of an exchange, a key, and a key that goes to another lane."""
    return _of_words(short) if plan.pair else (short.exchange, short.key, short.shuffle)


def _of_words(short: ShortLists) -> tuple[float, float, float]:
    """The same where a key has 32 bits."""
    return short.pair_exchange, short.pair_key, short.pair_shuffle
