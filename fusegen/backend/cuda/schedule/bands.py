"""Schedules of short rows that pass through shared memory, a band of neighbouring ones at a time.

Whatever rows begin and end on, memory sees whole vectors. Lanes read element by element from shared
memory, or vector by vector where rows are whole vectors: as many lanes a row as it keeps busy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusegen.backend.cuda.schedule.band_entries import row_bytes
from fusegen.backend.cuda.schedule.banks import best_apart
from fusegen.backend.cuda.schedule.cuda import VECTOR_BYTES, CudaSchedule, LoadMode
from fusegen.backend.cuda.schedule.homes.band import Band, pitch_of
from fusegen.backend.cuda.schedule.levels import Lanes, Thread, tree
from fusegen.backend.problem import Problem
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Program

FEW_COLUMNS = 512  # up to here nothing else is as good for rows that are not whole vectors
_MOST_BYTES = 2048  # of a row that is longer, and only read
_THREADS = 128
_MOST_HELD, _MOST_FOLDED = 40, 64  # elements of a lane; of 16 bits that are only read
_BYTES = 28672  # of a block's band, read and written
_READ_BYTES = 16384  # likewise of rows that are only read, and have more than 16 bits
_WAVES = 12  # blocks of a multiprocessor that bands of several passes leave it, at least


@dataclass(frozen=True, slots=True)
class Rows:
    """Short rows in memory. count None: not known. packed, gaps: may they follow one another, may
    there be something between them?"""

    columns: int
    count: int | None
    packed: bool
    gaps: bool

    @classmethod
    def of(cls, program: Program, problem: Problem, n_cols: int) -> Rows:
        """Rows that begin on vectors' boundaries and do not end there have gaps. Where arrays lie
        differently, some may have gaps, unless all are of whole vectors: one begins elsewhere."""
        sizes = {p.dtype.itemsize for k in program.kernels for p in k.elements}
        inside = any(n_cols * size % VECTOR_BYTES for size in sizes)
        gaps = problem.aligned and inside
        return cls(n_cols, problem.n_rows, not gaps, gaps or (inside and not problem.in_phase))

    def distances(self, room: int, size: int) -> tuple[int, ...]:
        """Bytes from a row to the next in shared memory, with room for so many elements."""
        return tuple(distance for distance, may in (
            (self.columns * size, self.packed), (pitch_of(room, size), self.gaps)) if may)


def band_schedules(program: Program, base: CudaSchedule, rows: Rows) -> Iterator[CudaSchedule]:
    """One for every number of lanes that may own a row; none without elements to bring."""
    sizes = max((tuple(p.dtype.itemsize for p in k.elements) for k in program.kernels), key=sum)
    stores = _stores(program)
    longest = 0 if stores else _MOST_BYTES // max(sizes, default=_MOST_BYTES)
    most = max(FEW_COLUMNS, longest)
    n_cols = rows.columns
    if not sizes or n_cols > most or not base.target.ampere:
        return
    held = _MOST_FOLDED if not stores and max(sizes) == 2 else _MOST_HELD
    ways: list[tuple[int, LoadMode]] = [(1, "scalar")]
    if base.load == "aligned" and base.width > 1:
        ways.append((base.width, "aligned"))
    for width, load in ways:
        for lanes in (1, 2, 4, 8, 16, 32):
            vectors = -(-n_cols // (width * lanes))
            if vectors * width <= held and (lanes == 1 or 2 * n_cols > width * lanes):
                one = replace(base, load=load, levels=tree(
                    Thread(vectors, width), _THREADS, Lanes(lanes)))
                yield from banded(program, one, rows)


def banded(program: Program, one: CudaSchedule, rows: Rows) -> Iterator[CudaSchedule]:
    """The same lanes, whose rows pass through shared memory; of smaller blocks where those of this
    one would leave no room for another block; none where even a warp's would."""
    widest = max(program.kernels, key=lambda k: sum(p.dtype.itemsize for p in k.elements))
    sizes = tuple(p.dtype.itemsize for p in widest.elements)
    row = max(row_bytes(kernel, one) for kernel in program.kernels)
    row += sum(pitch_of(one.team_items, size) for size in sizes)
    while one.rows_per_block * row > one.target.shared_per_block // 2:
        if one.threads == WARP:
            return
        one = one.having(threads=one.threads // 2)
    most = _BYTES if max(sizes) <= 2 or _stores(program) else _READ_BYTES
    count = _rows(most // row, one, rows.count)
    distances = tuple((d, size) for size in sizes for d in rows.distances(one.team_items, size))
    apart = best_apart(distances, one.lanes, one.width, count * one.lanes // WARP)
    lacks = one.vectors - rows.columns // one.width // one.lanes
    # From there it is read as shared memory is, whatever loads from memory say to caches.
    yield one.having(home=Band(count, one.team_items, apart, lacks), caching="kept")


def _stores(program: Program) -> bool:
    return any(p.output for k in program.kernels for p in k.elements)


def _rows(most: int, one: CudaSchedule, n_rows: int | None) -> int:
    """As many passes over a band of so many rows at most as it takes for enough bytes to be under
    way, unless that leaves few blocks."""
    at_once, lanes = one.rows_per_block, one.lanes
    passes = most // at_once
    if n_rows:
        passes = min(passes, n_rows // (_WAVES * one.target.multiprocessors * at_once))
    passes = max(1, passes)
    return at_once * (passes - passes % lanes if passes > lanes else passes)
