"""A program's merged operators in NumPy float64, one row at a time, by monoid.py's own words.

An independent second reading of the kernel IR: states of pieces of a row are made, merged in any
order, and read out. Used by `fg.check` and by tests; nothing is shared with the emitters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from fusegen.errors import InternalError
from fusegen.expr import Lit, Var, evaluate
from fusegen.kernel import Entries, Gather, Kernel, Let, ListFold, Step, Sweep
from fusegen.monoid import FoldName, KBest, Monoid, Moving, Own, Pivot

Env = dict[str, Any]
Columns = Sequence[int]

_FOLDS: dict[FoldName, Callable[[Any], Any]] = {
    "max": np.max,
    "min": np.min,
    "sum": np.sum,
    "prod": np.prod,
}
_UNITS: dict[FoldName, float] = {"max": -np.inf, "min": np.inf, "sum": 0.0, "prod": 1.0}


@dataclass
class State:
    """A value of the merged monoid: components, best pairs and lists of (value, column)."""

    parts: Env = field(default_factory=dict)
    best: dict[str, tuple[Any, int] | None] = field(default_factory=dict)
    own: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    lists: dict[str, list[tuple[Any, int]]] = field(default_factory=dict)


def rank(pair: tuple[Any, int], *, largest: bool = True) -> tuple[Any, ...]:
    """Sorts best first: NaN, then the greater (or lesser) value, then the lower column."""
    value, column = pair
    return (value == value, -value if largest else value, column)


class Folder:
    """Folds pieces of one row for one sweep, and merges their states."""

    def __init__(self, sweep: Sweep, env: Env, row: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.sweep, self.monoid, self.env = sweep, sweep.monoid, env
        self.row = row

    def elements(self, columns: Columns) -> Env:
        """Element scope over some columns: loads, column numbers, lets."""
        at = np.asarray(columns, np.int64)
        env = {**self.env, "column": at}
        env |= {name: self.row[name][at] for name in self.sweep.loads}
        for let in self.sweep.lets:
            env[let.name] = evaluate(let.expr, env)
        return env

    def fold(self, columns: Columns) -> State:
        """The state of a piece: the text as written inside, pivots where the piece puts them."""
        if len(columns) == 0:
            return self._identity()
        m, env, state = self.monoid, self.elements(columns), State()
        at = np.asarray(columns, np.int64)
        for f in m.folded:
            state.parts[f.name] = _FOLDS[f.fold](_whole(evaluate(f.lift, env), at))
        for b in m.best:
            pairs = zip(_whole(evaluate(b.lift, env), at), at, strict=True)
            state.best[b.name] = min(pairs, key=lambda p: rank(p, largest=b.largest))
        for c in m.lists:
            held = list(zip(_whole(evaluate(c.lift, env), at), at, strict=True))
            state.lists[c.name] = sorted(held, key=rank)[: c.k]
        state.own = {c.name: self._fold_own(c, env, at) for c in m.own}
        for level in m.levels:
            for p in level.pivots:
                env[p.anchor] = _anchor(p, state.parts)
            known = {p.name for p in level.pivots}
            for r in (r for r in m.relatives if r.pivot in known):
                env[r.name] = evaluate(m.relative(r, lambda n: Var(m.pivot(n).anchor)), env)
            for v in level.moving:
                state.parts[v.name] = np.sum(_whole(evaluate(v.lift, env), at))
        return state

    @staticmethod
    def _fold_own(own: Own, env: Env, at: Any) -> Mapping[str, Any]:
        """lift(x₀) ⊕ lift(x₁) ⊕ …, in the order of the columns."""
        fields = own.operator.fields
        lifted = [_whole(evaluate(e, env), at) for e in own.lifts]
        states = [
            {f.name: v[i] for f, v in zip(fields, lifted, strict=True)} for i in range(len(at))
        ]
        return reduce(lambda a, b: own.operator.merge(a, b, evaluate), states)

    def _identity(self) -> State:
        m = self.monoid
        state = State({f.name: _UNITS[f.fold] for f in m.folded})
        state.parts |= {v.name: 0.0 for v in m.moving}
        state.best = {b.name: None for b in m.best}
        state.own = {c.name: c.operator.identity for c in m.own}
        state.lists = {c.name: [] for c in m.lists}
        return state

    def merge(self, a: State, b: State) -> State:
        """a ⊕ b."""
        m, new = self.monoid, State()
        for f in m.folded:
            new.parts[f.name] = _FOLDS[f.fold]([a.parts[f.name], b.parts[f.name]])
        for level in m.levels:
            for v in level.moving:
                new.parts[v.name] = self._moved(v, a, new) + self._moved(v, b, new)
        for c in m.best:
            pairs = [p for p in (a.best[c.name], b.best[c.name]) if p is not None]
            new.best[c.name] = min(pairs, key=lambda p: rank(p, largest=c.largest), default=None)
        for o in m.own:
            new.own[o.name] = o.operator.merge(a.own[o.name], b.own[o.name], evaluate)
        for k in m.lists:
            new.lists[k.name] = sorted(a.lists[k.name] + b.lists[k.name], key=rank)[: k.k]
        return new

    def _moved(self, moving: Moving, old: State, new: State) -> Any:
        """One row of T(old → new) applied to the old sums."""
        env: Env = {}
        for name in moving.pivots:
            p = self.monoid.pivot(name)
            move = p.moved(lambda n: Lit(_anchor(self.monoid.pivot(n), old.parts)),
                           lambda n: Lit(_anchor(self.monoid.pivot(n), new.parts)))  # fmt: skip
            env[p.move] = evaluate(move, {})
        return evaluate(self.monoid.transported(moving, lambda n: Lit(old.parts[n])), env)


def _anchor(pivot: Pivot, parts: Env) -> Any:
    value = evaluate(pivot.value, parts)
    if pivot.action == "same":
        return value
    usable = np.isfinite(value) and (pivot.action == "shift" or value != 0)
    return value if usable else (0.0 if pivot.action == "shift" else 1.0)


def _whole(value: Any, columns: Any) -> Any:
    """A lift as an array, also where it is the same for every element."""
    return np.broadcast_to(np.asarray(value), columns.shape)


class RowReplay:
    """Walks a kernel over one row: `split(folder, n_cols)` makes each sweep's state."""

    def __init__(self, kernel: Kernel, row: Mapping[str, Any], n_cols: int) -> None:
        self.kernel, self.row, self.n_cols = kernel, row, n_cols
        self.env: Env = {"n_cols": n_cols}
        self.env |= {
            p.name: row[p.name] for p in kernel.params if p.shape == "row" and not p.output
        }
        self.results: Env = {}

    def run(self, make_state: Any) -> Env:
        """Outputs by name: arrays for elements and lists, numbers for row values."""
        lists: dict[str, list[tuple[Any, int]]] = {}
        with np.errstate(all="ignore"):
            self._steps(self.kernel.prelude, lists)
            for sweep in self.kernel.sweeps:
                folder = Folder(sweep, self.env, self.row)
                state: State = make_state(folder, self.n_cols)
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

    def _steps(self, steps: Sequence[Step], lists: Mapping[str, list[tuple[Any, int]]]) -> None:
        for step in steps:
            match step:
                case Let(name=name, expr=expr):
                    self.env[name] = evaluate(expr, self.env)
                case Gather():
                    self.env[step.name] = self._gather(step, self.env)
                case ListFold():
                    entries = self._entries(step.entries, lists)
                    values = [evaluate(step.value, env) for env in entries]
                    self.env[step.name] = _FOLDS[step.fold](values)

    def _gather(self, step: Gather, env: Env) -> Any:
        at = int(evaluate(step.index, env))
        if not 0 <= at < self.n_cols:
            return np.nan
        inner = {**env, f"{step.name}_at": at, "column": at}
        inner |= {name: self.row[name][at] for name in step.loads}
        for let in step.lets:
            inner[let.name] = evaluate(let.expr, inner)
        return evaluate(step.value, inner)

    def _entries(self, entries: Entries, lists: Mapping[str, list[tuple[Any, int]]]) -> list[Env]:
        best = next(c for s in self.kernel.sweeps for c in s.monoid.lists if c.name == entries.top)
        return [self._entry(best, entries, pair) for pair in lists[entries.top]]

    def _entry(self, best: KBest, entries: Entries, pair: tuple[Any, int]) -> Env:
        env = {**self.env, best.value: pair[0], best.column: pair[1]}
        for step in entries.steps:
            if isinstance(step, Let):
                env[step.name] = evaluate(step.expr, env)
            else:
                env[step.name] = self._gather(step, env)
        return env

    def _store(
        self, sweep: Sweep, folder: Folder, lists: Mapping[str, list[tuple[Any, int]]]
    ) -> None:
        for row_store in sweep.row_stores:
            self.results[row_store.param] = evaluate(row_store.value, self.env)
        for list_store in sweep.list_stores:
            entries = self._entries(list_store.entries, lists)
            self.results[list_store.param] = np.array(
                [evaluate(list_store.value, e) for e in entries]
            )
        if sweep.element_stores:
            columns = range(self.n_cols)
            env = {**folder.elements(columns), **self.env}
            for store in sweep.element_stores:
                value = evaluate(store.value, env)
                self.results[store.param] = _whole(value, np.arange(self.n_cols))
