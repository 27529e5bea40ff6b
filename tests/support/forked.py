"""Forked children that are watched."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable


def child(work: Callable[[], object], seconds: float = 300.0) -> int | str:
    """The exit status of a forked child that does `work`; it is killed after so long."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"
