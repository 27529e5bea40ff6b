"""Executables for arrays of which only the addresses will differ: what a remembered call runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from struct import Struct
from typing import TYPE_CHECKING, Any

from fusegen.backend.cpu.helper import HELPER
from fusegen.backend.cpu.table import Array, Words, aligned, words_of, workspace
from fusegen.backend.host.readers import address, allocation, pointer_reader
from fusegen.backend.host.threads import thread_count

if TYPE_CHECKING:
    from fusegen.backend.cpu.launch import Launch


@dataclass(frozen=True, slots=True)
class Step:
    """A launch with its struct, out of all addresses and numbers of the run."""

    launch: Launch
    words: Words
    pick: Callable[[list[int]], tuple[int, ...]]
    pack: Callable[..., bytes]
    rooms: list[Any]  # scratch memory of runs that have ended


class CpuBound:
    """See `Bound`."""

    def __init__(
        self, launches: tuple[Launch, ...], workspaces: tuple[Any, ...],
        arrays: Mapping[str, Array], shape: tuple[int, int], order: tuple[str, ...],
        like: Any, makers: tuple[Callable[[], Any], ...], first_column: int = 0,
        may_build: bool = True,
    ) -> None:
        self._may_build = may_build
        self._makers, self._pointer, self._shape = makers, pointer_reader(like), shape
        self._workspaces = tuple((p, *shape) for p in workspaces)
        held = {p.name: workspace(p, *shape) for p in workspaces}
        tables = [words_of(n.kernel, {**arrays, **held}, *shape,
                           first_column if n.numbered else None) for n in launches]
        self._places = {name: i for i, name in enumerate((*order, *held))}
        self._numbers = sorted({w for words in tables for w in words if isinstance(w, int)})
        at: dict[str | int, int] = {
            w: i for i, w in enumerate((*self._places, *self._numbers))
        }
        self._steps = tuple(
            Step(launch, words, itemgetter(*(at[w] for w in words)),
                 Struct(f"{len(words)}q").pack, [])
            for launch, words in zip(launches, tables, strict=True)
        )
        self._alone = all(n.is_for_one(*shape) for n in launches)

    def run(self, pointers: list[int]) -> list[Any]:
        """See `Bound`."""
        made = [make() for make in self._makers]
        pointers += map(self._pointer, made)
        if self._workspaces:
            held = [workspace(*w) for w in self._workspaces]
            pointers += map(address, held)
        pointers += self._numbers
        if self._alone:
            self._run_alone(pointers)
        else:
            self._run_shared(pointers)
        return made

    def _run_alone(self, pointers: list[int]) -> None:
        for step in self._steps:
            launch, rooms = step.launch, step.rooms
            try:
                room = rooms.pop()
            except IndexError:
                room = aligned(launch.scratch_bytes(self._shape[1]))
            launch.rows(step.pack(*step.pick(pointers)), 0, self._shape[0], room)
            rooms.append(room)

    def _run_shared(self, pointers: list[int]) -> None:
        team = thread_count()
        for step in self._steps:
            words = step.pick(pointers)
            step.launch.run((ctypes.c_int64 * len(words))(*words), *self._shape, team)

    # ---- for compiled code ----

    def helper(self) -> Any:
        """See `Helped`."""
        return HELPER.ask(may_build=self._may_build)

    def plan(
        self, sizes: tuple[int, ...], numbers: tuple[tuple[int, float, bool], ...], finish: Any
    ) -> tuple[Any, ...]:
        """See `Helped`, and `read` in templates/cpu/calls/told.hpp."""
        HELPER.show_torch()
        steps = tuple(
            (*s.launch.addresses(), tuple((isinstance(w, str), self._places.get(w, w))
                                          for w in s.words), s.launch.sweeps(),
             s.launch.multiple, s.launch.piece)
            for s in self._steps
        )
        made = tuple(allocation(m) or m for m in self._makers)
        workspaces = tuple(workspace(*w).nbytes for w in self._workspaces)
        return (*self._shape, False, steps, made, workspaces, sizes, numbers, finish,
                self)
