"""Where a row stays from its first sweep to its last: what each home needs, and its statements.

`visit` names the template of a sweep over a row that is there, `factor` says what staying there
costs. To add a home: a class here, a partial, and its place in a tree of levels; nothing else asks
which home it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fusegen.backend.cuda.bring import SHIFTED, Bring
from fusegen.backend.cuda.schedule.figures import ManyRows
from fusegen.backend.emit.lines import Line


@dataclass(frozen=True, slots=True)
class Sizes:
    """What shared memory depends on: a block's threads, a thread's chunk, and bytes of an element
    in every array that stays on chip, in every array that the first sweep reads, and in each array
    of the rows' size; those of a row's entries that wait for its neighbours', of each array; how
    many of those that stay are out of phase."""

    threads: int
    vectors: int
    width: int
    kept: int
    read: int
    elements: tuple[int, ...] = ()
    entries: tuple[int, ...] = ()
    apart: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """What the price of a home depends on besides itself."""

    threads: int  # of a block
    blocks: int  # of a row
    per_sm: int  # blocks of a multiprocessor that the schedule asks for
    resident: int  # and those that there is room for
    in_warp: bool  # do lanes of a warp own a row?
    narrow: bool  # has a vector as many elements as there can be?
    stores: bool  # are arrays of the rows' size written?
    extra: int  # arrays beside those on chip that one sweep reads
    again: float  # share of the time that is lost where every sweep reads memory
    waits: float  # and where the blocks of a row wait for one another


@dataclass(frozen=True, slots=True)
class Array:
    """An array whose rows have a home, as kernels name it."""

    name: str
    type: str
    row: str  # pointer to the first whole vector of the row at hand
    loader: str  # the function that brings its items to registers
    all_rows: str  # pointer to row 0
    edges: bool = False  # may rows begin or end inside a vector?
    lies: bool = False  # does the first sweep fold its words as they lie?

    @property
    def apart(self) -> bool:
        """Do its rows lie at other offsets from a boundary than the vectors?"""
        return self.loader == "load_shifted"

    def body(self, row: str, head: str) -> tuple[str, str]:
        """Type and value of what says where a row's whole vectors are."""
        return body_of_row(f"const {self.type}*", self.loader, row, head if self.edges else "")


def body_of_row(pointer: str, loader: str, row: str, head: str) -> tuple[str, str]:
    """Likewise, by the pointer's type and the function that loads vectors."""
    if loader not in SHIFTED:
        return pointer, f"{row} + {head}" if head else row
    kind = pointer.removeprefix("const ").removesuffix("*")
    struct = "Within" if loader == "load_within" else "Shifted"
    return f"const {struct}<{kind}>", f"{{{row} + {head}}}"


@dataclass(frozen=True, slots=True)
class AnyHome:
    """What a home may need, and nothing as long as it does not say so."""

    visit: ClassVar[str] = "cuda/homes/memory.cuh.j2"  # template of a sweep
    tiles: ClassVar[str] = ""  # likewise, where threads wait for one another; "": just so
    begin: ClassVar[str] = ""  # template of what stands before a sweep
    walk: ClassVar[str] = ""  # header of how threads go over a row, beside <fusegen/walk.cuh>
    words: ClassVar[str] = ""  # after "row per block"
    of_threads: ClassVar[bool] = False  # does a thread hold its part, and not the block?
    side_by_side: ClassVar[bool] = False  # are rows neighbours in memory, and not their columns?
    next_chunk: ClassVar[bool] = False  # is a second chunk in registers, on its way?
    notes: ClassVar[bool] = False  # do lists come from a few chunks that are read once more?
    steady: ClassVar[bool] = False  # do teams go from row to row, one coming in as one leaves?
    lies: ClassVar[bool] = False  # may a first sweep fold a slice's words as they lie?
    loader: ClassVar[str] = ""  # the function that brings a chunk of what it keeps
    chunk: ClassVar[str] = "kVectors"  # of what comes from shared memory
    store: ClassVar[str] = "store_items"  # the function that puts a chunk where results go

    @property
    def kind(self) -> str:
        """Where rows stay, in few words."""
        return "from memory"

    @property
    def keeps(self) -> bool:
        """Do rows stay on chip?"""
        return False

    @property
    def threads_keep(self) -> bool:
        """Do threads hold rows in their registers?"""
        return self.of_threads and self.keeps

    @property
    def awaited(self) -> bool:
        """Do blocks that share a row wait for one another before they go on with it?"""
        return self.keeps

    @property
    def slice_vectors(self) -> int:
        """Vectors of a row that a block has room for in shared memory."""
        return 0

    @property
    def stages(self) -> int:
        """Chunks under way through shared memory."""
        return 0

    @property
    def band_rows(self) -> int:
        """Neighbouring rows that a block brings to shared memory together; 0: each by itself."""
        return 0

    @property
    def rows_apart(self) -> int:
        """From one of a warp's rows among them to the next."""
        return 1

    @property
    def ahead(self) -> bool:
        """Does what all rows share come a chunk early?"""
        return False

    def shared_bytes(self, sizes: Sizes) -> int:
        """Dynamic shared memory of a block."""
        return 0

    def factor(self, stay: Stay, many: ManyRows) -> float:
        """By how much a row takes longer than its bytes do, where there are many."""
        short = many.small_block * max(0, 512 // stay.threads - 1)
        return 1.0 + many.device + short + stay.again

    def capacity(self, held: int) -> int | None:
        """Vectors of a row that a block has a place for, `held` of them if its threads hold as many
        as they have; None: rows may be of any length."""
        return None

    def fewest(self, threads: int, vectors: int) -> int:
        """Vectors that a row must have, where every thread of its team holds so many."""
        return 0

    def room(self, held: str) -> str:
        """The same in words."""
        return held

    def span(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        """Statements that say which vectors of the row are this thread's, and where they go."""
        return ()

    def enter(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        """Statements that bring a row on chip, before anything waits."""
        return ()

    def settle(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        """Statements that wait for what `enter` has asked for, once all else was asked for too."""
        return ()

    def row_span(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        """Likewise, what differs from row to row of a steady team: where rows have edges."""
        return ()

    def first_row(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        """Likewise of a steady team's first row."""
        return ()

    def next_row(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        """Bring a part of the next row to where this row has left registers."""
        return ()

    def next_group(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        """The same, a group of shared memory."""
        return ()

    def brings(self, name: str, kind: str) -> tuple[Bring, ...]:
        """How a sweep gets a chunk of an array that stays here."""
        return ()

    def in_registers(self, name: str, kind: str, *, maps: bool) -> tuple[Bring, ...]:
        """Likewise of the chunk in registers, where others are elsewhere; `maps`: does the sweep
        map it, and fold nothing?"""
        return ()
