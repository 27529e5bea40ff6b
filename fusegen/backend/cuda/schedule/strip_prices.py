"""What schedules for rows that lie side by side are expected to cost, from figures.py.

Memory brings elements while others are folded, so what a strip takes is the larger of both, about.
Short chunks move their states' sums often, which costs instructions; wide ones keep memory busy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusegen.backend.cuda.schedule.cuda import VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.figures import Strips
from fusegen.backend.cuda.schedule.instructions import Effort, effort, merging
from fusegen.backend.cuda.schedule.launch import least_itemsize
from fusegen.backend.cuda.schedule.work import Price
from fusegen.backend.target import WARP, CudaTarget
from fusegen.ir.kernel import Program

LINE = 128  # bytes of memory that are read together
_FINISH = 1.5  # what follows from a row's state, by what its operations take


def row_threads(one: CudaSchedule) -> int:
    """Threads that share a row, of all blocks: 1 where it is a thread's own, and has one state."""
    assert one.strip is not None
    return one.strip.down(one.threads) * one.blocks


def pieces(one: CudaSchedule) -> int:
    """States of a row that a block has, once lanes have merged."""
    assert one.strip is not None
    return one.threads // max(WARP, one.strip.across)


@dataclass(frozen=True, slots=True, kw_only=True)
class StripWork:
    """What a program does to (outer, n_cols, inner) elements, reduced along the middle axis."""

    target: CudaTarget
    outer: int
    inner: int
    n_cols: int
    itemsize: int  # bytes of the smallest element that is read
    read: int  # bytes of an element that are read, of all arrays
    written: int  # and that are written
    sweeps: int
    effort: Effort  # of an element, of a chunk, of a row
    merging: float  # instructions of two states that become one
    figures: Strips

    def strips(self, one: CudaSchedule) -> int:
        """Groups of neighbouring rows that teams own."""
        return self.outer * -(-self.inner // one.strip_rows)

    def price(self, one: CudaSchedule, per_sm: int, resident: int) -> Price:
        """In microseconds."""
        f, strips = self.figures, self.strips(one)
        rounds, uneven = self._rounds(one, strips, resident)
        waits = self._meeting(one) * (1 + f.round * (rounds - 1)) * min(self.sweeps, 2)
        moving = self._moving(one, min(resident, strips * one.blocks), per_sm)
        moving *= 1 + f.idle * (uneven - 1)
        issuing = self._issuing(one, strips * one.blocks, per_sm) * uneven
        both = math.hypot(moving, issuing)
        return Price((("launch", f.launch), ("merges", waits), ("bytes and instructions", both)),
                     adds=True)

    # ---- memory ----

    def _moving(self, one: CudaSchedule, blocks: int, per_sm: int) -> float:
        """So many blocks at once bring and write all elements."""
        f, columns = self.figures, self._columns(one)
        kept = one.tiers.held + one.tiers.stashed
        again = f.again * (self.sweeps - 1) * max(0.0, 1 - kept / columns)
        moved = self.outer * self.inner * self.n_cols * (self.read * (1 + again) + self.written)
        if not self.read:  # the text goes over no row
            return moved / self._rate
        vector = one.width * self.read
        flying = blocks * one.threads * vector * min(kept or one.vectors, columns)
        share = self._rate * f.latency / flying
        slow = max(1 + f.step * share, share)
        return moved / self._rate * slow * (1 + self._losses(one, per_sm))

    def _losses(self, one: CudaSchedule, per_sm: int) -> float:
        """Shares of the time that bytes take, lost on a multiprocessor."""
        f, kept = self.figures, one.home.keeps
        halts = f.halts_alone if per_sm == 1 and kept else f.halts
        few = f.busy / (per_sm * one.threads) if kept else 0.0
        piece = one.strip_rows * self.itemsize  # bytes that lie together
        narrow = max(0.0, f.piece / piece - 1) + (f.part_of_line if piece < LINE else 0.0)
        if self.inner * self.itemsize % LINE:
            narrow += f.straddle * LINE / piece
        copies = one.tiers.stashed > 0 and one.width * self.itemsize < VECTOR_BYTES
        return halts + narrow + few + f.narrow * copies

    @property
    def _rate(self) -> float:
        """Bytes of memory a microsecond, by the number of multiprocessors."""
        return self.figures.rate * self.target.multiprocessors

    # ---- instructions ----

    def _issuing(self, one: CudaSchedule, blocks: int, per_sm: int) -> float:
        """All of them, by multiprocessors that have so many blocks at once."""
        f, there = self.figures, self.target.multiprocessors
        warps = min(per_sm, max(1.0, blocks / there)) * one.threads / WARP
        issued = blocks * one.threads / WARP * self._of_thread(one)
        return issued / (there * f.issued) * (1 + f.warps / warps)

    def _of_thread(self, one: CudaSchedule) -> float:
        """Instructions of a thread, for a strip."""
        assert one.strip is not None
        columns, cost = self._columns(one), self.effort
        held = min(one.tiers.held, columns)  # are folded at once
        chunks = -(-(columns - held) // one.vectors) + (held > 0)
        merged = 0.0
        if row_threads(one) > 1:
            merged = one.width * math.log2(max(1.0, WARP / one.strip.across))
            merged += -(-one.strip_rows // one.threads) * pieces(one)
        rows = one.width * (columns * cost.item + chunks * cost.chunk + _FINISH * cost.finish)
        return rows + merged * self.merging + self.figures.thread

    def _columns(self, one: CudaSchedule) -> int:
        """Of a thread."""
        return -(-self.n_cols // row_threads(one))

    # ---- teams ----

    def _meeting(self, one: CudaSchedule) -> float:
        """Until a strip's threads know its rows' states; a row that is a thread's own has no other
        states."""
        if row_threads(one) == 1:
            return 0.0
        lanes = max(1, min(WARP, one.threads // one.strip_rows))  # that merge a row's
        turns = -(-one.strip_rows * lanes // one.threads)
        merged = turns * -(-one.blocks // lanes) * self.merging
        return one.top.merge.strip_latency(merged, self.figures)

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


def strip_work(
    program: Program, one: CudaSchedule, outer: int, inner: int, n_cols: int, figures: Strips,
) -> StripWork:
    """What a program does; one: any of its schedules."""
    bytes_of = [
        (sum(k.param(n).dtype.itemsize for n in s.reads if k.param(n).shape == "element"),
         sum(k.param(e.param).dtype.itemsize for e in s.element_stores))
        for k in program.kernels for s in k.sweeps
    ]
    return StripWork(
        target=one.target, outer=outer, inner=inner, n_cols=n_cols,
        itemsize=least_itemsize(program),
        read=max(r for r, _ in bytes_of), written=max(w for _, w in bytes_of),
        sweeps=max(len(k.sweeps) for k in program.kernels),
        effort=effort(program, one), merging=merging(program), figures=figures,
    )
