"""Elements made of vectors, and states that hold some, for many rows at once.

Arrays of vectors are (rows, d) and (batches, columns, d); what is summed over their index is made
number by number. A component that is a vector is (rows, width): it moves and merges as numbers do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegen.ir.expr import Expr, variables
from fusegen.ir.kernel import FromVectors, InnerStep, Source
from fusegen.ir.monoid import Folded, FoldName, Moving
from fusegen.oracle.replay.rows import RowsFolder
from fusegen.oracle.replay.states import Env, unit


class VectorsFolder(RowsFolder):
    """Pieces of many rows over vectors, and of those without."""

    def _items(self, source: Source, at: Any) -> Any:
        if not isinstance(source, FromVectors):
            return super()._items(source, at)
        return self.inner(source.value, source.reads, self.env, at)

    def inner(self, value: Expr, names: tuple[str, ...], env: Env, at: Any) -> Any:
        """Σ_i value, over numbers i of the vectors with these names."""
        total: Any = None
        for i in range(self.row[names[0]].shape[-1]):
            term = self.value(value, {**env, **self._numbers(names, i, at)})
            total = term if total is None else self.call("add", total, term)
        return total

    def _numbers(self, names: tuple[str, ...], i: int, at: Any) -> Env:
        """Number i of vectors, of rows (rows, 1), of columns (rows or 1, columns)."""
        return {n: self._number(self.row[n], i, at) for n in names}

    def _number(self, array: Any, i: int, at: Any) -> Any:
        if array.ndim == 2:
            return array[:, i : i + 1]
        return of_rows(array[:, at, i], self.n_rows)

    def _total(self, component: Folded | Moving, fold: FoldName, env: Env, at: Any) -> Any:
        names = tuple(n for n in variables(component.lift) if n in self.sweep.vectors)
        if not names:
            return self._of_some(component.lift, component, fold, env, at)
        numbers = [self._of_some(component.lift, component, fold,
                                 {**env, **self._numbers(names, i, at)}, at)
                   for i in range(component.width)]
        return np.concatenate(np.broadcast_arrays(*numbers), axis=-1)

    def _of_some(
        self, lift: Expr, component: Folded | Moving, fold: FoldName, env: Env, at: Any
    ) -> Any:
        """Of those elements alone that contribute: no others are looked at."""
        values = self.whole(self.value(lift, env), at)
        inside = self._inside(env)
        if inside is not None:
            values = np.where(inside, values, values.dtype.type(unit(fold, component.kind)))
        return self._folded(fold, values)

    def _inside(self, env: Env) -> Any:
        first, end = self.sweep.span
        asked = (self.sweep.only, self.sweep.counted)
        tests = [self.value(test, env) for test in asked if test is not None]
        tests += [] if first is None else [env["column"] >= self.value(first, env)]
        tests += [] if end is None else [env["column"] < self.value(end, env)]
        return np.logical_and.reduce(np.broadcast_arrays(*tests)) if tests else None


def of_rows(batches: Any, n_rows: int) -> Any:
    """Of each row its batch's, or the one that there is."""
    count = len(batches)
    return batches if count == 1 else batches[np.arange(n_rows) * count // n_rows]


def inner_step(step: InnerStep, folder: VectorsFolder, env: Env) -> Any:
    """A row value that is a sum over an index, (rows, 1)."""
    names = tuple(n for n in variables(step.value) if n in folder.row and n not in env)
    if not names:  # of fields of states, which are whole vectors
        return np.sum(folder.value(step.value, env), axis=-1, keepdims=True)
    return folder.inner(step.value, names, env, np.arange(0))
