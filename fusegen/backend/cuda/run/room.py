"""Memory of a call's own: arrays between kernels, scratch, tickets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.backend.cuda.run.arguments import scratch_name
from fusegen.backend.cuda.run.driver import Geometry
from fusegen.backend.cuda.run.extent import Extent, column_tiles
from fusegen.backend.cuda.schedule.launch import Launch, element_shape
from fusegen.backend.cuda.schedule.tiles.scratch import Scratch
from fusegen.ir.kernel import Param, Program

BOUNDARY = 256  # bytes; every array in a room starts on one


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
        Counters(scratch_name(launch, scratch),
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
              "batch": extent.n_batches,
              "tile": extent.n_batches * column_tiles(launch, extent)
              if launch.tile else 0,
              "row_tile": extent.n_rows * column_tiles(launch, extent)
              if launch.tile else 0}[scratch.per]
    return owners * scratch.count * scratch.entry_bytes
