"""What Dask's tasks do: fold a chunk, merge states, finish them, or call on chunks of whole rows.

A task runs on one thread, as Dask's own do: Dask runs as many at a time as it has threads. Where
FUSEGEN_THREADS is set, each has that many.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from dask.sizeof import sizeof

from fusegen.backend.host import limits
from fusegen.dask.blocks import columns_last, given_to, only, placed
from fusegen.dask.text import Text
from fusegen.ir.nesting import flatten
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.runs import merge

P = ParamSpec("P")
T = TypeVar("T")

_THREADS: ContextVar[int] = ContextVar("threads of calls in a task", default=sys.maxsize)
limits.listen(_THREADS.get)
sizeof.register(States, lambda states: sizeof(states.array) + sys.getsizeof(states))


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
def fold(*blocks: Any, text: Text, numbered: bool) -> States:
    """States of a chunk. numbered: the first block holds the number of its first column."""
    text.variants("fold")
    at = {"at": int(only(blocks[0])[0])} if numbered else {}
    given = columns_last(text, given_to(text, blocks[numbered:]))
    found: States = text.pipeline.states(*given, **at, **text.constants)
    return found


@single
def combine(parts: Any, *, text: Text, axis: Any = None, keepdims: bool = True) -> States:
    """⊕ of states in the order of the chunks. parts: one, or lists along each reduced axis."""
    text.variants("merge")
    states = list(_states_in(parts))
    return states[0] if len(states) == 1 else merge(text.pipeline, *states)


def _states_in(parts: Any) -> Iterator[States]:
    if isinstance(parts, list):
        for part in parts:
            yield from _states_in(part)
    else:
        yield parts


@single
def finish(states: Any, *, text: Text, number: int | None = None) -> Any:
    """Results of rows whose columns have all been seen: all of them, or the one of this number."""
    variants = text.variants("finish")
    found = text.pipeline.finish(only(states))
    outputs = variants.program.outputs
    values = flatten(variants.graph.structure, found, len(outputs))
    results = tuple(placed(v, p, text.rows) for v, p in zip(values, outputs, strict=True))
    return results if number is None else results[number]


@single
def call(*blocks: Any, text: Text, number: int | None = None) -> Any:
    """The same of chunks of whole rows."""
    variants = text.variants("call")
    axes = text.rows.axes
    found = text.pipeline(*given_to(text, blocks), axis=axes[0] if len(axes) == 1 else axes,
                          keepdims=text.rows.keepdims, **text.constants)
    results = flatten(variants.graph.structure, found, len(variants.program.outputs))
    return tuple(results) if number is None else results[number]


def kept(states: Any, **_: Any) -> Any:
    """What `dask.array.reduction` makes of a chunk that holds states already."""
    return states


def part(results: Any, *, number: int) -> Any:
    """One of a task's results."""
    return only(results)[number]
