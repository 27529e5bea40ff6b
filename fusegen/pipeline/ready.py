"""Calls but for their addresses: what runs for all arrays that lie like those of one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from fusegen.backend.arrays.layout import Layout
from fusegen.backend.arrays.results import maker
from fusegen.backend.arrays.spans import Shared, lie_of, reach, shared
from fusegen.backend.executable import Bindable, Bound, Executable, Helped, Helper
from fusegen.backend.words import address
from fusegen.ir import graph as g
from fusegen.ir.nesting import nest
from fusegen.ir.vectors import row_numbers
from fusegen.pipeline.numbers import Scalars

Apart = tuple[int, int, int, int, Callable[[int], Shared]]
"""(i, j, low, high, shared): arrays i and j overlap where low < address i − address j < high, and
`shared` of that distance says so: rows or columns of one may lie between those of the other."""


class Ran(Protocol):
    """A call that has run: see `call.Call`."""

    @property
    def layout(self) -> Layout: ...

    @property
    def executable(self) -> Executable: ...

    @property
    def constants(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Lesson:
    """What compiled code may learn of a call, to serve those that are spelled alike."""

    bound: Helped
    sizes: tuple[int, ...]  # of elements, of the arrays that the caller gives
    numbers: Callable[[list[str]], tuple[tuple[int, float, bool], ...]]  # see `Scalars`
    finish: Callable[[list[Any], Any], Any] | None  # see `Ready`; None: one output

    def helper(self) -> Helper | None:
        """Who learns it, once it is there."""
        return self.bound.helper()

    def plan(self, met: list[str]) -> tuple[Any, ...]:
        """met: constants that vary, as they come in the call."""
        return self.bound.plan(self.sizes, self.numbers(met), self.finish)


@dataclass(slots=True, kw_only=True)
class Ready:
    """A call but for its arrays' addresses."""

    bound: Bound
    apart: tuple[Apart, ...]
    scalars: Scalars
    finish: Callable[[list[Any], Any], Any]  # (made, out) → what the pipeline returns
    lesson: Lesson | None  # that nobody has learned yet
    beside: tuple[Any, ...]  # arrays that come with every such call: the rows' numbers

    def run(self, pointers: list[int], named: Mapping[str, Any], out: Any) -> Any:
        """The results: nothing overlaps."""
        if self.scalars.names:
            pointers += self.scalars.words(named)
        if self.beside:
            pointers += map(address, self.beside)
        return self.finish(self.bound.run(pointers), out)


def ready_for(call: Ran, order: list[str], pointers: list[int], out: Any) -> Ready | None:
    """None where kernels do not see the very memory that the caller gave."""
    layout, like, executable = call.layout, call.layout.like, call.executable
    if not isinstance(executable, Bindable):
        return None
    graph, outputs = layout.graph, layout.outputs
    structure = graph.structure
    places: dict[int, Any] = {}  # output → where it stands in out=
    for place, array in () if out is None else zip(*given_by(out), strict=True):
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
    finish = nested(structure, places, len(outputs))
    lesson = None
    if isinstance(bound, Helped) and not beside:
        lesson = Lesson(bound, tuple(v.itemsize for v in views), scalars.numbers,
                        None if structure == 0 else finish)
    return Ready(
        bound=bound, scalars=scalars, apart=_apart(views, len(order)), finish=finish,
        lesson=lesson, beside=tuple(layout.arrays[n] for n in beside),
    )


def given_by(out: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(where they stand in out=, the arrays or None there); nothing deeper than one level."""
    if isinstance(out, tuple | list):
        return tuple(range(len(out))), tuple(out)
    if isinstance(out, dict):
        return tuple(out), tuple(out.values())
    return (None,), (out,)


def _apart(views: list[Any], n_inputs: int) -> tuple[Apart, ...]:
    """Every given output against every input and every other output."""
    ends = [reach(v) for v in views]
    pairs = [(i, j) for i in range(n_inputs, len(views)) for j in range(i)]
    return tuple((i, j, ends[j][0] - ends[i][1], ends[j][1] - ends[i][0],
                  partial(shared, lie_of(views[i]), lie_of(views[j]))) for i, j in pairs)


def nested(
    structure: g.Structure, places: Mapping[int, Any], n_outputs: int
) -> Callable[[list[Any], Any], Any]:
    """What puts results that were made, and those that were given, into the pipeline's nesting."""
    if structure == 0:
        return (lambda made, out: out) if places else (lambda made, out: made[0])
    if isinstance(structure, tuple) and tuple(structure) == tuple(range(n_outputs)) and not places:
        if hasattr(structure, "_make"):
            named = type(structure)._make
            return lambda made, out: named(made)
        return lambda made, out: tuple(made)

    def finish(made: list[Any], out: Any) -> Any:
        rest = iter(made)
        return nest(structure, [out[places[i]] if i in places else next(rest)
                                for i in range(n_outputs)])

    return finish
