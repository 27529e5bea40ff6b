"""Rows that stay in device memory, go by, or are held by threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fusegen.backend.cuda.bring import Bring
from fusegen.backend.cuda.schedule.figures import ManyRows
from fusegen.backend.cuda.schedule.homes.base import AnyHome, Array, Sizes, Stay
from fusegen.backend.emit.lines import Line


@dataclass(frozen=True, slots=True)
class Memory(AnyHome):
    """Rows stay in device memory: every sweep reads them again."""

    tiles: ClassVar[str] = "cuda/homes/tiles.cuh.j2"


MEMORY = Memory()


@dataclass(frozen=True, slots=True)
class Ahead(AnyHome):
    """Rows stay in device memory; each chunk is asked for before the one before it is folded."""

    visit: ClassVar[str] = "cuda/homes/ahead.cuh.j2"
    walk: ClassVar[str] = "fusegen/ahead.cuh"
    words: ClassVar[str] = ", a chunk ahead"
    next_chunk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Noted(AnyHome):
    """Rows stay in device memory. For lists of few entries: a thread notes the chunks that have its
    best items, and reads those once more that may have one of the row's."""

    words: ClassVar[str] = ", best chunks noted"
    notes: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Ring(AnyHome):
    """Rows go by, through a ring of chunks in shared memory that are under way together."""

    chunks: int
    visit: ClassVar[str] = "cuda/homes/ring.cuh.j2"
    begin: ClassVar[str] = "cuda/topk/fill.cuh.j2"

    @property
    def kind(self) -> str:
        return "through a ring"

    @property
    def stages(self) -> int:
        return self.chunks

    def shared_bytes(self, sizes: Sizes) -> int:
        return self.chunks * sizes.threads * sizes.vectors * sizes.width * sizes.read

    def span(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        lines, start = ["extern __shared__ __align__(16) unsigned char rings[];"], "rings"
        for a in arrays:
            lines.append(f"{a.type}* {a.name}_ring = reinterpret_cast<{a.type}*>({start});")
            start = f"{a.name}_ring + kStages * kItems * Team::threads()"
        return tuple(lines)


WHOLE = "whole"
"""Has every lane of a warp a whole chunk? What folds and maps chunks asks."""


@dataclass(frozen=True, slots=True)
class Registers(AnyHome):
    """Every thread holds its vectors of the row."""

    visit: ClassVar[str] = "cuda/homes/registers.cuh.j2"
    words: ClassVar[str] = " in registers"
    of_threads: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        return "in registers"

    @property
    def keeps(self) -> bool:
        return True

    def factor(self, stay: Stay, many: ManyRows) -> float:
        late = 0.0
        if stay.blocks > 1:
            late += many.row_of_blocks + (many.row_of_large_blocks if stay.threads > 256 else 0.0)
        side = many.narrow_side_input if stay.narrow else many.side_input
        late += stay.extra * side if not stay.in_warp else 0.0
        late += many.large_block if stay.threads > 512 else 0.0
        return 1.0 + many.registers + late + stay.waits

    def capacity(self, held: int) -> int | None:
        return held

    def span(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        return ("const column_t at = opaque(begin + rank);", *live("at", "live"))

    def enter(self, arrays: Sequence[Array]) -> tuple[Line, ...]:
        return tuple(line for a in arrays for line in _bring(a).asked())

    def settle(self, arrays: Sequence[Array]) -> tuple[Line, ...]:
        return tuple(line for a in arrays for line in _bring(a).settled())


@dataclass(frozen=True, slots=True)
class Once(Registers):
    """Likewise, of a single sweep: blocks that share a row leave what they find, and go."""

    @property
    def awaited(self) -> bool:
        return False


def _bring(array: Array) -> Bring:
    return Bring.from_memory(array.loader, array.name, array.type, f"{array.row}, at")


def live(at: str, live: str) -> tuple[str, Line]:
    """How many of a chunk's vectors there are, and whether a warp has all of them."""
    return (f"const int {live} = live_vectors<Team, kVectors>({at}, end);",
            Line(f"const bool {WHOLE} = __all_sync(0xffffffffu, {live} == kVectors);",
                 declares=WHOLE))
