"""Grids and memory of launches: the one place that reads `schedule.launch.Launch`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusegen.backend.cuda.run.driver import Driver, Geometry
from fusegen.backend.cuda.run.tensor_maps import Mapped, Tiled
from fusegen.backend.cuda.schedule.launch import (
    MOST_BLOCKS,
    RESIDENT_BLOCKS,
    Launch,
    element_shape,
)
from fusegen.backend.cuda.schedule.tiles.rounds import ROUNDING_BLOCKS, spread
from fusegen.backend.cuda.schedule.tiles.scratch import Scratch
from fusegen.backend.cuda.schedule.tiles.wgmma import splits_of
from fusegen.backend.cuda.schedule.tiles.wgmma_long import long_splits
from fusegen.ir.errors import BackendError, InternalError
from fusegen.ir.kernel import Param, Program

BOUNDARY = 256  # bytes; every array in a room starts on one


@dataclass(frozen=True, slots=True)
class Device:
    """The facts of a device that bound a grid."""

    index: int
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class Extent:
    """Sizes of a call, and row strides by name: (row), or (outer, column) of rows side by side."""

    n_rows: int
    n_cols: int
    inner: int | None  # rows side by side; None: the columns of a row are neighbours
    strides: tuple[tuple[str, tuple[int, ...]], ...]  # of arrays of elements or vectors
    first_column: int = 0  # its number in the whole row, of a piece
    batches: tuple[tuple[str, int], ...] = ()  # neighbouring rows that share columns' vectors

    @property
    def batch_rows(self) -> int:
        """Neighbouring rows that share all vectors of columns."""
        return min((n for _, n in self.batches), default=self.n_rows)


def extent_of(
    program: Program, arrays: Mapping[str, Any], n_rows: int, n_cols: int, first_column: int = 0
) -> Extent:
    """The extent of arrays (n_rows, n_cols), or (outer, n_cols, inner), of vectors, and of a
    workspace."""
    elements = {n: a for n, a in arrays.items() if a.ndim > 1}
    vectors = {p.name for p in program.inputs if p.shape in ("column_vector", "columns")}
    inner = next((int(a.shape[2]) for n, a in elements.items()
                  if a.ndim == 3 and n not in vectors), None)
    strides = {n: tuple(s // a.itemsize for s in a.strides[:-1]) for n, a in elements.items()}
    shape = element_shape(n_rows, n_cols, inner)
    between = tuple(math.prod(shape[i:]) for i in range(1, len(shape)))
    strides |= {p.name: between for p in program.workspace if p.shape == "element"}
    strides |= {p.name: (p.k,) for p in program.workspace if p.shape == "row_vector"}
    batches = {n: n_rows // arrays[n].shape[0] for n in elements if n in vectors}
    for p in program.workspace:  # an array of columns is called after the one that it is made of
        if p.shape in ("column_vector", "columns"):
            batches[p.name] = batches[p.name.rsplit("_", 1)[0]]
            strides[p.name] = (n_cols * p.k, p.k)[: 1 if p.shape == "columns" else 2]
    return Extent(n_rows, n_cols, inner, tuple(strides.items()), first_column,
                  tuple(batches.items()))


def geometry_of(
    launch: Launch, extent: Extent, driver: Driver, function: int, device: Device
) -> Geometry:
    """Blocks for so many rows; where teams take several, as many as the device holds. Raises
    BackendError for more rows than a grid has blocks for."""
    if launch.tile:
        return tile_geometry(launch, extent, device.multiprocessors)
    blocks = launch.teams(extent.n_rows, extent.inner or 1)
    if launch.steady or launch.together:
        blocks = min(blocks, _at_once(launch, driver, function, device))
    elif launch.cluster > 1:
        _at_once(launch, driver, function, device)  # raises where not one of them fits
    elif launch.limited:
        blocks = min(blocks, device.multiprocessors * RESIDENT_BLOCKS)
    most = MOST_BLOCKS // launch.grid_rows
    if launch.limited:
        blocks = min(blocks, most)
    elif blocks > most:
        raise BackendError(f"{launch.symbol}: {extent.n_rows} rows take more blocks than the "
                           f"{MOST_BLOCKS} of a grid. Call it with some of them at a time.")
    grid = blocks * launch.grid_rows
    if grid % launch.cluster:
        raise InternalError(f"{launch.symbol}: {grid} blocks in clusters of {launch.cluster}")
    return Geometry(grid=grid, threads=launch.threads, shared_bytes=launch.shared_bytes,
                    cluster=launch.cluster, together=launch.together)


_WAVES = 4  # blocks of a multiprocessor, where few rows are split for it to have some
_MANY_WAVES = 24  # where what blocks leave is little: so that all end at about the same time
_LEAST_TILES = 4  # that a block goes over, at least


def tile_geometry(launch: Launch, extent: Extent, multiprocessors: int) -> Geometry:
    """Blocks of rows over vectors: those that share rows are neighbours; of wgmma, as many as the
    device has room for, each with a tile of rows after another. Raises BackendError."""
    assert launch.tile
    if launch.each == "vector":
        return Geometry(grid=ROUNDING_BLOCKS, threads=launch.threads)
    if launch.each == "batch":
        return Geometry(grid=_batches(extent), threads=launch.threads)
    if launch.each == "row":
        return Geometry(grid=-(-extent.n_rows // launch.rows_per_block), threads=launch.threads)
    shared, steady = _tiles(launch, extent), launch.tile.engine == "wgmma"
    splits = 1
    if launch.visits:  # what blocks find is the same, however they share columns
        splits = launch.visits.splits(shared, _column_tiles(launch, extent), multiprocessors)
    elif launch.tile.one_tree:
        pass  # how many rows there are decides nothing
    elif launch.tile.chunked:  # columns that are stored are nobody's to merge
        splits = long_splits(shared, -(-extent.n_cols // launch.tile.columns), multiprocessors)
    elif launch.splits and launch.tile.engine != "fma":
        at_once = 1 if steady else launch.tile.blocks_at_once(launch.shared_bytes)
        step = launch.tile.columns * launch.tile.teams
        splits = splits_of(shared, -(-extent.n_cols // step), multiprocessors * at_once)
    elif launch.splits:
        sums = any(s.kind == "sums" for s in launch.scratch)
        waves = _WAVES if sums else _MANY_WAVES
        wanted = waves * multiprocessors // max(1, shared)
        tiles = max(_LEAST_TILES, 2 * launch.tile.brought)
        most = -(-extent.n_cols // (launch.tile.columns * tiles))
        splits = max(1, min(wanted, most))
    if shared * splits > MOST_BLOCKS:
        raise BackendError(f"{launch.symbol}: {extent.n_rows} rows take more blocks than the "
                           f"{MOST_BLOCKS} of a grid. Call it with some of them at a time.")
    grid = min(multiprocessors, shared * splits) if steady else shared * splits
    return Geometry(grid=grid, threads=launch.threads, shared_bytes=launch.shared_bytes,
                    splits=splits)


def _batches(extent: Extent) -> int:
    return extent.n_rows // max(1, extent.batch_rows)


def _column_tiles(launch: Launch, extent: Extent) -> int:
    assert launch.tile
    return -(-extent.n_cols // launch.tile.columns)


def _tiles(launch: Launch, extent: Extent) -> int:
    """Blocks without splits: a tile of rows is of one batch."""
    rows = extent.batch_rows
    return extent.n_rows // rows * -(-rows // launch.rows_per_block) * launch.grid_rows


def _at_once(launch: Launch, driver: Driver, function: int, device: Device) -> int:
    """Rows, or groups of rows side by side in a block, that the device can work on at a time."""
    one = Geometry(grid=launch.grid_rows, threads=launch.threads, shared_bytes=launch.shared_bytes,
                   cluster=launch.cluster)
    fits = driver.blocks_at_once(function, one, device.multiprocessors)
    if fits < launch.grid_rows:
        raise BackendError(
            f"{launch.symbol} needs {launch.grid_rows} blocks at once, this device holds {fits} "
            f"of {launch.threads} threads and {launch.shared_bytes} bytes of shared memory"
        )
    return fits // launch.grid_rows


@dataclass(frozen=True, slots=True)
class Room:
    """Arrays of one call that lie in one allocation: bytes, and where each begins."""

    n_bytes: int
    offsets: Mapping[str, int]


def room_of(
    program: Program, launches: tuple[Launch, ...], grids: tuple[Geometry, ...], extent: Extent
) -> Room:
    """Arrays between kernels, and scratch memory of any kind but tickets."""
    whole = math.prod(element_shape(extent.n_rows, extent.n_cols, extent.inner))
    sizes = {}
    for p in program.workspace:
        sizes[p.name] = _count(p, whole, extent) * p.dtype.itemsize
    for launch, shape in zip(launches, grids, strict=True):
        for scratch in launch.scratch:
            if scratch.kind != "tickets":  # launches that name the same array take turns in it
                size = scratch_bytes(launch, scratch, shape, extent)
                sizes[scratch.name] = max(size, sizes.get(scratch.name, 0))
    offsets, end = {}, 0
    for name, size in sizes.items():
        offsets[name] = end
        end += -(-max(size, 1) // BOUNDARY) * BOUNDARY  # also what is empty has an address
    return Room(end, offsets)


def _count(param: Param, whole: int, extent: Extent) -> int:
    """Elements of an array of the workspace."""
    match param.shape:
        case "element":
            return whole
        case "row_vector":
            return extent.n_rows * param.k
        case "column_vector" | "columns":
            batches = extent.n_rows // dict(extent.batches)[param.name]
            return batches * extent.n_cols * param.k
        case _:
            return extent.n_rows


@dataclass(frozen=True, slots=True)
class Counters:
    """Tickets of one launch. Other launches, also for other rows or in other grids, have others."""

    name: str
    n_bytes: int
    n_rows: int
    inner: int | None
    grid: int


def counters_of(
    launches: tuple[Launch, ...], grids: tuple[Geometry, ...], extent: Extent
) -> tuple[Counters, ...]:
    """Every launch's tickets."""
    return tuple(
        Counters(_scratch_name(launch, scratch),
                 scratch_bytes(launch, scratch, shape, extent),
                 extent.n_rows, extent.inner, shape.grid)
        for launch, shape in zip(launches, grids, strict=True)
        for scratch in launch.scratch if scratch.kind == "tickets"
    )


def scratch_bytes(launch: Launch, scratch: Scratch, shape: Geometry, extent: Extent) -> int:
    """Bytes of one of a launch's scratch arrays."""
    splits = shape.splits
    owners = {"row": extent.n_rows, "team": shape.grid * launch.rows_per_block,
              "block": shape.grid, "piece": extent.n_rows * splits, "launch": 1,
              "split": extent.n_rows * splits if splits > 1 else 0,
              "batch": _batches(extent),
              "tile": _batches(extent) * _column_tiles(launch, extent)
              if launch.tile else 0}[scratch.per]
    return owners * scratch.count * scratch.entry_bytes


def maps_of(launch: Launch, extent: Extent) -> tuple[Mapped, ...]:
    """Tensor maps behind a kernel's numbers, of some of its arrays of vectors."""
    at = {name: i for i, name in enumerate(pointers_of(launch))}
    strides, batches = dict(extent.strides), dict(extent.batches)
    found = []
    for m in launch.maps:
        p = launch.kernel.param(m.array)
        n_rows = extent.n_cols
        apart = strides[m.array]
        rows = batches.get(m.array, extent.batch_rows)  # of a batch
        if p.shape == "row_vector":
            n_rows, apart = rows, (rows * apart[0], *apart)
        shape = (extent.n_rows // max(1, rows), n_rows, p.k)
        box = m.box
        if launch.tile and launch.tile.chunked and p.shape == "row_vector":
            box = min(box, -(-rows // 8) * 8)
        found.append(Mapped(at[m.array], Tiled(p.dtype.number.name, p.dtype.itemsize, shape,
                                               (apart[0], apart[1]), box)))
    return tuple(found)


def numbers_of(launch: Launch, extent: Extent, splits: int = 1) -> tuple[int, ...]:
    """A kernel's 64-bit arguments after its pointers; strides in elements."""
    known = {"n_rows": extent.n_rows, "n_cols": extent.n_cols, "n_inner": extent.inner or 1,
             "blocks_of_a_row": launch.grid_rows, "first_column": extent.first_column,
             "batch_rows": extent.batch_rows, "splits": splits}
    known |= {f"{name}_rows": rows for name, rows in extent.batches}
    if launch.visits:
        tiles = _column_tiles(launch, extent)
        first, end = launch.visits.of(tiles)
        known |= {"first_visit": first, "end_visit": end, "spread": spread(tiles),
                  "again": int(launch.visits.again)}
    for name, strides in extent.strides:
        outer = "batch_stride" if launch.tile else "outer_stride"
        axes = (outer, "stride")[-len(strides) :]
        known |= {f"{name}_{axis}": s for axis, s in zip(axes, strides, strict=True)}
    return tuple(known[n] for n in launch.scalars)


def pointers_of(launch: Launch) -> tuple[str, ...]:
    """Names of a kernel's pointers, in order."""
    return (*(p.name for p in launch.params), *(_scratch_name(launch, s) for s in launch.scratch))


def _scratch_name(launch: Launch, scratch: Scratch) -> str:
    """Tells apart what launches of a program must not share."""
    return f"{launch.symbol}.{scratch.name}" if scratch.kind == "tickets" else scratch.name
