"""Lists of short rows, which lanes of a warp own.

sorted: every lane sorts what it holds by a network; lists of ever more lanes merge by shuffles.
rounded: the same by keys of half as many bits, and by whole ones what these leave open.
collected: what reaches a bar that K elements reach, sorted.
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
from fusegen.backend.cuda.schedule.cuda import IN_REGISTERS, CudaSchedule
from fusegen.backend.cuda.schedule.homes import Registers
from fusegen.backend.cuda.schedule.lanes import by_elements
from fusegen.backend.cuda.schedule.levels import Lanes
from fusegen.backend.cuda.schedule.networks import made_to_sort
from fusegen.backend.cuda.schedule.team_lists import Merging, kept_by_lane, merging
from fusegen.backend.cuda.schedule.topk import key_plan, loaded_type
from fusegen.ir.dtypes import FLOAT32
from fusegen.ir.kernel import Kernel, Program
from fusegen.ir.monoid import KBest

_MOST_SORTED = 512  # entries of a list that lanes sort
_MOST_HELD = {1: 100, 2: 48}  # words of a key → items of a lane that sorts
_MOST_BESIDE_STATE = 64  # the same, where statistics take them too
_FEW_LISTS, _MOST_OF_MANY = 2, 16  # and where more lists than these do
_MOST_ROUNDED = 100  # items of a lane that rounds
_LONGEST_ROUNDED = 24  # entries of a lane, which whole keys may have to put in order
_MOST_MADE = {1: 1800, 2: 820}  # and keys that its networks make: compilers take two seconds
_MOST_ROUNDED_MADE = 860  # of rounded ones, whose networks are there several times
_NARROW_COLUMNS = 2**15 - 1  # that fit a key of 32 bits beside a value of 16


@dataclass(frozen=True, slots=True)
class ShortPlan:
    """A list of K candidates of lanes."""

    pair: str  # 16-bit type whose candidates are made two at a time, in 32 bits; ""
    pruned: bool  # are the best vectors found first?
    room: int  # items that may become candidates where they are collected
    bin_bits: int  # of the bins that what is collected is dealt to
    parts: int  # of a vector, whose peaks set a bar where candidates are collected
    together: int  # vectors that share one
    collects_keys: bool  # are those so many that keys are made of all items?
    column_bits: int  # of a rounded key
    kept: int  # items of a lane that sorts, at first
    sorts_again: bool  # may it have more of the list?

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
        pruned=sorts and vectors >= 4 * best.k,
        room=0, bin_bits=0,
        parts=1, together=1, collects_keys=False,
        column_bits=max(1, (schedule.team_items - 1).bit_length()),
        kept=0, sorts_again=False,
    )
    if schedule.lists in IN_REGISTERS:
        kept, most = kept_of(best.k, schedule), candidates_of(schedule)
        again = kept < min(entries_sought(best.k, schedule), most)
        return replace(plan, kept=kept, sorts_again=again)
    pairs = bool(plan.pair)
    return replace(plan, room=room_of(best.k, schedule),
                   parts=parts_of(best.k, schedule, pairs=pairs),
                   together=together_of(best.k, schedule, pairs=pairs),
                   bin_bits=bin_bits_of(best.k, schedule),
                   collects_keys=makes_keys(best.k, schedule))


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
        loaded_type(kernel, best) == FLOAT32 and 3 * best.k <= 2 * n_cols for kernel, best in lists
    ):
        return
    n_vectors = max(1, n_cols // base.width)
    for lanes in (1, 2, 4, 8, 16):
        one = base.having(team=Lanes(lanes), vectors=-(-n_vectors // lanes))
        own = lanes < max(2, 2 * n_vectors)
        short = max(best.k for _, best in lists) <= _LONGEST_ROUNDED * lanes
        if own and short and _sorts(lists, one, _MOST_ROUNDED, _MOST_ROUNDED_MADE):
            yield one


def _sorts(
    lists: list[tuple[Kernel, KBest]], one: CudaSchedule, most_held: int, most_made: int
) -> bool:
    """Do lanes hold so few items, fewer where statistics or many lists take them, and make so few
    keys for all lists?"""
    states = any(len(s.monoid.components) > len(s.monoid.lists)
                 for kernel, _ in lists for s in kernel.sweeps)
    most = min(most_held, _MOST_BESIDE_STATE) if states else most_held
    if one.items > (min(most, _MOST_OF_MANY) if len(lists) > _FEW_LISTS else most):
        return False  # networks of very many are not even counted
    return sum(made_by_lane(best.k, one) for _, best in lists) <= most_made


def candidates_of(one: CudaSchedule) -> int:
    """Items that a lane sorts: those of its vectors, and one of the edges."""
    return one.items + one.has_edges


def entries_sought(k: int, one: CudaSchedule) -> int:
    """A list's, and of one by rounded keys that behind it, which may have the last one's key."""
    return min(k + 1, one.team_items) if one.lists == "rounded" else k


def kept_of(k: int, one: CudaSchedule) -> int:
    """Items that a lane sorts at first: all that may be in a list where a lane may have one of the
    edges, which is not looked up again."""
    sought = entries_sought(k, one)
    if one.has_edges:
        return min(sought, candidates_of(one))
    return kept_by_lane(sought, one.items, one.lanes)


def merging_of(k: int, one: CudaSchedule) -> Merging:
    """What it takes to merge the lists of a row's lanes."""
    return merging(entries_sought(k, one), kept_of(k, one), one.lanes)


def made_by_lane(k: int, one: CudaSchedule) -> int:
    """Keys that a lane's networks make: of its items, and of other lanes' lists."""
    merged = merging_of(k, one)
    return made_to_sort(candidates_of(one), kept_of(k, one)) + merged.made + merged.settled
