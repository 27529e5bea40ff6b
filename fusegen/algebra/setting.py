"""What is known of a reduction's element expression: its elements, its row values, their bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy as sp

from fusegen.algebra.domain import Bound, Indicator
from fusegen.algebra.facts.pivots import Pivots
from fusegen.algebra.facts.terms import masks_of
from fusegen.algebra.rowsums import RowSums
from fusegen.ir import graph as g
from fusegen.ir.conditions import is_condition
from fusegen.ir.expr import Var
from fusegen.ir.shared import lazy


@dataclass(frozen=True)
class RowParameter:
    """A row value inside an element expression."""

    node: g.Node
    symbol: sp.Symbol
    constant: bool  # known before the row is read
    pivotal: bool  # known as the row is read: elements may be kept relative to it

    @property
    def is_extreme(self) -> bool:
        return isinstance(self.node, g.Reduce) and self.node.fold in (g.Fold.MAX, g.Fold.MIN)


@dataclass(frozen=True)
class Setting:
    """f(elements; rows) of one reduction, in sympy."""

    graph: g.Graph
    arg: g.Node  # f as a node of it
    text: sp.Expr  # as written
    f: sp.Expr  # equal to it on the domain
    elements: dict[g.Node, sp.Symbol]
    rows: dict[g.Node, RowParameter]
    bounds: tuple[Bound, ...]
    indicators: tuple[Indicator, ...]
    ordered: tuple[sp.Symbol, ...]  # row values that must not be NaN for f to equal the text
    finite: tuple[sp.Symbol, ...]  # those that must be finite numbers
    twins: tuple[tuple[sp.Symbol, sp.Symbol, RowParameter], ...] = ()  # see `apart`

    @lazy
    def facts(self) -> Pivots:
        """What is known of row values beside these elements, where a term is not 0."""
        return Pivots(masks_of(self.arg))

    def dominated(self, element: sp.Symbol, row: RowParameter) -> int:
        """+1 if the row value bounds the element from above at every part of the row, −1 from
        below, 0 if neither is seen."""
        node = next(n for n, s in self.elements.items() if s == element)
        return self.facts.dominates(node, row.node)

    @property
    def changing(self) -> tuple[RowParameter, ...]:
        return tuple(r for r in self.rows.values() if not r.constant)

    @property
    def occurrences(self) -> tuple[tuple[sp.Symbol, sp.Symbol, RowParameter | None], ...]:
        """The element symbols of f, the element each stands for, and the row value it stands
        beside if it is a twin."""
        plain = [(s, s, None) for s in self.elements.values() if self.f.has(s) or not self.twins]
        return (*plain, *self.twins)

    @lazy
    def symbols(self) -> dict[g.Node, sp.Symbol]:
        """Of elements and row values, which all of the term is made of."""
        return {**self.elements, **{n: r.symbol for n, r in self.rows.items()}}

    @property
    def sums(self) -> RowSums:
        """Row values as sums over these elements."""
        return RowSums(self.graph.names, self.symbols, self.selectors)

    @property
    def selectors(self) -> frozenset[sp.Symbol]:
        """The indicators and their contraries, which vary with the element."""
        return frozenset(s for i in self.indicators for s in (i.symbol, i.contrary))

    @property
    def apart(self) -> Setting:
        """With the x of every difference x − p that the text forms told from other x: a weight
        exp(x − m), a deviation x − q and x itself are then kept each relative to its own."""
        f, twins = self.f, []
        for x in self.elements.values():
            for row in (r for r in self.changing if r.pivotal):
                twin = sp.Symbol(f"{x.name}_beside_{row.symbol.name}", **x.assumptions0)
                split = f.replace(*_difference(x, row.symbol, twin))
                if split != f:
                    f = split
                    twins.append((twin, x, row))
        return replace(self, f=f, twins=tuple(twins)) if twins else self

    @property
    def parts(self) -> tuple[Setting, ...]:
        """The terms of f as sums of their own; one part where a term has no element, for then
        the sum of the others may cancel against it."""
        terms = sp.Add.make_args(self.f)
        elements = {*self.elements.values(), *self.selectors}
        if not all(t.free_symbols & elements for t in terms):
            return (self,)
        return tuple(replace(self, f=t) for t in terms)

    def row(self, symbol: sp.Symbol) -> RowParameter:
        return next(r for r in self.rows.values() if r.symbol == symbol)


def _difference(
    x: sp.Symbol, p: sp.Symbol, twin: sp.Symbol
) -> tuple[Callable[[sp.Expr], bool], Callable[[sp.Expr], sp.Expr]]:
    """For `replace`: c·x − c·p anywhere in a sum, and the same with the twin for x."""

    def scale(e: sp.Expr, symbol: sp.Symbol) -> sp.Expr | None:
        return next((c for c, a in (t.as_coeff_Mul() for t in e.args) if a == symbol), None)

    def forms(e: sp.Expr) -> bool:
        if not isinstance(e, sp.Add):
            return False
        c, d = scale(e, x), scale(e, p)
        return c is not None and d is not None and c + d == 0

    def renamed(e: sp.Expr) -> sp.Expr:
        c = scale(e, x)
        return sp.Add(*(c * twin if t == c * x else t for t in e.args))

    return forms, renamed


def as_vars(setting: Setting) -> dict[sp.Symbol, Var]:
    """How the setting's symbols are spelled in fusegen's expressions."""
    spelled = {s: Var(s.name, "bool" if is_condition(n) else "float", True)
               for n, s in setting.elements.items()}
    spelled |= {r.symbol: Var(r.symbol.name) for r in setting.rows.values()}
    return spelled
