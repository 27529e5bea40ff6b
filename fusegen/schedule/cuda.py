"""Choices for a GPU: who owns a row, where the row stays, how wide its loads are.

A *team* owns a row: some lanes of a warp, a block, a cluster of blocks, or blocks all over the
grid. A thread's chunk is `vectors` vectors of `width` neighbouring elements: folded safely inside,
merged once. Chunks merge within the warp by shuffles, warps through shared memory, blocks through
one another's shared memory or through device memory, always in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusegen.forms import Grouping
from fusegen.schedule.target import WARP, CudaTarget

VECTOR_BYTES = 16
MAX_WIDTH = 8  # elements of a vector
MAX_CLUSTER = 16  # blocks
MAX_ITEMS = 32  # of a chunk whose candidates for a list are told apart by a bit each
NARROW_COLUMNS = 2**30  # up to here a column number plus a few chunks fits 32 bits
TYPICAL_COLUMNS = 8192  # where the length of a row is not known

LoadMode = Literal["aligned", "peeled", "scalar"]
"""aligned: rows are whole vectors.  peeled: they begin or end inside a vector, all arrays at the
same offset from a boundary.  scalar: no common boundary, one element per access."""

Team = Literal["lanes", "block", "cluster", "grid"]
Lists = Literal["streamed", "sorted", "counted"]
"""How a team keeps the K best: as candidates while the row goes by; or, of a row that lanes hold,
sorted by networks, or counted once a bar is known that about K elements reach."""
Home = Literal["device", "registers", "shared", "chip"]
"""Where a row stays from its first sweep to its last: later sweeps read it from there.  chip: in
registers and in shared memory, and the next row comes in where this one leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """Rows that lie side by side: a team owns `across` threads' worth of neighbouring rows.

    A thread's vector holds one element of each of `width` rows; its vectors lie along the reduced
    axis. The first `held` of them stay in registers, the next `stashed` in shared memory; later
    sweeps read the rest again.
    """

    across: int  # threads side by side; the block's others go down the reduced axis
    held: int = 0
    stashed: int = 0
    mapped: int = 1  # vectors of a chunk on its way from the chip back to memory
    rest: bool = True  # are there columns that stay in memory?
    resident: int = 1  # blocks of a multiprocessor that registers leave room for


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaSchedule:
    """How a program runs on a GPU."""

    target: CudaTarget
    team: Team
    home: Home
    threads: int  # of a block
    lanes: int = WARP  # that own a row, of a team of lanes
    blocks: int = 1  # that share a row
    vectors: int  # per thread and chunk
    width: int  # elements per vector
    load: LoadMode
    past_l1: bool = False  # do loads of rows leave L1 alone?
    ahead: bool = False  # does what all rows share come a chunk early, where rows stay on chip?
    wide_columns: bool = False  # n_cols does not fit 32 bits
    steady: bool = False  # does a team go from row to row, keeping what all rows share?
    fixed: bool = False  # is the number of threads part of the source?
    registers: Literal[64, 80, 128, 255] = 64  # that a thread may use
    per_sm: int = 1  # blocks that a multiprocessor shall have room for
    stages: int = 0  # chunks of a ring in shared memory through which rows come; 0: there is none
    slice_vectors: int = 0  # of a row in shared memory: vectors that a block makes room for
    lists: Lists = "streamed"
    sampled: bool = False  # are rows of so many chunks that a sample may begin a long list?
    strip: Strip | None = None  # where rows lie side by side

    @property
    def items(self) -> int:
        """Elements of a thread's chunk."""
        return self.vectors * self.width

    @property
    def team_threads(self) -> int:
        """Threads of a block that work on the same row."""
        return self.lanes if self.team == "lanes" else self.threads

    @property
    def team_items(self) -> int:
        """Elements of a team's chunk."""
        return self.team_threads * self.items

    @property
    def rows_per_block(self) -> int:
        return self.threads // self.team_threads

    @property
    def most_threads(self) -> int:
        """Threads that a block of the same source may have."""
        if self.fixed or self.team == "lanes":
            return self.threads
        return {64: 1024, 80: 256, 128: 512, 255: 256}[self.registers]

    @property
    def least_blocks(self) -> int:
        """Blocks of that size that a multiprocessor shall have registers for."""
        if self.fixed:
            return self.per_sm
        return 3 if self.registers == 80 and self.most_threads == 256 else 1

    @property
    def grouping(self) -> Grouping:
        return "sweeps" if self.team == "grid" and self.home == "device" else "rows"

    @property
    def algorithm(self) -> str:
        """What the field calls the tree of merges."""
        chunk = "one element at a time" if self.items == 1 else f"chunks of {self.items}"
        levels = ["thread", "warp"] + (["block"] if self.team != "lanes" else [])
        levels += ["cluster"] if self.team == "cluster" else []
        levels += ["grid"] if self.team == "grid" else []
        return f"{chunk}, merged {' → '.join(levels)}"

    @property
    def strip_rows(self) -> int:
        """Neighbouring rows that a team owns, where rows lie side by side."""
        return self.strip.across * self.width if self.strip else 1

    @property
    def shape(self) -> str:
        """What the source fixes."""
        if self.strip:
            return self._strip_shape(self.strip)
        owner = {
            "lanes": f"{self.lanes} lanes", "block": "block", "cluster": "cluster of blocks",
            "grid": "several blocks",
        }[self.team]  # fmt: skip
        stays = {"device": "", "registers": " in registers", "shared": " in shared memory",
                 "chip": " in registers and shared memory, from row to row"}  # fmt: skip
        lists = "" if self.lists == "streamed" else f", lists {self.lists}"
        return (
            f"row per {owner}{stays[self.home]}, {self.vectors} × {self.width} elements per thread "
            f"and chunk, {self.load} loads{' past L1' if self.past_l1 else ''}"
            f"{', shared columns a chunk ahead' if self.ahead else ''}"
            f"{f', a ring of {self.stages} chunks' if self.stages else ''}{lists}"
        )

    def _strip_shape(self, strip: Strip) -> str:
        owner = {"cluster": f"cluster of {self.blocks} blocks", "grid": f"{self.blocks} blocks"}
        stays = [f"{n} vectors of a thread in {place}" for n, place in
                 ((strip.held, "registers"), (strip.stashed, "shared memory")) if n]  # fmt: skip
        return ", ".join([
            f"strips of {self.strip_rows} neighbouring rows per {owner.get(self.team, 'block')}",
            *stays, f"chunks of {self.vectors} columns × {self.width} rows",
        ])  # fmt: skip

    def describe(self) -> str:
        blocks = f", {self.blocks} blocks a row" if self.blocks > 1 else ""
        return f"{self.shape}; {self.threads} threads a block{blocks}, {self.target.arch}"
