"""How far a merged sum may be off, row by row.

4 × the worst error that a schedule of the safe text has there, and 16 units in the last place of
Σ|terms|; where terms of both signs meet, of what the text's own rounding is in proportion to. Of
sums about another pivot than the text's, Σ|terms| on that row or on one as far beside it as a mean
rounds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fusegen.ir import graph as g
from fusegen.oracle.bank import Bank

from .float_oracle import UNIT, Array, Reading, Shaken, magnitude, quantum, schedules

SAFE, UNITS, MOST = 4.0, 16.0, 3.4e38


@dataclass(frozen=True, slots=True)
class Worst:
    """The worst row of one sum: its error over what is allowed there; `rows`: how many of those
    executed say anything, for the text has a value there that float32 can hold."""

    excess: float = 0.0
    tree: str = ""
    row: str = ""
    merged: float = 0.0
    text: float = 0.0
    rows: int = 0

    def __str__(self) -> str:
        return f"{self.excess:.3g} ({self.tree}; {self.row}): {self.merged:.6g} for {self.text:.6g}"

    def beside(self, other: Worst) -> Worst:
        """The worse of both, over the rows of both."""
        worse = other if other.excess > self.excess else self
        return replace(worse, rows=self.rows + other.rows)


class Text:
    """What the text says on the rows of a bank, and how far off it may be."""

    def __init__(
        self, graph: g.Graph, sums: list[str], bank: Bank, result: float = 0.0,
        moved: Collection[str] = (),
    ) -> None:
        """`moved`: sums that are kept about another pivot than the text's."""
        self.bank = bank
        right = Reading(graph, bank.inputs, bank.n_cols)
        shaken = Shaken(right, graph)
        others = list(schedules(graph, bank.inputs, bank.n_cols))
        self.known = {}
        for name in sums:
            node = graph[name]
            assert isinstance(node, g.Reduce)
            want = _column(right.values[node], bank)
            with np.errstate(all="ignore"):
                errors = [np.abs(_column(o[node], bank) - want) for o in others]
                first = errors[0]
                size, noise = _size(node, right, shaken if name in moved else None)
                allowed = SAFE * np.fmax.reduce(errors) + UNITS * 2 * UNIT * size
                allowed += 8 * bank.n_cols * 2.0**-126 + result * np.abs(want)
                judged = np.isfinite(want) & (first <= size / 64 + 2.0**-120)
                judged &= size < min(5e36, MOST / (4 * bank.n_cols))  # Σ (x / s) is (Σ x) / s
                for row in g.reductions_of(node.arg):  # it leaves the range of float32
                    judged &= np.isfinite(_column(others[0][row], bank))
                special, unusable = _beyond(node, right, others, bank)
                excused = noise | unusable if _chooses(node.arg) else noise
            # What rounding is in proportion to may be NaN beside an infinity: a number will do.
            allowed = np.where(special & ~np.isfinite(allowed), np.inf, allowed)
            self.known[name] = want, allowed, judged | special, excused

    def worst(self, name: str, merged: Array, tree: str) -> Worst:
        want, allowed, judged, excused = self.known[name]
        got = _column(merged, self.bank)
        with np.errstate(all="ignore"):
            error = np.where(np.isfinite(got), np.abs(got - want) / allowed, np.inf)
            error = np.where(excused & ~np.isfinite(got), 0, error)
        excess = np.where(judged, error, 0)
        k = int(np.argmax(excess))
        return Worst(float(excess[k]), tree, self.bank.label(k), float(got[k]), float(want[k]),
                     int(judged.sum()))


def _chooses(term: g.Node) -> bool:
    """May a condition, or a bound, leave out what is NaN where a row value is not usable? That
    docs/special_values.md excepts; not of terms that ask for infinities by themselves."""
    ops = {n.op for n in g.topological((term,)) if isinstance(n, g.Map)}
    return bool(ops & {"where", "maximum", "minimum"}) and "isinf" not in ops


def _beyond(
    node: g.Reduce, right: Reading, others: Sequence[Mapping[g.Node, Array]], bank: Bank
) -> tuple[Array, Array]:
    """Rows with an infinity on which the text has a number, however it is added up; those of them
    on which a row value of the sum has none."""
    finite = [np.isfinite(a).all(axis=1) for a in bank.inputs.values()]
    special = ~np.all(np.broadcast_arrays(*finite), axis=0)
    unusable = np.zeros(len(bank), np.bool_)
    for values in (right.values, *others):
        special = special & np.isfinite(_column(values[node], bank))
    for row in g.reductions_of(node.arg):
        there = np.isfinite(_column(right.values[row], bank))
        special = special & (there == np.isfinite(_column(others[0][row], bank)))
        unusable |= ~there
    return special, special & unusable


def _size(node: g.Reduce, right: Reading, shaken: Shaken | None) -> tuple[Array, Array]:
    """What the rounding of a sum is in proportion to, and where it is nothing but rounding; shaken:
    where it is kept about another pivot."""
    terms = right.whole(right.values[node.arg])
    whole = size = np.abs(terms).sum(axis=1)
    if shaken is not None:
        near = np.abs(right.whole(shaken.values[node.arg])).sum(axis=1)
        size = np.maximum(size, near)  # NaN where that leaves the range
    mixed = (terms.max(axis=1) > 0) & (terms.min(axis=1) < 0)
    own = right.whole(magnitude(right, node.arg)).sum(axis=1)
    # Terms that are all rounding have no sign.
    size = np.where(mixed | (2 * UNIT * own >= whole), np.maximum(own, size), size)
    # Its row value is what is left of terms that cancel, and may as well be 0.
    noise = UNITS * 2 * UNIT * own >= whole
    size = size + right.whole(magnitude(right, node.arg, quantum)).sum(axis=1)
    return size / right.n_cols if node.fold is g.Fold.MEAN else size, noise


def _column(values: Any, bank: Bank) -> Array:
    return np.broadcast_to(np.asarray(values, np.float64), (len(bank), 1))[:, 0]
