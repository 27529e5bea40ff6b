"""Orders tried in the kernel's floats: what a proof lets extrema and lists be taken of.

Over the reals f follows the order of x; where a part of it overflows or underflows it need not:
exp(x)·exp(x − max x) is ∞·0 below the greatest of some rows. The text's f is looked at in the order
of x, on hard rows. Where a row value is infinite docs/special_values.md leaves the order open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.algebra.refusals import refused
from fusegen.ir import graph as g
from fusegen.ir.derivation import Commuted, Derivation, RefusalKind, Refused
from fusegen.ir.dtypes import DType
from fusegen.ir.witness import told_apart
from fusegen.oracle.bank import Bank
from fusegen.oracle.reference import every_value

Array = np.ndarray[Any, Any]

_ROUNDING = 1e-5  # of the greatest result: f need not follow the order of equals, to rounding
_LEAST = (g.Fold.MIN, g.Fold.ARGMIN)


@dataclass(frozen=True)
class _Order:
    """x and f of x in the order in which f is best first by the proof; (rows, columns)."""

    node: g.Reduce | g.TopK
    x: Array
    f: Array
    open: Array  # rows where a row value is infinite

    @property
    def largest(self) -> bool:
        return _is_largest(self.node)

    def broken(self) -> Array:
        """Where the next one is better, or a NaN is not where it belongs; (rows, columns − 1)."""
        first, second = self.f[:, :-1], self.f[:, 1:]
        noise = _ROUNDING * np.max(np.abs(np.where(np.isfinite(self.f), self.f, 0)), axis=1)
        with np.errstate(all="ignore"):
            ahead = second - first if self.largest else first - second
            better = (ahead > noise[:, None]) & (first != second)
        ends = isinstance(self.node, g.TopK) and not self.largest  # there NaN comes last
        late = np.isnan(first) & ~np.isnan(second) if ends else np.isnan(second) & ~np.isnan(first)
        return np.asarray((better | late) & ~self.open[:, None])


def refused_orders(
    graph: g.Graph, derivation: Derivation, dtypes: Mapping[str, DType], bank: Bank
) -> Iterator[Refused]:
    """Of each that is out of order on a row of the bank, with the two elements that are."""
    entries = [e for e in derivation if isinstance(e, Commuted) and {e.name, e.atom} <=
               graph.by_name.keys()]
    if not entries:
        return
    wide = any(d.kind == "float" and d.itemsize == 8 for d in dtypes.values())
    kind = np.float64 if wide else np.float32
    values = every_value(graph, bank.inputs, dtypes, bank.n_cols, kind)
    for entry in entries:
        order = _ordered(graph, entry, values, bank)
        broken = order.broken()
        if broken.any():
            row, column = np.argwhere(broken)[0]
            pair = slice(column, column + 2)
            yield _told(graph, entry, order, order.x[row, pair], order.f[row, pair])


def _is_largest(node: g.Reduce | g.TopK) -> bool:
    return node.largest if isinstance(node, g.TopK) else node.fold not in _LEAST


def _ordered(
    graph: g.Graph, entry: Commuted, values: Mapping[g.Node, Array], bank: Bank
) -> _Order:
    node = graph[entry.name]
    assert isinstance(node, g.Reduce | g.TopK)
    shape = (len(bank), bank.n_cols)
    x, f = (np.broadcast_to(values[n], shape).astype(np.float64)
            for n in (graph[entry.atom], node.arg))
    falls = entry.increasing == _is_largest(node)
    columns = np.argsort(-x if falls else x, axis=1, kind="stable")
    rows = [np.broadcast_to(values[r], (shape[0], 1)) for r in g.reductions_of(node.arg)
            if r in values and values[r].shape[-1] == 1]
    unusable = np.zeros(shape[0], np.bool_)
    for value in rows:
        unusable |= ~np.isfinite(value[:, 0].astype(np.float64))
    return _Order(node, np.take_along_axis(x, columns, 1), np.take_along_axis(f, columns, 1),
                  unusable)


def _told(
    graph: g.Graph, entry: Commuted, order: _Order, x: Array, f: Array
) -> Refused:
    found = " and ".join(told_apart(tuple(map(float, f))))
    why = ("over the reals it follows the order of its element, or reverses it; in floats, where "
           "parts of it\nleave the range, it does not: for "
           f"{entry.atom} = {x[0]:.9g} and {x[1]:.9g} of one row it is {found}.")
    todo = "To share the sweep, measure from the greatest, exp(x - fg.max(x)), or order by x."
    return refused(graph, order.node, entry.depends_on, RefusalKind.RANGE, why, todo)
