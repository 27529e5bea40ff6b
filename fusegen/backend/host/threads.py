"""A process-wide team of threads that share the pieces of one call, and a thread of one's own.

Both end before control returns to the caller, whatever a signal handler raises meanwhile: nothing
writes into memory that the caller may free. See gate.py.
"""

from __future__ import annotations

import _thread
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from queue import SimpleQueue
from typing import Generic, TypeVar

from fusegen.backend.host import limits
from fusegen.backend.host.gate import Gate
from fusegen.backend.notices import gathered, say
from fusegen.ir.errors import ArgumentError
from fusegen.ir.shared import steady, unsteady

_T = TypeVar("_T")

_MOST_HELPERS = 64  # or one per processor, where there are more


def thread_count(asked: int | None = None) -> int:
    """`asked`, else $FUSEGEN_THREADS, else what the process and its other libraries may have."""
    if asked is None:
        text = os.environ.get("FUSEGEN_THREADS")
        if not text:
            return limits.threads()
        asked = int(text) if text.isdecimal() else 0
        if asked < 1:
            raise ArgumentError(f"FUSEGEN_THREADS is {text!r}, not a whole number ≥ 1",
                                fix="Leave it unset for all processors.")
    if asked < 1:
        raise ArgumentError(f"threads is {asked}, not a whole number ≥ 1")
    return asked


def team() -> tuple[int, tuple[int, ...], tuple[Callable[[], int], ...]]:
    """(threads, by what other libraries limit them: addresses of C functions, and callables)."""
    return (thread_count(), *limits.sources())


# ---- a team ----


def share(
    count: int, work: Callable[[int], object], threads: int,
    progress: Callable[[int], None] | None = None,
) -> None:
    """`work(0)` … `work(count - 1)`, each once, by the calling thread and up to `threads - 1` more.

    `progress` is called in the calling thread with the number done so far. When this returns or
    raises, none of them runs; what one of them raises is raised here. What `work` refers to is
    held until then.
    """
    helpers = min(threads, count) - 1
    if helpers < 1:
        for number in range(count):
            work(number)
            if progress is not None:
                progress(number + 1)
        return
    turns = _Turns(count, work)
    gate = turns.gate
    queue = _TEAM.queue_for(helpers)
    try:
        for _ in range(helpers):
            queue.put(turns)
        turns.take(progress)
    finally:
        gate.closed = True
        gate.wait(gate.lock)
    turns.settle()


class _Turns:
    """The pieces of one call, handed out one by one."""

    def __init__(self, count: int, work: Callable[[int], object]) -> None:
        self.gate = Gate()
        self._count, self._work = count, work
        self._numbers: Iterator[int] = itertools.count()
        self._done = itertools.count(1)
        self._failures: list[BaseException] = []

    def take(self, report: Callable[[int], None] | None) -> None:
        while (number := next(self._numbers)) < self._count and not self.gate.closed:
            self._work(number)
            finished = next(self._done)
            if report is not None:
                report(finished)

    def help(self) -> None:
        """A helper's part."""
        if not self.gate.enter():
            return
        try:
            self.take(None)
        except BaseException as error:
            self._failures.append(error)
            self._numbers = itertools.repeat(self._count)  # nobody begins another piece
        finally:
            self.gate.leave(self.gate.lock)

    def settle(self) -> None:
        """All have ended: raise what one of them raised."""
        del self._work  # helpers that come too late keep nothing alive
        self.gate.check()
        if self._failures:
            raise self._failures[0]


class _Team:
    """Threads that wait for turns; they are never joined, and end with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_Turns] = SimpleQueue()
        self._size = 0

    def queue_for(self, helpers: int) -> SimpleQueue[_Turns]:
        """Where turns go for so many helpers, or for fewer if no more threads can be had."""
        wanted = min(helpers, max(_MOST_HELPERS, limits.processors()))
        if self._size < wanted:
            with self._lock:
                while self._size < wanted and begun(_serve, self._queue):
                    self._size += 1
        return self._queue


def _serve(queue: SimpleQueue[_Turns]) -> None:
    while True:
        queue.get().help()


def begun(work: Callable[..., None], *args: object) -> bool:
    """Does a new thread do this? Not at the end of the process, or at the system's limit.

    By one call in C: `threading.Thread.start` breaks if it is interrupted.
    """
    try:
        _thread.start_new_thread(work, args)
    except RuntimeError:
        return False
    return True


_TEAM = _Team()


def _after_fork() -> None:
    """The parent's threads do not exist in the child."""
    global _TEAM
    _TEAM = _Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ---- a thread of one's own ----


class _Job(Generic[_T]):
    """Work for a thread that no signal handler interrupts. `running` is held until it has ended: a
    lock, which one call in C waits for, as conditions break if they are interrupted twice."""

    def __init__(self, work: Callable[[Callable[[], bool]], _T]) -> None:
        self.gate, self.running = Gate(), _thread.allocate_lock()
        self.running.acquire()
        self._work = work
        self.result: list[_T] = []
        self.failure: BaseException | None = None
        self.warnings: list[str] = []

    def run(self) -> None:
        if not self.gate.enter():
            return
        try:
            with gathered(self.warnings):
                self.result.append(self._work(lambda: self.gate.closed))
        except BaseException as error:
            self.failure = error
        finally:
            self.gate.leave(self.gate.lock)
            self.running.release()


def aside(work: Callable[[Callable[[], bool]], _T]) -> _T:
    """`work(cancelled)` in a thread of its own, where its `finally` clauses run whatever happens.

    If a signal handler raises while the caller waits, `cancelled()` becomes true, and the exception
    goes on when `work`, which should then make haste, has ended. What it raises is raised here.
    """
    job = _Job(work)
    gate = job.gate
    try:
        alone = not begun(job.run)
        if not alone:
            with unsteady():
                job.running.acquire()
    finally:
        gate.closed = True
        gate.wait(gate.lock)
    if alone:
        return work(lambda: False)
    gate.check()
    say(job.warnings)
    if job.failure is not None:
        raise job.failure
    return job.result[0]


def load(*modules: str) -> None:
    """Import other people's modules whole: an import that a signal handler's exception leaves half
    done is never finished, and what it left fails for the rest of the process."""

    def work(_: Callable[[], bool]) -> None:
        with steady():
            for name in modules:
                import_module(name)

    if any(name not in sys.modules for name in modules):
        aside(work)
