"""Generated CUDA on one device: compiled, loaded by CuPy, and launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import finalize

from fusegen.backend.cuda.run.arguments import maps_of, numbers_of, pointers_of
from fusegen.backend.cuda.run.bound import Bound, Plan
from fusegen.backend.cuda.run.device import (
    bind_context,
    context_reader,
    cupy_module,
    device_index,
    on_device,
)
from fusegen.backend.cuda.run.driver import Launcher, driver
from fusegen.backend.cuda.run.extent import Extent, extent_of
from fusegen.backend.cuda.run.families import Family, cupy_family, family_of
from fusegen.backend.cuda.run.geometry import Device, geometry_of
from fusegen.backend.cuda.run.nvrtc import machine_code
from fusegen.backend.cuda.run.record import Step, recorded
from fusegen.backend.cuda.run.room import counters_of, room_of
from fusegen.backend.cuda.run.tickets import Tickets
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import Launch, launches
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule, scheduled
from fusegen.backend.executable import Progress, Record
from fusegen.backend.words import address, word
from fusegen.ir.dtypes import UINT8
from fusegen.ir.errors import BackendError
from fusegen.ir.kernel import Program

_MOST_PLANS = 1024  # more and the memory starts afresh


class CudaExecutable:
    """A program compiled for the current device.

    Call with every parameter's array by name: element (n_rows, n_cols) with unit column stride, or
    (outer, n_cols, inner) with unit inner stride where the schedule has strips; per_column and row
    1-D and contiguous, list (n_rows, k); fields of states are those of one array of states.
    Raises BackendError if NVRTC refuses, if the device cannot hold the blocks that must run
    together, or during a graph capture.
    """

    def __init__(
        self, program: Program, schedule: CudaSchedule | TileSchedule, source: str
    ) -> None:
        self.program = scheduled(program, schedule) if isinstance(schedule, TileSchedule) \
            else program
        self.schedule, self.source = schedule, source
        self.launches = launches(program, schedule)
        bind_context()
        self.context, self.driver = context_reader()(), driver()
        cupy = cupy_module()
        attributes = cupy.cuda.Device().attributes
        self.device = Device(device_index(), attributes["MultiProcessorCount"])
        stream = cupy_family().stream(self.device.index)
        if self.driver.capturing(stream):
            raise BackendError(f"{program.name} would have to be compiled during a graph capture. "
                               "Call it once, with arrays like these, before.")
        kept, self._functions = _load(program.name, source, self.launches)
        finalize(self, _GONE.append, kept).atexit = False
        for launch, function in zip(self.launches, self._functions, strict=True):
            self.driver.allow(function, launch.shared_bytes, launch.cluster)
        counted = any(s.kind == "tickets" for n in self.launches for s in n.scratch)
        self.tickets = Tickets(self.driver, stream, self.maker(cupy_family())) if counted else None
        self.captured: list[Any] = []  # memory that graphs use
        self._plans: dict[Extent, Plan] = {}

    def __call__(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, *, first_column: int = 0,
        like: Any = None, copies: Sequence[Any] = (), threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Queue the launches on CuPy's current stream; results are ready when it is.

        arrays: CuPy's. like: an array of the library whose memory to take beside them.
        copies: those of the arrays that nobody else keeps. threads, progress: not a GPU's.
        """
        stream = cupy_family().stream(self.device.index)
        extent = extent_of(self.program, arrays, n_rows, n_cols, first_column)
        bound = self._bound(extent, tuple(arrays), like)
        bound.launch([word(a) for a in arrays.values()], stream)
        if copies and self.driver.capturing(stream):
            self.captured += copies

    def bound(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, order: tuple[str, ...],
        like: Any, makers: tuple[Callable[[], Any], ...] = (), first_column: int = 0,
    ) -> Bound:
        """See `Bindable`."""
        extent = extent_of(self.program, arrays, n_rows, n_cols, first_column)
        return self._bound(extent, order, like, makers)

    def record(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, order: tuple[str, ...]
    ) -> Record:
        """See `Recordable`."""
        with on_device(self.device.index, self.context):  # others' are recorded as well
            plan = self._plan(extent_of(self.program, arrays, n_rows, n_cols))
        steps = [Step(launcher.function, launcher.geometry, names, launcher.numbers,
                      launcher.mapped) for launcher, names in plan.launchers]
        return recorded(self, steps, plan.room, plan.counters, arrays, order)

    def _bound(
        self, extent: Extent, order: tuple[str, ...], like: Any,
        makers: tuple[Callable[[], Any], ...] = (),
    ) -> Bound:
        found = self._plans.get(extent)
        if found is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            found = self._plans[extent] = self._plan(extent)
        return Bound(self, found, order, family_of(like), makers)

    def _plan(self, extent: Extent) -> Plan:
        grids = tuple(geometry_of(n, extent, self.driver, f, self.device)
                      for n, f in zip(self.launches, self._functions, strict=True))
        found = []
        for launch, function, grid in zip(self.launches, self._functions, grids, strict=True):
            names = pointers_of(launch)
            numbers = numbers_of(launch, extent, grid.splits)
            found.append((Launcher(self.driver, launch.symbol, function, grid, len(names), numbers,
                                   maps_of(launch, extent)), names))
        room = room_of(self.program, self.launches, grids, extent)
        return Plan(tuple(found), room, counters_of(self.launches, grids, extent))

    def maker(self, family: Family) -> Callable[[int], tuple[int, Any]]:
        """Device memory of a family's; the device must be current."""

        def make(n_bytes: int) -> tuple[int, Any]:
            memory = family.maker((n_bytes,), UINT8, self.device.index, None)()
            return family.pointer(memory), memory

        return make


def capturing() -> bool:
    """Is CuPy's current stream being captured into a graph?"""
    return driver().capturing(cupy_family().stream(device_index()))


def flusher(n_bytes: int) -> Callable[[], None]:
    """What overwrites so many bytes of its own on CuPy's current stream: as many as the L2 cache
    holds and more, and nothing else is left in it."""
    family, device = cupy_family(), device_index()
    memory = family.maker((n_bytes,), UINT8, device, None)()
    return lambda: driver().fill(family.pointer(memory), n_bytes, family.stream(device))


def poison(array: Any, like: Any) -> None:
    """Every bit of a CuPy array becomes 1, on the stream that the library of `like` works on."""
    stream = family_of(like).stream(device_index())
    driver().fill(address(array), array.size * array.itemsize, stream, 0xFF)


_GONE: list[Any] = []
"""Modules of executables that are no more. They are unloaded before the next one is loaded: the
garbage collector runs whenever it likes, and to unload during a capture would end the capture."""


def _load(
    name: str, source: str, symbols: tuple[Launch, ...]
) -> tuple[list[Any], list[int]]:
    """(what keeps the module loaded, function handles). Raises BackendError.

    Not by CuPy's RawModule, which keeps every module it ever loaded.
    """
    _GONE.clear()
    module = cupy_module().cuda.function.Module()
    own = any(n.tile and n.tile.engine == "wgmma" for n in symbols)
    module.load(machine_code(source, name, own_features=own))
    functions = [module.get_function(n.symbol) for n in symbols]
    return [module, *functions], [f.ptr for f in functions]
