"""What a program does to a row, and what a schedule is expected to cost for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusegen.backend.cuda.schedule.cuda import VECTOR_BYTES
from fusegen.backend.target import CudaTarget

SCARCE = 0.75  # rows for every multiprocessor, up to which they are few
_SCARCE_BESIDE = 1.25  # the same, beside what all rows share, which is waited for again


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a program does to a row. `rows` None: many."""

    rows: int | None
    vectors: int  # of a row
    sweeps: int
    stores: bool  # does it write arrays of the rows' size?
    extra: int  # arrays beside those on chip that one sweep reads
    vector_bytes: int  # of one vector in every array that can stay on chip
    width: int = 1  # elements of a vector
    heavy: bool = False  # does it make values that take long, and are worth keeping?
    scarce: float = SCARCE

    def few(self, target: CudaTarget) -> bool:
        """Are rows so few that what is waited for counts, not what is moved?"""
        scarce = max(self.scarce, _SCARCE_BESIDE) if self.shares else self.scarce
        return self.rows is not None and self.rows <= scarce * target.multiprocessors

    @property
    def shares(self) -> bool:
        """Does one array lie on chip beside others that all rows share?"""
        return self.extra > 0 and self.vector_bytes <= VECTOR_BYTES


@dataclass(frozen=True, slots=True)
class Price:
    """For many rows, factors by which a schedule is slower than the memory, with what causes each;
    for few rows, microseconds that add up."""

    parts: tuple[tuple[str, float], ...]
    adds: bool

    @property
    def total(self) -> float:
        figures = [figure for _, figure in self.parts]
        return sum(figures) if self.adds else math.prod(figures)

    def __str__(self) -> str:
        if self.adds:
            return f"{self.total:.1f} µs: " + " + ".join(f"{w} {n:.1f}" for w, n in self.parts if n)
        shown = [f"{what} {factor:.2f}" for what, factor in self.parts if factor >= 1.005]
        return f"{self.total:.2f}" + (f": {' · '.join(shown)}" if shown else "")
