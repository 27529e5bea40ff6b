"""What Dask's tasks do: fold a chunk, merge states, finish them, or call on chunks of whole rows.

A task runs on one thread, as Dask's own do: Dask runs as many at a time as it has threads. Where
FUSEGEN_THREADS is set, each has that many.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from dask.sizeof import sizeof

from fusegen.backend.host import limits
from fusegen.dask.blocks import (
    blocks_of,
    columns_in,
    columns_last,
    only,
    placed,
    without_columns,
)
from fusegen.dask.text import Text
from fusegen.ir.nesting import flatten
from fusegen.pipeline.states.pieced import PiecedStates, merge
from fusegen.pipeline.states.record import States
from fusegen.pipeline.variants import Variants

P = ParamSpec("P")
T = TypeVar("T")
Known = States | PiecedStates

_THREADS: ContextVar[int] = ContextVar("threads of calls in a task", default=sys.maxsize)
limits.listen(_THREADS.get)
sizeof.register(States, lambda states: sizeof(states.array) + sys.getsizeof(states))
sizeof.register(PiecedStates, lambda states: sum(map(sizeof, states.runs)))


def single(task: Callable[P, T]) -> Callable[P, T]:
    """A task whose calls have one thread."""

    @functools.wraps(task)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        before = _THREADS.set(1)
        try:
            return task(*args, **kwargs)
        finally:
            _THREADS.reset(before)

    return run


@single
def fold(*given: Any, text: Text, numbered: bool) -> Known:
    """States of a chunk. numbered: the number of its first column comes before its arrays."""
    text.variants("fold")
    first, arrays = _first(given, numbered)
    blocks = columns_last(text, blocks_of(text, arrays))
    found: Known = text.pipeline.states(*blocks, at=first, **text.pieces, **text.constants)
    return found


def _first(given: Sequence[Any], numbered: bool) -> tuple[int | None, Sequence[Any]]:
    return (int(only(given[0])[0]), given[1:]) if numbered else (None, given)


@single
def combine(parts: Any, *, text: Text, axis: Any = None, keepdims: bool = True) -> Known:
    """⊕ of states in the order of the chunks. parts: one, or lists along each reduced axis."""
    text.variants("merge")
    states = list(_states_in(parts))
    found: Known = states[0] if len(states) == 1 else merge(text.pipeline, *states)
    return found


def _states_in(parts: Any) -> Iterator[Any]:
    if isinstance(parts, list):
        for part in parts:
            yield from _states_in(part)
    else:
        yield parts


@single
def finish(given: Any, *rows: Any, text: Text, again: Sequence[str], number: int | None = None
           ) -> Any:
    """Results of rows whose columns have all been seen, but for full rows: all of them, or the one
    of this number. again: the inputs of rows that results are made of, too."""
    variants, states = text.variants("call"), only(given)
    blocks = columns_last(text, blocks_of(text, rows, again))
    if text.roles.full_rows:
        like = states.runs[0].array if isinstance(states, PiecedStates) else states.array
        blocks = [b if b is not None or i is None else without_columns(i, like)
                  for b, i in zip(blocks, text.inputs, strict=True)]
    found = text.pipeline.finish(states, *blocks)
    return _placed(text, variants, found, number, full=False)


@single
def spread(states: Any, *given: Any, text: Text, numbered: bool, number: int | None = None) -> Any:
    """This chunk's part of full rows, whose columns have all been seen. numbered: as for `fold`."""
    variants = text.variants("call")
    first, arrays = _first(given, numbered)
    blocks = blocks_of(text, arrays)
    found = text.pipeline.finish(only(states), *columns_last(text, blocks), at=first)
    return _placed(text, variants, found, number, full=True, columns=columns_in(text, blocks))


def _placed(
    text: Text, variants: Variants, found: Any, number: int | None, *, full: bool,
    columns: Sequence[int] = (),
) -> Any:
    """Results with their axes in place: those of full rows, or all others."""
    outputs = variants.program.outputs
    values = flatten(variants.graph.structure, found, len(outputs))
    results = tuple(placed(v, p, text.rows, columns) if (p.shape == "element") is full else None
                    for v, p in zip(values, outputs, strict=True))
    return results if number is None else results[number]


@single
def call(*blocks: Any, text: Text, number: int | None = None) -> Any:
    """Results of chunks of whole rows: all of them, or the one of this number."""
    variants = text.variants("call")
    axes = text.rows.axes
    found = text.pipeline(*blocks_of(text, blocks), axis=axes[0] if len(axes) == 1 else axes,
                          keepdims=text.rows.keepdims, deterministic=bool(text.pieces),
                          **text.constants)
    results = tuple(flatten(variants.graph.structure, found, len(variants.program.outputs)))
    return results if number is None else results[number]


def kept(states: Any, **_: Any) -> Any:
    """What `dask.array.reduction` makes of a chunk that holds states already."""
    return states


def part(results: Any, *, number: int) -> Any:
    """One of a task's results."""
    return only(results)[number]
