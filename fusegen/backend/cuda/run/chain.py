"""Launches of several kinds, one after another, for arrays of which only the addresses differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fusegen.backend.cpu.helper import HELPER
from fusegen.backend.cuda.run.captured import keep
from fusegen.backend.cuda.run.device import context_reader, cupy_module, on_device
from fusegen.backend.cuda.run.driver import Launcher, driver
from fusegen.backend.cuda.run.families import torch_family
from fusegen.backend.host.readers import allocation
from fusegen.backend.words import Place


class Chain:
    """On torch's stream; all memory but what `makers` make is there. See `Chained` and `Helped`."""

    def __init__(
        self, launches: Sequence[tuple[Launcher, tuple[Place, ...]]],
        makers: tuple[Callable[[], Any], ...], arrays: int, device: int,
    ) -> None:
        queued = [(one.launch, words) for one, words in launches]
        n = next((n for n, (_, words) in enumerate(queued) if _takes(words, arrays)), len(queued))
        self._early, self._late = tuple(queued[:n]), tuple(queued[n:])
        self._launchers, self._makers, self._device = tuple(launches), makers, device
        with cupy_module().cuda.Device(device):
            self._context = context_reader()()
        self._current, family = context_reader(), torch_family()
        self._stream_of, self._pointer = family.stream, family.pointer

    def run(self, pointers: Sequence[int]) -> list[Any]:
        """What was made; see `Chained`."""
        if self._current() == self._context:
            return self._run(pointers)
        with on_device(self._device, self._context):
            return self._run(pointers)

    def _run(self, pointers: Sequence[int]) -> list[Any]:
        stream = self._stream_of(self._device)
        if driver().capturing(stream):
            keep(self)
        for launch, words in self._early:  # while they run, the host makes memory
            launch(stream, [w if i < 0 else pointers[i] + w for i, w in words])
        made = [make() for make in self._makers]
        at = [*pointers, *map(self._pointer, made)]
        for launch, words in self._late:
            launch(stream, [w if i < 0 else at[i] + w for i, w in words])
        return made

    # ---- for compiled code ----

    def helper(self) -> Any:
        """See `Helped`. Tensor maps, and places inside of arrays, are Python's to find."""
        plain = all(not one.maps and all(i < 0 or w == 0 for i, w in words)
                    for one, words in self._launchers)
        return HELPER.ask() if plain else None

    def plan(
        self, sizes: tuple[int, ...], numbers: tuple[tuple[int, float, bool], ...], finish: Any
    ) -> tuple[Any, ...]:
        """See `Helped`, and `read` in templates/cpu/calls/told.hpp."""
        HELPER.show_torch()
        HELPER.show_cupy(cupy_module().ndarray)
        told = []
        for one, words in self._launchers:
            g = one.geometry
            told.append((one.function, g.grid, g.threads, g.shared_bytes, g.cluster, g.together,
                         (*((i >= 0, w if i < 0 else i) for i, w in words),
                          *((False, n) for n in one.numbers))))
        gpu = (*driver().addresses_of_calls, self._context,
               partial(self._stream_of, self._device), tuple(told))
        made = tuple(allocation(m) or m for m in self._makers)
        return 0, 0, True, gpu, made, (), sizes, numbers, finish, self


def _takes(words: tuple[Place, ...], arrays: int) -> bool:
    """Does a launch take what is made, behind so many arrays?"""
    return any(i >= arrays for i, _ in words)
