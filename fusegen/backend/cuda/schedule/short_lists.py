"""Lists of short rows, which lanes of a warp own.

sorted: every lane sorts what it holds by a network and keeps its best; lanes merge by shuffles.
rounded: the same by keys of half as many bits, and by whole ones what these leave open.
merged: one network of all lanes sorts the whole row.  Nothing depends on the data in these.
dealt: elements are dealt to bins in shared memory, about one a bin, and counted there: for lists
that are much of a row.  picked, collected: what reaches a bar that K elements reach, sorted.
Rows that begin or end inside a vector may be read element by element, a team's lanes side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusegen.backend.cuda.schedule.bands import FEW_COLUMNS, Rows, banded
from fusegen.backend.cuda.schedule.collected import (
    bin_bits_of,
    collected_by_warps,
    collected_in_clusters,
    collected_in_slices,
    collected_schedules,
    makes_keys,
    parts_of,
    room_of,
    together_of,
)
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import Registers
from fusegen.backend.cuda.schedule.lanes import by_elements
from fusegen.backend.cuda.schedule.levels import Lanes
from fusegen.backend.cuda.schedule.networks import made_to_merge, made_to_sort
from fusegen.backend.cuda.schedule.topk import STATIC_SHARED_BYTES, key_plan, loaded_type
from fusegen.backend.target import WARP
from fusegen.ir.dtypes import FLOAT32
from fusegen.ir.kernel import Kernel, Program
from fusegen.ir.monoid import KBest

_MOST_SORTED = 80  # entries of a list that every lane keeps
_MOST_HELD = {1: 80, 2: 40}  # words of a key → items of a lane that sorts
_MOST_BESIDE_STATE = 56  # the same, where statistics take them too
_MOST_OF_MANY = 16  # and where many lists do
_MOST_ROUNDED = 100  # items of a lane that rounds
_LONGEST_ROUNDED = 32  # entries, which a network of whole keys may have to put in order
_MOST_MADE = {1: 1400, 2: 700}  # and keys that its network makes
_MOST_ROUNDED_MADE = 900  # of rounded ones: of more, code is so long that warps wait for it
_MOST_DEALT = 10  # and of one that deals: of more, what is collected takes less time
_LEAST_TOGETHER = 17  # entries of a list for which all lanes sort or count together
_LEAST_DEALT = 3  # a list takes a row's third at least: shorter ones are counted in less time
_NARROW_COLUMNS = 2**15 - 1  # that fit a key of 32 bits beside a value of 16
_LEAST_MERGED, _MOST_MERGED = 8, 32  # items of a lane, words of their keys, where all sort together
_LONG_ROUNDS = 32  # items of a lane whose rounds, one behind the other, compilers take seconds for
_MOST_PICKED = 40  # items of a lane that picks
_MOST_PICKED_KEYS = 16  # of which it sorts so many
_MOST_PARTS, _PARTS = 8, (8, 3)  # of what a lane holds; eight for three entries of a list
_MOST_SIDE_BY_SIDE = 2  # lists that are picked: compilers take a second for the code of each
_MOST_APART = 24  # items of a lane that picks so, and reads them one by one
_BESIDE = 24  # entries of a list that is dealt, for which there is room more
_KEY_BYTES = 8


@dataclass(frozen=True, slots=True)
class ShortPlan:
    """A list of K candidates of lanes."""

    pair: str  # 16-bit type whose candidates are made two at a time, in 32 bits; ""
    pruned: bool  # are the best vectors found first?
    group: int  # a power of two: items of a lane, where all lanes sort together
    room: int  # items that may become candidates where they are collected
    mine: int  # a power of two: candidates of a lane where they are picked
    bin_bits: int  # of the bins that a row is dealt to, or what is collected
    parts: int  # of a vector, whose peaks set a bar where candidates are collected
    together: int  # vectors that share one
    collects_keys: bool  # are those so many that keys are made of all items?
    column_bits: int  # of a rounded key

    @property
    def in_loops(self) -> bool:
        """Do rounds in which all lanes sort together share their code?"""
        return self.group >= _LONG_ROUNDS

    @property
    def as_keys(self) -> str:
        """The same in C++."""
        return "true" if self.collects_keys else "false"

    @property
    def words(self) -> int:
        """Registers of a key."""
        return 1 if self.pair else 2


def short_plan(kernel: Kernel, best: KBest, schedule: CudaSchedule) -> ShortPlan:
    """How lanes keep this list."""
    vectors = schedule.lanes * schedule.vectors
    sorts = schedule.lists == "sorted" and len(kernel.sweeps) == 1 and schedule.width > 1
    plan = ShortPlan(
        pair=_paired(kernel, best, schedule),
        pruned=sorts and vectors >= 4 * best.k and schedule.vectors <= best.k,
        group=1 << (schedule.items - 1).bit_length(),
        room=0, mine=0, bin_bits=_bin_bits(schedule),
        parts=1, together=1, collects_keys=False,
        column_bits=max(1, (schedule.team_items - 1).bit_length()),
    )
    match schedule.lists:
        case "collected":
            pairs = bool(plan.pair)
            return replace(plan, room=room_of(best.k, schedule),
                           parts=parts_of(best.k, schedule, pairs=pairs),
                           together=together_of(best.k, schedule, pairs=pairs),
                           bin_bits=bin_bits_of(best.k, schedule),
                           collects_keys=makes_keys(best.k, schedule))
        case "picked":
            return replace(plan, mine=picked_by_lane(best.k, schedule), parts=schedule.width,
                           collects_keys=not picked_few(best.k, schedule))
        case _:
            return plan


def _bin_bits(schedule: CudaSchedule) -> int:
    """About as many bins as a row has elements."""
    return max(5, (schedule.team_items - 1).bit_length())


def _paired(kernel: Kernel, best: KBest, schedule: CudaSchedule) -> str:
    loaded = loaded_type(kernel, best)
    narrow = loaded is not None and loaded.name in ("float16", "bfloat16")
    columns = schedule.team_items * schedule.blocks
    fits = schedule.items % 2 == 0 and columns <= _NARROW_COLUMNS and not schedule.split
    return loaded.name if loaded is not None and narrow and fits else ""


def _words(kernel: Kernel, best: KBest, schedule: CudaSchedule) -> int:
    """Registers of a key."""
    return 1 if _paired(kernel, best, schedule) else 2


def short_list_schedules(
    program: Program, base: CudaSchedule, rows: Rows, chunk: int | None
) -> tuple[CudaSchedule, ...]:
    """Schedules for rows that lanes or a block can hold: faster than any that keeps candidates as a
    row goes by."""
    n_cols = rows.columns
    lists = [(k, c) for k in program.kernels for s in k.sweeps for c in s.monoid.lists]
    if not lists or chunk is not None or base.wide_columns or not base.target.ampere:
        return ()
    if any(key_plan(kernel, best, base.wide_columns).wide for kernel, best in lists):
        return ()
    base = base.having(team=Lanes(), home=Registers(), threads=128)
    ks = [c.k for _, c in lists]
    size = max(sum(p.dtype.itemsize for p in k.elements) for k in program.kernels)
    found: list[CudaSchedule] = []
    for one in (base, by_elements(base, 1)) if base.has_edges else (base,):
        # Lanes that have rows of their own would read far from one another, those that round twice.
        found += (o for o in _of_lanes(one, lists, n_cols) if o.lanes > 1 and o.lists != "rounded")
    if n_cols <= FEW_COLUMNS and any(k.elements for k in program.kernels):
        whole = (base,) if base.load == "aligned" and base.width > 1 else ()
        for one in (*whole, by_elements(base, 1)):
            for o in (*_of_lanes(one, lists, n_cols),
                      *collected_by_warps(one, ks, max(1, n_cols // one.width), size)):
                found += banded(program, o, rows)
    found += collected_schedules(base, ks, max(1, n_cols // base.width), size)
    if len(program.sweeps) == 1 and base.target.clusters:
        found += collected_in_clusters(base, ks, max(1, n_cols // base.width), size)
    if rows.count and len(program.sweeps) == 1:
        found += collected_in_slices(base, ks, max(1, n_cols // base.width), rows.count, size)
    return tuple(found)


def _of_lanes(
    one: CudaSchedule, lists: list[tuple[Kernel, KBest]], n_cols: int
) -> Iterator[CudaSchedule]:
    largest = max(c.k for _, c in lists)
    if largest <= _MOST_SORTED:
        yield from _sorted(replace(one, lists="sorted"), lists, n_cols)
        yield from _rounded(replace(one, lists="rounded"), lists, n_cols)
    vectors = -(-max(1, n_cols // one.width) // WARP)
    items = vectors * one.width
    if largest >= _LEAST_TOGETHER and not one.has_edges:
        if items <= _MOST_DEALT and _LEAST_DEALT * largest >= n_cols:
            yield from _dealt(one.having(vectors=vectors, lists="dealt"), [c.k for _, c in lists])
        yield from _merged(replace(one, lists="merged"), lists, n_cols)
    yield from _picked(replace(one, lists="picked"), lists, n_cols)


def _sorted(
    base: CudaSchedule, lists: list[tuple[Kernel, KBest]], n_cols: int
) -> Iterator[CudaSchedule]:
    # A lane takes one element of the edges at most.
    least = 2 * (base.width - 1) if base.has_edges else 1
    n_vectors = max(1, n_cols // base.width)
    for lanes in (1, 2, 4, 8, 16, 32):
        vectors = -(-n_vectors // lanes)
        vectors += vectors % 2 if base.width == 1 else 0  # items are made into keys two at a time
        one = base.having(team=Lanes(lanes), vectors=vectors)
        words = max(_words(kernel, best, one) for kernel, best in lists)
        own = least <= lanes < max(2, 2 * n_vectors)
        if own and _sorts(lists, one, _MOST_HELD[words], _MOST_MADE[words]):
            yield one


def _rounded(
    base: CudaSchedule, lists: list[tuple[Kernel, KBest]], n_cols: int
) -> Iterator[CudaSchedule]:
    # Values are looked up again, as they are in memory; of whole numbers 0 may be a word. Lists of
    # most of a row's elements take longer than whole keys do.
    if base.has_edges or not all(
        loaded_type(kernel, best) == FLOAT32 and
        best.k <= _LONGEST_ROUNDED and 3 * best.k <= 2 * n_cols for kernel, best in lists
    ):
        return
    n_vectors = max(1, n_cols // base.width)
    for lanes in (1, 2, 4, 8):
        one = base.having(team=Lanes(lanes), vectors=-(-n_vectors // lanes))
        own = lanes < max(2, 2 * n_vectors)
        if own and _sorts(lists, one, _MOST_ROUNDED, _MOST_ROUNDED_MADE):
            yield one


def _sorts(
    lists: list[tuple[Kernel, KBest]], one: CudaSchedule, most_held: int, most_made: int
) -> bool:
    """Do lanes hold so few items, fewer where statistics or many lists take them, and make so few
    keys for each list?"""
    states = any(len(s.monoid.components) > len(s.monoid.lists)
                 for kernel, _ in lists for s in kernel.sweeps)
    most = min(most_held, _MOST_BESIDE_STATE) if states else most_held
    if one.items > (min(most, _MOST_OF_MANY) if len(lists) > _MOST_SIDE_BY_SIDE else most):
        return False  # networks of very many are not even counted
    return max(made_by_lane(best.k, one) for _, best in lists) <= most_made


def made_by_lane(k: int, one: CudaSchedule) -> int:
    """Keys that a lane's networks make: of its items, and of other lanes' lists."""
    rounds = one.lanes.bit_length() - 1
    return made_to_sort(one.items, min(k, one.items)) + rounds * made_to_merge(k)


def _dealt(one: CudaSchedule, lists: list[int]) -> Iterator[CudaSchedule]:
    row = sum((4 << _bin_bits(one)) + 64 + 2 * _KEY_BYTES * (k + _BESIDE) for k in lists)
    return _beside(one, row)


def _merged(
    base: CudaSchedule, lists: list[tuple[Kernel, KBest]], n_cols: int
) -> Iterator[CudaSchedule]:
    entries = sum(best.k for _, best in lists)
    for lanes in (2, 4, 8, 16):
        vectors = -(-max(1, n_cols // base.width) // lanes)
        one = base.having(team=Lanes(lanes), vectors=vectors + vectors % 2 * (base.width == 1))
        words = max(_words(kernel, best, one) for kernel, best in lists)
        group = 1 << (one.items - 1).bit_length()
        if _LEAST_MERGED <= group <= _MOST_MERGED // words:
            yield from _beside(one, _KEY_BYTES * (entries + entries // _LEAST_MERGED))


def picked_by_lane(k: int, one: CudaSchedule) -> int:
    """A power of two: keys of a lane, as many as parts, or room for an eighth more than the list
    has."""
    counted = 1 << (-(-(k + max(2, k // 8)) // one.lanes) - 1).bit_length()
    return picked_few(k, one) or counted


def picked_few(k: int, one: CudaSchedule) -> int:
    """A power of two: parts of what a lane holds, the k-th among the greatest of which is a bar
    that few reach; 0: they are too many to be put in order, or a lane has too few items."""
    each, entries = _PARTS
    parts = 1 << (-(-each * k // (entries * one.lanes)) - 1).bit_length()
    fits = 2 * parts <= one.items and (one.width > 1 or one.items <= _MOST_APART)
    return parts if parts <= _MOST_PARTS and fits else 0


def _picked(
    base: CudaSchedule, lists: list[tuple[Kernel, KBest]], n_cols: int
) -> Iterator[CudaSchedule]:
    if base.has_edges or len(lists) > _MOST_SIDE_BY_SIDE:
        return
    for lanes in (4, 8, 16):
        vectors = -(-max(1, n_cols // base.width) // lanes)
        one = base.having(team=Lanes(lanes), vectors=vectors + vectors % 2 * (base.width == 1))
        each = [(picked_by_lane(best.k, one), _words(kernel, best, one))
                for kernel, best in lists]
        if one.items <= _MOST_PICKED and all(mine <= _MOST_PICKED_KEYS for mine, _ in each):
            row = sum((mine + 1) * lanes * 4 * words + one.team_items // 8 + 4
                      for mine, words in each)
            yield from _beside(one, row)


def _beside(one: CudaSchedule, row_bytes: int) -> Iterator[CudaSchedule]:
    """With as many rows in a block as there is shared memory for: two at least."""
    for threads in (128, 64, 32):
        if one.lanes < threads <= STATIC_SHARED_BYTES // row_bytes * one.lanes:
            yield one.having(threads=threads)
            return
