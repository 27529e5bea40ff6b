"""Reading a reduction's element expression: which elements, which row values, what is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy as sp

from fusegen import graph as g
from fusegen.algebra.symbols import Unmodelled, freeze, is_positive
from fusegen.derivation import Base, Entry
from fusegen.expr import Var


@dataclass(frozen=True)
class RowParameter:
    """A row value inside an element expression."""

    node: g.Node
    symbol: sp.Symbol
    constant: bool  # known before the row is read
    pivotal: bool  # a function of base reductions only, so a pivot can be made of it

    @property
    def monotone(self) -> int:
        """+1 if it can only grow as the row is read, −1 if only fall, 0 if either."""
        if isinstance(self.node, g.Reduce):
            return {g.Fold.MAX: 1, g.Fold.MIN: -1}.get(self.node.fold, 0)
        return 0


@dataclass(frozen=True)
class Setting:
    """f(elements; rows) of one reduction, in sympy."""

    f: sp.Expr
    elements: dict[g.Node, sp.Symbol]
    rows: dict[g.Node, RowParameter]

    @property
    def changing(self) -> tuple[RowParameter, ...]:
        return tuple(r for r in self.rows.values() if not r.constant)


def read_setting(
    arg: g.Node, names: Mapping[g.Node, str], entries: Mapping[g.Node, Entry]
) -> Setting:
    """Split `arg` into elements and row values. Raises Unmodelled where sympy cannot follow."""
    reader = _Reader(names, entries)
    reader.collect_rows(arg)
    reduced = {
        r.arg for row in reader.rows for r in g.reductions_of(row)
        if isinstance(entries[r], Base) and not isinstance(r, g.Own)
    }
    elements = reader.collect_elements(arg, reduced)
    leaves: dict[g.Node, sp.Expr] = {n: p.symbol for n, p in reader.rows.items()}
    return Setting(freeze(arg, {**leaves, **elements}), elements, reader.rows)


class _Reader:
    def __init__(self, names: Mapping[g.Node, str], entries: Mapping[g.Node, Entry]) -> None:
        self.names, self.entries = names, entries
        self.rows: dict[g.Node, RowParameter] = {}

    def _symbol(self, node: g.Node) -> sp.Symbol:
        positive = True if is_positive(node) else None
        return sp.Symbol(self.names[node], real=True, positive=positive)

    def collect_rows(self, node: g.Node) -> None:
        """Maximal row-valued subtrees over base reductions; others are taken apart."""
        if isinstance(node, g.Literal) or node in self.rows:
            return
        if g.extent(node) is g.Extent.LIST or isinstance(node, g.Take):
            raise Unmodelled(node)
        if g.extent(node) is not g.Extent.ROW:
            for a in g.operands(node):
                self.collect_rows(a)
            return
        if isinstance(node, g.Field):
            self.rows[node] = RowParameter(node, self._symbol(node), constant=False, pivotal=False)
            return
        needs = g.reductions_of(node)
        finished = [r for r in needs if not isinstance(self.entries[r], Base)]
        if finished and not isinstance(node, g.Reduce):
            for a in g.operands(node):
                self.collect_rows(a)
            return
        if any(isinstance(r, g.TopK) for r in needs):
            raise Unmodelled(node)
        pivotal = bool(needs) and not finished
        self.rows[node] = RowParameter(node, self._symbol(node), not needs, pivotal)

    def collect_elements(
        self, node: g.Node, reduced: set[g.Node]
    ) -> dict[g.Node, sp.Symbol]:
        """Inputs, and the very expressions that the row values were reduced from."""
        found: dict[g.Node, sp.Symbol] = {}

        def visit(n: g.Node) -> None:
            if g.extent(n) is not g.Extent.ELEMENT or n in found:
                return
            if n in reduced or isinstance(n, g.Input | g.Index):
                if g.reductions_of(n):
                    raise Unmodelled(n)
                found[n] = self._symbol(n)
                return
            for a in g.operands(n):
                visit(a)

        visit(node)
        return found


def as_vars(setting: Setting) -> dict[sp.Symbol, Var]:
    """How the setting's symbols are spelled in fusegen's expressions."""
    spelled = {s: Var(s.name, "float", True) for s in setting.elements.values()}
    spelled |= {r.symbol: Var(r.symbol.name) for r in setting.rows.values()}
    return spelled
