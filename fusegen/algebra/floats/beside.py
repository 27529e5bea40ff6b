"""What the rounding of a sum stands beside, on hard rows: Σ|terms|, or what the text rounds by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fusegen.algebra.floats.values import Array
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.oracle.bank import Bank, bank_of, scalars_of
from fusegen.oracle.rounding import rounding_of

_LENGTHS, _ROWS = (3, 24), 400
_SHORT, _WHOLE, _AWAY, _FEW = (2, 3), range(-3, 4), 2.0**-10, 800
_STARTS, _APART = (1.0, -1.0, 64.0, 4096.0), (1.0, 2.0**-10)
_UNIT = 2.0**-24


def hard_rows(graph: g.Graph, dtypes: Mapping[str, DType]) -> Iterator[Bank]:
    """Some hundred rows of the bank, short and long; rows little apart beside ones, and rows of
    small whole numbers, each a little off."""
    for length in _LENGTHS:
        yield _some(bank_of(graph, dtypes, length))
    for beside in (1.0, float(_LENGTHS[-1]), 1 / _LENGTHS[-1]) if _is_weighed(graph) else (1.0,):
        yield _beside_ones(graph, dtypes, beside)
    for length in _SHORT:
        yield _near_whole(graph, dtypes, length)


def condition_on(
    bank: Bank, term: g.Node, values: Mapping[g.Node, Array], total: Array
) -> Array:
    """The worst of `total`, what is added up for the row (rows,), beside what the text's Σ `term`
    rounds in proportion to; 0 where a row says nothing.

    `values`: of every node, in float64. Where the terms of a row have one sign that is Σ|term|,
    elsewhere Σ over the text's operations; rows whose Σ|term| is the text's own noise are left out.
    """
    shape = (len(bank), bank.n_cols)
    with np.errstate(all="ignore"):
        f = np.broadcast_to(values[term], shape).astype(np.float64)
        size = np.abs(f)
        # What the text's own operands are rounded by, in units of the rounding.
        own = np.broadcast_to(rounding_of(term, values, bank.n_cols, _UNIT), shape)
        own = np.maximum(own / _UNIT, size).sum(1)
        few = 1e-9 * size.mean(1)
        one = (f.max(1) <= few) | (f.min(1) >= -few)
        sound = np.isfinite(total) & np.isfinite(own) & (own < 1e37) & (total > 1e-30)
        heard = sound & (~one | (size.sum(1) > 2 * _UNIT * own))  # the rest is noise in the text
        beside = np.where(one, size.sum(1), own)
        return np.where(heard, total / np.maximum(beside, 1e-35), 0.0)


def _some(bank: Bank) -> Bank:
    """Rows from the whole bank, evenly; all where there are few."""
    step = 1 + (len(bank) - 1) // _ROWS
    inputs = {n: a[::step] if len(a) == len(bank) else a for n, a in bank.inputs.items()}
    return Bank(bank.n_cols, inputs, bank.picks[::step])


def _is_weighed(graph: g.Graph) -> bool:
    """Are there numbers of the row, which may make a mean of a sum?"""
    return any(i.axis is g.Axis.PER_ROW for i in graph.inputs)


def _beside_ones(graph: g.Graph, dtypes: Mapping[str, DType], beside: float) -> Bank:
    """Rows little apart far from 0, in one input beside ones: what products are compared with. The
    numbers of a row are `beside`."""
    names = [i.name for i in graph.inputs]
    steps = np.arange(_LENGTHS[-1]) % 2
    rows = np.array([start + apart * steps for start in _STARTS for apart in _APART])
    picks = np.repeat(np.arange(len(names)), len(rows))
    inputs = {}
    for k, node in enumerate(graph.inputs):
        values = np.where((picks == k)[:, None], np.tile(rows, (len(names), 1)), 1.0)
        if node.axis is g.Axis.PER_ROW:
            values = np.where(values[:, :1] == 1.0, beside, values[:, :1])
        dtype = dtypes[node.name]
        inputs[node.name] = np.zeros(values.shape, np.int64) if dtype.kind == "int" else \
            values.astype(dtype.numpy)
    inputs |= scalars_of(graph, len(picks))
    return Bank(_LENGTHS[-1], inputs, picks[:, None])


def _near_whole(graph: g.Graph, dtypes: Mapping[str, DType], length: int) -> Bank:
    """Short rows of small whole numbers, each a little off: terms are 0 at some of them whatever
    they are differences of, and close to 0 beside. Evenly out of all such rows."""
    places = len(graph.inputs) * length
    total = len(_WHOLE) ** places
    numbers = np.arange(total) if total <= _FEW else np.arange(_FEW) * (total // _FEW | 1)
    digits = numbers[:, None] // len(_WHOLE) ** np.arange(places) % len(_WHOLE)
    off = np.random.default_rng(length).standard_normal(digits.shape)
    rows = (np.asarray(_WHOLE)[digits] + _AWAY * off).reshape(len(numbers), -1, length)
    inputs = {}
    for k, node in enumerate(graph.inputs):
        values = rows[:, k, :1] if node.axis is g.Axis.PER_ROW else rows[:, k]
        dtype = dtypes[node.name]
        whole = np.asarray(np.abs(np.rint(values)) % length, np.int64)
        inputs[node.name] = whole if dtype.kind == "int" else values.astype(dtype.numpy)
    inputs |= scalars_of(graph, len(numbers))
    return Bank(length, inputs, np.zeros((len(numbers), 1), np.int64))
