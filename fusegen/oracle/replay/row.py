"""A kernel walked over one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fusegen.ir.errors import InternalError
from fusegen.ir.expr import FLOATS, Arithmetic, Expr, evaluate
from fusegen.ir.kernel import Entries, Gather, Kernel, Let, ListFold, Step, Sweep
from fusegen.ir.monoid import Monoid
from fusegen.oracle.replay.states import Env, Folder, State, folded

Split = Callable[[Folder, int], State]
"""Makes the state of a sweep over a row of so many columns, along any tree of merges."""


class RowReplay:
    """Walks a kernel over one row: `make_state(folder, n_cols)` makes each sweep's state."""

    folder: type[Folder] = Folder

    def __init__(
        self, kernel: Kernel, row: Mapping[str, Any], n_cols: int, arithmetic: Arithmetic = FLOATS
    ) -> None:
        self.kernel, self.row, self.n_cols = kernel, row, n_cols
        self.arithmetic = arithmetic
        self.env: Env = {"n_cols": n_cols}
        self.env |= {
            p.name: row[p.name] for p in kernel.params
            if p.shape in ("row", "scalar") and not p.output
        }
        self.results: Env = {}

    def value(self, expr: Expr, env: Env) -> Any:
        return evaluate(expr, env, self.arithmetic)

    def run(self, make_state: Split) -> Env:
        """Outputs by name: arrays for elements and lists, numbers for row values."""
        lists: Env = {}
        with np.errstate(all="ignore"):
            self._steps(self.kernel.prelude, lists)
            for sweep in self.kernel.sweeps:
                folder = self.folder(sweep, self.env, self.row, self.arithmetic)
                state = make_state(folder, self.n_cols)
                lists |= state.lists
                self._finish(sweep.monoid, state)
                self._steps(sweep.steps, lists)
                self._store(sweep, folder, lists)
        return self.results

    def _finish(self, monoid: Monoid, state: State) -> None:
        for name, value in state.parts.items():
            self.env[f"state.{name}"] = value
        for own, fields in state.own.items():
            self.env |= {f"state.{own}.{n}": v for n, v in fields.items()}
        for b in monoid.best:
            pair = state.best[b.name]
            if pair is None:
                raise InternalError(f"{b.name} of an empty row")
            self.env |= {f"state.{b.name}": pair[1], f"state.{b.value}": pair[0]}

    def _steps(self, steps: Sequence[Step], lists: Env) -> None:
        for step in steps:
            match step:
                case Let(name=name, expr=expr):
                    self.env[name] = self.value(expr, self.env)
                case Gather():
                    self.env[step.name] = self._gather(step, self.env)
                case ListFold():
                    values = self._listed(step.entries, step.value, lists)
                    self.env[step.name] = folded(
                        step.fold, values, self.arithmetic, keepdims=self.folder.keepdims
                    )

    def _gather(self, step: Gather, env: Env) -> Any:
        at = int(self.value(step.index, env))
        if not 0 <= at < self.n_cols:
            return np.nan
        inner = {**env, f"{step.name}_at": at, "column": at}
        inner |= {name: self.row[name][at] for name in step.loads}
        for let in step.lets:
            inner[let.name] = self.value(let.expr, inner)
        return self.value(step.value, inner)

    def _listed(self, entries: Entries, value: Expr, lists: Env) -> Any:
        """An expression of every entry of a list."""
        pairs = lists[entries.top]
        return np.array([self.value(value, self._entry(entries, *pair)) for pair in pairs])

    def _entry(self, entries: Entries, held: Any, column: Any) -> Env:
        top = next(c for s in self.kernel.sweeps for c in s.monoid.lists if c.name == entries.top)
        env = {**self.env, top.value: held, top.column: column}
        for step in entries.steps:
            if isinstance(step, Let):
                env[step.name] = self.value(step.expr, env)
            elif isinstance(step, Gather):
                env[step.name] = self._gather(step, env)
        return env

    def _store(self, sweep: Sweep, folder: Folder, lists: Env) -> None:
        for row_store in sweep.row_stores:
            self.results[row_store.param] = self.value(row_store.value, self.env)
        for list_store in sweep.list_stores:
            listed = self._listed(list_store.entries, list_store.value, lists)
            self.results[list_store.param] = listed
        if sweep.element_stores:
            columns = range(self.n_cols)
            env = {**folder.elements(columns), **self.env}
            for store in sweep.element_stores:
                value = self.value(store.value, env)
                self.results[store.param] = folder.whole(value, np.arange(self.n_cols))
