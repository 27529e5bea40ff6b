"""A program's merged operators on numbers, one row at a time, by monoid.py's own words.

An independent second reading of the kernel IR: states of pieces of a row are made, merged in any
order, and read out, in float64 or in as many digits as wanted (fusegen.precise). Used by `fg.check`
and by tests; nothing is shared with the emitters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from fusegen.errors import InternalError
from fusegen.expr import FLOATS, Arithmetic, Expr, Lit, Var, evaluate
from fusegen.kernel import Entries, Gather, Kernel, Let, ListFold, Step, Sweep
from fusegen.monoid import FoldName, KBest, Monoid, Moving, Own, Pivot

Env = dict[str, Any]
Columns = Sequence[int]
Pairs = list[tuple[Any, int]]
"""(value, column), best first."""

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
    lists: dict[str, Pairs] = field(default_factory=dict)
    own: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def rank(pair: tuple[Any, int], *, largest: bool = True) -> tuple[Any, ...]:
    """Sorts best first: NaN, then the greater (or lesser) value, then the lower column."""
    value, column = pair
    if value != value:
        return (False, 0, column)
    return (True, -value if largest else value, column)


def first_of_both(a: Pairs, b: Pairs, k: int) -> Pairs:
    """The first k of two lists that are in order, as kernels merge them: head by head."""
    merged: Pairs = []
    i = j = 0
    while len(merged) < k and (i < len(a) or j < len(b)):
        if j == len(b) or (i < len(a) and rank(a[i]) < rank(b[j])):
            merged.append(a[i])
            i += 1
        else:
            merged.append(b[j])
            j += 1
    return merged


class Folder:
    """Folds pieces of one row for one sweep, and merges their states."""

    def __init__(
        self, sweep: Sweep, env: Env, row: Mapping[str, np.ndarray[Any, Any]],
        arithmetic: Arithmetic = FLOATS,
    ) -> None:  # fmt: skip
        self.sweep, self.monoid, self.env = sweep, sweep.monoid, env
        self.row, self.arithmetic = row, arithmetic

    def value(self, expr: Expr, env: Env) -> Any:
        return evaluate(expr, env, self.arithmetic)

    def call(self, op: str, *args: Any) -> Any:
        return self.arithmetic.functions[op](*args)

    def elements(self, columns: Columns) -> Env:
        """Element scope over some columns: loads, column numbers, lets."""
        at = np.asarray(columns, np.int64)
        env = {**self.env, "column": at}
        env |= {name: self.row[name][at] for name in self.sweep.loads}
        for let in self.sweep.lets:
            env[let.name] = self.value(let.expr, env)
        return env

    def fold(self, columns: Columns) -> State:
        """The state of a piece: the text as written inside, pivots where the piece puts them."""
        if len(columns) == 0:
            return self._identity()
        m, env, state = self.monoid, self.elements(columns), State()
        at = np.asarray(columns, np.int64)
        for f in m.folded:
            state.parts[f.name] = _FOLDS[f.fold](_whole(self.value(f.lift, env), at))
        for b in m.best:
            pairs = zip(_whole(self.value(b.lift, env), at), at, strict=True)
            state.best[b.name] = min(pairs, key=lambda p: rank(p, largest=b.largest))
        for c in m.lists:
            held = list(zip(_whole(self.value(c.lift, env), at), at, strict=True))
            state.lists[c.name] = sorted(held, key=rank)[: c.k]
        state.own = {c.name: self._fold_own(c, env, at) for c in m.own}
        for level in m.levels:
            for p in level.pivots:
                env[p.anchor] = self._anchor(p, state.parts)
            known = {p.name for p in level.pivots}
            for r in (r for r in m.relatives if r.pivot in known):
                env[r.name] = self.value(m.relative(r, lambda n: Var(m.pivot(n).anchor)), env)
            for v in level.moving:
                state.parts[v.name] = np.sum(_whole(self.value(v.lift, env), at))
        return state

    def _fold_own(self, own: Own, env: Env, at: Any) -> Mapping[str, Any]:
        """lift(x₀) ⊕ lift(x₁) ⊕ …, in the order of the columns."""
        fields = own.operator.fields
        lifted = [_whole(self.value(e, env), at) for e in own.lifts]
        states = [
            {f.name: v[i] for f, v in zip(fields, lifted, strict=True)} for i in range(len(at))
        ]
        return reduce(lambda a, b: own.operator.merge(a, b, self.value), states)

    def _identity(self) -> State:
        m = self.monoid
        state = State({f.name: _UNITS[f.fold] for f in m.folded})
        state.parts |= {v.name: 0.0 for v in m.moving}
        state.best = {b.name: None for b in m.best}
        state.own = {
            c.name: {f.name: self.value(f.identity, {}) for f in c.operator.fields} for c in m.own
        }
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
            new.own[o.name] = o.operator.merge(a.own[o.name], b.own[o.name], self.value)
        for k in m.lists:
            new.lists[k.name] = first_of_both(a.lists[k.name], b.lists[k.name], k.k)
        return new

    def _moved(self, moving: Moving, old: State, new: State) -> Any:
        """One row of T(old → new) applied to the old sums."""
        env: Env = {}
        for name in moving.pivots:
            p = self.monoid.pivot(name)
            move = p.moved(lambda n: self._anchored(n, old), lambda n: self._anchored(n, new))
            env[p.move] = self.value(move, {})
        env |= {f"old.{n}": v for n, v in old.parts.items()}
        return self.value(self.monoid.transported(moving, "old"), env)

    def _anchored(self, name: str, state: State) -> Lit:
        return Lit(self._anchor(self.monoid.pivot(name), state.parts))

    def _anchor(self, pivot: Pivot, parts: Env) -> Any:
        value = self.value(pivot.value, parts)
        if pivot.action == "same":
            return value
        usable = self.call("isfinite", value) and (pivot.action == "shift" or value != 0)
        return value if usable else (0.0 if pivot.action == "shift" else 1.0)


def _whole(value: Any, columns: Any) -> Any:
    """A lift as an array, also where it is the same for every element."""
    return np.broadcast_to(np.asarray(value), columns.shape)


class RowReplay:
    """Walks a kernel over one row: `split(folder, n_cols)` makes each sweep's state."""

    def __init__(
        self, kernel: Kernel, row: Mapping[str, Any], n_cols: int, arithmetic: Arithmetic = FLOATS
    ) -> None:
        self.kernel, self.row, self.n_cols = kernel, row, n_cols
        self.arithmetic = arithmetic
        self.env: Env = {"n_cols": n_cols}
        self.env |= {
            p.name: row[p.name] for p in kernel.params if p.shape == "row" and not p.output
        }
        self.results: Env = {}

    def value(self, expr: Expr, env: Env) -> Any:
        return evaluate(expr, env, self.arithmetic)

    def run(self, make_state: Any) -> Env:
        """Outputs by name: arrays for elements and lists, numbers for row values."""
        lists: dict[str, Pairs] = {}
        with np.errstate(all="ignore"):
            self._steps(self.kernel.prelude, lists)
            for sweep in self.kernel.sweeps:
                folder = Folder(sweep, self.env, self.row, self.arithmetic)
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

    def _steps(self, steps: Sequence[Step], lists: Mapping[str, Pairs]) -> None:
        for step in steps:
            match step:
                case Let(name=name, expr=expr):
                    self.env[name] = self.value(expr, self.env)
                case Gather():
                    self.env[step.name] = self._gather(step, self.env)
                case ListFold():
                    entries = self._entries(step.entries, lists)
                    values = [self.value(step.value, env) for env in entries]
                    self.env[step.name] = _FOLDS[step.fold](values)

    def _gather(self, step: Gather, env: Env) -> Any:
        at = int(self.value(step.index, env))
        if not 0 <= at < self.n_cols:
            return np.nan
        inner = {**env, f"{step.name}_at": at, "column": at}
        inner |= {name: self.row[name][at] for name in step.loads}
        for let in step.lets:
            inner[let.name] = self.value(let.expr, inner)
        return self.value(step.value, inner)

    def _entries(self, entries: Entries, lists: Mapping[str, Pairs]) -> list[Env]:
        best = next(c for s in self.kernel.sweeps for c in s.monoid.lists if c.name == entries.top)
        return [self._entry(best, entries, pair) for pair in lists[entries.top]]

    def _entry(self, best: KBest, entries: Entries, pair: tuple[Any, int]) -> Env:
        env = {**self.env, best.value: pair[0], best.column: pair[1]}
        for step in entries.steps:
            if isinstance(step, Let):
                env[step.name] = self.value(step.expr, env)
            else:
                env[step.name] = self._gather(step, env)
        return env

    def _store(
        self, sweep: Sweep, folder: Folder, lists: Mapping[str, Pairs]
    ) -> None:
        for row_store in sweep.row_stores:
            self.results[row_store.param] = self.value(row_store.value, self.env)
        for list_store in sweep.list_stores:
            entries = self._entries(list_store.entries, lists)
            self.results[list_store.param] = np.array(
                [self.value(list_store.value, e) for e in entries]
            )
        if sweep.element_stores:
            columns = range(self.n_cols)
            env = {**folder.elements(columns), **self.env}
            for store in sweep.element_stores:
                value = self.value(store.value, env)
                self.results[store.param] = _whole(value, np.arange(self.n_cols))
