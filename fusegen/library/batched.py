"""vmap: one more axis of rows.

An element input gets the new axis in front, a per-row input in front of its rows; a per-column
input that differs from one batch to the next is an element input of a text that is otherwise the
same. What is not batched stays as it is and broadcasts.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.nesting import flatten
from fusegen.lang.value import Value
from fusegen.library.backward import Call
from fusegen.library.framework import Framework
from fusegen.pipeline.pipeline import Pipeline
from fusegen.rewrite.adjoint.transplant import Text


def batched(
    call: Call, size: int, in_dims: Sequence[int | None], arrays: Sequence[Any],
    framework: Framework,
) -> tuple[list[Any], list[int]]:
    """(results, their batch axes). in_dims: where the batch of each array is, None without."""
    names = call.pipeline.signature.arrays
    dims = [*in_dims, *[None] * (len(names) - len(in_dims))]
    fronted = {n: a if d is None else framework.fronted(a, d)
               for n, a, d in zip(names, arrays, dims, strict=False) if a is not None}
    moved = {n for n, d in zip(names, dims, strict=True) if d is not None and n in fronted}
    graph = call.traced([fronted.get(n) for n in names])
    axes = {i.name: i.axis for i in graph.inputs}
    elements = [n for n in fronted if axes[n] is g.Axis.ELEMENT]
    rank = max(fronted[n].ndim - (n in moved) for n in elements)
    reduced = _reduced(call.axis, rank)
    columns = tuple(n for n in fronted if n in moved and axes[n] is g.Axis.PER_COLUMN)
    sizes = _sizes([fronted[n].shape[n in moved :] for n in elements], rank)
    given: dict[str, Any] = {}
    for name, array in fronted.items():
        if name not in moved:
            given[name] = array
        elif name in columns:
            given[name] = _as_element(array, reduced, sizes)
        else:
            lead = rank - len(reduced)
            least = rank if axes[name] is g.Axis.ELEMENT else lead
            given[name] = _padded(array, least + 1)
    if not any(given[n].ndim > rank for n in (*elements, *columns)):
        first = given[elements[0]]
        given[elements[0]] = framework.spread_to(
            first, (size, *[1] * (rank - first.ndim), *first.shape))
    pipeline = _with_elements(call.pipeline, columns) if columns else call.pipeline
    one = dataclasses.replace(call, pipeline=pipeline, axis=tuple(a + 1 for a in reduced))
    found = flatten(graph.structure, one.run([given.get(n) for n in names]), len(graph.outputs))
    return found, [0] * len(found)


def _reduced(axis: Any, rank: int) -> tuple[int, ...]:
    """The reduced axes from the front, rising."""
    if axis is None:
        return tuple(range(rank))
    return tuple(sorted(a % rank for a in (axis if isinstance(axis, tuple) else (axis,))))


def _sizes(shapes: Sequence[Sequence[int]], rank: int) -> list[int]:
    """What element inputs broadcast to."""
    padded = [[1] * (rank - len(s)) + list(s) for s in shapes]
    return [next((n for n in column if n != 1), 1) for column in zip(*padded, strict=True)]


def _padded(array: Any, rank: int) -> Any:
    """Axes of size 1 behind the batch, up to this rank."""
    missing = max(rank - array.ndim, 0)
    return array.reshape(array.shape[0], *[1] * missing, *array.shape[1:])


def _as_element(array: Any, reduced: tuple[int, ...], sizes: Sequence[int]) -> Any:
    """(batch, n_cols) as an element input of rows: 1 along the axes that stay."""
    shape = [n if i in reduced else 1 for i, n in enumerate(sizes)]
    return array.reshape(array.shape[0], *shape)


def _with_elements(pipeline: Pipeline, columns: tuple[str, ...]) -> Pipeline:
    """The same text, these per-column inputs being element inputs."""
    key = ("elements", columns)
    found: Pipeline | None = pipeline.derived.get(key)
    if found is None:
        parameters = [p.replace(annotation=Value) if n in columns else p
                      for n, p in inspect.signature(pipeline.fn).parameters.items()]
        text = Text(pipeline.name, pipeline.__doc__ or "", pipeline.fn, parameters, pipeline)
        found = Pipeline(text, allow_cancellation=pipeline.allow_cancellation)
        found.like = pipeline.like
        pipeline.derived.put(key, found)
    return found
