"""Row sums as symbols: Σ is linear, and that is all these proofs use of it.

Two facts are read off. A row value p is an *average* of x if p = Σ a·x with a ≥ 0 and Σ a = 1: it
stays within the data and may be a pivot. And then Σ a·(x − p) = 0, a sum that nobody has to keep:
what is left of the moments' transport is the formula of Chan, Golub & LeVeque.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from fusegen.algebra.domain import conditions_alone
from fusegen.algebra.facts.terms import literal
from fusegen.algebra.symbols import Unmodelled, freeze, is_nonnegative
from fusegen.ir import graph as g

_COUNT = sp.Symbol("Σ[1]", positive=True)


def row_sum(expr: sp.Expr, elements: frozenset[sp.Symbol]) -> sp.Expr:
    """Σ expr over the row, as a combination of symbols Σ[atom]; Σ[1] counts the columns."""
    total = sp.Integer(0)
    if expr.has(sp.Piecewise):
        expr = conditions_alone(expr)
    for term in sp.Add.make_args(sp.expand(expr)):
        coefficient, atom = term.as_independent(*elements, as_Add=False)
        scale, atom = atom.as_coeff_Mul()
        total += coefficient * scale * _symbol(atom)
    return total


def _symbol(atom: sp.Expr) -> sp.Symbol:
    if atom == 1:
        return _COUNT
    return sp.Symbol(f"Σ[{sp.srepr(atom)}]", real=True, positive=atom.is_positive or None)


class RowSums:
    """Row values written out in symbols Σ[atom] and extremes; `symbols` are those already named."""

    def __init__(
        self, names: Mapping[g.Node, str], symbols: Mapping[g.Node, sp.Symbol],
        selectors: frozenset[sp.Symbol],
    ) -> None:
        self.names, self.symbols = names, dict(symbols)
        self.elements = selectors | frozenset(
            s for n, s in symbols.items() if g.extent(n) is g.Extent.ELEMENT
        )
        self.known: dict[g.Node, sp.Expr] = {}

    def total(self, expr: sp.Expr) -> sp.Expr:
        """Σ of an element expression, with every row value in it written out."""
        written = {s: self.value(n) for n, s in self.symbols.items()
                   if s in expr.free_symbols and g.extent(n) is g.Extent.ROW}
        return row_sum(expr.subs(written, simultaneous=True), self.elements)

    def value(self, node: g.Node) -> sp.Expr:
        """A row value written out. Raises Unmodelled."""
        if node not in self.known:
            self.known[node] = self._written(node)
        return self.known[node]

    def _written(self, node: g.Node) -> sp.Expr:
        match node:
            case g.Length():
                return _COUNT
            case g.Input():
                return self.symbols.get(node, sp.Symbol(self.names[node], real=True))
            case g.Reduce(fold=g.Fold.SUM, arg=arg) if g.is_reduction(node):
                return self.sum_of(arg)
            case g.Reduce(fold=g.Fold.MEAN, arg=arg) if g.is_reduction(node):
                return self.sum_of(arg) / _COUNT
            case g.Reduce():
                return self.symbols.get(node, sp.Symbol(self.names[node], real=True))
            case g.Map(op="where", args=(c, a, _)) if _asks_for_any(c):
                return self.value(a)  # else there is no weight, and sums under it are 0
            case g.Map() | g.Literal() | g.Cast():
                return freeze(node, {r: self.value(r) for r in _parts(node)})
            case _:
                raise Unmodelled(node)

    def element(self, node: g.Node) -> sp.Expr:
        """An element expression over element symbols and written-out row values."""
        leaves: dict[g.Node, sp.Expr] = {}
        for n in g.topological((node,)):
            if n in self.symbols and g.extent(n) is g.Extent.ELEMENT:
                leaves[n] = self.symbols[n]
        for r in _parts(node):
            leaves.setdefault(r, self.value(r))
        return freeze(node, leaves)

    def sum_of(self, node: g.Node) -> sp.Expr:
        return row_sum(self.element(node), self.elements)


def _asks_for_any(c: g.Node) -> bool:
    """Does it ask whether any weight of the row is not 0: where(n > 0, s / n, 0)?"""
    match c:
        case g.Map(op="gt" | "ne", args=(n, zero)) | g.Map(op="lt", args=(zero, n)):
            while isinstance(n, g.Cast):
                n = n.arg
            return literal(zero) == 0 and isinstance(n, g.Reduce) and (
                n.fold is g.Fold.SUM and is_nonnegative(n.arg))
        case _:
            return False


def _parts(node: g.Node) -> list[g.Node]:
    """The row reductions, row inputs and lengths that a node is made of."""
    found: list[g.Node] = list(g.reductions_of(node))
    inner = g.topological((node,))
    return found + [n for n in inner if isinstance(n, g.Length) or (
        isinstance(n, g.Input) and n.per_row)]


def averages(node: g.Node, element: g.Node, sums: RowSums) -> bool:
    """Is the row value `node` = Σ a·element with a ≥ 0 and Σ a = 1?"""
    if not isinstance(node, g.Reduce) or node.fold is not g.Fold.SUM:
        return False
    x = sums.symbols[element]
    try:
        weight = sp.cancel(sums.element(node.arg) / x)
    except Unmodelled:
        return False  # made of other elements
    if not weight.is_nonnegative:
        return False
    return bool(sp.simplify(row_sum(weight, sums.elements) - 1) == 0)


def vanishes(expr: sp.Expr, sums: RowSums) -> bool:
    """Is Σ expr = 0 by the definition of the row values in it?"""
    try:
        return bool(sp.simplify(sp.together(sums.total(expr))) == 0)
    except Unmodelled:
        return False
