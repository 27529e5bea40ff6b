"""vmap: one more axis of rows.

An element input gets the new axis in front, a per-row input in front of its rows; a per-column
input that differs from one batch to the next is an element input of a text that is otherwise the
same. Beside vectors, inputs of columns have axes in front that broadcast against those of the rows.
What is not batched stays as it is and broadcasts.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.nesting import flatten
from fusegen.lang.value import Value
from fusegen.library.calls.backward import Call
from fusegen.library.calls.framework import Framework, Like
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
    if call.pipeline.vectors:
        return _beside_vectors(call, graph, size, fronted, moved, framework)
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


_MORE = {g.Axis.PER_COLUMN: 0, g.Axis.PER_ROW: 0}  # axes beside those of rows; others have one


def _beside_vectors(
    call: Call, graph: g.Graph, size: int, fronted: Mapping[str, Any], moved: set[str],
    framework: Framework,
) -> tuple[list[Any], list[int]]:
    """See `batched`. Where rows have no axis of their own they get one, which the columns' do not
    vary along."""
    like = {n: Like(tuple(a.shape[n in moved :]), a.dtype) for n, a in fronted.items()}
    n_lead = len(framework.rows_in(graph.inputs, like, call.axis).lead)
    axes = {i.name: i.axis for i in graph.inputs}
    given: dict[str, Any] = {**fronted}
    for name in moved:
        given[name] = _behind_batch(fronted[name], axes[name], n_lead)
    spanning = [n for n in given if axes[n] in (g.Axis.ELEMENT, *g.VECTORS)]
    if not moved.intersection(spanning):
        first = min(spanning, key=lambda n: axes[n] is g.Axis.COLUMN_VECTOR)
        alone = _behind_batch(given[first].reshape(1, *given[first].shape), axes[first], n_lead)
        given[first] = framework.spread_to(alone, (size, *alone.shape[1:]))
    names = call.pipeline.signature.arrays
    made = dataclasses.replace(call, axis=-1).run([given.get(n) for n in names])
    found = flatten(graph.structure, made, len(graph.outputs))
    if n_lead == 0:
        found = [f.reshape(f.shape[0], *f.shape[2:]) for f in found]
    return found, [0] * len(found)


def _behind_batch(array: Any, axis: g.Axis, n_lead: int) -> Any:
    """The array with all its axes behind the batch; of rows at least one."""
    shape = tuple(array.shape)
    of_columns = axis in (g.Axis.PER_COLUMN, g.Axis.COLUMN_VECTOR)
    if n_lead == 0 and not of_columns:
        return array.reshape(shape[0], 1, *shape[1:])
    return _padded(array, max(n_lead, 1) + 1 + _MORE.get(axis, 1))


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
