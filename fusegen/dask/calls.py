"""fg.dask.apply: a pipeline over Dask's arrays, as graphs that Dask optimises and schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.graph_manipulation import clone

from fusegen.backend.arrays.columns import check_columns
from fusegen.backend.arrays.rows import Axes, rows_of
from fusegen.dask import tasks
from fusegen.dask.axes import Labels, labels_of, labels_of_result, lead_of
from fusegen.dask.cuts import Cut, Placed, by_states, columns_after, cut_alike
from fusegen.dask.given import as_dask, checked_pieces, shape_of
from fusegen.dask.text import Input, Text, text_of
from fusegen.ir.dtypes import dtype_of
from fusegen.ir.kernel import Param
from fusegen.ir.nesting import nest
from fusegen.ir.sorts import Axis
from fusegen.lang.blame import blames
from fusegen.lang.signature import check_flag, check_whole
from fusegen.library.calls.framework import types_in
from fusegen.pipeline.decorator import check_pipeline
from fusegen.pipeline.pipeline import Pipeline


@blames
def apply(
    pipeline: Pipeline, *arrays: Any, axis: Axes = -1, keepdims: bool = False,
    split_every: int | None = None, reread: bool = False, deterministic: bool = False,
    pieces: int | None = None, **named: Any,
) -> Any:
    """What the pipeline returns for Dask's arrays, as Dask's arrays: nothing is computed yet.

    arrays: as for a call, at least one of them Dask's; what is in memory becomes one chunk. Chunks
    may be cut along any axes; inputs that are cut differently are cut alike. Where rows are cut,
    chunks are folded to states, which merge along Dask's tree; chunks of whole rows are calls.
    axis, keepdims, constants: as for a call. split_every: how many states a task merges, as for
    `dask.array.reduction`. reread: where full rows need their chunks twice, make these again rather
    than keep them until all states have merged.
    deterministic, pieces: as for `Pipeline.states`: the bits do not depend on the chunks, which are
    cut between pieces.
    Raises ArgumentError, DTypeError, ShapeError (for unknown sizes, too), and PipelineError where
    rows are cut and the text has no states.
    """
    check_pipeline("fg.dask.apply", pipeline)
    present, constants = pipeline.bind(arrays, named)
    in_pieces = checked_pieces(deterministic, pieces)
    text, given = _read(pipeline, as_dask(pipeline.name, present), constants, axis,
                        check_flag("keepdims", keepdims), in_pieces)
    cut = cut_alike(text, given)
    variants = text.variants("call")
    outputs = dict(enumerate(variants.program.outputs))
    if by_states(text, cut):
        states = _merged(text, cut, check_whole("split_every", split_every, 2))
        found = _finished(text, cut, states, outputs, check_flag("reread", reread))
    else:
        found = _results(text, tasks.call, cut, cut.given, outputs)
    return nest(variants.graph.structure, [found[i] for i in outputs])


def _read(
    pipeline: Pipeline, arrays: Mapping[str, da.Array], constants: dict[str, Any], axis: Axes,
    keepdims: bool, pieces: Mapping[str, Any],
) -> tuple[Text, list[Placed]]:
    """The text, and its arrays with the axes that each has."""
    graph = pipeline.traced(frozenset(arrays), constants).graph
    shapes = {n: shape_of(a) for n, a in arrays.items()}
    rows = rows_of(graph.inputs, shapes, axis, keepdims)
    check_columns(graph, rows.n_cols)
    dtypes = types_in(pipeline.vectors, arrays, lambda a: dtype_of(a.dtype))
    nodes, n_axes = {node.name: node for node in graph.inputs}, len(rows.whole)
    inputs: list[Input | None] = []
    given: list[Placed] = []
    for name in pipeline.signature.arrays:
        if name not in arrays:
            inputs.append(None)
            continue
        array, node = arrays[name], nodes[name]
        if node.axis is Axis.PER_COLUMN and array.ndim == 1:
            array = array.reshape(rows.cols)
        labels, spans = labels_of(node, shape_of(array), rows, n_axes + len(given))
        inputs.append(Input(name, dtypes[name], spans))
        given.append((array, labels))
    return text_of(pipeline, tuple(inputs), constants, rows, pieces), given


def _merged(text: Text, cut: Cut, split_every: int | None) -> Placed:
    """One state of each row, a chunk of rows a task: states of chunks, merged along Dask's tree."""
    name, axes, lead = text.pipeline.name, text.rows.axes, lead_of(text.rows)
    own, layout = _own(text), text.roles.layout
    meta = _meta(cut, len(lead) + len(axes) + 1, np.dtype("u1"))
    folded = da.blockwise(
        partial(tasks.fold, text=text, numbered=cut.numbered is not None), (*lead, *axes, own),
        *_arguments(_numbered(text, cut)), token=f"{name}-fold", dtype=meta.dtype, meta=meta,
        align_arrays=False, adjust_chunks={**_chunks(cut, lead), **dict.fromkeys(axes, 1)},
        new_axes={own: layout.n_bytes})
    combine = partial(tasks.combine, text=text)
    merged = da.reduction(
        folded, tasks.kept, combine, combine=combine, concatenate=False, dtype=meta.dtype,
        axis=tuple(range(len(lead), len(lead) + len(axes))), split_every=split_every,
        name=f"{name}-states", meta=_meta(cut, len(lead) + 1, meta.dtype))
    return merged, (*lead, own)


def _finished(
    text: Text, cut: Cut, states: Placed, outputs: Mapping[int, Param], reread: bool
) -> dict[int, da.Array]:
    """Results by number: full rows by one more pass over the chunks, others of states alone."""
    full = {i: p for i, p in outputs.items() if p.shape == "element"}
    found: dict[int, da.Array] = {}
    if len(full) < len(outputs):
        needed = text.of_rows
        rows = [a for a, i in zip(cut.given, text.there, strict=True) if i.name in needed]
        found |= _results(text, partial(tasks.finish, again=needed), cut, [states, *rows],
                          {i: p for i, p in outputs.items() if i not in full})
    if full:
        again = _again(cut) if reread else cut
        found |= _results(
            text, partial(tasks.spread, numbered=cut.numbered is not None), cut,
            [states, *_numbered(text, again)], full)
    return found


def _again(cut: Cut) -> Cut:
    """The same chunks, by tasks of other names: nothing is kept for these."""
    arrays = [a for a, _ in cut.given]
    copies = clone(*arrays, seed=tuple(a.name for a in arrays))
    copies = copies if len(arrays) > 1 else (copies,)
    return replace(cut, given=[(a, labels) for a, (_, labels) in
                               zip(copies, cut.given, strict=True)])


def _numbered(text: Text, cut: Cut) -> list[Placed]:
    """The inputs, behind the number of each chunk's first column, where that counts."""
    if cut.numbered is None:
        return cut.given
    return [_first_columns(text, cut, cut.numbered), *cut.given]


def _first_columns(text: Text, cut: Cut, axis: int) -> Placed:
    """The number of each chunk's first column, along the axis that is cut."""
    sizes = cut.chunks[axis]
    first = columns_after(text.rows, axis) * np.cumsum((0, *sizes[:-1]), dtype=np.int64)
    return da.from_array(first, chunks=1, inline_array=True), (axis,)


def _results(
    text: Text, task: Callable[..., Any], cut: Cut, given: Sequence[Placed],
    outputs: Mapping[int, Param],
) -> dict[int, da.Array]:
    """What tasks on these chunks return, an array for each result, by number."""
    name, own = text.pipeline.name, _own(text) + 1
    placed = {i: labels_of_result(p, text.rows, own) for i, p in outputs.items()}
    task = partial(task, text=text)

    def made(task: Any, number: int, arguments: Sequence[Any]) -> da.Array:
        """An array of one result."""
        (labels, new), dtype = placed[number], outputs[number].dtype.numpy
        return da.blockwise(
            partial(task, number=number), labels, *arguments, token=name, dtype=dtype,
            align_arrays=False, new_axes=new, meta=_meta(cut, len(labels), dtype),
            adjust_chunks=_chunks(cut, labels))

    if len(outputs) == 1:
        return {i: made(task, i, _arguments(given)) for i in outputs}
    widest = max((tuple(i for i in labels if i in cut.chunks) for labels, _ in placed.values()),
                 key=len)
    every = da.blockwise(
        task, widest, *_arguments(given), token=name, dtype=np.dtype("O"), align_arrays=False,
        meta=_meta(cut, len(widest), np.dtype("O")), adjust_chunks=_chunks(cut, widest))
    return {i: made(tasks.part, i, (every, widest)) for i in outputs}


def _arguments(given: Sequence[Placed]) -> list[Any]:
    """As `dask.array.blockwise` takes them."""
    return [part for pair in given for part in pair]


def _chunks(cut: Cut, labels: Labels) -> dict[int, tuple[int, ...]]:
    """Along axes of rows and columns: of inputs that broadcast one only has their sizes."""
    return {i: cut.chunks[i] for i in labels if i in cut.chunks}


def _own(text: Text) -> int:
    """A label that no input has."""
    return len(text.rows.whole) + len(text.inputs)


def _meta(cut: Cut, ndim: int, dtype: Any) -> Any:
    """An empty array of the chunks' kind."""
    return meta_from_array(cut.given[0][0]._meta, ndim=ndim, dtype=dtype)
