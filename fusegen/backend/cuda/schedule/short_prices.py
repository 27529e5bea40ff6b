"""What lists of short rows cost: instructions of a warp, by rough count."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures, ShortLists
from fusegen.backend.cuda.schedule.price import Price, Work, price_of
from fusegen.backend.cuda.schedule.short_lists import ShortPlan, short_plan
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Kernel, Program
from fusegen.ir.monoid import KBest


def price_of_short_lists(
    program: Program, one: CudaSchedule, work: Work, figures: Figures = FIGURES
) -> Price:
    """Price of a schedule: what the lists add are instructions of a warp, by rough count."""
    price, short = price_of(one, work, figures), figures.short_lists
    cost = sum(
        _cost(kernel, best, one, short)
        for kernel in program.kernels for s in kernel.sweeps for best in s.monoid.lists
    )
    if price.adds:
        part = cost * WARP / one.team_threads * short.few
    else:
        row = work.vectors * work.vector_bytes / one.target.bandwidth
        part = 1.0 + cost / (one.target.multiprocessors * short.rate) / row
    return Price((*price.parts, ("lists", part)), price.adds)


def _cost(kernel: Kernel, best: KBest, schedule: CudaSchedule, short: ShortLists) -> float:
    if schedule.lists == "sorted":
        return _sorted_cost(schedule, short_plan(kernel, best, schedule), short)
    if schedule.lists == "dealt":
        entries = -(-best.k // WARP)
        bins = (1 << short_plan(kernel, best, schedule).bin_bits) // WARP
        return (short.dealt + short.dealt_bin * bins + short.dealt_item * schedule.items
                + short.dealt_entry * entries)
    if schedule.lists == "merged":
        return _merged_cost(schedule, short_plan(kernel, best, schedule), best.k, short)
    mine = short_plan(kernel, best, schedule).mine
    steps = (WARP * mine).bit_length() * (WARP * mine).bit_length() / 2
    sort = short.sort_step * mine * steps
    if mine == 1:
        sort = short.rank * best.k + short.rank_start
    return short.counted + short.counted_item * schedule.items + sort


def _sorted_cost(schedule: CudaSchedule, plan: ShortPlan, short: ShortLists) -> float:
    """Keys, networks of `kept`, merges and rounds of shuffles, of the lanes of one row."""
    exchange, key, shuffle = _of_keys(plan, short)
    width, kept, lanes = plan.group, plan.kept, schedule.lanes
    key += short.alone if schedule.width == 1 else 0.0
    clean = kept * max(0, kept.bit_length() - 1) / 2 * exchange
    merge = clean + kept * exchange / 2
    rounds = (lanes.bit_length() - 1) * (merge + kept * shuffle)
    vector = width * key + exchange * _sorting(width) + merge
    vectors, first = float(plan.groups), 0.0
    if plan.pruned:
        first = vectors * (width + key) + exchange * _sorting(schedule.vectors) + rounds
        vectors = -(-kept // lanes)
        first += short.again * vectors
    alone = 1.0 + schedule.items * plan.words * short.crowded
    apart = 1.0 + short.apart / lanes**2
    return (first + vectors * vector - merge + rounds) * lanes / WARP * alone * apart


def _merged_cost(schedule: CudaSchedule, plan: ShortPlan, k: int, short: ShortLists) -> float:
    """Keys, a network of each lane's, one of ever more lanes, and entries by way of memory."""
    exchange, key, shuffle = _of_keys(plan, short)
    mine, lanes = plan.group, schedule.lanes
    rounds = lanes.bit_length() - 1
    network = exchange * (_sorting(mine) + rounds * mine * (mine.bit_length() - 1) / 2)
    across = rounds * (rounds + 1) / 2 * mine * (shuffle + exchange / 2)
    apart = 1.0 + short.apart / lanes**2
    keys = schedule.items * key + short.merged_entry * -(-k // lanes)
    return (keys + network + across) * lanes / WARP * apart


def _of_keys(plan: ShortPlan, short: ShortLists) -> tuple[float, float, float]:
    """Instructions of an exchange, a key, and a key that goes to another lane."""
    if plan.pair:
        return short.pair_exchange, short.pair_key, short.pair_shuffle
    return short.exchange, short.key, short.shuffle


def _sorting(n: int) -> float:
    """Exchanges of Batcher's network."""
    p = (n - 1).bit_length()
    return (p * p - p + 4) * 2 ** (p - 2) - 1 if n > 1 else 0
