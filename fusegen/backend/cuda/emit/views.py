"""What the templates print of a sweep, decided and spelled out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fusegen.backend.cuda.bring import Bring
from fusegen.backend.cuda.emit.short_lists import ShortList
from fusegen.backend.cuda.emit.sources import LoadView
from fusegen.backend.cuda.emit.state import StateView
from fusegen.backend.cuda.schedule.cuda import IN_REGISTERS, Lists
from fusegen.backend.cuda.schedule.homes import Ahead, Memory
from fusegen.backend.cuda.schedule.topk import ListPlan
from fusegen.backend.emit.lines import Line, uses_of
from fusegen.ir.kernel import COLUMN

COLUMN_OF_ITEM = Line("const column_t column = column_of(i);", declares=COLUMN.name)


@dataclass(frozen=True)
class Alike:
    """Lists of one form, the first of which has the text of all: `values[i][j]` is what list number
    i has for the first one's number `numbers[j]`, of C++ type `type`."""

    lists: tuple[str, ...]
    type: str
    numbers: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ListView:
    """A K-best list of the sweep."""

    name: str
    k: int
    way: Lists
    plan: ListPlan  # where candidates are streamed
    short: ShortList | None  # where lanes hold a row
    key: str  # C++ type of its candidates
    keys: str  # the type that makes them from values and columns
    made: str  # what that is
    plan_type: str  # of the plan, where candidates are streamed
    list_type: str  # and of the list
    value_type: str
    peak: str  # variable that holds the chunk's greatest candidate
    own_peak: bool  # computed for the list alone (else a folded maximum is the same value)
    lines: tuple[Line, ...]  # from memory to the candidate's value, at `column`
    item_lines: tuple[Line, ...]  # from item i to the candidate's value
    vector_lines: tuple[Line, ...]  # from memory to the items of one `vector`
    ring_lines: tuple[Line, ...]  # from a ring in shared memory, at `place`, to the value
    value: str
    item_value: str  # of item i in one expression, where it is no more than what was loaded; or ""
    uses: frozenset[str]  # names in the value
    pairs: str  # items of 16 bits that are the values themselves, compared two at a time; or ""
    spilled: bool
    memory: str  # where its slots are
    worst: str  # the peak of no items, where peaks are floats or integers of their own
    alike: Alike | None = None  # those that it shares a text with

    @property
    def told(self) -> bool:
        """Is it another list's text that collects it?"""
        return self.alike is not None and self.alike.lists[0] != self.name

    @property
    def in_registers(self) -> bool:
        """Are its entries in the registers of lanes?"""
        return self.way in IN_REGISTERS

    @property
    def by_column(self) -> bool:
        """Does an item's value depend on its column?"""
        return COLUMN.name in self.uses or uses_column(self.item_lines)

    @property
    def value_lines(self) -> tuple[Line, ...]:
        """All that its value needs of item i."""
        return (COLUMN_OF_ITEM, *self.item_lines) if self.by_column else self.item_lines


@dataclass(frozen=True)
class SearchView:
    """The chunk's best of values that were loaded: known as a value first, then sought."""

    name: str  # of the column, a member of states
    value: str  # and of the value
    same: str  # a member that is this value, too; or ""
    order: str  # C++: "<" of greatest values
    lines: tuple[Line, ...]  # from item i to its value
    item: str
    pairs: str  # items of 16 bits that are these values, sought two at a time; ""

    @property
    def column(self) -> bool:
        """Do its lines use the column number?"""
        return uses_column(self.lines)

    @property
    def value_lines(self) -> tuple[Line, ...]:
        """All that its value needs of item i."""
        return (COLUMN_OF_ITEM, *self.lines) if self.column else self.lines


@dataclass(frozen=True)
class FunctionView:
    """A function over a chunk's items: its parameters, its arguments, those for an edge."""

    params: tuple[str, ...] = ()
    args: str = ""
    edge_args: str = ""


@dataclass(frozen=True)
class LiftView:
    """How a chunk's sums about one level of pivots are made; `tag` names the rebase."""

    tag: str
    suffix: str  # of functions of this level
    about: str  # the pivots' names
    anchors: tuple[tuple[str, str], ...]
    divisors: tuple[Line, ...]  # their declarations
    lines: tuple[Line, ...]
    call: FunctionView = FunctionView()  # where the row's pivots are known before

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
    keeps: str  # items of terms that a later sweep needs again; or ""
    state: StateView | None
    total: str  # the row's state once folded
    part: str  # a block's, where blocks share a row
    visit: str  # template of how it goes over a row
    notes: bool  # do threads note chunks meanwhile, for lists if there are any?
    meet: str  # and of how what it found becomes the row's
    reduce: str  # the function that merges the team's states
    meeting: str  # what else it takes: where warps and blocks meet
    meeting_array: str  # its declaration; "" for teams inside a warp
    loads: tuple[LoadView, ...]
    brings: tuple[Bring, ...]  # how the items of a chunk come
    asked: tuple[Bring, ...]  # likewise, of those that the sweep before has asked for
    asks_next: tuple[Bring, ...]  # and those that the sweep after this one finds so
    held: tuple[Bring, ...]  # likewise of the chunk in registers, where the rest is elsewhere
    stashed: tuple[Bring, ...]  # and of one in shared memory, where that has a part of the rest
    ahead: tuple[LoadView, ...]  # loads that come a chunk early, the first while states meet
    ahead_next: tuple[LoadView, ...]  # likewise, of the sweep after this one
    edges: tuple[Line, ...]  # of whole rows that begin inside a vector: elements by themselves
    edge: str  # the variable with this thread's column among them
    fold_params: tuple[str, ...]
    fold_args: str
    edge_fold_args: str
    fold_divisors: tuple[Line, ...]
    fold_lines: tuple[Line, ...]
    fold_pairs: tuple[Line, ...]  # of the chunk as a whole, two items at a time
    searches: tuple[SearchView, ...]
    find: FunctionView  # where they are sought once all lanes know the value
    lifts: tuple[LiftView, ...]
    map_params: tuple[str, ...]
    map_args: str
    edge_map_args: str
    map_divisors: tuple[Line, ...]  # their declarations
    store_lines: tuple[Line, ...]
    stores: tuple[tuple[str, str, str, str], ...]  # element type, param, items, pointer to vectors
    at_once: int  # vectors of a chunk that are mapped at a time; 0: all
    lists: tuple[ListView, ...]
    steps: tuple[Line, ...]
    store_steps: tuple[Line, ...]  # of values that are only stored, where lanes may have no row
    row_stores: tuple[Line, ...]
    list_stores: tuple[Line, ...]

    @property
    def at_row_scope(self) -> tuple[Line, ...]:
        """All that is done once a row."""
        return (*self.steps, *self.store_steps, *self.row_stores, *self.list_stores)

    @property
    def item_lines(self) -> tuple[Line, ...]:
        """All that is done with items to fold them."""
        sought = (ln for s in self.searches for ln in s.lines)
        lifted = (ln for lift in self.lifts for ln in (*lift.divisors, *lift.lines))
        return (*self.fold_divisors, *self.fold_lines, *self.fold_pairs, *sought, *lifted)

    @property
    def streamed_lists(self) -> tuple[ListView, ...]:
        return tuple(c for c in self.lists if c.way == "streamed")

    @property
    def ring(self) -> tuple[LoadView, ...]:
        """Loads that come through a ring in shared memory."""
        return tuple(ld for ld in self.loads if ld.loader == "fetch_chunk")

    @property
    def guesses(self) -> bool:
        """May a list begin with a threshold that is not proved?"""
        return any(top.plan.guess for top in self.streamed_lists)

    @property
    def first_edges(self) -> bool:
        """Does a list's first threshold come from the first tile?"""
        return any(top.plan.groups for top in self.streamed_lists)

    @property
    def visits(self) -> bool:
        """Does the sweep go over the row at all?"""
        return self.state is not None or bool(self.lists or self.stores)

    @property
    def made_twice(self) -> bool:
        """Do several loops of the fold make the same of items, as for a mean and for sums about it,
        if only of 16 bits the floats? Compilers that see both in one piece keep what the first has
        made, as many registers as the items take or twice as many, and spill it."""
        there = {ld.name for ld in self.loads if not ld.narrow}
        loops = (self.fold_lines, *(lift.lines for lift in self.lifts))
        made = Counter(name for lines in loops for name in {ln.declares for ln in lines} - there)
        return not self.pivots_first and any(n > 1 for name, n in made.items() if name)

    @property
    def folds(self) -> bool:
        return bool(self.fold_lines or self.fold_pairs or self.searches or self.lifts)

    @property
    def combines(self) -> bool:
        """Do a chunk's folded members join the state's?"""
        return self.state is not None and bool(self.state.combine)

    @property
    def pivots_first(self) -> bool:
        """Do lanes know a row's pivots before they make sums about them?"""
        return self.state is not None and self.state.pivots_first

    @property
    def sought(self) -> str:
        """Where the columns of searches are kept."""
        return ", ".join(f"{self.total}.{s.name}" for s in self.searches)

    @property
    def fold_column(self) -> bool:
        return uses_column(self.fold_lines)

    @property
    def fold_columns(self) -> bool:
        return self.fold_column or (self.later_columns and not self.pivots_first)

    @property
    def later_columns(self) -> bool:
        """Do searches or sums ask for columns?"""
        return bool(self.searches) or any(lift.column for lift in self.lifts)

    @property
    def seeks_last(self) -> bool:
        """Is only the chunk that has a thread's best value kept, and read once more to find the
        column? Chunks with a new best value are many: some lane of a warp has one."""
        goes_by = self.visit in (Memory.visit, Ahead.visit)
        again = goes_by and not self.ahead and self.items > 1
        plain = len(self.brings) == len(self.loads) and not any(
            ld.loader == "load_columns" for ld in self.loads)
        numbered = self.fold_column or any(s.column for s in self.searches) or any(
            lift.column for lift in self.lifts)
        ordered = self.state is not None and self.state.ordered
        more = self.pivots_first or ordered or bool(self.lists or self.stores)
        return bool(self.searches) and again and plain and not numbered and not more

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
        listed = not self.notes and any(
            c.by_column or not (c.short and c.short.plan.pruned) for c in self.lists)
        folded = self.fold_column or self.later_columns
        return folded or self.map_column or by_column or listed


def uses_column(lines: Iterable[Line]) -> bool:
    return COLUMN.name in uses_of(lines)
