"""Ranks whose GPUs write to one another's memory: what each has for it, and what a launch of all of
them is asked for. The protocol is <fusegen/meet/ranks.cuh>.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fusegen.backend.executable import Helper
from fusegen.backend.memory import Memory
from fusegen.backend.words import Place as At
from fusegen.ir.kernel import Param, Program

_BOUNDARY = 256  # kPlaceBoundary


@dataclass(frozen=True, slots=True)
class Place:
    """The memory of a rank that the others write to: for so many groups of rows, and `least` bytes
    of states from each."""

    ranks: int
    groups: int
    least: int

    @property
    def room(self) -> int:
        """Bytes of a box."""
        return max(1, -(-self.least // _BOUNDARY)) * _BOUNDARY

    @property
    def n_bytes(self) -> int:
        gone, flags = 8 * self.ranks, 16 * self.groups * self.ranks
        return sum(-(-n // _BOUNDARY) * _BOUNDARY for n in (gone, flags)) + \
            2 * self.ranks * self.room


@dataclass(frozen=True, slots=True)
class Joint:
    """A launch in which so many ranks merge their states of so many rows. finish: what makes
    results of them, None where that is another launch in any case; finishes: is it in this one?
    """

    merge: Program
    finish: Program | None
    finishes: bool
    ranks: int
    n_rows: int


class Meet(Protocol):
    """Such a launch where arrays lie, made ready."""

    rows_per_block: int
    """Of a group, the same on all ranks and whether it finishes or not."""
    numbers: tuple[str, ...]
    """What it is called with once, by name."""
    held: tuple[Param, ...]
    """Numbers of the call that merges take."""
    given: tuple[Param, ...]
    """Results, and what they are made of beside states."""

    def launch(self, numbers: Mapping[str, int]) -> Any:
        """For `Meeting.chain`. It takes words: this rank's states, every rank's place and its own,
        memory of its launches, the host's, merged states, then `held` and `given`."""


class Chained(Protocol):
    """Launches one after another, which compiled code may serve: see `Helped`."""

    def run(self, pointers: Sequence[int]) -> list[Any]:
        """Queue them on torch's stream, and return what was made, which stands behind pointers."""

    def helper(self) -> Helper | None: ...

    def plan(
        self, sizes: tuple[int, ...], numbers: tuple[tuple[int, float, bool], ...], finish: Any
    ) -> tuple[Any, ...]: ...


@runtime_checkable
class Meeting(Memory, Protocol):
    """Where ranks can meet."""

    def meet(self, joint: Joint, index: int) -> Meet:
        """On one of its devices. Raises BackendError."""

    def seals(self, ranks: int, apart: int, words: int, index: int) -> Any:
        """A launch for `chain`: it looks at so many packets, `apart` words of 64 bits apart, which
        begin with seals, and fills states of so many words with 0xff where one is another. It
        takes packets, the seal, states, a bool that becomes true then."""

    def streams(self) -> Callable[[int], int]:
        """What tells the handle of the stream that torch works on, on one of its devices."""

    def chain(
        self, launches: Sequence[tuple[Any, tuple[At, ...]]],
        makers: tuple[Callable[[], Any], ...], arrays: int, index: int,
    ) -> Chained:
        """Of `Meet.launch`, `seals` and `Chainable.chained`, for so many arrays, behind which is
        what is made."""
