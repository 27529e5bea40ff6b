"""Rows side by side: where the vectors of a thread stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fusegen.backend.cuda.bring import Bring
from fusegen.backend.cuda.schedule.homes.base import AnyHome, Array, Sizes


@dataclass(frozen=True, slots=True)
class Tiers(AnyHome):
    """Of rows side by side: a thread's first `held` vectors stay in registers, the next `stashed`
    in shared memory; later sweeps read the rest again, if there is one."""

    held: int = 0
    stashed: int = 0
    mapped: int = 1  # vectors of a chunk on its way from the chip back to memory
    rest: bool = True  # are there columns that stay in memory?
    visit: ClassVar[str] = "cuda/homes/tiers.cuh.j2"
    of_threads: ClassVar[bool] = True
    side_by_side: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        if self.stashed:
            return "in registers and shared memory"
        return "in registers" if self.held else "from memory"

    @property
    def keeps(self) -> bool:
        return bool(self.held or self.stashed)

    def capacity(self, held: int) -> int | None:
        return self.held + self.stashed if self.keeps and not self.rest else None

    def shared_bytes(self, sizes: Sizes) -> int:
        return sizes.threads * self.stashed * sizes.width * sizes.kept

    def enter(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        """Of a team's first strip."""
        lines = []
        if self.held and arrays:
            lines.append("const int first_live = live_vectors<Team, kHeld>(first, place.end);")
        for a in arrays if self.held else ():
            rows = _rows_at(a, "place")
            lines.append(f"Items<{a.type}, kHeld * kWidth> {a.name}_held;")
            lines.append(f"load_items({a.name}_held, {rows}, {a.name}_stride, first, first_live);")
        if self.stashed and arrays:
            fetches = [f"    {_fetch(a, 'place', 'group')}" for a in arrays]
            lines += [*_stashes(arrays), "#pragma unroll 1",
                      "for (int group = 0; group < kGroups; ++group) {", *fetches,
                      "    end_group();", "}"]
        return tuple(lines)

    def next_row(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        """Of the next strip, where this one leaves registers."""
        if not self.held:
            return ()
        return tuple(f"refill<kMapped>({a.name}_held, slot, {_rows_at(a, 'next')}, "
                     f"{a.name}_stride, at, next.end);" for a in arrays)

    def next_group(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        """Of the next strip, where this one leaves shared memory."""
        if not self.stashed or not arrays:
            return ()
        return (*(_fetch(a, "next", "slot / kPerGroup") for a in arrays), "end_group();")

    def brings(self, name: str, kind: str) -> tuple[Bring, ...]:
        items = f"{name}_items"
        return (Bring(items, kind, f"read_stash({items}, {name}_stash, slot", per=PER_VECTOR),)

    def in_registers(self, name: str, kind: str, *, maps: bool) -> tuple[Bring, ...]:
        """All of them at once to be folded, some of them to be mapped."""
        items, held = f"{name}_items", f"{name}_held"
        if not maps:
            return (Bring(items, kind, alias=held),)
        return (Bring(items, kind, f"read_held({items}, {held}, slot", per=PER_VECTOR),)


PER_VECTOR = " * kWidth"
"""Items of a chunk whose vectors have an element of each of a thread's rows."""


def _rows_at(array: Array, place: str) -> str:
    """Pointer to this thread's rows of a strip."""
    name = array.name
    return f"{array.all_rows} + {place}.outer * {name}_outer_stride + {place}.inner"


def _fetch(array: Array, place: str, group: str) -> str:
    name = array.name
    return (f"fetch_group<Layout, kPerGroup>({name}_stash, {_rows_at(array, place)}, "
            f"{name}_stride, first + kHeld * Team::threads(), {place}.end, {group});")


def _stashes(arrays: Sequence[Array]) -> list[str]:
    """Declarations of a thread's places in shared memory."""
    lines = ["extern __shared__ __align__(16) unsigned char stash[];"]
    before = "stash"
    for a in arrays:
        slots = f"reinterpret_cast<{a.type}*>({before}) + threadIdx.x * kWidth"
        lines.append(f"{a.type}* {a.name}_stash = {slots};")
        before = f"{before} + kStash * kThreads * kWidth * sizeof({a.type})"
    return lines
