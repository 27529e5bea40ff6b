"""What schedules for rows that lie side by side are expected to cost, from figures.py."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cuda.schedule.cuda import VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.figures import Strips
from fusegen.backend.target import CudaTarget

LINE = 128  # bytes of memory that are read together


@dataclass(frozen=True, slots=True, kw_only=True)
class StripWork:
    """What a program does to (outer, n_cols, inner) elements, reduced along the middle axis."""

    target: CudaTarget
    outer: int
    inner: int
    n_cols: int
    itemsize: int  # bytes of the smallest element that is read
    sweeps: int
    stores: bool  # does it write arrays of the rows' size?
    figures: Strips

    def strips(self, one: CudaSchedule) -> int:
        """Groups of neighbouring rows that teams own."""
        return self.outer * -(-self.inner // one.strip_rows)

    def price(self, one: CudaSchedule, per_sm: int, resident: int) -> float:
        """Microseconds over those that the least traffic takes."""
        f = self.figures
        strips, traffic = self.strips(one), 2.0 if self.stores else 1.0
        rounds, idle = self._rounds(one, strips, resident)
        least = self.outer * self.inner * self.n_cols * self.itemsize * traffic / self._rate
        assert one.strip is not None
        kept = one.tiers.held + one.tiers.stashed
        vectors = self.n_cols / (one.threads // one.strip.across * one.blocks)  # of a thread
        again = f.again * (self.sweeps - 1) * max(0.0, 1 - kept / vectors)
        flying = min(resident, strips * one.blocks) * one.threads * VECTOR_BYTES * (
            kept or one.vectors
        )
        share = self._rate * f.latency / flying
        slow = max(1 + f.step * share, share)
        meeting = one.top.merge.strip_latency(one.blocks, f)
        waits = meeting * (1 + f.round * (rounds - 1)) * min(self.sweeps, 2)
        moving = least * (1 + again / traffic) * slow * (1 + f.idle * (idle - 1))
        moving *= 1 + self._losses(one, per_sm)
        return (f.launch + waits + moving) / (f.launch + least)

    def _losses(self, one: CudaSchedule, per_sm: int) -> float:
        """Shares of the time that bytes take, lost on a multiprocessor."""
        f, kept = self.figures, one.home.keeps
        halts = f.halts_alone if per_sm == 1 and kept else f.halts
        few = f.busy / (per_sm * one.threads) if kept else 0.0
        piece = one.strip_rows * self.itemsize  # bytes that lie together
        narrow = max(0.0, f.piece / piece - 1) + (f.part_of_line if piece < LINE else 0.0)
        return halts + narrow + few

    def _rounds(self, one: CudaSchedule, strips: int, resident: int) -> tuple[int, float]:
        """How often the device is filled, and its places over the strips that they get."""
        processors = self.target.multiprocessors
        at_once = resident // one.blocks
        if one.clustered and one.blocks > 2:  # parts of the device hold whole clusters only
            at_once = max(1, int(self.figures.clustered * at_once))
        rounds = -(-strips // at_once)
        if rounds == 1:  # what counts is how evenly the blocks are spread
            blocks = strips * one.blocks
            return 1, -(-blocks // processors) * processors / blocks
        return rounds, min(rounds * at_once / strips, 1 + 1 / rounds)

    @property
    def _rate(self) -> float:
        """Bytes of memory a microsecond, by the number of multiprocessors."""
        return self.figures.rate * self.target.multiprocessors
