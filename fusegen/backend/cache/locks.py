"""Locks between threads and processes that want the same entry, with a limit in time.

A lock only saves work: who cannot have it works on its own. The kernel frees the lock of a process
that dies. A forked child shares its parent's open files, and their locks: it closes them at once,
and a parent that is done unlocks for both.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from fusegen.backend.cache.folder import Folder
from fusegen.backend.notices import LOG
from fusegen.backend.settings import compile_seconds

LOCK = ".lock-"

_HELD: set[int] = set()  # descriptors
_SHORTEST, _LONGEST = 0.001, 0.05  # seconds between two looks


@contextmanager
def held(folder: Folder, name: str, cancelled: Callable[[], bool]) -> Iterator[None]:
    """The lock of an entry, or nothing after $FUSEGEN_COMPILE_SECONDS, when `cancelled()`, or
    where the folder cannot be written."""
    handle = _taken(folder, f"{LOCK}{name}", cancelled)
    if handle is None:
        yield
        return
    try:
        yield
    finally:
        folder.remove(f"{LOCK}{name}")
        fcntl.flock(handle, fcntl.LOCK_UN)  # not by closing alone: a child may have it open
        _HELD.discard(handle)
        os.close(handle)


def _taken(folder: Folder, name: str, cancelled: Callable[[], bool]) -> int | None:
    end, pause = time.monotonic() + compile_seconds(), _SHORTEST
    while not cancelled():
        try:
            handle = folder.open_lock(name)
        except OSError:
            return None
        _HELD.add(handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.is_file(name, handle):
                return handle
        except OSError:  # another has it
            if time.monotonic() > end:
                _drop(handle)
                LOG.warning("waited %.0f s for another process that makes the same; this one now "
                             "makes its own", compile_seconds())
                return None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)
        _drop(handle)
    return None


def _drop(handle: int) -> None:
    _HELD.discard(handle)
    os.close(handle)


def _after_fork() -> None:
    for handle in _HELD:
        with suppress(OSError):
            os.close(handle)
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
