"""Many rows at once, in float32 or float64 as kernels compute: cost goes by the merge, not the row.

Elements are (rows, columns), row values (rows, 1), lists and their columns (rows, K).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fusegen.ir.expr import Arithmetic, Expr
from fusegen.ir.kernel import Entries, Gather, Kernel
from fusegen.ir.monoid import Best, KBest
from fusegen.ir.ops import OPS
from fusegen.ir.shared import lazy
from fusegen.oracle.replay.row import RowReplay, Split
from fusegen.oracle.replay.states import Env, Folder, State
from fusegen.oracle.rows import top_columns

Array = np.ndarray[Any, Any]


def _rounded(dtype: type[np.floating[Any]]) -> Arithmetic:
    """NumPy's arithmetic with every floating result rounded to `dtype`."""

    def narrow(value: Any) -> Any:
        return value.astype(dtype) if value.dtype.kind == "f" and value.dtype != dtype else value

    def rounding(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: narrow(np.asarray(function(*args)))

    def literal(value: Any) -> Any:
        return dtype(value) if isinstance(value, float) else value

    return Arithmetic({name: rounding(op.numpy) for name, op in OPS.items()}, literal)


ROUNDED: Mapping[str, Arithmetic] = {
    "float32": _rounded(np.float32), "float64": _rounded(np.float64),
}
"""By the name of a kernel's compute type."""


class RowsFolder(Folder):
    """Pieces of many rows; all rows are cut alike.

    A best pair is (values, columns), each (rows, 1); a list is (values, columns), each (rows, ≤ K).
    """

    keepdims = True

    @lazy
    def n_rows(self) -> int:
        given = [*self.row.values(), *self.env.values()]
        return max([len(v) for v in given if np.ndim(v) == 2], default=1)

    def whole(self, value: Any, at: Any) -> Any:
        """Row by row in memory: a piece is then added up in blocks, as by a kernel's lanes, and not
        one by one, as no kernel does."""
        return np.ascontiguousarray(np.broadcast_to(np.asarray(value), (self.n_rows, at.size)))

    def _best_of(self, best: Best, values: Any, at: Any) -> Any:
        # NumPy takes the first NaN if there is one, else the first of the best: our order.
        found = (np.argmax if best.largest else np.argmin)(values, axis=-1, keepdims=True)
        return np.take_along_axis(values, found, axis=-1), at[found]

    def _better(self, best: Best, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return _ordered(a, b, largest=best.largest, k=1)

    def _first_of(self, top: KBest, values: Any, at: Any) -> Any:
        found = top_columns(values, min(top.k, at.size))
        return np.take_along_axis(values, found, axis=-1), at[found]

    def _first(self, top: KBest, a: Any, b: Any) -> Any:
        if not len(a) or not len(b):
            return b if not len(a) else a
        return _ordered(a, b, largest=True, k=top.k)

    def _column(self, values: Any, i: int) -> Any:
        return values[:, i : i + 1]


def _ordered(a: Any, b: Any, *, largest: bool, k: int) -> tuple[Array, Array]:
    """The first k of both: NaN, then the greater (or lesser) value, then the lower column."""
    values, columns = (np.concatenate(pair, axis=-1) for pair in zip(a, b, strict=True))
    nan = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)
    ranked = values.astype(np.int64) if values.dtype.kind == "b" else np.where(nan, 0, values)
    falling = (-ranked if ranked.dtype.kind == "f" else ~ranked) if largest else ranked
    order = np.lexsort((columns, falling, ~nan), axis=-1)[:, :k]
    return np.take_along_axis(values, order, axis=-1), np.take_along_axis(columns, order, axis=-1)


class RowsReplay(RowReplay):
    """Walks a kernel over many rows.

    row: arrays by parameter name; elements (rows, columns), per column (1, columns) or (columns,),
    per row (rows, 1). After `run`, `env` has every row value, by its name in the graph too.
    """

    folder = RowsFolder

    def __init__(self, kernel: Kernel, row: Mapping[str, Array], n_cols: int) -> None:
        wide = kernel.compute.numpy  # what floats are loaded as
        row = {n: a.astype(wide) if a.dtype == np.float32 != wide else a for n, a in row.items()}
        super().__init__(kernel, row, n_cols, ROUNDED[kernel.compute.name])

    def _gather(self, step: Gather, env: Env) -> Any:
        at = np.atleast_2d(self.value(step.index, env))  # one for all rows: the last column
        inside = (at >= 0) & (at < self.n_cols)
        place = np.where(inside, at, 0)
        inner = {**env, f"{step.name}_at": place, "column": place}
        inner |= {name: _at(self.row[name], place) for name in step.loads}
        for let in step.lets:
            inner[let.name] = self.value(let.expr, inner)
        found = np.asarray(self.value(step.value, inner))
        return np.where(inside, found, np.nan).astype(found.dtype)

    def _listed(self, entries: Entries, value: Expr, lists: Env) -> Any:
        held, columns = lists[entries.top]
        found = self.value(value, self._entry(entries, held, columns))
        return np.broadcast_to(np.asarray(found), held.shape)


def _at(values: Array, place: Array) -> Array:
    """values[row, place[row, …]]."""
    rows = np.broadcast_shapes((len(np.atleast_2d(values)), 1), (len(place), 1))[0]
    spread = np.broadcast_to(values, (rows, values.shape[-1]))
    return np.take_along_axis(spread, np.broadcast_to(place, (rows, place.shape[-1])), axis=-1)


def chain(chunk: int, *, forward: bool = True) -> Split:
    """Chunks merged one after another into the empty state, as a thread does: from the left,
    ((e ⊕ a) ⊕ b) ⊕ …, or from the right, a ⊕ (b ⊕ (… ⊕ e))."""

    def make(folder: Folder, n_cols: int) -> State:
        parts = _parts(folder, n_cols, chunk)
        empty = folder.fold(())
        if forward:
            return functools.reduce(folder.merge, parts, empty)
        return functools.reduce(lambda a, b: folder.merge(b, a), reversed(parts), empty)

    return make


def balanced(chunk: int) -> Split:
    """Chunks merged in pairs of neighbours, then pairs of pairs, as threads and blocks are."""

    def make(folder: Folder, n_cols: int) -> State:
        parts = _parts(folder, n_cols, chunk)
        while len(parts) > 1:
            pairs = [folder.merge(*parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
            parts = pairs + parts[len(parts) - len(parts) % 2 :]
        return parts[0]

    return make


def _parts(folder: Folder, n_cols: int, chunk: int) -> list[State]:
    return [folder.fold(range(i, min(i + chunk, n_cols))) for i in range(0, n_cols, chunk)]
