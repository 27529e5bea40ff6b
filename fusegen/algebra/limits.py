"""Bounded time: sympy may not return in this life, and nobody should wait for it.

This is a net, and not what decides: an answer that depends on seconds depends on the machine. What
is too much for sympy is refused by its size (`derive._MOST`, `_SIMPLIFY_LIMIT`, `_MOST_TIMES`,
`own.work`), which belongs to the text. No text in the library, in the tests or among thousands of
random ones needs a twentieth of a limit, and limits count the processor time of the thread that
works, not what others take from it: it takes a text that sympy does not return from to meet them.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_T = TypeVar("_T")
_SOON = 0.001  # seconds: no watchdog looks more often

OBLIGATION_SECONDS = 10.0
"""For one identity. The slowest that is known needs 0.4."""

REDUCTION_SECONDS = 20.0
"""For all of one reduction: the search for pivots and every proof. The slowest needs 0.5."""

TEXT_SECONDS = 60.0
"""For all reductions of a pipeline; those that are left keep sweeps of their own."""

LAW_SECONDS = 20.0
"""For one law of a monoid of the user's own, or its invariants, at the most steps about 2."""


class OutOfTime(BaseException):
    """Raised inside the computation; no handler of ordinary exceptions on the way may eat it."""


def within(seconds: float, work: Callable[[], _T], otherwise: _T) -> _T:
    """`work()`, or `otherwise` if that takes longer. Works in any thread; calls may nest.

    A watchdog throws OutOfTime into the working thread at the next bytecode. Work inside C code
    is not interrupted: keep huge numbers out of expressions instead (see `symbols.number`).
    """
    watchdog = _Watchdog()
    try:
        try:
            watchdog.start(seconds)
            return work()
        finally:
            watchdog.running = False  # before a signal handler can get in: it throws no more
            watchdog.stop()
    except OutOfTime:
        if not watchdog.expired:
            raise  # an outer limit's
        return otherwise


class _Watchdog:
    """Throws OutOfTime into the thread that made it, when that has worked for so long."""

    def __init__(self) -> None:
        self.worker = threading.get_ident()
        self.clock = _clock_of(self.worker)
        self.lock, self.over = threading.Lock(), threading.Lock()
        self.over.acquire()
        self.running, self.expired = True, False

    def start(self, seconds: float) -> None:
        self.end = self.clock() + seconds
        with suppress(RuntimeError):  # no more threads: without a net, then
            # By one call in C: `threading.Timer.start` breaks if a signal handler raises in it.
            _thread.start_new_thread(self._watch, (seconds,))

    def stop(self) -> None:
        with self.lock:  # not while it throws
            self.running = False
        self.over.release()
        if self.expired:
            _settle()

    def _watch(self, seconds: float) -> None:
        while not self.over.acquire(timeout=max(seconds, _SOON)):
            with self.lock:
                seconds = self.end - self.clock()
                if not self.running:
                    return
                if seconds <= 0:  # otherwise others had the processor for so long
                    self.expired = True
                    _throw(self.worker, OutOfTime)
                    return


def _clock_of(thread: int) -> Callable[[], float]:
    """The processor time of a running thread; that of the wall, where the system tells no other."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter
    return functools.partial(time.clock_gettime, time.pthread_getcpuclockid(thread))


def _throw(thread: int, kind: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _settle() -> None:
    """Give a thrown exception the bytecodes it needs to arrive."""
    for _ in range(1000):
        pass
