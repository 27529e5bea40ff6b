"""Rows so short that a block brings a band of neighbouring ones to shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fusegen.backend.cuda.schedule.figures import ManyRows
from fusegen.backend.cuda.schedule.homes.base import Array, Sizes, Stay
from fusegen.backend.cuda.schedule.homes.held import Registers
from fusegen.backend.emit.lines import Line

_VECTOR = 16  # bytes that copies move

_FEW_LACK = 2  # vectors of a lane, for which it asks one by one


@dataclass(frozen=True, slots=True)
class Band(Registers):
    """Rows that lie one behind the other are one range of memory: a block brings those of its band
    to shared memory in whole vectors, whatever they begin and end on, its lanes take their parts
    from there and leave their results there, and these go back in whole vectors, too."""

    rows: int  # of a block
    columns: int  # of a row, at most
    apart: int = 1  # rows that teams of a warp have at a time, so that they find other banks
    lacks: int = _FEW_LACK + 1  # of a lane's vectors the last that may not be there, if few
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
        return 0 if self.lacks > _FEW_LACK else threads * (vectors - self.lacks)

    def span(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        live, uses = "live_vectors<Team, kVectors>(at, end)", frozenset(["end"])
        if self.lacks <= _FEW_LACK:  # compilers that know make less of it
            last = [f" + (at + (kVectors - {n}) * Team::threads() < end)"
                    for n in range(self.lacks, 0, -1)]
            live = f"kVectors{f' - {self.lacks}' if last else ''}{''.join(last)}"
            uses = uses if last else frozenset()
        return "const column_t at = begin + rank;", Line(f"const int live = {live};", uses)

    def shared_bytes(self, sizes: Sizes) -> int:
        row = sum(pitch_of(self.columns, size) for size in sizes.elements)
        waiting = sum(-(-self.rows * size // _VECTOR) * _VECTOR for size in sizes.entries)
        return self.rows * row + waiting

    def factor(self, stay: Stay, many: ManyRows) -> float:
        return 1.0 + many.band


def pitch_of(columns: int, itemsize: int) -> int:
    """Bytes from a row to the next in shared memory, where rows are not packed: room for one that
    begins anywhere in a vector. An odd number of vectors, so that rows begin in different banks.
    (<fusegen/band.cuh> has the same.)"""
    return ((columns * itemsize + 2 * _VECTOR - 1) // _VECTOR | 1) * _VECTOR
