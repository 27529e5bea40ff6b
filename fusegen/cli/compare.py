"""Holding results to the reference, in blocks of rows so that memory stays bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.dtypes import FLOAT64, DType
from fusegen.ir.kernel import Param
from fusegen.ir.varying import computed
from fusegen.ir.vectors import row_numbers
from fusegen.oracle.reference import evaluate
from fusegen.pipeline.call import Call

BLOCK_BYTES = 1 << 26  # of one float64 block of the reference

# A few units in the last place of the stored type, and the error of long float32 sums.
_CONDITION, _TRIALS = 16, 3  # see _sensitivity
_RELATIVE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-11}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The worst element of an output."""

    output: str
    row: int
    column: int
    got: float
    want: float

    def __str__(self) -> str:
        return (f"{self.output}, row {self.row}, column {self.column}: got {self.got!r}, "
                f"the reference has {self.want!r}")


@dataclass(frozen=True, slots=True)
class Agreement:
    """How near the results are: greatest error relative to the size of its output."""

    relative: float
    worst: Mismatch | None  # None: all within tolerance


def compare(call: Call, progress: Callable[[float], None] | None = None) -> Agreement:
    """Compare a finished call with the text in float64.

    Floats: within a few units of their type, relative to the element or 1e-5 of the greatest of
    its row block. Integers: equal, but one step for a rounded float, and another column of a list
    or an arg only where the reference has the same value there.
    """
    layout = call.layout
    graph, rows, types = layout.graph, layout.rows, call.variants.typed.dtypes
    step = max(1, BLOCK_BYTES // (8 * rows.n_cols))
    batches = [len(layout.arrays[graph.names[i]]) for i in graph.inputs
               if i.axis is g.Axis.COLUMN_VECTOR or (
                   i.axis is g.Axis.PER_COLUMN and layout.arrays[graph.names[i]].ndim > 1)]
    if batches:  # rows of a block share the columns' vectors
        step = math.gcd(*(rows.n_rows // n for n in batches))
    numbering = row_numbers(graph)
    relative, worst = 0.0, None
    for start in range(0, rows.n_rows, step):
        stop = min(start + step, rows.n_rows)
        inputs = {i.name: _slice(call, i, start, stop) for i in graph.inputs}
        inputs |= {i.name: np.asarray(computed(i.formula, call.constants)) for i in graph.scalars}
        numbers = None if numbering is None else layout.arrays[numbering][start:stop, None]
        wanted = evaluate(graph, inputs, types, rows.n_cols, numbers=numbers)
        for node, param, want in zip(graph.outputs, layout.outputs, wanted, strict=True):
            got = _host(call, layout.arrays[param.name][start:stop], param.dtype)
            got = got.reshape(stop - start, -1)
            block = _Block(call, inputs, numbers, node, param, got,
                           np.broadcast_to(want, got.shape))
            error, mismatch = block.judge(start)
            relative = max(relative, error)
            worst = worst or mismatch
        if progress is not None:
            progress(stop / rows.n_rows)
    return Agreement(relative, worst)


def _host(call: Call, array: Any, dtype: DType) -> Any:
    return call.layout.memory.to_host(array, dtype)


def _slice(call: Call, node: g.Input, start: int, stop: int) -> Any:
    array = call.layout.arrays[call.layout.graph.names[node]]
    dtype = call.variants.typed.dtypes[node.name]
    match node.axis:
        case g.Axis.PER_COLUMN if array.ndim > 1:  # beside vectors: of the rows' batch
            return _host(call, array[start * len(array) // call.layout.rows.n_rows], dtype)[None, :]
        case g.Axis.PER_COLUMN:
            return _host(call, array, dtype)[None, :]
        case g.Axis.PER_ROW:
            return _host(call, array[start:stop], dtype)[:, None]
        case g.Axis.COLUMN_VECTOR:
            return _host(call, array[start * len(array) // call.layout.rows.n_rows], dtype)
        case _:
            return _host(call, array[start:stop], dtype)


def _nudged(array: Any, digit: float, rng: np.random.Generator) -> Any:
    """Floats changed by a random part of `digit`; others as they are."""
    if array.dtype.kind in "iub" or array.ndim == 0:
        return array
    return array.astype(np.float64) * (1 + digit * rng.uniform(-1, 1, array.shape))


@dataclass
class _Block:
    call: Call
    inputs: Mapping[str, Any]
    numbers: Any  # of the rows, where the text asks for them
    node: g.Node
    param: Param
    got: Any
    want: Any

    def judge(self, start: int) -> tuple[float, Mismatch | None]:
        with np.errstate(all="ignore"):
            bad = self._float_bad() if self.param.dtype.kind == "float" else self._int_bad()
        if not np.any(bad[1]):
            return bad[0], None
        row, column = np.unravel_index(int(np.argmax(np.where(bad[1], bad[2], -1))), self.got.shape)
        got, want = self.got[row, column].item(), self.want[row, column].item()
        return bad[0], Mismatch(self.param.name, start + int(row), int(column), got, want)

    def _float_bad(self) -> tuple[float, Any, Any]:
        got = self.got.astype(np.float64)
        # The reference of a float16 overflows where float16 does.
        want = self.want.astype(self.param.dtype.numpy).astype(np.float64)
        finite = np.isfinite(want) & np.isfinite(got)
        size = float(np.max(np.abs(want[finite]), initial=0.0))
        error = np.where(finite, np.abs(got - want), 0.0)
        limit = _RELATIVE[self.param.dtype.name] * np.maximum(np.abs(want), 1e-5 * size)
        limit = np.where(finite, limit, 0.0) + np.finfo(np.float32).tiny
        if self.param.dtype != FLOAT64:
            limit = np.maximum(limit, self._cancellation(size))
        over = error > limit
        if np.any(over):
            over &= error > _CONDITION * self._sensitivity(want)
        special = ~finite & ~((got == want) | (np.isnan(got) & np.isnan(want)))
        relative = float(np.max(error, initial=0.0)) / size if size else 0.0
        return relative, over | special, np.where(special, np.inf, error)

    def _sensitivity(self, want: Any) -> Any:
        """How far the text itself moves when inputs change in their last kept digit, or when it is
        evaluated in the kernels' own type: no result can be trusted to be nearer than that."""
        typed = self.call.variants.typed
        graph = replace(typed.graph, outputs=(self.node,))
        wide = any(d == FLOAT64 for d in typed.dtypes.values())
        kept = np.float64 if wide else np.float32
        digit = float(np.finfo(kept).eps)
        rng = np.random.default_rng(0)
        n_cols, numbers = self.call.layout.rows.n_cols, self.numbers
        (rounded,) = evaluate(graph, self.inputs, typed.dtypes, n_cols, kept, numbers=numbers)
        moved = np.abs(np.broadcast_to(rounded, want.shape).astype(np.float64) - want)
        for _ in range(_TRIALS):
            inputs = {n: _nudged(np.asarray(a), digit, rng) for n, a in self.inputs.items()}
            (found,) = evaluate(graph, inputs, typed.dtypes, n_cols, numbers=numbers)
            moved = np.maximum(moved, np.abs(np.broadcast_to(found, want.shape) - want))
        return np.where(np.isfinite(moved), moved, 0.0)  # what overflows excuses nothing

    def _cancellation(self, size: float) -> float:
        """Sums of both signs keep the absolute error of their greatest terms."""
        largest = [np.max(np.abs(v[np.isfinite(v)]), initial=0.0) for v in
                   (np.asarray(a, np.float64) for a in self.inputs.values())]
        sums = self.param.shape in ("row", "row_vector")
        return 1e-7 * max(size, *map(float, largest)) if sums else 1e-7 * size

    def _int_bad(self) -> tuple[float, Any, Any]:
        got, want = self.got.astype(np.int64), self.want.astype(np.int64)
        distance = np.abs(got - want)
        bad = distance > (1 if self._rounds() else 0)
        if np.any(bad):
            bad = bad & ~self._ties(got, want)
        return 0.0, bad, distance

    def _rounds(self) -> bool:
        """Was a float rounded to this integer?"""
        return isinstance(self.node, g.Cast)

    def _ties(self, got: Any, want: Any) -> Any:
        """Do both columns hold the same value, as near as the inputs' precision tells?"""
        match self.node:
            case g.Part(top=top, field="indices"):
                source = top.arg
            case g.Reduce(fold=g.Fold.ARGMAX | g.Fold.ARGMIN, arg=arg):
                source = arg
            case _:
                return np.zeros(got.shape, np.bool_)
        typed = self.call.variants.typed
        graph = replace(typed.graph, outputs=(source,))
        n_cols = self.call.layout.rows.n_cols
        (values,) = evaluate(graph, self.inputs, typed.dtypes, n_cols, numbers=self.numbers)
        values = np.broadcast_to(values, (len(got), n_cols)).astype(np.float64)
        inside = (got >= 0) & (got < values.shape[1])
        there = np.take_along_axis(values, np.where(inside, got, 0), axis=1)
        here = np.take_along_axis(values, want, axis=1)
        # What underflows in the type kernels compute in is tied there.
        wide = any(d == FLOAT64 for d in typed.dtypes.values())
        tiny = float(np.finfo(np.float64 if wide else np.float32).tiny)
        return inside & np.isclose(there, here, rtol=1e-6, atol=tiny, equal_nan=True)
