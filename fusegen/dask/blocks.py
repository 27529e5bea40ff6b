"""Chunks as a pipeline takes them, and results as chunks of Dask's arrays."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from fusegen.backend.arrays.rows import Rows, tail_of
from fusegen.dask.text import Input, Text
from fusegen.ir.kernel import Param

Blocks = list[Any]
"""A chunk of each of the pipeline's arrays, in their order; None of those that are not there."""


def blocks_of(text: Text, given: Iterable[Any], names: Collection[str] | None = None) -> Blocks:
    """Of the arrays of these names, or of all."""
    rest = iter(given)
    return [None if i is None or (names is not None and i.name not in names) else only(next(rest))
            for i in text.inputs]


def only(block: Any) -> Any:
    """A chunk. Dask gives those along axes that the result lacks in lists, here of one."""
    while isinstance(block, list):
        (block,) = block
    return block


def columns_last(text: Text, blocks: Blocks) -> Blocks:
    """With the reduced axes as one, behind all others."""
    n, axes = len(text.rows.whole), text.rows.axes
    if axes == (n - 1,):
        return blocks
    tail = columns_in(text, blocks)
    return [None if b is None or i is None else _columns_last(b, i, text.rows, tail)
            for b, i in zip(blocks, text.inputs, strict=True)]


def _columns_last(block: Any, node: Input, rows: Rows, tail: tuple[int, ...]) -> Any:
    n, axes = len(rows.whole), rows.axes
    match node.spans:
        case "rows":
            return block
        case "columns":
            return block.reshape(-1)
        case _:
            whole = block.reshape((1,) * (n - block.ndim) + block.shape)
            moved = np.moveaxis(whole, axes, range(n - len(axes), n))
    lead, own = moved.shape[: n - len(axes)], moved.shape[n - len(axes) :]
    if own == (1,) * len(own):  # the same for all columns
        return moved.reshape((*lead, 1))
    return np.broadcast_to(moved, (*lead, *tail)).reshape((*lead, math.prod(tail)))


def columns_in(text: Text, blocks: Blocks) -> tuple[int, ...]:
    """The sizes of reduced axes, of chunks that have elements; none where there are no such."""
    shapes = [b.shape for b, i in zip(blocks, text.inputs, strict=True)
              if b is not None and i is not None and i.spans == "both"]
    whole = np.broadcast_shapes(*shapes)
    return tuple(whole[a] for a in text.rows.axes) if shapes else ()


def without_columns(node: Input, like: Any) -> Any:
    """A chunk of an input with no column. like: an array of such rows, and bytes."""
    none = like[..., :0] if node.spans == "both" else like.reshape(-1)[:0]
    return none.astype(node.dtype.numpy)


def placed(value: Any, param: Param, rows: Rows, columns: Sequence[int] = ()) -> Any:
    """A result whose columns or K are last, with its axes where a call has them. rows: of the whole
    arrays; columns: the chunk's."""
    sizes, places = tail_of(rows, param.shape, param.k)
    n_lead = len(rows.lead)
    sizes = tuple(columns) if param.shape == "element" else sizes
    whole = value.reshape((*value.shape[:n_lead], *sizes))
    return np.moveaxis(whole, range(n_lead, whole.ndim), places) if places else whole
