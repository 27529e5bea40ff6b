"""Chunks as a pipeline takes them, and results as chunks of Dask's arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fusegen.backend.arrays.rows import Rows, tail_of
from fusegen.dask.text import Text
from fusegen.ir.kernel import Param


def given_to(text: Text, blocks: Iterable[Any]) -> list[Any]:
    """Chunks in the order of the pipeline's arrays."""
    rest = iter(blocks)
    return [None if i is None else only(next(rest)) for i in text.inputs]


def only(block: Any) -> Any:
    """A chunk. Dask gives those along axes that the result lacks in lists, here of one."""
    while isinstance(block, list):
        (block,) = block
    return block


def columns_last(text: Text, blocks: Sequence[Any]) -> list[Any]:
    """Chunks with the reduced axes as one, behind all others."""
    n, axes = len(text.rows.whole), text.rows.axes
    if axes == (n - 1,):
        return list(blocks)
    spans = [None if i is None else i.spans for i in text.inputs]
    moved = [_moved(b, n, axes) if s == "both" else b for b, s in zip(blocks, spans, strict=True)]
    n_lead = n - len(axes)
    tails = [b.shape[n_lead:] for b, s in zip(moved, spans, strict=True) if s == "both"]
    tail = np.broadcast_shapes(*tails)
    return [_flat(b, n_lead, tail) if s == "both" else b.reshape(-1) if s == "columns" else b
            for b, s in zip(moved, spans, strict=True)]


def _moved(block: Any, n: int, axes: tuple[int, ...]) -> Any:
    whole = block.reshape((1,) * (n - block.ndim) + block.shape)
    return np.moveaxis(whole, axes, range(n - len(axes), n))


def _flat(block: Any, n_lead: int, tail: tuple[int, ...]) -> Any:
    """Columns as one axis: one of them where there is one value per row, else all."""
    lead, own = block.shape[:n_lead], block.shape[n_lead:]
    if own == (1,) * len(own):
        return block.reshape((*lead, 1))
    return np.broadcast_to(block, (*lead, *tail)).reshape((*lead, math.prod(tail)))


def placed(value: Any, param: Param, rows: Rows) -> Any:
    """A result whose columns or K are last, with its axes where a call has them. rows: of the whole
    arrays; chunks have fewer."""
    sizes, places = tail_of(rows, param.shape, param.k)
    n_lead = len(rows.lead)
    whole = value.reshape((*value.shape[:n_lead], *sizes))
    return np.moveaxis(whole, range(n_lead, whole.ndim), places) if places else whole
