"""Choices for a GPU: who owns a row, how wide its loads are, whether rows are split over blocks.

A *team* (one warp or one block) owns a row. It walks the row in tiles; a thread's share of a tile
is `vectors` vectors of `width` neighbouring elements, the thread's chunk: folded safely inside,
merged once. Thread chunks merge within the warp by shuffles, warps through shared memory, slices of
a split row through a workspace, always in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fusegen.errors import ArgumentError
from fusegen.forms import Grouping
from fusegen.kernel import Gather, Kernel, ListFold, Param, Program, Sweep
from fusegen.monoid import KBest
from fusegen.schedule.problem import Problem
from fusegen.schedule.target import WARP, CudaTarget

VECTOR_BYTES = 16
MAX_ITEMS = 32  # of a thread's chunk: one bit each in a mask of candidates
MAX_WIDTH = 8
_SHARED_LIST_BYTES = 32768  # of all lists of a block; larger ones live in device memory
_NARROW_COLUMNS = 2**30  # up to here a column number plus a few tiles fits 32 bits

LoadMode = Literal["aligned", "peeled", "scalar"]
"""aligned: every row starts on a vector boundary.  peeled: rows start anywhere, all arrays at the
same offset from a boundary.  scalar: no common boundary, one element per access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaSchedule:
    """How a program runs on a GPU."""

    target: CudaTarget
    team: int  # threads that own a row: 32, or a whole block
    block_threads: int
    vectors: int  # per thread and tile
    width: int  # elements per vector
    load: LoadMode
    slices: int  # blocks that share a row; 1: rows are not split
    wide_columns: bool  # n_cols does not fit 32 bits

    @property
    def items(self) -> int:
        """Elements of a thread's chunk."""
        return self.vectors * self.width

    @property
    def teams_per_block(self) -> int:
        return self.block_threads // self.team

    @property
    def grouping(self) -> Grouping:
        return "rows" if self.slices == 1 else "sweeps"

    @property
    def algorithm(self) -> str:
        """What the field calls the tree of merges."""
        chunk = "one element at a time" if self.items == 1 else f"chunks of {self.items}"
        levels = ["thread", "warp"] + (["block"] if self.team > WARP else [])
        levels += [f"{self.slices} blocks"] if self.slices > 1 else []
        return f"{chunk}, merged {' → '.join(levels)}"

    def describe(self) -> str:
        owner = "warp" if self.team == WARP else "block"
        split = f", {self.slices} blocks share a row" if self.slices > 1 else ""
        return (
            f"row per {owner} ({self.team} threads), {self.vectors} × {self.width} elements per "
            f"thread and tile, {self.load} loads{split}, {self.target.arch}"
        )

    def slots(self, best: KBest) -> int:
        """Candidates a list can hold before it is cut back to its K best; a power of two."""
        return 1 << (max(2 * best.k, best.k + self.team, 128) - 1).bit_length()

    def seed_groups(self, lists: Sequence[KBest]) -> int:
        """Groups of neighbouring threads whose greatest items set a list's first bar.

        Few groups are ranked quickly; at least twice as many as K keep the bar close to the K-th.
        """
        most = max((c.k for c in lists), default=0)
        groups = WARP
        while groups < self.team and (groups < 2 * most or self.team % groups or
                                      (self.team // groups) & (self.team // groups - 1)):
            groups += WARP
        return min(groups, self.team)


def select_cuda(
    program: Program, problem: Problem, target: CudaTarget, chunk: int | None = None
) -> CudaSchedule:
    """The schedule for a problem; deterministic. Figures are measured ones for an H200."""
    width = _width(program, problem, chunk)
    n_cols = problem.n_cols if problem.n_cols is not None else 8192
    n_vectors = -(-n_cols // width)
    # Each loaded array takes registers for a whole chunk: more arrays, smaller chunks.
    arrays = max((len(s.loads) for s in program.sweeps), default=1)
    most = max(1, (chunk or MAX_ITEMS // (1 if arrays <= 1 else 2)) // width)
    if any(s.monoid.ordered for s in program.sweeps):
        most = 1  # a thread's items are then neighbours, and threads stand in row order
    lists = [c for s in program.sweeps for c in s.monoid.lists]
    largest = max((c.k for c in lists), default=0)
    if n_vectors <= WARP * min(8, most) and largest <= WARP:
        team, vectors = WARP, -(-n_vectors // WARP)
    else:
        row_bytes = n_cols * VECTOR_BYTES // width
        split = _few_rows(problem, target)  # then every sweep is a kernel of its own
        teams = _teams(program, target, 0 if split else row_bytes, largest)
        team, vectors = _fitted(n_vectors, teams, min(8 if lists else 4, most))
    slices = _slices(problem, target, n_vectors, team * vectors)
    return CudaSchedule(
        target=target, team=team, block_threads=team if team > WARP else 128,
        vectors=vectors, width=width,
        load=_load_mode(program, problem, width), slices=slices,
        wide_columns=n_cols > _NARROW_COLUMNS,
    )  # fmt: skip


def _teams(
    program: Program, target: CudaTarget, row_bytes: int, largest: int
) -> Sequence[int]:
    """Team sizes to choose from. `row_bytes`: of rows that several sweeps of a kernel read, else 0;
    `largest`: greatest K of the program's lists, 0 without any."""
    if row_bytes and any(len(k.sweeps) > 1 for k in program.kernels):
        # Later sweeps find the row in L2 if few enough rows are under way (H200, 25,000 float32:
        # rms_norm 225 µs with 512 threads a row, 393 µs with 224; 1024 threads are no better).
        for team in (128, 256):
            under_way = target.multiprocessors * target.threads_per_sm // team * row_bytes
            if under_way <= target.l2_bytes:
                return (team,)
        return (512,)
    if largest:
        return (128, 256) if largest <= 128 else (512,)
    return range(128, 513, WARP)


def _fitted(n_vectors: int, teams: Sequence[int], most: int) -> tuple[int, int]:
    """(team, vectors) whose tiles cover the row with the least to spare.

    A tile that is half outside the row costs as much as a whole one: fitting it was worth 10 to
    30 % for rows of 4 tiles. Each tile also costs about half a vector per thread (barriers,
    addresses).
    """
    found = []
    for team in teams:
        for vectors in range(1, most + 1):
            tiles = -(-n_vectors // (team * vectors))
            found.append((tiles * team * (vectors + 0.5), -vectors, team))
    _, vectors, team = min(found)
    return team, -vectors


def _width(program: Program, problem: Problem, chunk: int | None) -> int:
    if chunk is not None and (chunk < 1 or chunk > MAX_ITEMS or chunk & (chunk - 1)):
        raise ArgumentError(
            f"chunk={chunk} is not possible on a GPU",
            why=f"A thread's chunk is a power of two, 1 to {MAX_ITEMS}: the elements it holds.",
            fix="Leave chunk out, or use 1 for the online form one element at a time.",
        )
    if _load_mode(program, problem, 1) == "scalar":
        return 1
    sizes = [p.dtype.itemsize for p in program.inputs if p.shape == "element"]
    return min(MAX_WIDTH, VECTOR_BYTES // min(sizes, default=4), chunk or MAX_WIDTH)


def _load_mode(program: Program, problem: Problem, width: int) -> LoadMode:
    # Arrays between kernels are always aligned, so they share a phase with aligned rows only.
    between = any(p.shape == "element" for p in program.workspace)
    if not problem.in_phase or (between and not problem.aligned):
        return "scalar"
    return "aligned" if problem.aligned or width == 1 else "peeled"


def _few_rows(problem: Problem, target: CudaTarget) -> bool:
    """Would whole rows leave most multiprocessors idle?"""
    return bool(problem.n_rows) and 2 * (problem.n_rows or 0) <= target.multiprocessors


def _slices(problem: Problem, target: CudaTarget, n_vectors: int, tile: int) -> int:
    """Split rows only when whole rows would leave most multiprocessors idle."""
    if not _few_rows(problem, target):
        return 1
    assert problem.n_rows
    tiles = -(-n_vectors // tile)
    if tiles < 8:
        return 1
    return max(1, min(-(-2 * target.multiprocessors // problem.n_rows), tiles // 4, 64))


# ---- launches ----


@dataclass(frozen=True, slots=True)
class Scratch:
    """Device memory a launch needs beside the program's arrays.

    Tickets are 64-bit counters that only ever grow: zero before the first launch that uses them,
    then kept for the launches that follow on the same stream.
    """

    name: str
    kind: Literal["states", "entries", "slots", "tickets"]
    count: int  # states, entries or tickets per row; slots per team
    entry_bytes: int

    @property
    def per_team(self) -> bool:
        return self.kind == "slots"


def padded_stride(n_cols: int) -> int:
    """Row stride, in elements, of element arrays between kernels: every row is aligned."""
    return -(-n_cols // VECTOR_BYTES) * VECTOR_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One `__global__` function: its part of a kernel, its parameters in order, its grid."""

    symbol: str
    kernel: Kernel
    part: Literal["whole", "slices", "merge"]
    params: tuple[Param, ...]
    scratch: tuple[Scratch, ...]
    threads: int  # of a block
    rows_per_block: int  # teams side by side in a block
    grid_rows: int  # blocks that share a row: 1, the slices, or a cluster
    shared_bytes: int = 0  # dynamic shared memory of a block
    cluster: int = 1  # neighbouring blocks that form a cluster; 1: none
    together: bool = False  # blocks wait for one another: all must be on the device at once

    @property
    def limited(self) -> bool:
        """Does scratch per team bound the grid?"""
        return any(s.per_team for s in self.scratch)


def launches(program: Program, schedule: CudaSchedule) -> tuple[Launch, ...]:
    """Every launch of the program, in order."""
    return tuple(n for k in program.kernels for n in _launches_of(k, schedule))


def _launches_of(kernel: Kernel, schedule: CudaSchedule) -> tuple[Launch, ...]:
    spilled = tuple(
        Scratch(f"{best.name}_slots", "slots", schedule.slots(best),
                entry_bytes(kernel, best, schedule))
        for sweep in kernel.sweeps for best in sweep.monoid.lists
        if in_device_memory(kernel, schedule)
    )  # fmt: skip
    shape = {"threads": schedule.block_threads, "rows_per_block": schedule.teams_per_block}
    if schedule.slices == 1:
        return (Launch(symbol=kernel.name, kernel=kernel, part="whole", params=kernel.params,
                       scratch=spilled, **shape, grid_rows=1),)  # fmt: skip
    (sweep,) = kernel.sweeps
    if sweep.monoid.is_empty:
        return (Launch(symbol=kernel.name, kernel=kernel, part="slices", params=kernel.params,
                       scratch=(), **shape, grid_rows=schedule.slices),)  # fmt: skip
    partial = _partial_scratch(kernel, sweep, schedule)
    gathered = {n for g in _gathers(kernel, sweep) for n in g.loads}
    read = tuple(p for p in kernel.params if not p.output)
    finishing = tuple(p for p in kernel.params if p.name not in sweep.loads or p.name in gathered)
    fold = Launch(symbol=f"{kernel.name}_slices", kernel=kernel, part="slices",
                  params=read, scratch=partial + spilled, **shape,
                  grid_rows=schedule.slices)  # fmt: skip
    merge = Launch(symbol=f"{kernel.name}_merge", kernel=kernel, part="merge",
                   params=finishing, scratch=partial + spilled, **shape,
                   grid_rows=1)  # fmt: skip
    return fold, merge


def _gathers(kernel: Kernel, sweep: Sweep) -> tuple[Gather, ...]:
    """Elements read once more when the row is finished."""
    steps = [*kernel.prelude, *sweep.steps]
    steps += [*(s for store in sweep.list_stores for s in store.entries.steps)]
    steps += [s for step in sweep.steps if isinstance(step, ListFold) for s in step.entries.steps]
    return tuple(s for s in steps if isinstance(s, Gather))


def _partial_scratch(
    kernel: Kernel, sweep: Sweep, schedule: CudaSchedule
) -> tuple[Scratch, ...]:
    found = []
    if sweep.monoid.has_scalars:
        fields = len(sweep.monoid.folded) + len(sweep.monoid.moving) + 2 * len(sweep.monoid.best)
        fields += sum(len(own.operator.fields) for own in sweep.monoid.own)
        # Every field is at most 8 bytes and the struct is padded to its widest: an upper bound.
        found.append(Scratch("partial_states", "states", schedule.slices, 8 * fields))
    for best in sweep.monoid.lists:
        size = entry_bytes(kernel, best, schedule)
        found.append(Scratch(f"{best.name}_partial", "entries", schedule.slices * best.k, size))
    return tuple(found)


def entry_bytes(kernel: Kernel, best: KBest, schedule: CudaSchedule) -> int:
    """Size of a (value, column) pair."""
    value = 8 if best.kind == "int" else kernel.compute.itemsize
    column = 8 if schedule.wide_columns else 4
    return 16 if 8 in (value, column) else 8


def in_device_memory(kernel: Kernel, schedule: CudaSchedule) -> bool:
    """Do the kernel's lists exceed what a block can keep in static shared memory?"""
    total = sum(
        schedule.slots(best) * entry_bytes(kernel, best, schedule)
        for sweep in kernel.sweeps for best in sweep.monoid.lists
    )  # fmt: skip
    return total * schedule.teams_per_block > _SHARED_LIST_BYTES
