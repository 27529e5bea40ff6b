"""Calls remembered: arrays that lie like those of an earlier call are served at once, where
their memory can tell.

The first call of a kind takes the full look (call.prepare), which makes every check and raises
whatever is wrong; what it found is kept under all that it looked at. A call that is remembered
checks what can differ between arrays that look alike: overlapping memory, and this thread's device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fusegen.backend.arrays.layout import Layout
from fusegen.backend.arrays.results import maker
from fusegen.backend.arrays.rows import Axes, plain_axis
from fusegen.backend.arrays.spans import reach
from fusegen.backend.executable import Bindable, Bound, Executable, Helped
from fusegen.backend.words import address
from fusegen.ir import graph as g
from fusegen.ir.literals import constant_key
from fusegen.ir.nesting import nest
from fusegen.ir.shared import Lock
from fusegen.ir.varying import Formula, magnitude_of
from fusegen.ir.vectors import row_numbers
from fusegen.lang.blame import blames
from fusegen.pipeline.numbers import Scalars, plain_constants

MISS = object()
_MOST_CALLS = 1024  # remembered per pipeline; more and the memory starts afresh
_LOCK = Lock()
_READERS: dict[type, Callable[[Any], Any]] = {}  # of the libraries met so far

_Apart = tuple[int, int, int, int]


class Ran(Protocol):
    """A call that has run: see `call.Call`."""

    @property
    def layout(self) -> Layout: ...

    @property
    def executable(self) -> Executable: ...

    @property
    def constants(self) -> Mapping[str, Any]: ...


@dataclass(slots=True, kw_only=True)
class Ready:
    """A call but for its arrays' addresses."""

    bound: Bound
    apart: tuple[_Apart, ...]  # (i, j, low, high): low < address i − address j < high overlaps
    scalars: Scalars
    finish: Callable[[list[Any], Any], Any]  # (made, out) → what the pipeline returns
    single: bool  # is that one output?
    sizes: tuple[int, ...]  # of elements, of the arrays that the caller gives
    pupil: Helped | None  # a helper, once it is there, is to serve such calls
    beside: tuple[Any, ...]  # arrays that come with every such call: the rows' numbers

    def run(self, pointers: list[int], named: Mapping[str, Any], out: Any) -> Any:
        """The results, or MISS where memory overlaps."""
        for i, j, low, high in self.apart:
            if low < pointers[i] - pointers[j] < high:
                return MISS
        if self.scalars.names:
            pointers += self.scalars.words(named)
        if self.beside:
            pointers += map(address, self.beside)
        return self.finish(self.bound.run(pointers), out)


class Recall:
    """What one pipeline, or one that is compiled, remembers. `rest` of a call: axis, form, …

    Of a constant that varies only the magnitude is remembered; its number goes to the kernel.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names  # of positional arrays
        self._varying: frozenset[str] = frozenset()  # constants
        self._settled: frozenset[str] = frozenset()  # those that did not vary in some call
        self._ready: dict[Any, Ready] = {}
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
        if ready.pupil is not None:
            self._teach(ready, (arrays, named, out, rest))
        return ready.run(seen[1], named, out)

    def learn(
        self, call: Ran, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any,
        rest: tuple[Any, ...],
    ) -> None:
        """Remember a call that has run."""
        layout = call.layout
        readers = [r for a in layout.adopted.values() if (r := a.memory.reader(a)) is not None]
        if not readers or layout.rows.n_rows == 0 or layout.copies:
            return
        for reader in readers:
            _READERS.update(dict.fromkeys(reader.types, reader.read))
        self._vary(plain_constants(layout.graph), named)
        seen = self._spell(arrays, named, out, rest)
        if seen is None:
            return
        order = [n for n, a in zip(self._names, arrays, strict=False) if a is not None]
        order += [n for n, a in named.items() if n in self._names and a is not None]
        ready = _ready(call, order, seen[1], out)
        if ready is not None:
            with _LOCK.held():
                if len(self._ready) >= _MOST_CALLS:
                    self._ready.clear()
                self._ready[seen[0]] = ready
            if ready.pupil is not None:
                self._teach(ready, (arrays, named, out, rest))

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

    def _teach(self, ready: Ready, call: tuple[Any, ...]) -> None:
        """Calls like this one are the helper's from now on, if there is one, and it takes them."""
        pupil = ready.pupil
        helper = None if pupil is None else pupil.helper()
        if pupil is None or helper is None:
            return
        with _LOCK.held():
            if self._compiled is None:
                self._compiled = helper.Calls(self.find, MISS, self._names, _MOST_CALLS,
                                              tuple(self._varying))
            finish = None if ready.single else ready.finish
            met = [n for n, v in call[1].items() if n in self._varying and magnitude_of(v)]
            plan = pupil.plan(ready.sizes, ready.scalars.numbers(met), finish)
            self._compiled.learn(*call, plan)
            self.serve = self._compiled.find
        ready.pupil = None

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
                places, given = _given(out)
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


def _given(out: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(where they stand in out=, the arrays or None there); nothing deeper than one level."""
    if isinstance(out, tuple | list):
        return tuple(range(len(out))), tuple(out)
    if isinstance(out, dict):
        return tuple(out), tuple(out.values())
    return (None,), (out,)


def _ready(call: Ran, order: list[str], pointers: list[int], out: Any) -> Ready | None:
    """None where kernels do not see the very memory that the caller gave."""
    layout, like, executable = call.layout, call.layout.like, call.executable
    if not isinstance(executable, Bindable):
        return None
    graph, outputs = layout.graph, layout.outputs
    structure = graph.structure
    places: dict[int, Any] = {}  # output → where it stands in out=
    for place, array in () if out is None else zip(*_given(out), strict=True):
        if array is None:
            continue
        leaf: Any = structure if isinstance(structure, int) else structure[place]
        if not isinstance(leaf, int) or leaf in places:
            return None
        places[leaf] = place
    kernel = {i.name: graph.names[i] for i in graph.inputs}
    given = [outputs[leaf].name for leaf in places]
    fresh = [p for i, p in enumerate(outputs) if i not in places]
    views = [layout.adopted[n].array for n in order]
    views += [layout.results[i].shaped for i in places]
    if [address(v) for v in views] != pointers:
        return None
    # Inputs that the pipeline does not use have a name of their own that no launch asks for.
    scalars = Scalars(graph, layout.params, call.constants)
    numbering = row_numbers(graph)
    beside = () if numbering is None else (numbering,)
    names = (*(kernel.get(n, f"{n} (unused)") for n in order), *given, *scalars.names, *beside,
             *(p.name for p in fresh))
    rows = layout.rows
    makers = tuple(maker(p, rows, like) for p in fresh)
    bound = executable.bound(layout.arrays, rows.n_rows, rows.n_cols, names, like.given, makers)
    return Ready(
        bound=bound, scalars=scalars,
        apart=_apart(views, len(order)), finish=_finish(structure, places, len(outputs)),
        single=structure == 0, sizes=tuple(v.itemsize for v in views),
        pupil=bound if isinstance(bound, Helped) and not beside else None,
        beside=tuple(layout.arrays[n] for n in beside),
    )


def _apart(views: list[Any], n_inputs: int) -> tuple[_Apart, ...]:
    """Every given output against every input and every other output."""
    ends = [reach(v) for v in views]
    pairs = [(i, j) for i in range(n_inputs, len(views)) for j in range(i)]
    return tuple((i, j, ends[j][0] - ends[i][1], ends[j][1] - ends[i][0]) for i, j in pairs)


def _finish(
    structure: g.Structure, places: Mapping[int, Any], n_outputs: int
) -> Callable[[list[Any], Any], Any]:
    """What puts results that were made, and those that were given, into the pipeline's nesting."""
    if structure == 0:
        return (lambda made, out: out) if places else (lambda made, out: made[0])
    if type(structure) is tuple and structure == tuple(range(n_outputs)) and not places:
        return lambda made, out: tuple(made)

    def finish(made: list[Any], out: Any) -> Any:
        rest = iter(made)
        return nest(structure, [out[places[i]] if i in places else next(rest)
                                for i in range(n_outputs)])

    return finish
