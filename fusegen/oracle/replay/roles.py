"""Programs of one role, in NumPy: fold (rows → states), merge (states → states), finish.

States are bytes as `ir.state_layout` has them; any other maker of such bytes may take over between
two roles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from fusegen.ir.expr import Expr
from fusegen.ir.kernel import Entries, InnerStep, Kernel, Let, Step
from fusegen.ir.monoid import Monoid
from fusegen.ir.state_layout import StateLayout, state_layout
from fusegen.oracle.replay.rows import ROUNDED, Array, RowsFolder, RowsReplay, balanced
from fusegen.oracle.replay.states import Env, State
from fusegen.oracle.replay.vectors import VectorsFolder, inner_step, of_rows

CHUNK = 4096  # columns folded as the text says before two states merge


class RoleReplay(RowsReplay):
    """Walks the kernel of a fold or a finish. `rows`: arrays by parameter name, as kernels take
    them: (n_rows, n_cols), (n_cols,), vectors, and the fields of states, (n_rows,) or (n_rows, K).
    """

    folder = VectorsFolder

    def __init__(
        self, kernel: Kernel, rows: Mapping[str, Array], n_rows: int, n_cols: int,
        first_column: int = 0,
    ) -> None:
        columns = {p.name for p in kernel.params if p.shape == "per_column"}
        batched = {p.name for p in kernel.params if p.shape == "columns"}
        rows = {n: of_rows(a, n_rows) if n in batched else a for n, a in rows.items()}
        wide = {n: _widened(a[None] if n in columns else a[:, None] if a.ndim == 1 else a, kernel)
                for n, a in rows.items()}
        super().__init__(kernel, wide, n_cols)
        self.env |= {"first_column": first_column, "row": np.arange(n_rows)[:, None]}
        self.env |= {p.name: wide[p.name] for p in kernel.params
                     if p.shape == "row_vector" and p.field and not p.output}

    def results_by_name(self) -> Env:
        """Row values (n_rows, 1) and lists (n_rows, K)."""
        folds = not self.kernel.sweeps[0].monoid.is_empty
        return self.run(balanced(CHUNK) if folds else lambda *_: State())

    def _steps(self, steps: Sequence[Step], lists: Env) -> None:
        for step in steps:
            if isinstance(step, InnerStep):
                folder = VectorsFolder(self.kernel.sweeps[0], self.env, self.row, self.arithmetic)
                self.env[step.name] = inner_step(step, folder, self.env)
            else:
                super()._steps((step,), lists)

    def _listed(self, entries: Entries, value: Expr, lists: Env) -> Any:
        """A list has K entries, however many columns there are."""
        held, columns = lists.get(entries.top) or self._given(entries)
        spare = ((0, 0), (0, entries.k - held.shape[-1]))
        held, columns = np.pad(held, spare), np.pad(columns, spare)
        found = self.value(value, self._entry(entries, held, columns))
        return np.broadcast_to(np.asarray(found), held.shape)

    def _given(self, entries: Entries) -> tuple[Array, Array]:
        """A list that is in memory; of what no result asks for, anything will do."""
        given = [self.row.get(f"{entries.top}_{part}") for part in ("value", "column")]
        there = next(a for a in given if a is not None)
        value, column = (there if a is None else a for a in given)
        return value, column

    def _entry(self, entries: Entries, held: Any, column: Any) -> Env:
        env = {**self.env, f"{entries.top}_value": held, f"{entries.top}_column": column,
               "entry": np.arange(entries.k)}
        for step in entries.steps:
            assert isinstance(step, Let)  # elements cannot be gathered where the row is no more
            env[step.name] = self.value(step.expr, env)
        return env


def _widened(array: Array, kernel: Kernel) -> Array:
    """As kernels load it: floats in their compute type, integers in 64 bits."""
    if array.dtype.kind == "b":
        return array
    compute = kernel.compute.numpy
    return array.astype(np.int64 if array.dtype.kind in "iu" else compute, copy=False)


def merged(kernel: Kernel, states: Array, given: Mapping[str, Array]) -> Array:
    """⊕ of states (count, n_rows, bytes), from the first to the last; of none the identity. given:
    scalars, by name."""
    (sweep,) = kernel.sweeps
    layout = state_layout(sweep.monoid, kernel.compute)
    folder = RowsFolder(sweep, dict(given), {}, ROUNDED[kernel.compute.name])
    parts = [_unpack(one, sweep.monoid, layout) for one in states]
    with np.errstate(all="ignore"):
        total = reduce(folder.merge, parts) if parts else folder.fold(())
    return _pack(total, sweep.monoid, layout, states.shape[1])


def _pack(state: State, monoid: Monoid, layout: StateLayout, n_rows: int) -> Array:
    """Bytes (n_rows, layout.n_bytes) of a state of so many rows."""
    found = np.zeros((n_rows, layout.n_bytes), np.uint8)
    table = found.view(layout.numpy)[:, 0]
    for name, value in state.parts.items():
        table[name][...] = value
    for own, fields in state.own.items():
        for name, value in fields.items():
            table[f"{own}.{name}"][...] = value
    pairs: list[tuple[str, str, Any]] = [
        *((b.value, b.name, state.best[b.name]) for b in monoid.best),
        *((c.value, c.column, state.lists[c.name]) for c in monoid.lists),
    ]
    for values_name, columns_name, pair in pairs:
        table[columns_name][...] = -1
        if pair:  # None, or an empty list: no element yet
            values, columns = pair
            held = columns.shape[-1]
            table[values_name][:, :held] = values
            table[columns_name][:, :held] = columns
    return found


def _unpack(states: Array, monoid: Monoid, layout: StateLayout) -> State:
    """The state of rows, all of which have seen as many columns."""
    table = np.ascontiguousarray(states).view(layout.numpy)[:, 0]
    found = State()
    names = [*(f.name for f in monoid.folded), *(m.name for m in monoid.moving)]
    found.parts = {name: table[name] for name in names}
    found.own = {o.name: {f.name: table[f"{o.name}.{f.name}"] for f in o.operator.fields}
                 for o in monoid.own}
    for b in monoid.best:
        best: Any = (table[b.value], table[b.name])
        found.best[b.name] = best if _held(table[b.name]) else None
    for c in monoid.lists:
        held = _held(table[c.column])
        pair: Any = (table[c.value][:, :held], table[c.column][:, :held])
        found.lists[c.name] = pair if held else []
    return found


def _held(columns: Array) -> int:
    """Entries of which there are any, in every row."""
    return int(np.sum(columns[:1] >= 0))
