"""CudaExecutable's twin on the CPU: the very source and launches, run by the SIMT executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import simt
from simt import compile_module

from fusegen.backend.cuda.run.arguments import maps_of, numbers_of
from fusegen.backend.cuda.run.driver import Geometry
from fusegen.backend.cuda.run.extent import Extent, extent_of
from fusegen.backend.cuda.run.geometry import tile_geometry
from fusegen.backend.cuda.run.room import scratch_bytes
from fusegen.backend.cuda.run.tensor_maps import BOUNDARY, CHUNK_BYTES, Tiled
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import Launch, element_shape, launches
from fusegen.backend.cuda.schedule.tiles.scratch import Scratch
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule, scheduled
from fusegen.ir.dtypes import BFLOAT16
from fusegen.ir.kernel import Param, Program

EMULATED = [
    pytest.mark.skipif(simt.available() is not None, reason=str(simt.available())),
    pytest.mark.batched,
]
"""Marks of tests that run kernels on the emulator."""


def emulated(test: Any) -> Any:
    """Mark a test with EMULATED."""
    for mark in EMULATED:
        test = mark(test)
    return test


RESIDENT_TEAMS = 2  # fewer than rows, so that the row loop of a bounded grid is exercised


class EmulatedExecutable:
    """Call as CudaExecutable, with NumPy arrays. Raises SimtError on any violation."""

    def __init__(
        self, program: Program, schedule: CudaSchedule | TileSchedule, source: str, seed: int = 0,
        multiprocessors: int = 2,
    ) -> None:
        self.multiprocessors = multiprocessors
        self.program = scheduled(program, schedule) if isinstance(schedule, TileSchedule) \
            else program
        self.schedule, self.seed = schedule, seed
        self.launches = launches(program, schedule)
        self.module = compile_module(source)

    def __call__(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, *, first_column: int = 0
    ) -> None:
        held = dict(arrays)
        extent = extent_of(self.program, arrays, n_rows, n_cols, first_column)
        batches = dict(extent.batches)
        shapes = {"element": element_shape(n_rows, n_cols, extent.inner), "row": (n_rows,)}
        for p in self.program.workspace:
            rows = n_rows // batches[p.name] * n_cols if p.name in batches else n_rows
            held[p.name] = _poisoned(shapes.get(p.shape, (rows, p.k)), p)
        kept: dict[str, np.ndarray] = {}
        for launch in self.launches:
            shape = self._geometry(launch, extent)
            for scratch in launch.scratch:
                made, known = self._scratch(scratch, launch, extent, shape), kept.get(scratch.name)
                if known is None or known.nbytes < made.nbytes:  # launches take turns in it
                    kept[scratch.name] = made
            self._launch(launch, shape, held, kept, extent)

    def _geometry(self, launch: Launch, extent: Extent) -> Geometry:
        if launch.tile:
            return tile_geometry(launch, extent, self.multiprocessors)
        blocks = launch.teams(extent.n_rows, extent.inner or 1)
        if launch.limited:
            blocks = min(blocks, RESIDENT_TEAMS)
        return Geometry(grid=blocks * launch.grid_rows, threads=launch.threads)

    def _scratch(
        self, scratch: Scratch, launch: Launch, extent: Extent, shape: Geometry
    ) -> np.ndarray:
        size = scratch_bytes(launch, scratch, shape, extent)
        if scratch.kind == "tickets":
            return np.zeros(size // 8, np.uint64)
        if scratch.kind == "sums":
            return np.full(size // scratch.entry_bytes, np.nan, f"f{scratch.entry_bytes}")
        kind = np.uint8 if scratch.kind == "states" else np.uint64  # candidates are integers
        return np.full(size, 0xFF, np.uint8).view(kind)

    def _launch(
        self, launch: Launch, shape: Geometry, held: Mapping[str, Any], kept: Mapping[str, Any],
        extent: Extent,
    ) -> None:
        args: list[Any] = [bits_of(held[p.name]) for p in launch.params]
        first = len(args)
        args += [kept[s.name] for s in launch.scratch]
        written = {i for i, p in enumerate(launch.params) if p.output}
        scratch = set(range(first, len(args)))
        readable = scratch if launch.shares else set()
        args += numbers_of(launch, extent, shape.splits)
        args += [_map(m.tiled, args[m.pointer]) for m in maps_of(launch, extent)]
        self.module.launch(
            launch.symbol, (shape.grid,), (launch.threads,), args,
            outputs=written | scratch, initialised=readable, seed=self.seed,
            shared_bytes=launch.shared_bytes, cluster=launch.cluster, together=launch.together,
        )


def _map(tiled: Tiled, array: np.ndarray) -> simt.TensorMap:
    """What run/tensor_maps.py has the driver make; of an empty array nothing is copied."""
    box = (1, tiled.box_rows, CHUNK_BYTES // tiled.itemsize)
    if not array.size:
        return simt.TensorMap(np.zeros((1, 1, 8), array.dtype), box)
    apart = [s * tiled.itemsize if n > 1 else BOUNDARY
             for n, s in zip(tiled.shape, tiled.strides, strict=False)]
    view = np.lib.stride_tricks.as_strided(array, tiled.shape, (*apart, tiled.itemsize))
    return simt.TensorMap(view, box)


def _poisoned(shape: tuple[int, ...], param: Param) -> np.ndarray:
    return np.full(shape, np.nan if param.dtype.kind == "float" else -77).astype(param.dtype.numpy)


def bits_of(array: np.ndarray) -> np.ndarray:
    return array.view(np.int16) if array.dtype == BFLOAT16.numpy else array
