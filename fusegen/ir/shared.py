"""What threads and forked processes share: locks a child finds free, tables that stay small, values
found once."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, overload
from weakref import WeakSet

_K = TypeVar("_K")
_V = TypeVar("_V")


class Lock:
    """For one thread at a time, which may take it again. A forked child has a new one: the thread
    that held it is not there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            yield

    def renew(self) -> None:
        self._lock = threading.RLock()


_LOCKS: WeakSet[Lock] = WeakSet()


# ---- forks ----

_MOST_SECONDS = 20.0
_STEADY: dict[int, int] = {}  # thread → how often it is within `steady`


@contextmanager
def steady() -> Iterator[None]:
    """Forks by other threads wait until this is done, or 20 s: a child that is forked off in the
    middle of an import waits for its end for ever."""
    me = threading.get_ident()
    _STEADY[me] = _STEADY.get(me, 0) + 1
    try:
        yield
    finally:
        _STEADY[me] -= 1
        if not _STEADY[me]:
            del _STEADY[me]


@contextmanager
def unsteady() -> Iterator[None]:
    """For long waits within `steady`, in which nothing is imported."""
    me = threading.get_ident()
    depth = _STEADY.pop(me, 0)
    try:
        yield
    finally:
        if depth:
            _STEADY[me] = depth


def _before_fork() -> None:
    me, end = threading.get_ident(), time.monotonic() + _MOST_SECONDS
    while any(thread != me for thread in list(_STEADY)):
        if time.monotonic() >= end:
            logging.getLogger("fusegen").warning(
                "a fork waited %g s for a thread that compiles, and goes on", _MOST_SECONDS)
            break
        time.sleep(0.001)


def _after_fork() -> None:
    me = threading.get_ident()
    for thread in [t for t in _STEADY if t != me]:
        del _STEADY[thread]
    for lock in _LOCKS:
        lock.renew()


if hasattr(os, "register_at_fork"):
    # What is registered last is called first: logging, imported above, takes its lock before a
    # fork, and threads within `steady` log.
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


# ---- tables ----


class Recent(Generic[_K, _V]):
    """A table of at most so many entries: the one that was not asked for longest goes.

    For any number of threads; each operation on the dict is one of C's.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[_K, _V] = OrderedDict()

    def get(self, key: _K) -> _V | None:
        found = self._held.get(key)
        if found is not None:
            try:  # noqa: SIM105 (asked at every call, where `suppress` costs as much as the rest)
                self._held.move_to_end(key)
            except KeyError:  # another thread has just put it out
                pass
        return found

    def put(self, key: _K, value: _V) -> _V:
        """The value, which is held from now on."""
        self._held[key] = value
        while len(self._held) > self._most:
            try:
                self._held.popitem(last=False)
            except KeyError:
                break
        return value

    def get_or_make(self, key: _K, make: Callable[[], _V]) -> _V:
        """The value that is held; where none is, what `make` makes is from now on. Threads may make
        it at once: each goes on with its own."""
        found = self.get(key)
        return self.put(key, make()) if found is None else found

    def pop(self, key: _K) -> None:
        self._held.pop(key, None)

    def __len__(self) -> int:
        return len(self._held)


# ---- values ----


class lazy(Generic[_V]):
    """A method's value, found when it is first asked for and kept in the object's `__dict__`.

    Without a lock, unlike `functools.cached_property` before Python 3.12: there one thread that
    finds a value holds up those of all other objects, and forked children for ever. Two threads may
    find it at once; both get the same one.
    """

    def __init__(self, find: Callable[[Any], _V]) -> None:
        self._find, self._name, self.__doc__ = find, find.__name__, find.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> lazy[_V]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> _V: ...

    def __get__(self, owner: object | None, kind: type) -> lazy[_V] | _V:
        if owner is None:
            return self
        found: _V = owner.__dict__.setdefault(self._name, self._find(owner))
        return found
