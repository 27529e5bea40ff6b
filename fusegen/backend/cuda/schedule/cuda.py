"""Choices for a GPU: a row's tree of chunks, how wide loads are, what a thread may use.

A *team* owns a row: some lanes of a warp, a block, a cluster of blocks, or blocks all over the
grid. A thread's chunk is `vectors` vectors of `width` neighbouring elements: folded safely inside,
merged once. `levels.py` says how chunks become rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from fusegen.backend.choices import PlainSchedule
from fusegen.backend.cuda.schedule.bounds import BOUNDS, RegisterLimit
from fusegen.backend.cuda.schedule.caching import IN_WORDS, Caching
from fusegen.backend.cuda.schedule.homes import MEMORY, Home, Tiers
from fusegen.backend.cuda.schedule.levels import (
    Block,
    Cluster,
    Grid,
    Lanes,
    Level,
    Owner,
    Strip,
    Team,
    Thread,
    tree,
)
from fusegen.backend.cuda.schedule.merges import Apart, Merge, Shuffle, ThroughMemory
from fusegen.backend.target import WARP, CudaTarget
from fusegen.ir.forms import Grouping

_Owner = TypeVar("_Owner", bound=Owner)

VECTOR_BYTES = 16
MAX_WIDTH = 8  # elements of a vector
MAX_ITEMS = 32  # of a chunk whose candidates for a list are told apart by a bit each
NARROW_COLUMNS = 2**30  # up to here a column number plus a few chunks fits 32 bits
TYPICAL_COLUMNS = 8192  # where the length of a row is not known

LoadMode = Literal["aligned", "peeled", "shifted", "scalar"]
"""aligned: rows are whole vectors.  peeled: they begin or end inside a vector, all arrays at the
same offset from a boundary.  shifted: not all at the same; one array's boundaries count, others are
read as the words around what is wanted, and shifted.  scalar: one element per access."""

Lists = Literal["streamed", "sorted", "rounded", "collected"]
"""How a team keeps the K best: as candidates while a row goes by; of a row that lanes hold, sorted
by networks (sorted, rounded); of a row that threads hold, what reaches a bar is collected."""

IN_REGISTERS: tuple[Lists, ...] = ("sorted", "rounded")  # whose entries lanes have


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaSchedule(PlainSchedule):
    """How a program runs on a GPU."""

    target: CudaTarget
    levels: tuple[Level, ...]  # from a thread up
    load: LoadMode
    caching: Caching = "kept"  # of the rows that are read
    wide_columns: bool = False  # n_cols does not fit 32 bits
    fixed: bool = False  # is the number of threads part of the source?
    registers: RegisterLimit = 64
    per_sm: int = 1  # blocks that a multiprocessor shall have room for
    lists: Lists = "streamed"
    sampled: bool = False  # are rows of so many chunks that a sample may begin a long list?
    strip: Strip | None = None  # where rows lie side by side

    def having(
        self, *, team: Team | None = None, threads: int | None = None, vectors: int | None = None,
        home: Home | None = None, **others: Any,
    ) -> CudaSchedule:
        """The same schedule with another tree: what is not given stays."""
        chunk = Thread(self.vectors if vectors is None else vectors, self.width)
        owner = self.team if team is None else team
        size = self.threads if threads is None else threads
        if isinstance(owner, Block):
            owner = Block(size)
        levels = tree(chunk, size, owner, self.home if home is None else home)
        return replace(self, levels=levels, **others)

    # ---- what the levels say ----

    def _owner(self, kind: type[_Owner]) -> _Owner | None:
        for level in self.levels:  # no generator: selection asks a million times
            if isinstance(level.owner, kind):
                return level.owner
        return None

    @property
    def rows_apart(self) -> Level | None:
        """The level that has several rows side by side, if there is one."""
        for level in self.levels:
            if isinstance(level.merge, Apart):
                return level
        return None

    @property
    def top(self) -> Level:
        """The level that owns a row: below the one that has several side by side."""
        top = self.levels[0]
        for level in self.levels:
            if isinstance(level.merge, Apart):
                break
            top = level
        return top

    @property
    def team(self) -> Team:
        """Who owns a row."""
        owner = self.top.owner
        assert not isinstance(owner, Thread)
        return owner

    @property
    def home(self) -> Home:
        """Where a row stays from its first sweep to its last."""
        for level in self.levels:
            if level.home is not MEMORY and level.home != MEMORY:
                return level.home
        return MEMORY

    @property
    def merge(self) -> Merge:
        """How the threads of a team come to have the row's total, where they have it at once."""
        found = [lv.merge for lv in self.levels if lv.merge.meets]
        return found[-1]

    @property
    def merges(self) -> tuple[Merge, ...]:
        """Every way in which states meet in the source, from the inside out."""
        return tuple(lv.merge for lv in self.levels if lv.merge.header)

    @property
    def partial_warps(self) -> bool:
        """Does a warp have several rows, of which the last may be missing?"""
        return self.in_warp and (self.lanes < WARP or self.home.band_rows > 0)

    @property
    def shuffles(self) -> bool:
        """Do lanes exchange states?"""
        return any(isinstance(merge, Shuffle) for merge in self.merges)

    @property
    def chunk(self) -> Thread:
        """A thread's part."""
        found = self._owner(Thread)
        assert found is not None
        return found

    @property
    def vectors(self) -> int:
        """Of a thread's chunk."""
        return self.chunk.vectors

    @property
    def width(self) -> int:
        """Elements of a vector."""
        return self.chunk.width

    @property
    def items(self) -> int:
        """Elements of a thread's chunk."""
        return self.chunk.items

    @property
    def lanes(self) -> int:
        """Of a warp that work on the same row."""
        found = self._owner(Lanes)
        return found.count if found else WARP

    @property
    def threads(self) -> int:
        """Of a block."""
        found = self._owner(Block)
        assert found is not None
        return found.threads

    @property
    def blocks(self) -> int:
        """That share a row."""
        match self.team:
            case Cluster(blocks=blocks) | Grid(blocks=blocks):
                return blocks
            case _:
                return 1

    @property
    def clustered(self) -> bool:
        """Do the blocks of a row reach one another's shared memory?"""
        return isinstance(self.team, Cluster)

    @property
    def split(self) -> bool:
        """Do blocks anywhere on the device share a row?"""
        return isinstance(self.team, Grid)

    @property
    def waits(self) -> bool:
        """Do the blocks of a row wait for one another, all over the device?"""
        merge = self.top.merge
        return isinstance(merge, ThroughMemory) and merge.waits

    @property
    def kind(self) -> tuple[str, str]:
        """Who owns a row, and where it stays."""
        return self.team.said, self.home.kind

    @property
    def order(self) -> tuple[str, ...]:
        """Among schedules of the same price, the first by these is taken."""
        home = "Memory" if self.home.stages else type(self.home).__name__
        return (type(self.team).__name__, home, str(self.threads), str(self.lanes),
                str(self.blocks), str(self.vectors), str(self.width), repr(self))

    @property
    def in_warp(self) -> bool:
        """Do lanes of a warp own a row?"""
        return isinstance(self.team, Lanes)

    @property
    def team_threads(self) -> int:
        """Threads of a block that work on the same row."""
        return self.lanes if self.rows_apart else self.threads

    @property
    def team_items(self) -> int:
        """Elements of a team's chunk."""
        return self.team_threads * self.items

    @property
    def rows_per_block(self) -> int:
        return self.threads // self.team_threads

    @property
    def block_rows(self) -> int:
        """Rows of a block, one after the other."""
        return max(self.rows_per_block, self.home.band_rows)

    @property
    def most_threads(self) -> int:
        """Threads that a block of the same source may have."""
        if self.fixed or self.rows_apart:
            return self.threads
        return BOUNDS[self.registers].threads

    @property
    def least_blocks(self) -> int:
        """Blocks of that size that a multiprocessor shall have registers for."""
        if self.fixed:
            return self.per_sm
        bound = BOUNDS[self.registers]
        return bound.blocks if self.most_threads == bound.threads else 1

    @property
    def grouping(self) -> Grouping:
        return "sweeps" if self.split and not self.home.keeps else "rows"

    @property
    def tiers(self) -> Tiers:
        """Where the vectors of rows side by side stay."""
        home = self.home
        return home if isinstance(home, Tiers) else Tiers()

    @property
    def strip_rows(self) -> int:
        """Neighbouring rows that a team owns, where rows lie side by side."""
        return self.strip.across * self.width if self.strip else 1

    @property
    def has_edges(self) -> bool:
        """May rows begin or end inside a vector?"""
        return self.load in ("peeled", "shifted")

    # ---- in words ----

    @property
    def algorithm(self) -> str:
        """What the field calls the tree of merges."""
        chunk = "one element at a time" if self.items == 1 else f"chunks of {self.items}"
        levels = [lv.owner.word for lv in self.levels if not isinstance(lv.merge, Apart)]
        return f"{chunk}, merged {' → '.join(levels)}"

    @property
    def shape(self) -> str:
        """What the source fixes."""
        if self.strip:
            return f"{self.strip.shape(self.chunk, self.team, self.tiers)}{IN_WORDS[self.caching]}"
        lists = "" if self.lists == "streamed" else f", lists {self.lists}"
        ahead, stages = self.home.ahead, self.home.stages
        return (
            f"row per {self.team.phrase}{self.home.words}, {self.vectors} × {self.width} elements "
            f"per thread and chunk, {self.load} loads{IN_WORDS[self.caching]}"
            f"{', shared columns a chunk ahead' if ahead else ''}"
            f"{f', a ring of {stages} chunks' if stages else ''}{lists}"
        )

    def describe(self) -> str:
        blocks = f", {self.blocks} blocks a row" if self.blocks > 1 else ""
        return f"{self.shape}; {self.threads} threads a block{blocks}, {self.target.arch}"
