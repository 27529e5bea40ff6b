"""Commands with a limit in time, of which nothing is left running.

Without pipes: another thread may fork at any moment, and a child that holds the end of a pipe would
keep us waiting for its other end. What the command says goes to a file. It leads a process group of
its own, which is ended as a whole.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fusegen.ir.shared import steady

_SHORTEST, _LONGEST = 0.0005, 0.01  # seconds between two looks
_FLOOD_BYTES = 1 << 26  # no compiler has so much to say of one kernel
SAID_BYTES = 1 << 16  # of it that is read
_RUNNING: set[int] = set()
_FOLDERS: set[Path] = set()


@dataclass(frozen=True, slots=True)
class Ended:
    """status: the exit status, the negative number of a signal, or None if time was up."""

    status: int | None
    said: str  # its beginning
    seconds: float
    flooded: bool = False  # ended because it said too much


@contextmanager
def scratch() -> Iterator[Path]:
    """A private folder for files of the moment, gone afterwards. Raises OSError."""
    import tempfile  # with all that it imports: programs that compile nothing do without

    with steady():  # tempfile has a lock of its own, and looks for a folder while it holds it
        folder = Path(tempfile.mkdtemp(prefix="fusegen-"))
    _FOLDERS.add(folder)
    try:
        yield folder
    finally:
        if folder in _FOLDERS:  # a child that was forked off meanwhile leaves it to its parent
            shutil.rmtree(folder, ignore_errors=True)
            _FOLDERS.discard(folder)


def run(
    command: tuple[str, ...], log: Path, seconds: float, cancelled: Callable[[], bool],
    most: int = SAID_BYTES,
) -> Ended:
    """Run a program to its end, or to the limit; what it prints goes to `log`, a path to write,
    and its first `most` bytes are told.

    Raises OSError where it cannot be started. Ended early when `cancelled()`, or when it prints
    without end.
    """
    start = time.monotonic()
    write = (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), write,
             (os.POSIX_SPAWN_DUP2, 1, 2)]
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=files, setpgroup=0,
                          setsigmask=(), setsigdef=(signal.SIGINT, signal.SIGPIPE))
    _RUNNING.add(pid)
    try:
        status = _waited(pid, start + seconds, lambda: cancelled() or _size(log) > _FLOOD_BYTES)
    finally:
        _end(pid)
    flooded = status is None and _size(log) > _FLOOD_BYTES
    return Ended(status, _beginning(log, most), time.monotonic() - start, flooded)


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:  # it is not there yet
        return 0


def _beginning(log: Path, most: int) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as file:
        return file.read(most).decode(errors="replace")


def _waited(pid: int, end: float, cancelled: Callable[[], bool]) -> int | None:
    pause = _SHORTEST
    while time.monotonic() < end and not cancelled():
        # The process is left as it is: while it is not reaped, nothing else can have its number.
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is not None:
            return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        time.sleep(pause)
        pause = min(1.5 * pause, _LONGEST)
    return None


def _end(pid: int) -> None:
    """Whatever is left of the group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
    _RUNNING.discard(pid)


@atexit.register
def _at_exit() -> None:
    """What threads that the process does not wait for have begun."""
    for pid in list(_RUNNING):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    for folder in list(_FOLDERS):
        shutil.rmtree(folder, ignore_errors=True)


def _after_fork() -> None:
    _RUNNING.clear()
    _FOLDERS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
