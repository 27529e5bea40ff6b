"""What a schedule is expected to cost: the time to move the bytes, times what it loses on the way.

Every figure is fitted to times of all candidates on an H200; what comes of the choices there is in
benchmarks/results/streams.json. Other targets differ by their facts. Prices only have to put
schedules in order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusegen.schedule.cuda import CudaSchedule
from fusegen.schedule.target import CudaTarget

_LATENCY = 0.9e-6  # seconds that a load takes where memory is busy


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a program does to a row. `rows` None: many."""

    rows: int | None
    vectors: int  # of a row
    sweeps: int
    stores: bool  # does it write arrays of the rows' size?
    extra: int  # arrays beside those on chip that one sweep reads
    vector_bytes: int  # of one vector in every array that can stay on chip

    def few(self, target: CudaTarget) -> bool:
        """Would whole rows leave most multiprocessors idle?"""
        return self.rows is not None and 2 * self.rows <= target.multiprocessors


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


def price_of(one: CudaSchedule, work: Work) -> Price:
    """Price of a schedule for this work. Prices of the same work can be compared."""
    if work.rows is not None and work.few(one.target):
        return Price(tuple(_latencies(one, work, work.rows)), adds=True)
    factors = [("home", _home(one, work)), ("merges", _merges(one, work)), ("fit", _fit(one, work)),
               ("registers", _registers(one, work)), ("threads", _threads(one, work))]  # fmt: skip
    if work.rows is not None:
        factors.append(("parallelism", _parallelism(one, work, work.rows)))
    elif one.team == "grid" and one.home == "device":
        factors.append(("meeting", _meeting(one, work)))
    return Price(tuple(factors), adds=False)


# ---- few rows: microseconds ----


def _latencies(one: CudaSchedule, work: Work, rows: int) -> list[tuple[str, float]]:
    share = -(-work.vectors // one.blocks) * one.width  # elements of a block
    sweeps = 2 if work.stores else 1
    per_sm = max(1, _resident(one, work))
    blocks = -(-rows // one.rows_per_block) * one.blocks
    rounds = -(-blocks // (per_sm * one.target.multiprocessors))
    beside = min(per_sm, -(-blocks // one.target.multiprocessors))  # blocks on one multiprocessor
    lengths = share * one.rows_per_block * beside * 1e-4 * sweeps
    again = 0.6 if one.home == "device" and work.sweeps > 1 else 0.0
    thread = share / one.team_threads * 0.02
    meeting = {"lanes": 0.0, "block": 0.1 + 0.0004 * one.threads,
               "cluster": 1.2 + 0.05 * one.blocks + 0.0015 * one.threads,
               "grid": 4.0}[one.team]  # fmt: skip
    return [("launch and first load", 3.7), ("elements", rounds * (lengths + thread) * (1 + again)),
            ("merges", rounds * meeting)]  # fmt: skip


# ---- many rows: factors ----


def _home(one: CudaSchedule, work: Work) -> float:
    """Sweeps after the first find the row on chip, or read it again."""
    match one.home:
        case "registers":
            late = 0.06 if one.width == 8 and work.stores and one.threads > 256 else 0.0
            late += 0.15 if one.blocks > 1 else 0.0
            late += work.extra * (0.06 if one.width == 8 else 0.02) if one.team == "block" else 0.0
            return 1.02 + late + (0.02 if one.threads > 512 else 0.0) + _shared_row(one, work)
        case "shared":
            much = 0.03 if work.extra > 1 and one.width == 8 else 0.0
            return 1.035 + much + _shared_row(one, work)
        case "chip":
            return 1.16 + (0.02 if one.per_sm == 1 else 0.0)
        case "device":
            short = 0.004 * max(0, 512 // one.threads - 1)
            return 1.02 + short + (_again(one, work) if work.sweeps > 1 else 0.0)


def _again(one: CudaSchedule, work: Work) -> float:
    """Reading rows again: little is lost if they are still in L2 and arithmetic takes longer."""
    here = _resident(one, work)
    rows = here * one.target.multiprocessors * work.vectors * work.vector_bytes
    if work.extra < 2 or one.width < 8 or 2 * rows > one.target.l2_bytes:
        return 0.6
    return 0.06 if here <= 2 else 0.03


def _shared_row(one: CudaSchedule, work: Work) -> float:
    """Blocks of a cluster wait for one another."""
    return _alone(one, work) + {1: 0.0, 2: 0.02, 4: 0.095, 8: 0.085}.get(one.blocks, 0.12)


def _alone(one: CudaSchedule, work: Work) -> float:
    """Where a multiprocessor has room for one slice, nothing runs while its block waits."""
    if one.home != "shared" or _resident(one, work) > 1:
        return 0.0
    narrow = one.width == 8
    if one.blocks == 1:
        return 0.04 if narrow and work.extra > 1 else 0.0
    return 0.08 if narrow or work.extra or one.blocks >= 8 else 0.0


def _merges(one: CudaSchedule, work: Work) -> float:
    """States that meet, for every element that a thread folded."""
    chunks = 1.0
    if one.home != "registers":
        per_block = work.vectors / one.blocks
        chunks = max(1.0, per_block / (one.threads * one.vectors))
    heavy = 1.6 if one.width == 8 else 0.5
    weight = heavy * (0.4 if one.team == "lanes" else 1.0) * (0.5 if work.stores else 1.0)
    chunk = 0.25 * heavy / one.items  # every chunk moves the sums once
    return 1.0 + weight / (one.items * chunks) + (chunk if chunks > 1 else 0.0)


def _fit(one: CudaSchedule, work: Work) -> float:
    """Threads that find nothing in the last chunk of a row."""
    share = -(-work.vectors // one.blocks)
    chunk = one.team_threads * one.vectors
    chunks = -(-share // chunk)
    waste = chunks * chunk / share - 1.0
    return 1.0 + waste * (0.15 if chunks == 1 else 0.06)


def _registers(one: CudaSchedule, work: Work) -> float:
    """Long chunks leave room for fewer threads."""
    held = one.items * (1 + work.extra if work.stores else 1)
    limit = 64 if not work.stores else 32
    wide = 0.02 if one.team == "lanes" and one.lanes == 32 and one.vectors > 4 else 0.0
    return 1.0 + 0.02 * max(0.0, held / limit - 1.0) + wide


def _threads(one: CudaSchedule, work: Work) -> float:
    """Where shared memory has room for few blocks, they need many threads."""
    here = _resident(one, work) * one.threads
    if one.home in ("device", "registers"):
        return 1.0 + 0.2 * max(0.0, 768 / here - 1.0)
    wanted = 768 if one.load == "peeled" and here < 1024 else 512
    alone = 0.1 if one.blocks == 16 and here == one.threads else 0.0  # 7 clusters on 132 of them
    if one.load == "peeled" and here == one.threads:
        alone += 0.07
    return 1.0 + 0.1 * max(0.0, wanted / here - 1.0) + alone


def _resident(one: CudaSchedule, work: Work) -> int:
    """Blocks of a multiprocessor, at the registers that kernels of this kind use."""
    found = min(one.target.threads_per_sm // one.threads, one.target.blocks_per_sm,
                one.target.registers_per_sm // (_used(one) * one.threads))  # fmt: skip
    if one.slice_vectors:
        room = one.slice_vectors * work.vector_bytes + 4096
        found = min(found, one.target.shared_per_sm // room)
    return max(1, found)


def _used(one: CudaSchedule) -> int:
    """Registers that a thread uses, of those that it may."""
    return min(one.registers, 16 + max(16, one.items))


def _meeting(one: CudaSchedule, work: Work) -> float:
    """A block that has read its part of a row looks who is last, and loads nothing meanwhile."""
    part = work.vectors / one.blocks * work.vector_bytes
    life = _resident(one, work) * part / (one.target.bandwidth / one.target.multiprocessors)
    return 1.0 + 1.3e-6 / life


def _parallelism(one: CudaSchedule, work: Work, rows: int) -> float:
    """Few blocks neither keep enough loads under way nor share the rows evenly."""
    target = one.target
    if one.steady:
        teams = target.multiprocessors * one.per_sm // one.blocks
        idle = target.multiprocessors * one.per_sm / (teams * one.blocks)
        return (1.0 + 0.4 * (idle - 1.0)) * -(-rows // teams) * teams / rows
    blocks = -(-rows // one.rows_per_block) * one.blocks
    under_way = blocks * one.threads * min(one.vectors, 4) * 16
    starved = max(1.0, target.bandwidth * _LATENCY / under_way)
    slots = target.multiprocessors * _resident(one, work)
    waves = blocks / slots
    uneven = -(-blocks // slots) / waves if 1.0 < waves < 4.0 else 1.0
    return starved * (1.0 + 0.1 * (uneven - 1.0))
