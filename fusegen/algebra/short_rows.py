"""Short rows of small whole numbers, and the text's values on many of them at once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusegen.algebra import exact, numbers
from fusegen.ir import graph as g
from fusegen.ir.kinds import assumed_dtypes
from fusegen.ir.shared import lazy
from fusegen.ir.varying import samples_of
from fusegen.ir.witness import Given, Row, Unit
from fusegen.oracle.reference import evaluate

Rows = NDArray[np.float64]
"""(rows, columns, element inputs), in the unit of the ShortRows."""
Results = NDArray[np.float64]
"""(rows, values of the watched nodes, lists side by side)."""

LONGEST = 64
"""Columns of a row that anybody would check by hand; lists may ask for a million."""

_ORDERED = (g.Fold.ARGMAX, g.Fold.ARGMIN)


@dataclass(frozen=True)
class ShortRows:
    """What `node` needs of its inputs, tried on small rows.

    Element inputs run over multiples of `step` (conditions over 0 and 1) in units of 1 or ln 2;
    per-row and per-column inputs are 1 everywhere (column numbers 0), scalars 1 or −1.
    """

    graph: g.Graph
    node: g.Reduce | g.TopK
    unit: Unit = "1"
    step: Fraction = Fraction(1)

    @lazy
    def needed(self) -> tuple[g.Node, ...]:
        return g.topological((self.node,))

    @lazy
    def elements(self) -> tuple[g.Input, ...]:
        return tuple(
            n for n in self.needed if isinstance(n, g.Input) and n.axis is g.Axis.ELEMENT
        )

    @lazy
    def given(self) -> Given:
        others = (n for n in self.needed if isinstance(n, g.Input) and n not in self.elements)
        return tuple((n.name, self._usual(n)) for n in others)

    def _usual(self, node: g.Input) -> Fraction:
        if node.axis is g.Axis.SCALAR:
            return Fraction(samples_of(node.magnitude)[0])
        return Fraction(self.dtypes[node.name].kind != "int")

    @lazy
    def dtypes(self) -> dict[str, Any]:
        return assumed_dtypes(self.graph, "float64")

    @lazy
    def ordered(self) -> bool:
        """Does the order of the columns matter?"""
        return any(
            isinstance(n, g.Index | g.TopK | g.Take) or (
                isinstance(n, g.Reduce) and n.fold in _ORDERED
            ) for n in self.needed
        )

    def shortest_of(self, node: g.Node) -> int:
        """Columns that the node needs at least: K for a top-K."""
        return max((n.k for n in g.topological((node,)) if isinstance(n, g.TopK)), default=1)

    def rows(self, length: int, radius: int, at_most: int, ordered: bool | None = None) -> Rows:
        """Rows of this length over −radius … radius, smallest first; of a smaller radius, or none,
        where there would be too many. ordered: all orders of the columns, not one of each."""
        ordered = self.ordered if ordered is None else ordered
        for r in range(radius, 0, -1):  # the greatest radius whose rows are few enough
            whole = [float(self.step * v) for v in range(-r, r + 1)]
            values = [
                (0.0, 1.0) if self.dtypes[i.name].kind == "bool" else whole for i in self.elements
            ]
            places = list(itertools.product(*values))
            n = len(places)
            if (n**length if ordered else comb(n + length - 1, length)) <= at_most:
                break
        else:
            return np.empty((0, length, len(self.elements)))
        made = (
            itertools.product(places, repeat=length) if ordered
            else itertools.combinations_with_replacement(places, length)
        )
        found = np.array(list(made)).reshape(-1, length, len(self.elements))
        return _smallest_first(found)

    def rising(self, length: int, at_most: int) -> Rows:
        """Rows of different values in rising order, the same in every input; smallest first."""
        radius = max(3, length)
        values = [float(self.step * v) for v in range(-radius, radius + 1)]
        made = itertools.islice(itertools.combinations(values, length), at_most)
        found = np.array(list(made)).reshape(-1, length, 1)
        return _smallest_first(np.repeat(found, len(self.elements), axis=2))

    def values(
        self, watched: tuple[g.Node, ...], rows: Rows, width: str = "float64"
    ) -> list[NDArray[Any]]:
        """The watched nodes' values by the reference, computed in float32 or float64."""
        count, n_cols = rows.shape[:2]
        scale = log(2) if self.unit == "ln 2" else 1
        inputs: dict[str, Any] = {
            i.name: rows[:, :, k] * (1 if self.dtypes[i.name].kind == "bool" else scale)
            for k, i in enumerate(self.elements)
        }
        inputs |= {name: np.full((1, 1), float(value)) for name, value in self.given}
        nodes = g.topological(watched)
        cut = replace(
            self.graph, outputs=watched, nodes=nodes,
            inputs=g.arrays_in(nodes),
        )
        kind = np.float32 if width == "float32" else np.float64
        found = map(np.atleast_1d, evaluate(cut, inputs, self.dtypes, n_cols, kind))
        return [
            np.broadcast_to(f, (count, n_cols if g.extent(n) is g.Extent.ELEMENT else f.shape[-1]))
            for n, f in zip(watched, found, strict=True)
        ]

    def exactly(self, watched: tuple[g.Node, ...], row: Row) -> list[exact.Values]:
        """The watched nodes' values in exact arithmetic. Raises numbers.Outside."""
        scale = numbers.LN2 if self.unit == "ln 2" else Fraction(1)
        inputs: dict[str, exact.Values] = {
            name: [v != 0 for v in values] if self.dtypes[name].kind == "bool"
            else [v * scale for v in values]
            for name, values in row.values
        }
        return exact.evaluate(watched, {**inputs, **dict(self.given)}, len(row))

    def row(self, values: Rows) -> Row:
        """One of the rows, as data."""
        return Row(
            tuple((e.name, tuple(Fraction(float(v)) for v in values[:, k]))
                  for k, e in enumerate(self.elements)),
            self.unit,
        )


def _smallest_first(rows: Rows) -> Rows:
    size = np.abs(rows)
    return rows[np.lexsort((size.sum((1, 2)), size.max((1, 2))))]
