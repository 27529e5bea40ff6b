"""Calls remembered: arrays that lie like those of an earlier call on a GPU are served at once.

The first call of a kind takes the full look (dispatch.prepare), which makes every check and raises
whatever is wrong; what it found is kept under all that it looked at. A call that is remembered
checks what can differ between arrays that look alike: overlapping memory, and this thread's device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusegen import graph as g
from fusegen.dispatch import Call
from fusegen.literals import constant_key
from fusegen.nesting import nest
from fusegen.runtime import arrays as ar
from fusegen.runtime import results as rs
from fusegen.shared import Lock

if TYPE_CHECKING:
    from fusegen.runtime.cuda import Bound, Family

MISS = object()
_MOST_CALLS = 1024  # remembered per pipeline; more and the memory starts afresh
_LOCK = Lock()
_READERS: dict[type, Callable[[Any], Any]] = {}  # of the libraries met so far on a GPU

_Apart = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A call but for its arrays' addresses."""

    bound: Bound
    family: Family
    device: int
    context: int
    makers: tuple[Callable[[], Any], ...]  # of results that the caller does not give
    apart: tuple[_Apart, ...]  # (i, j, low, high): low < address i − address j < high overlaps
    finish: Callable[[list[Any], Any], Any]  # (made, out) → what the pipeline returns
    current: Callable[[], int]  # the thread's context

    def run(self, pointers: list[int], out: Any) -> Any:
        """The results, or MISS where memory overlaps."""
        for i, j, low, high in self.apart:
            if low < pointers[i] - pointers[j] < high:
                return MISS
        if self.current() == self.context:
            return self._run(pointers, out)
        with ar.cuda_runtime().on_device(self.device, self.context):
            return self._run(pointers, out)

    def _run(self, pointers: list[int], out: Any) -> Any:
        made, family = [], self.family
        for make in self.makers:
            array = make()
            made.append(array)
            pointers.append(family.pointer(array))
        self.bound.run(pointers, family.stream(self.device))
        return self.finish(made, out)


class Recall:
    """What one pipeline, or one that is compiled, remembers. `rest` of a call: axis, form, …"""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names  # of positional arrays
        self._ready: dict[Any, Ready] = {}

    def find(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any, rest: tuple[Any, ...]
    ) -> Any:
        """The results of a call like an earlier one, or MISS. Raises BackendError."""
        if not _READERS:
            return MISS
        seen = _spell(arrays, named, out, rest)
        if seen is None:
            return MISS
        try:
            ready = self._ready.get(seen[0])
        except TypeError:  # a constant that cannot be a key: the full look says which
            return MISS
        return MISS if ready is None else ready.run(seen[1], out)

    def learn(
        self, call: Call, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any,
        rest: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """Remember a call that has run."""
        if call.device != "cuda" or call.rows.n_rows == 0 or call.copies:
            return
        for a in call.adopted.values():
            if a.family != "foreign":
                family = ar.cuda_runtime().family_of(a.given)
                _READERS.update(dict.fromkeys(family.types, family.read))
        seen = _spell(arrays, named, out, rest)
        if seen is None:
            return
        order = [n for n, a in zip(self._names, arrays, strict=False) if a is not None]
        order += [n for n, a in named.items() if type(a) in _READERS]
        ready = _ready(call, order, seen[1], out)
        if ready is not None:
            with _LOCK.held():
                if len(self._ready) >= _MOST_CALLS:
                    self._ready.clear()
                self._ready[seen[0]] = ready


def _spell(
    arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any, rest: tuple[Any, ...]
) -> tuple[tuple[Any, ...], list[int]] | None:
    """(key, addresses of the arrays and of what out= gives); None: only a full look can tell."""
    key: list[Any] = [rest]
    pointers: list[int] = []
    try:
        for array in arrays:
            if array is None:
                key.append(None)
            else:
                part, pointer = _READERS[type(array)](array)
                key.append(part)
                pointers.append(pointer)
        for name, value in named.items():
            read = _READERS.get(type(value))
            if read is None:
                key.append((name, constant_key(value)))
            else:
                part, pointer = read(value)
                key.append((name, part))
                pointers.append(pointer)
        if out is not None:
            places, given = _given(out)
            key.append(("out", type(out), places))
            for array in given:
                part, pointer = (None, None) if array is None else _READERS[type(array)](array)
                key.append(part)
                if pointer is not None:
                    pointers.append(pointer)
    except (KeyError, TypeError, RuntimeError):  # no reader, None from it, or its library's refusal
        return None
    return tuple(key), pointers


def _given(out: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(where they stand in out=, the arrays or None there); nothing deeper than one level."""
    if isinstance(out, tuple | list):
        return tuple(range(len(out))), tuple(out)
    if isinstance(out, dict):
        return tuple(out), tuple(out.values())
    return (None,), (out,)


def _ready(call: Call, order: list[str], pointers: list[int], out: Any) -> Ready | None:
    """None where kernels do not see the very memory that the caller gave."""
    front, like = call.front, next(iter(call.adopted.values()))
    structure = front.graph.structure
    places: dict[int, Any] = {}  # output → where it stands in out=
    for place, array in () if out is None else zip(*_given(out), strict=True):
        if array is None:
            continue
        leaf: Any = structure if isinstance(structure, int) else structure[place]
        if not isinstance(leaf, int) or leaf in places:
            return None
        places[leaf] = place
    kernel = {i.name: front.graph.names[i] for i in front.graph.inputs}
    given = [front.outputs[leaf].name for leaf in places]
    fresh = [p for i, p in enumerate(front.outputs) if i not in places]
    views = [call.adopted[n].array for n in order]
    views += [r.shaped for i in places for r in [call.results[i]]]
    if [ar.address(v) for v in views] != pointers:
        return None
    # Inputs that the pipeline does not use have a name of their own that no launch asks for.
    names = (*(kernel.get(n, f"{n} (unused)") for n in order), *given, *(p.name for p in fresh))
    cuda = ar.cuda_runtime()
    family: Any = cuda.family_of(like.given)
    executable: Any = call.executable  # a CudaExecutable: the call ran on a GPU
    return Ready(
        bound=executable.bound(call.arrays, call.rows.n_rows, call.rows.n_cols, names, family),
        family=family, device=like.index, context=executable.context,
        makers=tuple(rs.maker(p, call.rows, like) for p in fresh),
        apart=_apart(views, len(order)), finish=_finish(structure, places, len(front.outputs)),
        current=cuda.context_reader(),
    )  # fmt: skip


def _apart(views: list[Any], n_inputs: int) -> tuple[_Apart, ...]:
    """Every given output against every input and every other output."""
    ends = [rs.reach(v) for v in views]
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
                                for i in range(n_outputs)])  # fmt: skip

    return finish
