"""Lists of short rows, which lanes of a warp own.

sorted: every lane sorts what it holds by a network and keeps its best; lanes merge by shuffles.
Nothing depends on the data.  counted: a bar that about K elements reach is searched for; those that
reach it meet in shared memory, where each counts how many are better.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusegen.backend.cuda.schedule.cuda import VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures, ShortLists
from fusegen.backend.cuda.schedule.homes import Registers
from fusegen.backend.cuda.schedule.levels import Lanes
from fusegen.backend.cuda.schedule.price import Price, Work, price_of
from fusegen.backend.cuda.schedule.topk import key_plan, loaded_type
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Kernel, Program
from fusegen.ir.monoid import KBest

_MOST_SORTED = 16  # entries of a list that every lane keeps
_LARGEST = 128  # list of a warp that counts
_MOST_HELD = {1: 64, 2: 32}  # words of a key → items of a lane that sorts
_MOST_COUNTED = 32  # and of one that counts: a bit each
_NARROW_COLUMNS = 2**15 - 1  # that fit a key of 32 bits beside a value of 16


@dataclass(frozen=True, slots=True)
class ShortPlan:
    """A list of K candidates of lanes."""

    kept: int  # a power of two: entries of a lane's list
    pair: str  # 16-bit type whose candidates are made two at a time, in 32 bits; ""
    pruned: bool  # are the best vectors found first?
    room: int  # items that may become candidates where they are counted
    mine: int  # a power of two: candidates of a lane there

    @property
    def words(self) -> int:
        """Registers of a key."""
        return 1 if self.pair else 2


def short_plan(kernel: Kernel, best: KBest, schedule: CudaSchedule) -> ShortPlan:
    """How lanes keep this list."""
    kept = 1 << (best.k - 1).bit_length()
    vectors = schedule.lanes * schedule.vectors
    sorts = schedule.lists == "sorted" and len(kernel.sweeps) == 1
    edges = 2 * (schedule.width - 1) if schedule.has_edges else 0
    mine = _counted_by_lane(best.k, edges)
    return ShortPlan(
        kept=kept, pair=_paired(kernel, best, schedule),
        pruned=sorts and vectors >= 4 * kept and schedule.vectors <= kept,
        room=mine * WARP - edges, mine=mine,
    )


def _counted_by_lane(k: int, edges: int) -> int:
    """Candidates of a lane: room for half as many more than the list has, if they are few."""
    candidates = edges + max(k, min(k + k // 2 + 8, 4 * WARP - edges))
    return 1 << (-(-candidates // WARP) - 1).bit_length()


def _paired(kernel: Kernel, best: KBest, schedule: CudaSchedule) -> str:
    loaded = loaded_type(kernel, best)
    narrow = loaded is not None and loaded.name in ("float16", "bfloat16")
    fits = schedule.width % 2 == 0 and schedule.team_items <= _NARROW_COLUMNS
    return loaded.name if loaded is not None and narrow and fits else ""


def short_list_schedules(
    program: Program, base: CudaSchedule, n_vectors: int, chunk: int | None
) -> tuple[CudaSchedule, ...]:
    """Schedules for rows that lanes can hold, if their lists are short enough: faster than any
    that keeps candidates as a row goes by."""
    lists = [(k, c) for k in program.kernels for s in k.sweeps for c in s.monoid.lists]
    if not lists or chunk is not None or base.wide_columns or int(base.target.arch[3:]) < 80:
        return ()
    if any(key_plan(kernel, best, base.wide_columns).wide for kernel, best in lists):
        return ()
    largest = max(c.k for _, c in lists)
    base = base.having(team=Lanes(), home=Registers(), threads=128)
    found: list[CudaSchedule] = []
    if largest <= _MOST_SORTED:
        words = max(1 if _paired(kernel, best, base) else 2 for kernel, best in lists)
        found += _sorted(replace(base, lists="sorted"), n_vectors, _MOST_HELD[words])
    vectors = -(-n_vectors // WARP)
    if vectors * base.width <= _MOST_COUNTED and largest <= min(_LARGEST, WARP * base.width):
        found.append(base.having(vectors=vectors, lists="counted"))
    return tuple(found)


def _sorted(base: CudaSchedule, n_vectors: int, most: int) -> Iterator[CudaSchedule]:
    # A lane takes one element of the edges at most.
    least = 2 * (base.width - 1) if base.has_edges else 1
    for lanes in (2, 4, 8, 16, 32):
        vectors = 1 << (-(-n_vectors // lanes) - 1).bit_length()
        if least <= lanes and vectors * base.width <= most and lanes < 2 * n_vectors:
            yield base.having(team=Lanes(lanes), vectors=vectors)


# ---- prices ----


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
        row = work.vectors * VECTOR_BYTES / one.target.bandwidth
        part = 1.0 + cost / (one.target.multiprocessors * short.rate) / row
    return Price((*price.parts, ("lists", part)), price.adds)


def _cost(kernel: Kernel, best: KBest, schedule: CudaSchedule, short: ShortLists) -> float:
    if schedule.lists == "sorted":
        return _sorted_cost(schedule, short_plan(kernel, best, schedule), short)
    mine = short_plan(kernel, best, schedule).mine
    steps = (WARP * mine).bit_length() * (WARP * mine).bit_length() / 2
    sort = short.sort_step * mine * steps
    if mine == 1:
        sort = short.rank * best.k + short.rank_start
    return short.counted + short.counted_item * schedule.items + sort


def _sorted_cost(schedule: CudaSchedule, plan: ShortPlan, short: ShortLists) -> float:
    """Keys, networks of `kept`, merges and rounds of shuffles, of the lanes of one row."""
    exchange, key, shuffle = (
        (short.pair_exchange, short.pair_key, short.pair_shuffle) if plan.pair
        else (short.exchange, short.key, short.shuffle)
    )
    width, kept, lanes = schedule.width, plan.kept, schedule.lanes
    clean = kept * max(0, kept.bit_length() - 1) / 2 * exchange
    merge = clean + kept * exchange / 2
    rounds = (lanes.bit_length() - 1) * (merge + kept * shuffle)
    vector = width * key + exchange * _sorting(width) + merge
    vectors, first = float(schedule.vectors), 0.0
    if plan.pruned:
        first = vectors * (width + key) + exchange * _sorting(schedule.vectors) + rounds
        vectors = -(-kept // lanes)
        first += short.again * vectors
    alone = 1.0 + schedule.items * plan.words * short.crowded
    apart = 1.0 + short.apart / lanes**2
    return (first + vectors * vector - merge + rounds) * lanes / WARP * alone * apart


def _sorting(n: int) -> float:
    """Exchanges of Batcher's network."""
    p = (n - 1).bit_length()
    return (p * p - p + 4) * 2 ** (p - 2) - 1 if n > 1 else 0
