"""A process-wide pool of threads that share the pieces of one call."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fusegen.errors import ArgumentError

_LOCK = threading.Lock()
_POOL: list[ThreadPoolExecutor] = []  # at most one; a forked child starts without


def thread_count(asked: int | None = None) -> int:
    """`asked`, else $FUSEGEN_THREADS, else the processors this process may run on."""
    if asked is None:
        text = os.environ.get("FUSEGEN_THREADS")
        if not text:
            return _usable_processors()
        asked = int(text) if text.isdecimal() else 0
    if asked < 1:
        raise ArgumentError(
            "the number of threads must be a whole number ≥ 1",
            fix="Set FUSEGEN_THREADS or threads= to one, or to nothing for all processors.",
        )
    return asked


def _usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share(
    count: int, work: Callable[[int], None], threads: int,
    progress: Callable[[int], None] | None = None,
) -> None:  # fmt: skip
    """`work(0)` … `work(count - 1)`, each once, by the calling thread and up to `threads - 1` more.

    `progress` is called in the calling thread with the number done so far. Returns when all are
    done; what one of them raises is raised here.
    """
    numbers = itertools.count()
    done = itertools.count(1)
    failed = threading.Event()

    def take_turns(report: Callable[[int], None] | None) -> None:
        while (number := next(numbers)) < count and not failed.is_set():
            try:
                work(number)
            except BaseException:
                failed.set()
                raise
            finished = next(done)
            if report is not None:
                report(finished)

    helpers = [_pool().submit(take_turns, None) for _ in range(min(threads, count) - 1)]
    try:
        take_turns(progress)
    finally:
        # A helper that has not started has nothing left to do; one that runs must end first.
        pending = [h for h in helpers if not h.cancel()]
        failures = [error for h in pending if (error := h.exception()) is not None]
    if failures:
        raise failures[0]


def _pool() -> ThreadPoolExecutor:
    with _LOCK:
        if not _POOL:
            _POOL.append(ThreadPoolExecutor(max(64, _usable_processors()), "fusegen"))
        return _POOL[0]


def _after_fork() -> None:
    """The parent's threads do not exist in the child."""
    global _LOCK
    _LOCK = threading.Lock()
    _POOL.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
