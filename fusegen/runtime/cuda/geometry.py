"""Grids and memory of launches: the one place that reads `schedule.launch.Launch`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.errors import BackendError, InternalError
from fusegen.kernel import Program
from fusegen.runtime.driver import Driver, Geometry
from fusegen.schedule.launch import Launch, Scratch, padded_stride

_MOST_BLOCKS = 2**31 - 1
_RESIDENT_BLOCKS = 4  # per multiprocessor, where scratch memory per block bounds the grid
_BOUNDARY = 256  # bytes; every array in a room starts on one


@dataclass(frozen=True, slots=True)
class Device:
    """The facts of a device that bound a grid."""

    index: int
    multiprocessors: int


def geometry_of(
    launch: Launch, n_rows: int, driver: Driver, function: int, device: Device
) -> Geometry:
    """Blocks for so many rows; a grid that is too small walks over the rows in steps."""
    blocks = -(-n_rows // launch.rows_per_block)
    if launch.steady or launch.together:
        blocks = min(blocks, _at_once(launch, driver, function, device))
    elif launch.cluster > 1:
        _at_once(launch, driver, function, device)  # raises where not one of them fits
    elif launch.limited:
        blocks = min(blocks, device.multiprocessors * _RESIDENT_BLOCKS)
    blocks = min(blocks, _MOST_BLOCKS // launch.grid_rows)
    grid = blocks * launch.grid_rows
    if grid % launch.cluster:
        raise InternalError(f"{launch.symbol}: {grid} blocks in clusters of {launch.cluster}")
    return Geometry(grid=grid, threads=launch.threads, shared_bytes=launch.shared_bytes,
                    cluster=launch.cluster, together=launch.together)  # fmt: skip


def _at_once(launch: Launch, driver: Driver, function: int, device: Device) -> int:
    """Rows, or groups of rows side by side in a block, that the device can work on at a time."""
    one = Geometry(grid=launch.grid_rows, threads=launch.threads, shared_bytes=launch.shared_bytes,
                   cluster=launch.cluster)  # fmt: skip
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
    program: Program, launches: tuple[Launch, ...], grids: tuple[Geometry, ...], n_rows: int,
    n_cols: int,
) -> Room:  # fmt: skip
    """Arrays between kernels, and scratch memory of any kind but tickets."""
    sizes = {}
    for p in program.workspace:
        elements = {"element": n_rows * padded_stride(n_cols), "row": n_rows}[p.shape]
        sizes[p.name] = elements * p.dtype.itemsize
    for launch, shape in zip(launches, grids, strict=True):
        for scratch in launch.scratch:
            if scratch.kind != "tickets":  # launches that name the same array take turns in it
                size = _scratch_bytes(launch, scratch, shape.grid, n_rows)
                sizes[scratch.name] = max(size, sizes.get(scratch.name, 0))
    offsets, end = {}, 0
    for name, size in sizes.items():
        offsets[name] = end
        end += -(-size // _BOUNDARY) * _BOUNDARY
    return Room(end, offsets)


@dataclass(frozen=True, slots=True)
class Counters:
    """Tickets of one launch. Other launches, also for other rows or in other grids, have others."""

    name: str
    n_bytes: int
    n_rows: int
    grid: int


def counters_of(
    launches: tuple[Launch, ...], grids: tuple[Geometry, ...], n_rows: int
) -> tuple[Counters, ...]:
    """Every launch's tickets."""
    return tuple(
        Counters(_scratch_name(launch, scratch),
                 _scratch_bytes(launch, scratch, shape.grid, n_rows), n_rows, shape.grid)
        for launch, shape in zip(launches, grids, strict=True)
        for scratch in launch.scratch if scratch.kind == "tickets"
    )  # fmt: skip


def _scratch_bytes(launch: Launch, scratch: Scratch, grid: int, n_rows: int) -> int:
    owners = grid * launch.rows_per_block if scratch.per == "team" else n_rows
    return owners * scratch.count * scratch.entry_bytes


def numbers_of(
    launch: Launch, strides: Mapping[str, int], n_rows: int, n_cols: int
) -> tuple[int, ...]:
    """A kernel's 64-bit arguments after its pointers; strides of rows, in elements."""
    known = {f"{n}_stride": s for n, s in strides.items()}
    known |= {"n_rows": n_rows, "n_cols": n_cols, "blocks_of_a_row": launch.grid_rows}
    return tuple(known[n] for n in launch.scalars)


def pointers_of(launch: Launch) -> tuple[str, ...]:
    """Names of a kernel's pointers, in order."""
    return (*(p.name for p in launch.params), *(_scratch_name(launch, s) for s in launch.scratch))


def _scratch_name(launch: Launch, scratch: Scratch) -> str:
    """Tells apart what launches of a program must not share."""
    return f"{launch.symbol}.{scratch.name}" if scratch.kind == "tickets" else scratch.name
