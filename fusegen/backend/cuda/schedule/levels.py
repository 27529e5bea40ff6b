"""A row is a tree of chunks: from a thread's vectors up, who owns a chunk and how parts meet.

Each `Level` says who owns its chunks, where these stay from the first sweep over a row to the last
(its home), and how the states of its parts become one (its merge). The levels of a schedule, from
the inside out, are all that launches, emission, prices and `explain` know of its shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusegen.backend.cuda.schedule.homes import MEMORY, Home, Tiers
from fusegen.backend.cuda.schedule.merges import (
    Apart,
    InOrder,
    Merge,
    Onward,
    Shuffle,
    StripCluster,
    StripMemory,
    StripShared,
    ThroughCluster,
    ThroughMemory,
    ThroughShared,
)
from fusegen.backend.target import WARP


@dataclass(frozen=True, slots=True)
class Thread:
    """`vectors` vectors of `width` elements at a time, which are neighbours in memory."""

    vectors: int
    width: int
    word = "thread"

    @property
    def items(self) -> int:
        return self.vectors * self.width


@dataclass(frozen=True, slots=True)
class Lanes:
    """Neighbouring lanes of a warp."""

    count: int = WARP
    said = "lanes of a warp"
    owns = "lanes of a warp, which own a row"
    word = "warp"
    arrive: ClassVar[tuple[str, ...]] = ()
    enter: ClassVar[tuple[str, ...]] = ()
    is_here: ClassVar[tuple[str, ...]] = ()

    @property
    def phrase(self) -> str:
        return f"{self.count} lanes"

    @property
    def counted(self) -> str:
        return self.phrase


@dataclass(frozen=True, slots=True)
class Block:
    """The threads of a block."""

    threads: int
    said = "a block"
    owns = "threads of a block, which owns a row"
    word = "block"
    arrive: ClassVar[tuple[str, ...]] = ()
    enter: ClassVar[tuple[str, ...]] = ()
    is_here: ClassVar[tuple[str, ...]] = ()
    phrase = counted = "block"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Neighbouring blocks that reach one another's shared memory."""

    blocks: int
    said = "a cluster"
    owns = "threads of a block, whose cluster owns a row"
    word = "cluster"
    arrive: ClassVar[tuple[str, ...]] = (
        "__cluster_barrier_arrive_relaxed();"
        "  // the blocks of the cluster are there, says the wait",
    )
    enter: ClassVar[tuple[str, ...]] = (
        "const int blocks = __clusterSizeInBlocks(), slice = __clusterRelativeBlockRank();",
    )
    is_here: ClassVar[tuple[str, ...]] = ("__cluster_barrier_wait();",)
    phrase = "cluster of blocks"

    @property
    def counted(self) -> str:
        return f"cluster of {self.blocks} blocks"


@dataclass(frozen=True, slots=True)
class Grid:
    """Blocks anywhere on the device."""

    blocks: int
    said = "blocks all over the grid"
    owns = "threads of a block, one of several that own a row"
    word = "grid"
    arrive: ClassVar[tuple[str, ...]] = ()
    enter: ClassVar[tuple[str, ...]] = (
        "const int blocks = static_cast<int>(blocks_of_a_row), slice = blockIdx.x % blocks;",
    )
    is_here: ClassVar[tuple[str, ...]] = ()
    phrase = "several blocks"

    @property
    def counted(self) -> str:
        return f"{self.blocks} blocks"


Owner = Thread | Lanes | Block | Cluster | Grid
Team = Lanes | Block | Cluster | Grid
"""Who may own a whole row. `owns` says what those of its threads are that share memory; `arrive`:
statements that tell the others of the team that this block is there, `is_here`: those that wait for
them; `enter`: those that say which part of the row is this block's; `phrase`: what a source for any
number of blocks says, `counted`: with their number."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Rows that lie side by side: a team owns `across` threads' worth of neighbouring rows.

    A thread's vector holds one element of each of `width` rows; its vectors lie along the reduced
    axis. Where they stay is the home's to say: `homes.Tiers`.
    """

    across: int  # threads side by side; the block's others go down the reduced axis
    resident: int = 1  # blocks of a multiprocessor that registers leave room for

    def down(self, threads: int) -> int:
        """Threads of a block of so many that share rows: 1 where a row is a thread's own."""
        return threads // self.across

    def shape(self, chunk: Thread, team: Team, tiers: Tiers) -> str:
        """In words, what the source fixes."""
        stays = [f"{n} vectors of a thread in {place}" for n, place in
                 ((tiers.held, "registers"), (tiers.stashed, "shared memory")) if n]
        return ", ".join([
            f"strips of {self.across * chunk.width} neighbouring rows per {team.counted}",
            *stays, f"chunks of {chunk.vectors} columns × {chunk.width} rows",
        ])


@dataclass(frozen=True, slots=True)
class Level:
    """Who owns a chunk, how the states of its parts become one, and where the chunk stays."""

    owner: Owner
    merge: Merge
    home: Home = MEMORY


def tree(chunk: Thread, threads: int, team: Team, home: Home = MEMORY) -> tuple[Level, ...]:
    """The levels where a team owns a row, in blocks of so many threads."""
    block_home = MEMORY if home.of_threads else home
    thread = Level(chunk, InOrder(), home if home.of_threads else MEMORY)
    lanes = Level(team if isinstance(team, Lanes) else Lanes(), Shuffle())
    inner, strips = (thread, lanes), home.side_by_side
    shared = StripShared() if strips else ThroughShared()
    match team:
        case Lanes():
            return (*inner, Level(Block(threads), Apart(), block_home))
        case Block():
            return (*inner, Level(Block(threads), shared, block_home))
        case Cluster():
            merge = StripCluster() if strips else ThroughCluster()
            return (*inner, Level(Block(threads), Onward(), block_home), Level(team, merge))
        case Grid():
            memory = StripMemory if strips else ThroughMemory
            return (*inner, Level(Block(threads), shared, block_home),
                    Level(team, memory(waits=home.awaited)))
