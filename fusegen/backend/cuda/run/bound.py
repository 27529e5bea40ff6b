"""Plans whose callers give addresses in one order: what a call on a GPU runs, remembered or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Protocol

from fusegen.backend.cpu.helper import HELPER
from fusegen.backend.cuda.run.captured import keep
from fusegen.backend.cuda.run.device import context_reader, cupy_module, on_device
from fusegen.backend.cuda.run.driver import Driver, Launcher
from fusegen.backend.cuda.run.families import Family
from fusegen.backend.cuda.run.geometry import Device
from fusegen.backend.cuda.run.room import Counters, Room
from fusegen.backend.cuda.run.tickets import Tickets
from fusegen.backend.host.readers import allocation
from fusegen.backend.words import Place


class Loaded(Protocol):
    """Kernels on a device: see `executable.CudaExecutable`."""

    driver: Driver
    device: Device
    context: int
    tickets: Tickets | None
    captured: list[Any]

    def maker(self, family: Family) -> Callable[[int], tuple[int, Any]]: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """An executable for one shape: launches with the names of their pointers, and their memory."""

    launchers: tuple[tuple[Launcher, tuple[str, ...]], ...]
    room: Room
    counters: tuple[Counters, ...]


class Bound:
    """A plan whose callers give addresses in one order."""

    def __init__(
        self, executable: Loaded, plan: Plan, order: tuple[str, ...], family: Family,
        makers: tuple[Callable[[], Any], ...],
    ) -> None:
        every = (*order, *plan.room.offsets, *(c.name for c in plan.counters))
        at = {n: i for i, n in enumerate(every)}
        self._steps = tuple((launcher, _picker([at[n] for n in names]))
                            for launcher, names in plan.launchers)
        self._executable, self._plan = executable, plan
        self._offsets = tuple(plan.room.offsets.values())
        self._bare = not self._offsets and not plan.counters
        self._places = {n: i for i, n in enumerate(order)}
        (first, names), *more = plan.launchers
        self._straight = first if self._bare and not more and names == order else None
        self._make, self._keeps = executable.maker(family), family.keeps_captured
        self._makers = makers
        self._device, self._context = executable.device.index, executable.context
        self._driver = executable.driver
        self._pointer, self._stream_of = family.pointer, family.stream
        self._current = context_reader()

    def run(self, pointers: list[int]) -> list[Any]:
        """See `Bound`."""
        if self._current() == self._context:
            return self._run(pointers)
        with on_device(self._device, self._context):
            return self._run(pointers)

    def _run(self, pointers: list[int]) -> list[Any]:
        made = []
        for make in self._makers:
            array = make()
            made.append(array)
            pointers.append(self._pointer(array))
        self.launch(pointers, self._stream_of(self._device))
        return made

    def stream(self) -> int:
        """What the arrays' library works on now."""
        return self._stream_of(self._device)

    def launch(self, pointers: list[int], stream: int) -> None:
        """Queue the launches; the device's context must be current. Appends to `pointers`."""
        captured = self._driver.capturing(stream)
        if captured:
            keep(self._executable)
        if self._straight is not None:
            self._straight.launch(stream, pointers)
            return
        held = None if self._bare else self._provide(pointers, stream, captured)
        for launcher, pick in self._steps:
            launcher.launch(stream, pick(pointers))
        del held  # not before: the memory may be given out again, in order on this stream

    def chained(self, words: Sequence[Place]) -> tuple[list[Any], list[Any]]:
        """See `Chainable`."""
        places = {n: words[i] for n, i in self._places.items()}
        held, stream = [], self.stream()
        if self._offsets:
            start, memory = self._make(self._plan.room.n_bytes)
            held.append(memory)
            places |= {n: (-1, start + at) for n, at in self._plan.room.offsets.items()}
        for counters in self._plan.counters:
            start, memory = self._make(counters.n_bytes)
            self._executable.driver.fill(start, counters.n_bytes, stream)
            held.append(memory)
            places[counters.name] = -1, start
        return [(launcher, tuple(places[n] for n in names))
                for launcher, names in self._plan.launchers], held

    # ---- for compiled code ----

    def helper(self) -> Any:
        """See `Helped`. Memory beside the arrays, and tensor maps, are Python's to provide."""
        mapped = any(launcher.maps for launcher, _ in self._plan.launchers)
        return HELPER.ask() if self._bare and not mapped else None

    def plan(
        self, sizes: tuple[int, ...], numbers: tuple[tuple[int, float, bool], ...], finish: Any
    ) -> tuple[Any, ...]:
        """See `Helped`, and `read` in templates/cpu/calls/told.hpp."""
        HELPER.show_torch()
        HELPER.show_cupy(cupy_module().ndarray)
        told, driver = [], self._executable.driver
        for launcher, names in self._plan.launchers:
            words = (*((True, self._places[n]) for n in names),
                     *((False, n) for n in launcher.numbers))
            g = launcher.geometry
            told.append((launcher.function, g.grid, g.threads, g.shared_bytes, g.cluster,
                         g.together, words))
        gpu = (*driver.addresses_of_calls, self._context, partial(self._stream_of, self._device),
               tuple(told))
        made = tuple(allocation(m) or m for m in self._makers)
        return 0, 0, True, gpu, made, (), sizes, numbers, finish, self

    def _provide(self, pointers: list[int], stream: int, captured: bool) -> list[Any]:
        """Addresses of scratch memory; what comes back keeps it."""
        held: list[Any] = []
        if self._offsets:
            start, memory = self._make(self._plan.room.n_bytes)
            pointers += [start + offset for offset in self._offsets]
            held.append(memory)
            if captured and not self._keeps:
                self._executable.captured.append(memory)  # replays come when this call is over
        for counters in self._plan.counters:
            assert self._executable.tickets is not None
            pointer, memory = self._executable.tickets.take(counters, stream, self._make)
            pointers.append(pointer)
            held.append(memory)
        return held


def _picker(indices: list[int]) -> Callable[[list[int]], Sequence[int]]:
    """A launch's pointers out of all."""
    if len(indices) == 1:
        (only,) = indices
        return lambda pointers: (pointers[only],)
    return itemgetter(*indices)
