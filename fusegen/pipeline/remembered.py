"""Calls remembered: arrays that lie like those of an earlier call are served at once, where
their memory can tell.

The first call of a kind takes the full look (call.prepare), which makes every check and raises
whatever is wrong; what it found is kept under all that it looked at. A call that is remembered
checks what can differ between arrays that look alike: overlapping memory, and this thread's device.
What it runs is `ready.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from fusegen.backend.arrays.rows import Axes, plain_axis
from fusegen.backend.memory import Adopted
from fusegen.ir.literals import constant_key
from fusegen.ir.shared import Lock
from fusegen.ir.varying import Formula, magnitude_of
from fusegen.lang.blame import blames
from fusegen.pipeline.numbers import plain_constants
from fusegen.pipeline.ready import Apart, Lesson, Ran, Ready, given_by, ready_for

MISS = object()
_MOST_CALLS = 1024  # remembered per pipeline; more and the memory starts afresh
_LOCK = Lock()
_READERS: dict[type, Callable[[Any], Any]] = {}  # of the libraries met so far


class Kept(Protocol):
    """What runs for calls that are spelled alike, for their addresses; see `Ready`."""

    lesson: Lesson | None

    @property
    def apart(self) -> tuple[Apart, ...]: ...

    def run(self, pointers: list[int], named: Mapping[str, Any], out: Any) -> Any: ...


K = TypeVar("K", bound=Kept)


def met(adopted: Iterable[Adopted]) -> bool:
    """From now on arrays of these libraries are read; of one at least?"""
    readers = [r for a in adopted if (r := a.memory.reader(a)) is not None]
    for reader in readers:
        _READERS.update(dict.fromkeys(reader.types, reader.read))
    return bool(readers)


class Recall:
    """What one pipeline, or one that is compiled, remembers. `rest` of a call: axis, form, …

    Of a constant that varies only the magnitude is remembered; its number goes to the kernel.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names  # of positional arrays
        self._varying: frozenset[str] = frozenset()  # constants
        self._settled: frozenset[str] = frozenset()  # those that did not vary in some call
        self._ready: dict[Any, Kept | None] = {}
        self._compiled: Any = None  # what a helper remembers
        self.serve: Callable[..., Any] = self.find  # the helper's, once it was taught

    def find(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any, rest: tuple[Any, ...]
    ) -> Any:
        """The results of a call like an earlier one, or MISS. Raises BackendError.

        What calls ask is `serve`: this one, or what a helper that was taught has in its place."""
        if not _READERS:
            return MISS
        seen = self._spell(arrays, named, out, rest)
        if seen is None:
            return MISS
        try:
            ready = self._ready.get(seen[0])
        except TypeError:  # a constant that cannot be a key: the full look says which
            return MISS
        if ready is None:
            return MISS
        if ready.lesson is not None:
            self._teach(ready, (arrays, named, out, rest))
        for i, j, low, high, shared in ready.apart:  # a call for each would cost at every call
            if low < (apart := seen[1][i] - seen[1][j]) < high and shared(apart):
                return MISS
        return ready.run(seen[1], named, out)

    def learn(
        self, call: Ran, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any,
        rest: tuple[Any, ...],
    ) -> None:
        """Remember a call that has run."""
        layout = call.layout
        if layout.rows.n_rows == 0 or layout.copies or not met(layout.adopted.values()):
            return
        self._vary(plain_constants(layout.graph), named)

        def made(order: list[str], pointers: list[int]) -> Ready | None:
            return ready_for(call, order, pointers, out)

        ready = self.keep(made, arrays, named, out, rest)
        if ready is not None and ready.lesson is not None:
            self._teach(ready, (arrays, named, out, rest))

    def keep(
        self, make: Callable[[list[str], list[int]], K | None], arrays: tuple[Any, ...],
        named: Mapping[str, Any], out: Any, rest: tuple[Any, ...],
    ) -> K | None:
        """Remember for calls like this one what `make` makes of the names of its arrays and the
        addresses in their order; that it made nothing, too. None also if that is known."""
        seen = self._spell(arrays, named, out, rest)
        if seen is None or seen[0] in self._ready:
            return None
        order = [n for n, a in zip(self._names, arrays, strict=False) if a is not None]
        order += [n for n, a in named.items() if n in self._names and a is not None]
        ready = make(order, seen[1])
        with _LOCK.held():
            if len(self._ready) >= _MOST_CALLS:
                self._ready.clear()
            self._ready[seen[0]] = ready
        return ready

    def _vary(self, varying: set[Formula], named: Mapping[str, Any]) -> None:
        """Learn which constants vary. What was spelled otherwise is not asked for any more."""
        floats = {n for n, v in named.items() if n not in self._names and magnitude_of(v)}
        settled = self._settled | (floats - varying)
        now = (self._varying | (floats & varying)) - settled
        if now != self._varying:
            with _LOCK.held():
                self._varying = now
                if self._compiled is not None:
                    self._compiled.vary(tuple(now))
        self._settled = settled

    def _teach(self, ready: Kept, call: tuple[Any, ...]) -> None:
        """Calls like this one are the helper's from now on, if there is one, and it takes them."""
        lesson = ready.lesson
        helper = None if lesson is None else lesson.helper()
        if lesson is None or helper is None:
            return
        with _LOCK.held():
            if self._compiled is None:
                self._compiled = helper.Calls(self.find, MISS, self._names, _MOST_CALLS,
                                              tuple(self._varying))
            met = [n for n, v in call[1].items() if n in self._varying and magnitude_of(v)]
            self._compiled.learn(*call, lesson.plan(met))
            self.serve = self._compiled.find
        ready.lesson = None

    def _spell(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any, rest: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], list[int]] | None:
        """(key, addresses of the arrays and of what out= gives); None: only a full look can
        tell."""
        key: list[Any] = [rest]
        pointers: list[int] = []
        try:
            for array in arrays:
                _add(array, key, pointers)
            for name, value in named.items():
                key.append(name)
                if name in self._names:
                    _add(value, key, pointers)
                elif name in self._varying and (magnitude := magnitude_of(value)):
                    key.append(magnitude)
                else:
                    key.append(constant_key(value))
            if out is not None:
                places, given = given_by(out)
                key.append(("out", type(out), places))
                for array in given:
                    _add(array, key, pointers)
        except (KeyError, TypeError, RuntimeError):  # no reader, None from it, a library's refusal
            return None
        return tuple(key), pointers


class Served:
    """What is made for given types, and called with arrays: calls like earlier ones are served from
    memory, others looked at in full."""

    _recall: Recall

    @blames
    def __call__(
        self, *arrays: Any, axis: Axes = -1, out: Any = None, keepdims: bool = False, **named: Any
    ) -> Any:
        """Run on arrays of those types, where they live; see Pipeline.__call__. Raises
        ArgumentError, ShapeError, DTypeError, or BackendError."""
        if axis.__class__ is not int:
            axis = plain_axis(axis)
        rest = (axis, keepdims)
        found = self._recall.serve(arrays, named, out, rest)
        return self._look(arrays, named, out, rest) if found is MISS else found

    def _look(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any,
        rest: tuple[Axes, bool],
    ) -> Any:
        """A call looked at in full, and remembered."""
        raise NotImplementedError


def _add(array: Any, key: list[Any], pointers: list[int]) -> None:
    """An array as it lies, or None. Raises KeyError, TypeError, RuntimeError."""
    if array is None:
        key.append(None)
        return
    part, pointer = _READERS[type(array)](array)
    key.append(part)
    pointers.append(pointer)
