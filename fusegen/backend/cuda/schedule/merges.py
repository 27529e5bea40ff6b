"""How the states of a level's parts become one: what each way needs of a launch, and its C++.

`header` has the C++ function that merges, `function` spells it for one sweep, and `meet` names the
template of what a kernel does once its threads have found what they can; `latency` says how long
that takes. To add a way: a class here, a header, and its place in a tree of levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusegen.backend.cuda.schedule.figures import FewRows, Strips

MAX_CLUSTER = 16  # blocks
_STRIP = "cuda/merges/meet_strip.cuh.j2"


@dataclass(frozen=True, slots=True)
class Meeting:
    """What the states of one sweep's teams have to meet with."""

    sweep: int  # its number
    lists: bool  # do lists meet, too?
    steady: bool  # do teams go from row to row, so that two rows must not meet in one place?
    again: bool = False  # may an earlier total still be read there?

    @property
    def place(self) -> str:
        """The shared memory of the row at hand."""
        return f"warp_states{self.sweep}{'[parity]' if self.steady else ''}"

    def array(self, size: str) -> str:
        """The declaration of that memory, by its states."""
        return f"warp_states{self.sweep}{'[2]' if self.steady else ''}[{size}]"


@dataclass(frozen=True, slots=True)
class AnyMerge:
    """What a way to meet may need, and nothing as long as it does not say so."""

    meet: ClassVar[str] = "cuda/merges/meet.cuh.j2"

    @property
    def header(self) -> str:
        """What has `function`; "" without."""
        return ""

    @property
    def meets(self) -> bool:
        """Does a thread that goes on have the total at once?"""
        return False

    def folds(self, lists: bool) -> bool:
        """Does it call ⊕ itself? Lanes and warps merge by what ⊕ is made of."""
        return False

    def function(self, meeting: Meeting) -> str:
        """The C++ function, which takes a thread's state and `arguments`."""
        return ""

    def arguments(self, meeting: Meeting) -> str:
        """Arguments of the function but the first, each with its comma."""
        return ""

    def array(self, meeting: Meeting) -> str:
        """The declaration of the shared memory where states meet; "" without."""
        return ""

    def enter(self, state: str) -> tuple[str, ...]:
        """What a kernel says before its first row, whose states are of that type."""
        return ()

    def latency(self, threads: int, blocks: int, few: FewRows) -> float:
        """Microseconds until the states of a row are one, found by blocks of so many threads."""
        return 0.0

    def strip_latency(self, merging: float, strips: Strips) -> float:
        """Likewise, of a strip of rows: lanes merge states of blocks one after another, in so many
        instructions."""
        return 0.0


@dataclass(frozen=True, slots=True)
class InOrder(AnyMerge):
    """A thread folds chunk after chunk into the state that it has."""


@dataclass(frozen=True, slots=True)
class Apart(InOrder):
    """The parts are of different rows: there is nothing to merge."""


@dataclass(frozen=True, slots=True)
class Onward(InOrder):
    """The parts meet those of other owners, one level up."""


@dataclass(frozen=True, slots=True)
class Shuffle(AnyMerge):
    """Lanes exchange their states by butterflies: every lane ends with the total."""

    header = "fusegen/meet/lanes.cuh"
    meets = True

    def function(self, meeting: Meeting) -> str:
        return "lanes_reduce<Team::kThreads>"


@dataclass(frozen=True, slots=True)
class ThroughShared(AnyMerge):
    """Warps leave their totals in shared memory, and each of them folds all."""

    header = "fusegen/meet/block.cuh"
    meets = True

    def function(self, meeting: Meeting) -> str:
        return "block_reduce_again<Team>" if meeting.again else "block_reduce<Team>"

    def arguments(self, meeting: Meeting) -> str:
        return f", {meeting.place}"

    def array(self, meeting: Meeting) -> str:
        return meeting.array("kMostThreads / 32")

    def latency(self, threads: int, blocks: int, few: FewRows) -> float:
        return few.block + few.block_thread * threads


@dataclass(frozen=True, slots=True)
class ThroughCluster(AnyMerge):
    """Warps leave their totals in every block of the cluster. Of a sweep with lists, only totals of
    blocks leave their block."""

    header = "fusegen/meet/cluster.cuh"
    meet: ClassVar[str] = "cuda/merges/meet_cluster.cuh.j2"
    meets = True

    def folds(self, lists: bool) -> bool:
        return not lists

    def function(self, meeting: Meeting) -> str:
        return f"cluster_reduce<Team{', kBlocks' if meeting.lists else ''}>"

    def arguments(self, meeting: Meeting) -> str:
        return f", {meeting.place}"

    def array(self, meeting: Meeting) -> str:
        warps = "kMostThreads / 32"
        return meeting.array(
            f"kBlocks + {warps}" if meeting.lists else f"kMostBlocks * {warps}"
        )

    def latency(self, threads: int, blocks: int, few: FewRows) -> float:
        return few.cluster + few.cluster_block * blocks + few.cluster_thread * threads


@dataclass(frozen=True, slots=True)
class ThroughMemory(AnyMerge):
    """Blocks leave their totals in device memory, in order. Either all of them wait for the others
    and fold all, or the last one to come folds all and goes on alone."""

    waits: bool

    @property
    def header(self) -> str:
        return "fusegen/meet/grid.cuh" if self.waits else ""

    @property
    def meets(self) -> bool:
        return self.waits

    def folds(self, lists: bool) -> bool:
        return True

    def function(self, meeting: Meeting) -> str:
        return "grid_reduce<Team>" if self.waits else ""

    def arguments(self, meeting: Meeting) -> str:
        return f", {meeting.place}, turns, blocks, slice"

    def enter(self, state: str) -> tuple[str, ...]:
        return (f"Turns<{state}> turns(told, blocks, slice);",) if self.waits else ()

    def array(self, meeting: Meeting) -> str:
        return meeting.array("kMostThreads / 32")

    def latency(self, threads: int, blocks: int, few: FewRows) -> float:
        return few.grid


# ---- rows side by side: a state of each row of a strip ----


@dataclass(frozen=True, slots=True)
class StripShared(ThroughShared):
    """Lanes that share rows merge their states; a block's pieces meet in its shared memory."""

    header = "fusegen/meet/strip/block.cuh"
    meet: ClassVar[str] = _STRIP

    def folds(self, lists: bool) -> bool:
        return True

    def function(self, meeting: Meeting) -> str:
        return "strip_reduce<Team>"

    def arguments(self, meeting: Meeting) -> str:
        return _pieces(meeting)

    def array(self, meeting: Meeting) -> str:
        return _piece_arrays(meeting)

    def strip_latency(self, merging: float, strips: Strips) -> float:
        return strips.block


@dataclass(frozen=True, slots=True)
class StripCluster(ThroughCluster):
    """Likewise; what blocks have of every row meets in each block of the cluster."""

    header = "fusegen/meet/strip/cluster.cuh"
    meet: ClassVar[str] = _STRIP

    def folds(self, lists: bool) -> bool:
        return True

    def function(self, meeting: Meeting) -> str:
        return "strip_reduce_cluster<Team>"

    def arguments(self, meeting: Meeting) -> str:
        return f"{_pieces(meeting)}, parts{meeting.sweep}, slice"

    def array(self, meeting: Meeting) -> str:
        return f"{_piece_arrays(meeting)}, parts{meeting.sweep}[kBlocks][Team::kRows]"

    def strip_latency(self, merging: float, strips: Strips) -> float:
        return strips.cluster + strips.merging * merging


@dataclass(frozen=True, slots=True)
class StripMemory(ThroughMemory):
    """Likewise, in device memory."""

    meet: ClassVar[str] = _STRIP

    @property
    def header(self) -> str:
        return "fusegen/meet/strip/grid.cuh"

    @property
    def meets(self) -> bool:
        return True

    def function(self, meeting: Meeting) -> str:
        return f"strip_reduce_{'grid' if self.waits else 'last'}<Team>"

    def enter(self, state: str) -> tuple[str, ...]:
        return ()

    def arguments(self, meeting: Meeting) -> str:
        first = "static_cast<long long>(blockIdx.x - slice)"
        if self.waits:
            first = "(parity * static_cast<long long>(gridDim.x) + blockIdx.x - slice)"
        left = f"partial_states{meeting.sweep} + {first} * Team::kRows"
        tickets = "(blockIdx.x - slice) * kApart" if self.waits else "blockIdx.x / kBlocks"
        return f"{_pieces(meeting)}, {left}, tickets + {tickets}, slice"

    def array(self, meeting: Meeting) -> str:
        return _piece_arrays(meeting)

    def strip_latency(self, merging: float, strips: Strips) -> float:
        return strips.grid + strips.merging * merging


def _pieces(meeting: Meeting) -> str:
    return f", pieces{meeting.sweep}, totals{meeting.sweep}"


def _piece_arrays(meeting: Meeting) -> str:
    n = meeting.sweep
    return f"pieces{n}[Team::kPieces][Team::kRows], totals{n}[Team::kRows]"


Merge = (InOrder | Apart | Onward | Shuffle | ThroughShared | ThroughCluster | ThroughMemory
         | StripShared | StripCluster | StripMemory)
