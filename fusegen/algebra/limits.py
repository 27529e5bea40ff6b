"""Bounded time: sympy may not return in this life, and nobody should wait for it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

OBLIGATION_SECONDS = 2.0
"""For one identity. Library pipelines need about a hundredth of it."""

REDUCTION_SECONDS = 5.0
"""For all of one reduction: the search for pivots and every proof."""


class OutOfTime(BaseException):
    """Raised inside the computation; no handler of ordinary exceptions on the way may eat it."""


def within(seconds: float, work: Callable[[], _T], otherwise: _T) -> _T:
    """`work()`, or `otherwise` if it takes longer. Works in any thread; calls may nest.

    A watchdog throws OutOfTime into the working thread at the next bytecode. Work inside C code
    is not interrupted: keep huge numbers out of expressions instead (see `symbols.number`).
    """
    worker = threading.get_ident()
    lock = threading.Lock()
    running = True
    expired = False

    def expire() -> None:
        nonlocal expired
        with lock:
            if running:
                expired = True
                _throw(worker, OutOfTime)

    watchdog = threading.Timer(seconds, expire)
    watchdog.daemon = True
    watchdog.start()
    try:
        try:
            return work()
        finally:
            with lock:
                running = False
            watchdog.cancel()
            if expired:
                _settle()
    except OutOfTime:
        if not expired:
            raise  # an outer limit's
        return otherwise


def _throw(thread: int, kind: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _settle() -> None:
    """Give a thrown exception the bytecodes it needs to arrive."""
    for _ in range(1000):
        pass
