"""Rows so short that a block brings a band of neighbouring ones to shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, assert_never

from fusegen.backend.cuda.schedule.figures import ManyRows
from fusegen.backend.cuda.schedule.homes.base import Array, Sizes, Stay
from fusegen.backend.cuda.schedule.homes.held import Registers
from fusegen.backend.emit.lines import Line

_VECTOR = 16  # bytes that copies move

Lacks = Literal["nothing", "last", "more"]
"""What lanes may lack of their vectors: compilers that know make less of it."""


@dataclass(frozen=True, slots=True)
class Band(Registers):
    """Rows that lie one behind the other are one range of memory: a block brings those of its band
    to shared memory in whole vectors, whatever they begin and end on, its lanes take their parts
    from there and leave their results there, and these go back in whole vectors, too."""

    rows: int  # of a block
    columns: int  # of a row, at most
    apart: int = 1  # rows that teams of a warp have at a time, so that they find other banks
    lacks: Lacks = "more"
    store: ClassVar[str] = "keep_items"

    @property
    def words(self) -> str:  # type: ignore[override]
        apart = f", each warp's {self.apart} apart" if self.apart > 1 else ""
        return f" in registers, {self.rows} rows at a time through shared memory{apart}"

    @property
    def kind(self) -> str:
        return "through shared memory"

    @property
    def band_rows(self) -> int:
        return self.rows

    @property
    def rows_apart(self) -> int:
        return self.apart

    def fewest(self, threads: int, vectors: int) -> int:
        return 0 if self.lacks == "more" else threads * (vectors - 1) + 1

    def span(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        match self.lacks:
            case "nothing":
                live = "kVectors"
            case "last":
                live = "kVectors - 1 + (at + (kVectors - 1) * Team::threads() < end)"
            case "more":
                live = "live_vectors<Team, kVectors>(at, end)"
            case _:
                assert_never(self.lacks)
        return "const column_t at = begin + rank;", f"const int live = {live};"

    def shared_bytes(self, sizes: Sizes) -> int:
        return self.rows * sum(pitch_of(self.columns, size) for size in sizes.elements)

    def factor(self, stay: Stay, many: ManyRows) -> float:
        return 1.0 + many.band


def pitch_of(columns: int, itemsize: int) -> int:
    """Bytes from a row to the next in shared memory, where rows are not packed: room for one that
    begins anywhere in a vector. An odd number of vectors, so that rows begin in different banks.
    (<fusegen/band.cuh> has the same.)"""
    return ((columns * itemsize + 2 * _VECTOR - 1) // _VECTOR | 1) * _VECTOR
