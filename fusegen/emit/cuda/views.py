"""What the templates print of a sweep, decided and spelled out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fusegen.emit.comments import code
from fusegen.emit.cuda.short_lists import ShortList
from fusegen.emit.cuda.state import StateView
from fusegen.schedule.cuda import Lists
from fusegen.schedule.topk import ListPlan


@dataclass(frozen=True)
class LoadView:
    """One element array as a sweep reads it."""

    type: str
    name: str
    pointer: str
    kept: bool  # is it on chip from the first sweep on?
    narrow: bool  # are several elements packed into a register?
    loader: str  # the function that brings its items
    body: str = ""  # pointer to the first vector, if copies go to shared memory


@dataclass(frozen=True)
class ListView:
    """A K-best list of the sweep."""

    name: str
    k: int
    way: Lists
    plan: ListPlan  # where candidates are streamed
    short: ShortList | None  # where lanes hold a row
    key: str  # C++ type of its candidates
    keys: str  # and of what makes them from values and columns
    value_type: str
    peak: str  # variable that holds the chunk's greatest candidate
    own_peak: bool  # computed for the list alone (else a folded maximum is the same value)
    lines: tuple[str, ...]  # from memory to the candidate's value, at `column`
    item_lines: tuple[str, ...]  # from item i to the candidate's value
    vector_lines: tuple[str, ...]  # from memory to the items of one `vector`
    ring_lines: tuple[str, ...]  # from a ring in shared memory, at `place`, to the value
    value: str
    pairs: str  # items of 16 bits that are the values themselves, compared two at a time; or ""
    spilled: bool
    memory: str  # where its slots are
    worst: str
    finite: str  # the greatest value that is no NaN; "" where there is none of those

    @property
    def by_column(self) -> bool:
        """Does an item's value depend on its column?"""
        return uses_column((*self.item_lines, self.value))

    @property
    def value_lines(self) -> tuple[str, ...]:
        """All that its value needs of item i."""
        column = ("const column_t column = column_of(i);",) if self.by_column else ()
        return (*column, *self.item_lines)


@dataclass(frozen=True)
class LiftView:
    """How a chunk's sums about one level of pivots are made; `suffix` names the rebase."""

    suffix: str
    anchors: tuple[tuple[str, str], ...]
    divisors: tuple[str, ...]  # their declarations
    lines: tuple[str, ...]

    @property
    def column(self) -> bool:
        """Do its lines use the column number?"""
        return uses_column(self.lines)


@dataclass(frozen=True)
class SweepView:
    """Everything a template prints for one sweep."""

    number: int
    first: bool  # of its kernel
    last: bool  # of those that go over the row
    items: int  # of a chunk
    algorithm: str
    state: StateView | None
    total: str  # the row's state once folded
    part: str  # a block's, where blocks share a row
    reduce: str  # the function that merges the team's states
    meeting: str  # what else it takes: where warps and blocks meet
    meeting_array: str  # its declaration; "" for teams inside a warp
    loads: tuple[LoadView, ...]
    brings: tuple[str, ...]  # statements that declare and fill the items of a chunk
    held: tuple[str, ...]  # likewise of the chunk in registers, where the rest is elsewhere
    ahead: tuple[LoadView, ...]  # loads that come a chunk early, the first while states meet
    ahead_next: tuple[LoadView, ...]  # likewise, of the sweep after this one
    fold_params: tuple[str, ...]
    fold_args: str
    edge_fold_args: str
    fold_lines: tuple[str, ...]
    fold_pairs: tuple[str, ...]  # of the chunk as a whole, two items at a time
    lifts: tuple[LiftView, ...]
    map_params: tuple[str, ...]
    map_args: str
    edge_map_args: str
    map_divisors: tuple[str, ...]  # their declarations
    store_lines: tuple[str, ...]
    stores: tuple[tuple[str, str, str, str], ...]  # element type, param, items, pointer to vectors
    lists: tuple[ListView, ...]
    steps: tuple[str, ...]
    row_stores: tuple[str, ...]
    list_stores: tuple[tuple[ListView, tuple[str, ...]], ...]

    @property
    def streamed_lists(self) -> tuple[ListView, ...]:
        return tuple(c for c in self.lists if c.way == "streamed")

    @property
    def ring(self) -> tuple[LoadView, ...]:
        """Loads that come through a ring in shared memory."""
        return tuple(ld for ld in self.loads if ld.loader == "fetch_chunk")

    @property
    def guesses(self) -> bool:
        """May a list begin with an edge that is not proved?"""
        return any(top.plan.guess for top in self.streamed_lists)

    @property
    def first_edges(self) -> bool:
        """Does a list's first edge come from the first tile?"""
        return any(top.plan.groups for top in self.streamed_lists)

    @property
    def declares(self) -> tuple[str, ...]:
        """Items of a chunk that may be less than whole: what is not there does not stay in
        registers from the chunk before."""
        return tuple(ln.replace(";", " = {};") for ln in self.brings if ln.startswith("Items<"))

    @property
    def fills(self) -> tuple[str, ...]:
        return tuple(ln for ln in self.brings if not ln.startswith("Items<"))

    @property
    def refills(self) -> tuple[str, ...]:
        """A chunk's items once more: they need not outlast what lies between."""
        return tuple(re.sub(r"^Items<.*> (\w+);", r"\1 = {};", ln) for ln in self.brings)

    @property
    def visits(self) -> bool:
        """Does the sweep go over the row at all?"""
        return self.state is not None or bool(self.lists or self.stores)

    @property
    def repacked(self) -> tuple[str, ...]:
        """Loads that are unpacked once more for the sums, so that fewer registers hold them."""
        if not self.lifts or self.items <= 32:
            return ()
        lifted = " ".join(ln for lift in self.lifts for ln in lift.lines)
        return tuple(ld.name for ld in self.loads if ld.narrow and f"{ld.name}_items[" in lifted)

    @property
    def repacks(self) -> bool:
        return bool(self.repacked) or any(".repack" in ln for ln in (*self.brings, *self.held))

    @property
    def folds(self) -> bool:
        return bool(self.fold_lines or self.fold_pairs or self.lifts)

    @property
    def combines(self) -> bool:
        """Do a chunk's folded members join the state's?"""
        return self.state is not None and bool(self.state.combine)

    @property
    def fold_column(self) -> bool:
        return uses_column(self.fold_lines)

    @property
    def fold_columns(self) -> bool:
        return self.fold_column or any(lift.column for lift in self.lifts)

    @property
    def map_column(self) -> bool:
        return uses_column(self.store_lines)

    @property
    def uses_at(self) -> bool:
        """Does a chunk in registers have to know where it lies?"""
        return bool(self.stores) or self.column_of or any(not ld.kept for ld in self.loads)

    @property
    def column_of(self) -> bool:
        """Is the column of an item asked for anywhere?"""
        by_column = any(ld.loader == "load_columns" for ld in self.loads)
        listed = any(c.by_column or not (c.short and c.short.plan.pruned) for c in self.lists)
        return self.fold_columns or self.map_column or by_column or listed


def uses_column(lines: tuple[str, ...]) -> bool:
    return any(re.search(r"\bcolumn\b", code(line)) for line in lines)
