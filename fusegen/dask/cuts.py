"""Inputs cut alike, so that blocks of the same place belong together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import dask.array as da
import numpy as np
from dask.array.core import unify_chunks

from fusegen.backend.arrays.rows import Rows
from fusegen.dask.axes import Labels, lead_of
from fusegen.dask.text import Text
from fusegen.ir.vectors import row_numbers

Placed = tuple[da.Array, Labels]
"""An array of Dask's, and which axes it has."""


@dataclass(frozen=True)
class Cut:
    """`given` are cut alike, in these `chunks` along each axis of the whole.

    `numbered`: the axis along which rows are cut to runs of columns that follow one another, where
    states depend on which columns they are; None where they do not.
    """

    given: list[Placed]
    chunks: dict[int, tuple[int, ...]]
    numbered: int | None


def cut_alike(text: Text, given: Sequence[Placed]) -> Cut:
    """Vectors whole, and all else in the chunks that the inputs have in common. Raises
    PipelineError where rows are cut and the text has no states."""
    whole = {len(text.rows.whole) + i for i in range(len(text.inputs))}
    if row_numbers(text.variants("call").graph) is not None:  # rows count from 0 in every chunk
        whole |= {*lead_of(text.rows)[-1:]}
    given = [(_joined(a, [i for i, label in enumerate(labels)
                          if label in whole or a.shape[i] == 1]), labels) for a, labels in given]
    axes = text.rows.axes
    inner = {label for a, labels in given for i, label in enumerate(labels)
             if label in axes and a.numblocks[i] > 1}
    numbered = None
    if inner:
        text.check_states()
    if (inner or (text.pieces and text.has_states)) and text.numbered:
        sizes = dict(zip(axes, text.rows.cols, strict=True))
        numbered = next((a for a in axes if sizes[a] != 1), axes[0])
        if inner - {numbered}:
            given = [(_in_runs(a, labels, numbered, axes), labels) for a, labels in given]
    cut = _unified(given, numbered)
    if text.pieces and numbered is not None:
        between = _between_pieces(text, cut.chunks[numbered], numbered)
        cut = _unified([(_rechunked(a, labels, numbered, between), labels)
                        for a, labels in cut.given], numbered)
    return cut


def _unified(given: Sequence[Placed], numbered: int | None) -> Cut:
    chunks, arrays = unify_chunks(*(part for pair in given for part in pair))
    return Cut([(a, labels) for a, (_, labels) in zip(arrays, given, strict=True)], chunks,
               numbered)


def by_states(text: Text, cut: Cut) -> bool:
    """Are rows in several chunks, or do their bits come from pieces of them?"""
    return any(len(cut.chunks[a]) > 1 for a in text.rows.axes) or (
        bool(text.pieces) and cut.numbered is not None)


def _between_pieces(text: Text, chunks: Sequence[int], axis: int) -> tuple[int, ...]:
    """Chunks whose ends are the nearest between two pieces of the rows."""
    after = columns_after(text.rows, axis)
    unit = text.pieces["pieces"] // math.gcd(text.pieces["pieces"], after)
    ends = np.cumsum(chunks)
    n = int(ends[-1])
    cuts = sorted({0, n, *(min(n, int(end / unit + 0.5) * unit) for end in ends)})
    return tuple(j - i for i, j in itertools.pairwise(cuts))


def columns_after(rows: Rows, axis: int) -> int:
    """How many columns apart neighbours along a reduced axis are."""
    return math.prod(n for a, n in zip(rows.axes, rows.cols, strict=True) if a > axis)


def _rechunked(
    array: da.Array, labels: Labels, axis: int, chunks: tuple[int, ...]
) -> da.Array:
    at = [i for i, label in enumerate(labels) if label == axis and array.shape[i] != 1]
    return array.rechunk(dict.fromkeys(at, chunks)) if at else array


def _in_runs(array: da.Array, labels: Labels, along: int, axes: tuple[int, ...]) -> da.Array:
    """Cut along this one of the reduced axes alone: columns count through the later ones."""
    asked = {i: "auto" if label == along else -1 for i, label in enumerate(labels)
             if label in axes}
    return array.rechunk(asked)


def _joined(array: da.Array, axes: Sequence[int]) -> da.Array:
    """In one chunk along these axes."""
    apart = {i: -1 for i in axes if array.numblocks[i] > 1}
    return array.rechunk(apart) if apart else array
