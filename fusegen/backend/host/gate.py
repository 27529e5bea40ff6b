"""A wait that no exception cuts short: what other threads do for a call ends before the call does.

Signal handlers of Python run between any two operations of the main thread, and what they raise
leaves from there: every wait written in Python can be left early, also one in a `finally`. A wait
in C cannot: handlers run after it. So helpers hold a POSIX lock for reading while they work, and
the call takes it for writing in one foreign call, which signals do not end (POSIX: after a handler
pthread_rwlock_wrlock waits on; it never returns EINTR).
"""

from __future__ import annotations

import ctypes
import os
from typing import Any
from weakref import WeakSet

from fusegen.ir.errors import BackendError

_LOCK_BYTES = 256  # pthread_rwlock_t has 56 in glibc, 200 on macOS


def _function(name: str, *more: Any) -> Any:
    found = getattr(ctypes.CDLL(None), f"pthread_rwlock_{name}")
    found.argtypes, found.restype = (ctypes.c_void_p, *more), ctypes.c_int
    return found


_INITIALISE = _function("init", ctypes.c_void_p)
_TRY_READ, _WRITE, _UNLOCK = map(_function, ("tryrdlock", "wrlock", "unlock"))


class Gate:
    """Helpers work inside while it is open.

    The call ends with `finally: gate.closed = True; gate.wait(gate.lock)`: nobody enters any more,
    and those inside have left. Written out there, since a function of Python's may be interrupted
    before its first line; between the store and the foreign call no handler runs.
    """

    __slots__ = ("__weakref__", "closed", "leave", "lock", "parted", "wait")

    def __init__(self) -> None:
        self.closed = self.parted = False
        self.lock: Any = ctypes.create_string_buffer(_LOCK_BYTES)
        self.wait, self.leave = _WRITE, _UNLOCK
        _INITIALISE(self.lock, None)
        _GATES.add(self)

    def enter(self) -> bool:
        """May this helper work? If so it calls `leave(lock)` when it is done."""
        if self.closed or _TRY_READ(self.lock) != 0:
            return False
        if self.closed:
            self.leave(self.lock)
            return False
        return True

    def check(self) -> None:
        """Raises BackendError in a process that was forked off meanwhile: its helpers are not."""
        if self.parted:
            raise BackendError("this process was forked in the middle of a call: what the call "
                               "was for is known to the parent alone. Call again.")


_GATES: WeakSet[Gate] = WeakSet()


def _after_fork() -> None:
    """The child has none of the threads that would leave."""
    for gate in _GATES:
        gate.parted = gate.closed = True
        gate.wait = gate.leave = lambda _: 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
