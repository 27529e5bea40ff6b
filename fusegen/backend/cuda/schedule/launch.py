"""From a program and a schedule to launches: parameters, scratch memory, grids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from fusegen.backend.cuda.schedule.cuda import MAX_WIDTH, VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.on_chip import shared_bytes
from fusegen.backend.cuda.schedule.state_bytes import state_bytes
from fusegen.backend.cuda.schedule.tiles import grouped
from fusegen.backend.cuda.schedule.tiles.filters import filter_of
from fusegen.backend.cuda.schedule.tiles.groups import GROUP_ROWS
from fusegen.backend.cuda.schedule.tiles.rounds import (
    BARS,
    NORMS,
    ROW_THREADS,
    UNUSUAL,
    Each,
    Pass,
    Visits,
    passes,
)
from fusegen.backend.cuda.schedule.tiles.scratch import MapOf, Scratch
from fusegen.backend.cuda.schedule.tiles.tile import (
    TileSchedule,
    held_numbers,
    list_slots,
    parts_of,
    scheduled,
)
from fusegen.backend.cuda.schedule.tiles.tile import shared_bytes as shared_tables
from fusegen.backend.cuda.schedule.tiles.wgmma import mapped
from fusegen.backend.cuda.schedule.tiles.wgmma_long import long_mapped
from fusegen.backend.cuda.schedule.topk import in_device_memory, key_plan, list_plan
from fusegen.backend.emit.vector_sums import vector_sums
from fusegen.backend.target import WARP
from fusegen.ir.kernel import FIRST_COLUMN, Kernel, Param, Program, Sweep
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.monoid import KBest

MOST_BLOCKS = 2**31 - 1  # of a grid
RESIDENT_BLOCKS = 4  # of a multiprocessor, where scratch memory per block bounds the grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One `__global__` function: its part of a kernel, its parameters in order, its grid."""

    kernel: Kernel
    splits: bool  # do blocks share rows, the last of a row's blocks merging what they found?
    params: tuple[Param, ...]
    scratch: tuple[Scratch, ...]
    threads: int  # of a block
    rows_per_block: int  # teams side by side in a block, or rows of its band
    grid_rows: int  # blocks that share a row: 1, the slices, or a cluster
    shared_bytes: int = 0  # dynamic shared memory of a block
    cluster: int = 1  # neighbouring blocks that form a cluster; 1: none
    together: bool = False  # blocks wait for one another: all must be on the device at once
    steady: bool = False  # does a team go from row to row?
    shares: bool = False  # do blocks all over the grid share rows?
    strip_rows: int = 0  # neighbouring rows of a team, where rows lie side by side
    tile: TileSchedule | None = None  # how rows over vectors are dealt to blocks
    each: Each = "tile"  # of these, what blocks or warps have
    visits: Visits | None = None  # which tiles of columns, where not all
    maps: tuple[MapOf, ...] = ()  # parameters behind all others

    @property
    def symbol(self) -> str:
        """The function's name: none of CUDA's own, as a pipeline's may be (norm, round)."""
        return f"{self.kernel.name}_kernel"

    @property
    def limited(self) -> bool:
        """Does every team take several rows, so that the grid is what the device can hold?"""
        return self.together or self.steady or any(s.per == "team" for s in self.scratch)

    @property
    def scalars(self) -> tuple[str, ...]:
        """The 64-bit arguments after the pointers, by name."""
        first = ["first_column"] if FIRST_COLUMN.name in names_in(self.kernel) else []
        if self.tile:
            visits = ("first_visit", "end_visit", "spread", "again") if self.visits else ()
            return (*_tile_strides(self.params), "n_rows", "n_cols", *first, "batch_rows", "splits",
                    *visits)
        elements = [p.name for p in self.params if p.shape == "element"]
        if self.strip_rows:
            strides = [f"{n}_{axis}" for n in elements for axis in ("outer_stride", "stride")]
            return (*strides, "n_rows", "n_cols", "n_inner")
        states = [p.name for p in self.params if p.shape == "states"]
        shared = ["blocks_of_a_row"] if self.shares else []
        strides = [*(f"{n}_stride" for n in elements),
                   *(f"{n}_{axis}" for n in states for axis in ("outer_stride", "stride"))]
        return (*strides, "n_rows", "n_cols", *first, *shared)

    def teams(self, n_rows: int, n_inner: int) -> int:
        """Groups of `grid_rows` blocks that the rows are dealt to; `n_inner` rows side by side."""
        if self.strip_rows:
            return n_rows // n_inner * -(-n_inner // self.strip_rows)
        return -(-n_rows // self.rows_per_block)


def least_itemsize(program: Program) -> int:
    """Bytes of the smallest element that a program reads."""
    return min((p.dtype.itemsize for p in program.inputs if p.shape == "element"), default=4)


def widest_vector(program: Program) -> int:
    """Elements that fill a vector of every array that a program reads."""
    return min(MAX_WIDTH, VECTOR_BYTES // least_itemsize(program))


def padded_stride(n_cols: int) -> int:
    """Row stride, in elements, of element arrays between kernels: every row is aligned."""
    return -(-n_cols // VECTOR_BYTES) * VECTOR_BYTES


def element_shape(n_rows: int, n_cols: int, n_inner: int | None) -> tuple[int, ...]:
    """Shape of element arrays between kernels; its last axis is padded, so that vectors fit."""
    if n_inner is None:
        return (n_rows, padded_stride(n_cols))
    return (n_rows // n_inner, n_cols, padded_stride(n_inner))


def launches(program: Program, schedule: CudaSchedule | TileSchedule) -> tuple[Launch, ...]:
    """Every launch of the program, in order."""
    if isinstance(schedule, TileSchedule):
        found = filter_of(program.kernels[0]) if schedule.filters else None
        if found is None:
            made = tuple(_tile_launch(k, schedule) if k.sweeps
                         else _pass_launch(Pass(k, "vector", (UNUSUAL,)), schedule)
                         for k in scheduled(program, schedule).kernels)
            return (*made, best_launch(made[-1])) if schedule.grouped else made
        first, last = scheduled(program, schedule).kernels
        made = tuple(_pass_launch(p, schedule)
                     for p in passes(first, last, found, schedule.in_rounds, schedule.short))
        return made if schedule.in_rounds else (*made, _tile_launch(last, schedule))
    if program.role == "merge":
        return tuple(_merge_launch(k, schedule) for k in program.kernels)
    return tuple(_launch(k, schedule) for k in program.kernels)


def _merge_launch(kernel: Kernel, schedule: CudaSchedule) -> Launch:
    """Lists merge where they lie: no memory beside the states."""
    return Launch(kernel=kernel, splits=False, params=kernel.params, scratch=(),
                  threads=schedule.threads, rows_per_block=schedule.rows_per_block, grid_rows=1)


def _launch(kernel: Kernel, schedule: CudaSchedule) -> Launch:
    if schedule.strip:
        return _strip_launch(kernel, schedule)
    scratch = tuple(
        Scratch(f"{best.name}_slots", "slots", "team", list_plan(kernel, best, schedule).slots,
                key_plan(kernel, best, schedule.wide_columns).n_bytes)
        for sweep in kernel.sweeps for best in sweep.monoid.lists
        if in_device_memory(kernel, schedule)
    )
    waits, grid = schedule.waits, schedule.split
    splits = grid and not waits and not kernel.sweeps[0].monoid.is_empty
    if splits:
        (sweep,) = kernel.sweeps
        tickets = Scratch("tickets", "tickets", "row", 1, 8)
        scratch = (*_partials(kernel, sweep, schedule), *scratch, tickets)
    if waits:
        words = -(-state_bytes(kernel.sweeps[0]) // 4)  # each beside the number of its turn
        place = max(words, 8)  # kPlace of meet/grid.cuh
        scratch = (Scratch("told", "tickets", "block", 2 * place, 8),)
    return Launch(
        kernel=kernel, splits=splits, params=kernel.params, scratch=scratch,
        threads=schedule.threads, rows_per_block=schedule.block_rows,
        grid_rows=schedule.blocks, shared_bytes=shared_bytes(kernel, schedule),
        cluster=schedule.blocks if schedule.clustered else 1,
        together=waits, steady=schedule.home.steady, shares=grid,
    )


def _strip_launch(kernel: Kernel, schedule: CudaSchedule) -> Launch:
    """Rows side by side: blocks leave a state for every row of their strip."""
    meets = not kernel.sweeps[0].monoid.is_empty and schedule.split
    together = meets and schedule.waits
    scratch: tuple[Scratch, ...] = ()
    if meets:
        rows = schedule.strip_rows * (2 if together else 1)
        first = kernel.sweeps[0]  # its number keeps the states of several kernels apart
        size = state_bytes(first)
        states = Scratch(f"partial_states{first.number}", "states", "block", rows, size)
        apart = 8 if together else 1  # kApart of tickets.cuh
        scratch = (states, Scratch("tickets", "tickets", "block", apart, 8))
    return Launch(
        kernel=kernel, splits=meets and not together, params=kernel.params,
        scratch=scratch, threads=schedule.threads, rows_per_block=1, grid_rows=schedule.blocks,
        shared_bytes=shared_bytes(kernel, schedule),
        cluster=schedule.blocks if schedule.clustered else 1,
        together=together, shares=meets, strip_rows=schedule.strip_rows,
    )


def _tile_launch(kernel: Kernel, schedule: TileSchedule) -> Launch:
    """Rows over vectors: blocks that share rows leave their states, and the last one merges."""
    parts = parts_of(kernel, schedule)
    maps: tuple[MapOf, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    if takes_splits(kernel):
        (sweep,) = kernel.sweeps
        if sweep.monoid.numbers.has_scalars:
            size = state_bytes(replace(sweep, monoid=sweep.monoid.numbers))
            owners: Literal["piece", "split"] = "piece" if schedule.grouped else "split"
            scratch += (Scratch("partial_states", "states", owners, parts, size),)
        scratch += tuple(
            Scratch(f"{s.name}_partial", "sums", "split",
                    parts * held_numbers(s.length, schedule.most_numbers),
                    kernel.compute.itemsize) for s in vector_sums(kernel, sweep))
        per: Literal["row", "block"] = "row" if schedule.engine == "wgmma" else "block"
        if not schedule.grouped:  # where the launch behind has all that blocks left
            scratch += (Scratch("tickets", "tickets", per, 1, 8),)
    made = (NORMS, BARS) if schedule.filters else (UNUSUAL,) if schedule.parts else ()
    scratch = (*made, *(s for sweep in kernel.sweeps for best in sweep.monoid.lists
                        for s in _of_list(kernel, best, schedule, parts)), *scratch)
    if schedule.engine == "wgmma":
        scratch += (Scratch("turns", "tickets", "block", 2, 8),)
        box = schedule.rows if schedule.chunked else GROUP_ROWS  # of rows
        maps = tuple(MapOf(p.name, box if p.shape == "row_vector" else schedule.columns)
                     for p in (long_mapped if schedule.chunked else mapped)(kernel))
    return Launch(kernel=kernel, splits=takes_splits(kernel), params=kernel.params, scratch=scratch,
                  threads=schedule.threads, rows_per_block=schedule.rows, grid_rows=parts,
                  shared_bytes=shared_tables(kernel, schedule), shares=bool(scratch),
                  tile=schedule, maps=maps)


def _of_list(
    kernel: Kernel, best: KBest, schedule: TileSchedule, parts: int
) -> tuple[Scratch, ...]:
    """Where blocks keep what they find of a list."""
    if schedule.grouped:
        return grouped.stored(best, schedule.columns)
    return (Scratch(f"{best.name}_slots", "slots", "piece",
                    parts * (list_slots(best.k, schedule) + best.k),
                    key_plan(kernel, best, schedule.wide_columns).n_bytes),)


def best_launch(stored: Launch) -> Launch:
    """The one behind a launch that stored elements: a block finds a row's list."""
    (best,) = stored.kernel.sweeps[0].monoid.lists
    kernel = replace(stored.kernel, name=f"{stored.kernel.name}_best")
    return replace(stored, kernel=kernel, threads=grouped.THREADS, rows_per_block=1,
                   shared_bytes=grouped.row_bytes(best.k), each="row", maps=())


def _pass_launch(one: Pass, schedule: TileSchedule) -> Launch:
    """A launch around, or of, the rounds in which lists are found."""
    tiles = one.each == "tile"
    return Launch(kernel=one.kernel, splits=False, params=one.kernel.params, scratch=one.scratch,
                  threads=schedule.threads if tiles else ROW_THREADS,
                  rows_per_block=schedule.rows if tiles else ROW_THREADS // WARP, grid_rows=1,
                  shared_bytes=shared_tables(one.kernel, schedule) if tiles else 0, shares=True,
                  tile=schedule, each=one.each, visits=one.visits, maps=one.maps)


def takes_splits(kernel: Kernel) -> bool:
    """May blocks share its rows? Not where a later sweep waits for what all of them found."""
    return len(kernel.sweeps) == 1 and not kernel.sweeps[0].monoid.is_empty


def _tile_strides(params: tuple[Param, ...]) -> Iterator[str]:
    for p in params:
        match p.shape:
            case "element" | "row_vector":
                yield f"{p.name}_stride"
            case "column_vector":
                yield from (f"{p.name}_batch_stride", f"{p.name}_stride", f"{p.name}_rows")
            case "columns":
                yield from (f"{p.name}_stride", f"{p.name}_rows")


def _partials(kernel: Kernel, sweep: Sweep, schedule: CudaSchedule) -> tuple[Scratch, ...]:
    """What each of a row's blocks leaves for the last one."""
    found = []
    if sweep.monoid.has_scalars:
        found.append(
            Scratch("partial_states", "states", "row", schedule.blocks, state_bytes(sweep))
        )
    for best in sweep.monoid.lists:
        plan = list_plan(kernel, best, schedule)
        count = schedule.blocks * (plan.kept if schedule.lists == "streamed" else best.k)
        found.append(Scratch(f"{best.name}_partial", "entries", "row", count, plan.key.n_bytes))
    return tuple(found)
