"""A schedule beside others: its price, and in few words."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.work import Price


@dataclass(frozen=True, slots=True)
class Candidate:
    """See `backend.Candidate`."""

    schedule: CudaSchedule
    price: Price
    note: str = ""  # on what the choice computes

    @property
    def kind(self) -> str:
        """Who owns a row, and where it stays."""
        return ", ".join(self.schedule.kind)

    @property
    def short(self) -> str:
        """A schedule in as few words as tell it from the others."""
        one = self.schedule
        size = f"{one.lanes} lanes" if one.in_warp else f"{one.threads} threads"
        blocks = f" × {one.blocks} blocks" if one.blocks > 1 else ""
        rows = f" for {one.strip_rows} rows" if one.strip else ""
        return f"{self.kind}, {size}{blocks}{rows}, {one.vectors} × {one.width}"
