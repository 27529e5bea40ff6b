"""A closed basis merged piece by piece, many short rows at once, in float32.

Row values and elements are the text's own, on as much of the row as has been read; the guard policy
is that of monoid.py. Nothing is lowered: this is what a refusal shows, not what a kernel runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fusegen.algebra.floats.values import Array, Spelled, value
from fusegen.algebra.short_rows import Rows, ShortRows
from fusegen.ir.expr import Expr
from fusegen.ir.monoid import move_name
from fusegen.ir.shared import lazy


@dataclass(frozen=True)
class Chain:
    """The merge e ⊕ A ⊕ B ⊕ … of pieces of a row, for the one sum."""

    short: ShortRows
    spelled: Spelled

    @lazy
    def transport(self) -> list[list[tuple[int, Expr]]]:
        t = self.spelled.closed.transport
        return [[(j, self.spelled.spell(t[k, j])) for j in range(t.shape[1]) if t[k, j] != 0]
                for k in range(t.shape[0])]

    @lazy
    def lifts(self) -> list[Expr]:
        return [self.spelled.spell(h) for h in self.spelled.closed.basis]

    def results(self, rows: Rows, chunk: int = 1) -> Array:
        """What the sum is read out as, by row; NaN where a pivot ends unusable."""
        sums: list[Array] = [np.zeros((len(rows), 1), np.float32)] * len(self.lifts)
        anchors: dict[str, Array] = {}
        env: dict[str, Array] = {}
        with np.errstate(all="ignore"):
            for read in range(chunk, rows.shape[1] + 1, chunk):
                env = self._seen(rows[:, :read])
                old, anchors = anchors, self._anchors(env)
                if old:
                    moves = self._moves(old, anchors)
                    sums = [self._moved(row, sums, env | moves) for row in self.transport]
                last = {n: env[n][:, -chunk:] for n in self._elements}
                here = env | anchors | last
                here |= self.spelled.relative(here)
                sums = [s + _summed(value(h, here), len(rows), chunk)
                        for s, h in zip(sums, self.lifts, strict=True)]
            found = np.where(self._usable(env), self._read(sums, env), np.nan)
        return found[:, 0]

    @lazy
    def _elements(self) -> frozenset[str]:
        return frozenset(s.name for s in self.spelled.setting.elements.values())

    def _seen(self, rows: Rows) -> dict[str, Array]:
        """Elements and row values by the text, on what has been read."""
        names = self.spelled.names()
        found = self.short.values(tuple(names), rows, "float32")
        return dict(zip(names.values(), found, strict=True))

    def _pivots(self) -> dict[str, bool]:
        """Names of the row values that sums are relative to; whether it is a scale."""
        found = {}
        for c in self.spelled.closed.candidate.choices:
            if c.pivot is not None and c.action != "same":
                found[c.pivot.symbol.name] = c.action == "scale"
            if c.unit is not None:
                found[c.unit.symbol.name] = True
        return found

    def _compared(self) -> set[str]:
        """Names of the row values that elements are only compared with."""
        return {c.pivot.symbol.name for c in self.spelled.closed.candidate.choices
                if c.pivot is not None and c.action == "same"} - set(self._pivots())

    def _anchors(self, env: Mapping[str, Array]) -> dict[str, Array]:
        """Where sums are kept: at the row values; at 0, or 1 for a scale, until these are numbers
        that elements can be measured from."""
        placed = {n: np.where(_is_usable(env[n], scale), env[n], np.float32(scale))
                  for n, scale in self._pivots().items()}
        return placed | {n: env[n] for n in self._compared()}

    def _usable(self, env: Mapping[str, Array]) -> Array:
        sound: list[Array] = [_is_usable(env[n], scale) for n, scale in self._pivots().items()]
        return np.asarray(np.all(sound, axis=0) if sound else True)

    def _moves(self, old: Mapping[str, Array], new: Mapping[str, Array]) -> dict[str, Array]:
        """δ = p − q, in its new unit, and ρ = p / q of every pivot, as emitted merges have them."""
        found = {}
        for c in self.spelled.closed.candidate.choices:
            if c.pivot is None:
                continue
            p, unit = c.pivot.symbol.name, c.unit.symbol.name if c.unit else ""
            if c.action == "same":
                found[move_name(p, c.action)] = (old[p] == new[p]).astype(np.float32)
                continue
            move = old[p] / new[p] if c.action == "scale" else old[p] - new[p]
            found[move_name(p, c.action, unit)] = move / new[unit] if unit else move
            if unit:
                found[move_name(unit, "scale")] = old[unit] / new[unit]
        return found

    def _moved(
        self, row: list[tuple[int, Expr]], sums: list[Array], moves: Mapping[str, Array]
    ) -> Array:
        total = np.zeros_like(sums[0]) if sums else np.zeros(1, np.float32)
        for j, factor in row:
            by = value(factor, moves).astype(np.float32)
            empty = (sums[j] == 0) | (by == 0)  # 0 wins, as in monoid.py
            total = total + np.where(empty, np.float32(0), by * sums[j])
        return np.asarray(total)

    def _read(self, sums: list[Array], env: Mapping[str, Array]) -> Array:
        closed, total = self.spelled.closed, np.zeros_like(sums[0])
        for h, c in closed.candidate.terms.items():
            factor = value(self.spelled.spell(c), env).astype(np.float32)
            total = total + factor * sums[closed.basis.index(h)]
        return np.asarray(total)


def _summed(lifts: Array, rows: int, chunk: int) -> Array:
    each = np.broadcast_to(lifts, (rows, chunk)).astype(np.float32)
    return np.asarray(np.sum(each, axis=1, keepdims=True))


def _is_usable(pivot: Array, scale: bool) -> Array:
    return np.asarray(np.isfinite(pivot) & (pivot != 0 if scale else True))
