"""States of pieces of one row, made and merged by monoid.py's own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, assert_never

import numpy as np

from fusegen.ir.dtypes import Kind
from fusegen.ir.errors import InternalError
from fusegen.ir.expr import FLOATS, Arithmetic, Expr, Var, compiled
from fusegen.ir.kernel import FromMemory, FromVectors, Source, Sweep
from fusegen.ir.monoid import Best, Folded, FoldName, KBest, Moving, Own, Pivot
from fusegen.ir.ops import OPS

Env = dict[str, Any]
Columns = Sequence[int]
Pairs = list[tuple[Any, int]]
"""(value, column), best first."""

FOLDS: dict[FoldName, str] = {"max": "maximum", "min": "minimum", "sum": "add", "prod": "mul"}
"""Operations of which they are made: in any arithmetic, NaN wins a maximum."""

_UNITS: dict[FoldName, float] = {"max": -np.inf, "min": np.inf, "sum": 0.0, "prod": 1.0}
_WHOLE_UNITS: dict[FoldName, int] = {
    "max": -(2**63), "min": 2**63 - 1, "sum": 0, "prod": 1,
}


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
    plain = value.item() if isinstance(value, np.generic) else value  # conditions have no minus
    return (True, -plain if largest else +plain, column)


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

    keepdims = False  # of folds over columns: a row value is a number

    def __init__(
        self, sweep: Sweep, env: Env, row: Mapping[str, np.ndarray[Any, Any]],
        arithmetic: Arithmetic = FLOATS,
    ) -> None:
        self.sweep, self.monoid, self.env = sweep, sweep.monoid, env
        self.row, self.arithmetic = row, arithmetic
        self.levels = self.monoid.levels
        self.moves = {v.name: self.monoid.transported(v, "old") for v in self.monoid.moving}
        self.moved = {
            p.name: p.moved(lambda n: Var(f"start.{n}"), lambda n: Var(f"end.{n}"))
            for p in self.monoid.pivots
        }
        self.relative = {
            r.name: self.monoid.relative(r, lambda n: Var(self.monoid.pivot(n).anchor))
            for r in self.monoid.relatives
        }
        self._functions: dict[int, tuple[Expr, Callable[[Env], Any]]] = {}

    def value(self, expr: Expr, env: Env) -> Any:
        found = self._functions.get(id(expr))
        if found is None:  # the expression is held, so that its number stays its own
            found = self._functions[id(expr)] = expr, compiled(expr, self.arithmetic)
        return found[1](env)

    def call(self, op: str, *args: Any) -> Any:
        return self.arithmetic.functions[op](*args)

    def elements(self, columns: Columns) -> Env:
        """Element scope over some columns: loads, column numbers, lets."""
        at = np.asarray(columns, np.int64)
        env = {**self.env, "column": at}
        env |= {source.name: self._items(source, at) for source in self.sweep.loads}
        for let in self.sweep.lets:
            env[let.name] = self.value(let.expr, env)
        return env

    def _items(self, source: Source, at: Any) -> Any:
        """The items of a source at these columns."""
        match source:
            case FromMemory(param=param):
                return self.row[param][..., at]
            case FromVectors(name=name):
                raise InternalError(f"{name}: replays are of texts without vectors")
            case _:
                assert_never(source)

    def fold(self, columns: Columns) -> State:
        """The state of a piece: the text as written inside, pivots where the piece puts them."""
        if len(columns) == 0:
            return self._identity()
        m, env, state = self.monoid, self.elements(columns), State()
        at = np.asarray(columns, np.int64)

        def lifted(expr: Expr) -> Any:
            return self.whole(self.value(expr, env), at)

        for f in m.folded:
            state.parts[f.name] = self._total(f, f.fold, env, at)
        state.best = {b.name: self._best_of(b, lifted(b.lift), at) for b in m.best}
        state.lists = {c.name: self._first_of(c, lifted(c.lift), at) for c in m.lists}
        state.own = {c.name: self._own_of(c, [lifted(e) for e in c.lifts], at) for c in m.own}
        for level in self.levels:
            for p in level.pivots:
                env[p.anchor] = self._anchor(p, state.parts)
            known = {p.name for p in level.pivots}
            for r in (r for r in m.relatives if r.pivot in known):
                env[r.name] = self.value(self.relative[r.name], env)
            for v in level.moving:
                state.parts[v.name] = self._total(v, "sum", env, at)
        return state

    def whole(self, value: Any, at: Any) -> Any:
        """A lift as an array, also where it is the same for every element."""
        return np.broadcast_to(np.asarray(value), at.shape)

    def _total(self, component: Folded | Moving, fold: FoldName, env: Env, at: Any) -> Any:
        """What a component holds of elements at these columns."""
        return self._folded(fold, self.whole(self.value(component.lift, env), at))

    def _folded(self, fold: FoldName, values: Any) -> Any:
        return folded(fold, values, self.arithmetic, keepdims=self.keepdims)

    def _best_of(self, best: Best, values: Any, at: Any) -> Any:
        return min(zip(values, at, strict=True), key=lambda p: rank(p, largest=best.largest))

    def _first_of(self, top: KBest, values: Any, at: Any) -> Any:
        return sorted(zip(values, at, strict=True), key=rank)[: top.k]

    def _own_of(self, own: Own, lifted: list[Any], at: Any) -> Mapping[str, Any]:
        """lift(x₀) ⊕ lift(x₁) ⊕ …, in the order of the columns."""
        fields = own.operator.fields
        states = [
            {f.name: self._column(v, i) for f, v in zip(fields, lifted, strict=True)}
            for i in range(len(at))
        ]
        return reduce(lambda a, b: own.operator.merge(a, b, self.value), states)

    def _column(self, values: Any, i: int) -> Any:
        return values[i]

    def _identity(self) -> State:
        m = self.monoid
        state = State({f.name: unit(f.fold, f.kind) for f in m.folded})
        state.parts |= {v.name: unit("sum", v.kind) for v in m.moving}
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
            new.parts[f.name] = self.call(FOLDS[f.fold], a.parts[f.name], b.parts[f.name])
        at_a: Env = {}  # where the pivots stand
        at_b: Env = {}
        at_new: Env = {}
        for level in self.levels:
            for p in level.pivots:
                for place, state in ((at_a, a), (at_b, b), (at_new, new)):
                    place[p.name] = self._anchor(p, state.parts)
            for v in level.moving:
                new.parts[v.name] = self._moved(v, a, at_a, at_new) + self._moved(
                    v, b, at_b, at_new
                )
        for c in m.best:
            new.best[c.name] = self._better(c, a.best[c.name], b.best[c.name])
        for o in m.own:
            new.own[o.name] = o.operator.merge(a.own[o.name], b.own[o.name], self.value)
        for k in m.lists:
            new.lists[k.name] = self._first(k, a.lists[k.name], b.lists[k.name])
        return new

    def _better(self, best: Best, a: Any, b: Any) -> Any:
        pairs = [p for p in (a, b) if p is not None]
        return min(pairs, key=lambda p: rank(p, largest=best.largest), default=None)

    def _first(self, top: KBest, a: Any, b: Any) -> Any:
        return first_of_both(a, b, top.k)

    def _moved(self, moving: Moving, old: State, start: Env, end: Env) -> Any:
        """One row of T(old → new) applied to the old sums."""
        places: Env = {f"start.{n}": v for n, v in start.items()}
        places |= {f"end.{n}": v for n, v in end.items()}
        env: Env = {**self.env, **{f"old.{n}": v for n, v in old.parts.items()}}
        for name in moving.pivots:
            env[self.monoid.pivot(name).move] = self.value(self.moved[name], places)
        return self.value(self.moves[moving.name], env)

    def _anchor(self, pivot: Pivot, parts: Env) -> Any:
        value = self.value(pivot.value, parts)
        if pivot.action == "same":
            return value
        usable = self.call("isfinite", value)
        if pivot.action == "scale":
            usable = self.call("and", usable, self.call("ne", value, 0.0))
        return self.call("where", usable, value, 0.0 if pivot.action == "shift" else 1.0)


def folded(
    fold: FoldName, values: Any, arithmetic: Arithmetic, *, keepdims: bool = False
) -> Any:
    """Over the last axis."""
    if values.dtype == object:  # whose NaN and whose integers NumPy does not know
        join: Any = arithmetic.functions[FOLDS[fold]]
        return join.reduce(values, axis=-1, keepdims=keepdims)
    return OPS[FOLDS[fold]].numpy.reduce(values, axis=-1, keepdims=keepdims)  # type: ignore[attr-defined]


def unit(fold: FoldName, kind: Kind) -> float | int:
    """What a fold makes of no elements."""
    return _UNITS[fold] if kind == "float" else _WHOLE_UNITS[fold]
