"""Counters that launches leave behind for those that follow.

A ticket only ever grows, and a kernel takes it modulo the blocks of its launch, or a block has one
of its own and counts its turns. So counters must be zero once, belong to launches of one geometry,
and never be used by two launches at a time:

* An ordinary launch uses the counters of its stream, on which launches follow one another. The
  stream's number names it: its handle may be given to a later stream while this one still runs.
* A captured launch has counters of its own, whatever its stream: its graph is replayed later, on
  any stream, beside ordinary launches. A graph never runs beside itself. Memory can hardly be made
  during a capture, so the counters come from an arena that was zeroed before; when it is spent, new
  memory is zeroed by a node of the graph.

Memory of captured launches lives as long as the executable: nobody says when a graph ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegen.backend.cuda.run.driver import Driver
from fusegen.backend.cuda.run.room import Counters
from fusegen.ir.shared import Lock

ARENA_BYTES = 1 << 18
_MOST_COUNTERS = 256  # of streams and geometries; more and the memory starts afresh
_BOUNDARY = 256

Make = Callable[[int], tuple[int, Any]]
"""Device memory of so many bytes, ordered by the stream: its address and what keeps it."""


class Tickets:
    """The counters of one executable. Made outside of captures, with the device current."""

    def __init__(self, driver: Driver, stream: int, make: Make) -> None:
        self._driver, self._lock = driver, Lock()
        self._start, self._arena = make(ARENA_BYTES)
        self._taken = 0
        driver.fill(self._start, ARENA_BYTES, stream)
        driver.wait(stream)  # graphs that use it run on other streams
        self._counters: dict[tuple[int, Counters], tuple[int, Any]] = {}
        self._captured: list[Any] = []

    def take(self, counters: Counters, stream: int, make: Make) -> tuple[int, Any]:
        """Address of the counters for a launch on this stream now, and what to hold until then."""
        if self._driver.capturing(stream):
            with self._lock.held():
                return self._for_graph(counters, stream, make)
        key = (self._driver.stream_id(stream), counters)
        found = self._counters.get(key)
        if found is None:
            with self._lock.held():
                found = self._counters.get(key) or self._for_stream(key, stream, make)
        return found

    def _for_stream(
        self, key: tuple[int, Counters], stream: int, make: Make
    ) -> tuple[int, Any]:
        if len(self._counters) >= _MOST_COUNTERS:
            # The stream's own allocator takes the memory back: in order with what still runs.
            self._counters.clear()
        found = make(key[1].n_bytes)
        self._driver.fill(found[0], key[1].n_bytes, stream)
        self._counters[key] = found
        return found

    def _for_graph(self, counters: Counters, stream: int, make: Make) -> tuple[int, Any]:
        size = -(-counters.n_bytes // _BOUNDARY) * _BOUNDARY
        if self._taken + size <= ARENA_BYTES:
            self._taken += size
            return self._start + self._taken - size, self._arena
        found = make(counters.n_bytes)
        self._driver.fill(found[0], counters.n_bytes, stream)
        self._captured.append(found)
        return found
