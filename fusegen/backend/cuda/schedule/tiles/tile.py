"""Schedules for rows over vectors: tiles of rows × columns, elements made where they are folded.

A warp has some rows, 16 at a time, and goes over the columns tile by tile. Each engine leaves a
tile's scores in the registers that tensor cores leave theirs in: lane l has rows l / 4 and
l / 4 + 8, and columns 8·i + 2·(l % 4) + {0, 1}; four lanes share a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from fusegen.backend.choices import PlainSchedule
from fusegen.backend.cuda.schedule.state_bytes import state_bytes
from fusegen.backend.cuda.schedule.tiles import mma
from fusegen.backend.cuda.schedule.tiles.filters import with_filter
from fusegen.backend.cuda.schedule.tiles.grouped import GROUP_COLUMNS
from fusegen.backend.cuda.schedule.tiles.parts import Parts, described, with_parts
from fusegen.backend.cuda.schedule.tiles.picked import with_picked
from fusegen.backend.cuda.schedule.tiles.rounds import round_sizes
from fusegen.backend.cuda.schedule.tiles.wgmma import MOST_LENGTH, WgmmaTiles, pair_of, sized
from fusegen.backend.cuda.schedule.tiles.wgmma_long import long_tiles
from fusegen.backend.emit.vector_sums import vector_sums
from fusegen.backend.target import WARP, CudaTarget
from fusegen.ir.kernel import FromVectors, Kernel, Program

Engine = Literal["fma", "mma", "wgmma"]
"""What makes products of vectors: CUDA cores, any type and term; mma.sync, two vectors of 16 bits,
from sm_80 on; wgmma, likewise, on sm_90."""

WARP_ROWS = 16
MOST_DEPTH = 64  # numbers of vectors that lie in shared memory at a time
MOST_NUMBERS = 128  # of vectors that are summed up, that a block holds in registers
MOST_WHOLE = 1 << 16  # where it has to hold all of them
PAD = 4  # numbers between vectors in shared memory, where neighbours would lie in the same banks


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSchedule(PlainSchedule):
    """How a program over vectors runs on a GPU."""

    target: CudaTarget
    engine: Engine
    warps: int = 4  # of a block, each with rows of its own
    row_tiles: int = 1  # of 16 rows, of a warp
    columns: int = 64  # of a tile
    wide_columns: bool = False  # n_cols does not fit 32 bits
    filters: bool = False  # are lists found among rounded scores first?
    short: bool = False  # are columns so few that candidates come in one round?
    parts: Parts = ""  # as what tensor cores multiply float32 vectors
    brought: int = 1  # tiles of columns that come to shared memory at a time, of fma
    stages: int = 2  # tiles of columns that are under way at a time, of mma and wgmma
    together: bool = False  # have all warps the same rows, and tiles of columns of their own? mma
    chunked: bool = False  # do long vectors come in chunks? wgmma
    grouped: bool = False  # is a list found among maxima of stored groups? See grouped.py
    picks: bool = False  # are dots with one column taken from a row's elements? See picked.py
    one_tree: bool = False  # are a row's bits the same among any number of rows?
    brings: bool = False  # do stored elements come to shared memory with tiles' columns? wgmma
    whole: bool = False  # has a block all numbers of vectors that are summed up?

    @property
    def in_rounds(self) -> bool:
        """Do candidates of lists come in rounds? See schedule/tiles/rounds.py."""
        return self.filters and self.engine == "wgmma"

    @property
    def teams(self) -> int:
        """Warps that go over columns by themselves; 1: a block's go together."""
        return self.warps if self.together else 1

    @property
    def rows(self) -> int:
        """Of a block."""
        return self.warps // self.teams * self.row_tiles * WARP_ROWS

    def blocks_at_once(self, shared_bytes: int) -> int:
        """That a multiprocessor has room for: about, since registers are a compiler's choice."""
        by_shared = self.target.shared_per_sm // (shared_bytes + 1024)
        by_registers = self.target.registers_per_sm // (200 * self.threads)
        return max(1, min(by_shared, by_registers))

    def share(self, numbers: int) -> int:
        """Numbers of a sum of vectors that a warp finishes, of those that a block holds."""
        return mma.padded(-(-numbers // self.teams), 8) if self.together else numbers

    @property
    def words(self) -> mma.Shape:
        """Sizes that decide where vectors of 16 bits lie."""
        return mma.Shape(self.rows, self.row_tiles, self.columns, self.stages, self.teams,
                         self.most_numbers)

    @property
    def threads(self) -> int:
        """Of a block. With wgmma another warpgroup has tiles copied."""
        return (self.warps + (4 if self.engine == "wgmma" else 0)) * WARP

    @property
    def most_numbers(self) -> int:
        """Of vectors that are summed up, that a block holds in registers."""
        if self.engine == "wgmma":
            return MOST_LENGTH
        return MOST_WHOLE if self.whole else MOST_NUMBERS

    @property
    def arch(self) -> str:
        """What machine code is for: wgmma is no later GPU's."""
        return f"{self.target.arch}{'a' if self.engine == 'wgmma' else ''}"

    @property
    def algorithm(self) -> str:
        """See `Schedule`."""
        warps = " → warps" if self.together else ""
        return (f"tiles of {self.rows} × {self.columns}, merged chunk by chunk of "
                f"{self.columns // 4} columns → lanes{warps} → blocks")

    @property
    def crowded(self) -> bool:
        return self.columns < 64  # scores cost less than narrow tiles

    @property
    def shape(self) -> str:
        """What the source fixes."""
        made = {"fma": "CUDA cores", "mma": "mma.sync", "wgmma": "wgmma"}[self.engine]
        made += ", vectors in chunks" if self.chunked else ""
        rounds = f", in {'one round' if self.short else 'rounds'}" if self.in_rounds else ""
        rounded = f" of 16 bits{rounds}, the best again in float32" if self.filters else ""
        rounded += described(self.parts)
        rounded += f", lists among the best groups of {GROUP_COLUMNS}" if self.grouped else ""
        return f"tiles of {self.rows} rows × {self.columns} columns, scores by {made}{rounded}"

    @property
    def stored(self) -> str:
        """See `Schedule`."""
        if not self.grouped:
            return ""
        return f"where folded, and stored, of which a list reads its best groups of {GROUP_COLUMNS}"

    def describe(self) -> str:
        """See `Schedule`."""
        return f"{self.shape}; {self.threads} threads a block, {self.target.arch}"


def scheduled(program: Program, schedule: TileSchedule) -> Program:
    """The program as the schedule runs it."""
    if schedule.parts:
        return with_parts(program, schedule.parts)
    program = with_picked(program) if schedule.picks else program
    return with_filter(program, schedule.in_rounds) if schedule.filters else program


def wgmma_tiles(kernel: Kernel, schedule: TileSchedule) -> WgmmaTiles:
    """The engine's sizes for a kernel that it serves."""
    pair = pair_of(kernel)
    assert pair
    return sized(pair, schedule.warps // 4, schedule.columns, schedule.stages,
                 brings=schedule.brings)


# ---- shared memory: tables of vectors, in what is computed with ----


@dataclass(frozen=True, slots=True)
class Table:
    """Vectors of an array in shared memory, `pitch` numbers from one to the next: `depth` numbers
    of each at a time."""

    array: str
    name: str
    count: int  # vectors
    length: int  # numbers of each
    depth: int
    pitch: int
    at: int  # where it begins, in numbers

    @property
    def resident(self) -> bool:
        """Are all of a vector's numbers there at once?"""
        return self.depth >= self.length


def depth_of(length: int) -> int:
    """Numbers of a vector that are in shared memory at a time."""
    return min(-(-length // 4) * 4, MOST_DEPTH)


def held_numbers(length: int, most: int = MOST_NUMBERS) -> int:
    """Numbers of a sum of vectors that a block holds, a multiple of 8."""
    return min(-(-length // 8) * 8, most)


def list_slots(k: int, schedule: TileSchedule) -> int:
    """Candidates that there is room for: those of a tile beside the best, and as many as two blocks
    have found."""
    if schedule.filters:
        return 8 * k + 432 if k < 64 else 2 * k + 896
    return max(2 * k, k + 2 * schedule.columns) + schedule.columns


def tables_of(kernel: Kernel, schedule: TileSchedule, number: int) -> tuple[Table, ...]:
    """What sweep `number` of the kernel has in shared memory: vectors that scores are made of, by
    number of the source, then those of columns that are summed up."""
    found: list[Table] = []
    at = 0
    sweep, brought = kernel.sweeps[number], schedule.brought * schedule.columns
    vectors = {p.name: p for p in kernel.params}

    def put(array: str, name: str, count: int, depth: int) -> None:
        nonlocal at
        pitch = depth if depth % 8 else depth + PAD
        found.append(Table(array, name, count, vectors[array].k, depth, pitch, at))
        at += count * pitch

    for source in sweep.loads:
        if isinstance(source, FromVectors):
            for array in source.rows:
                put(array, f"{source.name}_{array}", schedule.rows, depth_of(vectors[array].k))
            for array in source.columns:
                put(array, f"{source.name}_{array}", brought, depth_of(vectors[array].k))
    summed = {a: None for s in vector_sums(kernel, sweep) for a in s.columns(vectors)}
    for array in summed:
        put(array, f"{array}_summed", brought,
            held_numbers(vectors[array].k, schedule.most_numbers))
    return tuple(found)


def at_once(tables: Iterable[Table]) -> bool:
    """Are all numbers there of the vectors that a sweep's elements are made of?"""
    return all(t.resident for t in tables if not t.name.endswith("_summed"))


def weights_at(kernel: Kernel, schedule: TileSchedule, number: int) -> int:
    """Where a block's weights lie in a sweep, in numbers; 0 where it adds up no products, or in
    registers."""
    sums = vector_sums(kernel, kernel.sweeps[number])
    if schedule.engine == "mma" or not any(s.array for s in sums):
        return 0
    return _end(kernel, schedule, number)


def shared_bytes(kernel: Kernel, schedule: TileSchedule) -> int:
    """Dynamic shared memory of a block."""
    if schedule.in_rounds:
        return round_sizes(kernel, schedule.warps, schedule.stages).shared_bytes
    if schedule.engine == "wgmma":
        if schedule.chunked:
            return long_tiles(kernel, schedule.words).shared_bytes
        return wgmma_tiles(kernel, schedule).shared_bytes
    if schedule.engine == "mma":
        return max(mma.shared_bytes(kernel, schedule.words), met_bytes(kernel, schedule))
    weights = schedule.rows * (schedule.columns + PAD)
    most = max(_end(kernel, schedule, n) + (weights if weights_at(kernel, schedule, n) else 0)
               for n in range(len(kernel.sweeps))) if kernel.sweeps else 0
    return most * kernel.compute.itemsize


def _end(kernel: Kernel, schedule: TileSchedule, number: int) -> int:
    """Numbers that a sweep's tables take."""
    tables = tables_of(kernel, schedule, number)
    return max((t.at + t.count * t.pitch for t in tables), default=0)


def met_bytes(kernel: Kernel, schedule: TileSchedule) -> int:
    """Of shared memory, where warps that have the same rows leave what they found."""
    if not schedule.together:
        return 0
    return max(schedule.warps * WARP_ROWS * (
        state_bytes(replace(w, monoid=w.monoid.numbers))
        + sum(4 * (held_numbers(s.length, schedule.most_numbers) + mma.PAD)
              for s in vector_sums(kernel, w)))
        for w in kernel.sweeps)


def parts_of(kernel: Kernel, schedule: TileSchedule) -> int:
    """Blocks that share rows, each with some numbers of the vectors that are summed up."""
    lengths = [s.length for w in kernel.sweeps for s in vector_sums(kernel, w)]
    lengths += [p.k for p in kernel.params if p.shape == "row_vector" and p.output]
    return -(-max(lengths, default=1) // schedule.most_numbers)
