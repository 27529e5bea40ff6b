"""Grids of launches."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cuda.run.driver import Driver, Geometry
from fusegen.backend.cuda.run.extent import Extent, column_tiles
from fusegen.backend.cuda.schedule.launch import MOST_BLOCKS, RESIDENT_BLOCKS, Launch
from fusegen.backend.cuda.schedule.tiles.rounds import ROUNDING_BLOCKS
from fusegen.backend.cuda.schedule.tiles.splits import splits_of
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule
from fusegen.backend.cuda.schedule.tiles.wgmma_long import long_splits
from fusegen.ir.errors import BackendError, InternalError

_WAVES = 4  # blocks of a multiprocessor, where few rows are split for it to have some
_MANY_WAVES = 24  # where what blocks leave is little: so that all end at about the same time
_LEAST_TILES = 4  # that a block goes over, at least


@dataclass(frozen=True, slots=True)
class Device:
    """The facts of a device that bound a grid."""

    index: int
    multiprocessors: int


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


def tile_geometry(launch: Launch, extent: Extent, multiprocessors: int) -> Geometry:
    """Blocks of rows over vectors: those that share rows are neighbours; of wgmma, as many as the
    device has room for, each with a tile of rows after another. Raises BackendError."""
    assert launch.tile
    if launch.each == "vector":
        return Geometry(grid=ROUNDING_BLOCKS, threads=launch.threads)
    if launch.each == "batch":
        return Geometry(grid=extent.n_batches, threads=launch.threads)
    if launch.each == "row":
        splits = _chunked_splits(launch.tile, extent, multiprocessors) if launch.tile.grouped else 1
        return Geometry(grid=-(-extent.n_rows // launch.rows_per_block), threads=launch.threads,
                        shared_bytes=launch.shared_bytes, splits=splits)
    shared, steady = _tiles(launch, extent), launch.tile.engine == "wgmma"
    splits = 1
    if launch.visits:  # what blocks find is the same, however they share columns
        splits = launch.visits.splits(shared, column_tiles(launch, extent), multiprocessors)
    elif launch.tile.one_tree:
        pass  # how many rows there are decides nothing
    elif launch.tile.chunked:  # columns that are stored are nobody's to merge
        splits = _chunked_splits(launch.tile, extent, multiprocessors)
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


def _chunked_splits(tile: TileSchedule, extent: Extent, multiprocessors: int) -> int:
    """Of launches over long vectors, and of those behind them."""
    rows = extent.n_batches * -(-extent.batch_rows // tile.rows)
    return long_splits(rows, -(-extent.n_cols // tile.columns), multiprocessors)


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
