"""Reading a reduction's element expression: which elements, which row values, what is known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import sympy as sp

from fusegen.algebra.domain import (
    Bound,
    Indicator,
    conditions_alone,
    less_than,
    on_domain,
    with_indicators,
)
from fusegen.algebra.facts.pivots import Pivots
from fusegen.algebra.facts.terms import masks_of
from fusegen.algebra.rowsums import RowSums, averages
from fusegen.algebra.symbols import (
    Unmodelled,
    counts_as_positive,
    divisors,
    freeze,
    is_nonnegative,
)
from fusegen.ir import graph as g
from fusegen.ir.conditions import is_condition
from fusegen.ir.derivation import Base, Dependent, Entry
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

    @property
    def sums(self) -> RowSums:
        """Row values as sums over these elements."""
        symbols = {**self.elements, **{n: r.symbol for n, r in self.rows.items()}}
        return RowSums(self.graph.names, symbols, self.selectors)

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


def read_setting(graph: g.Graph, arg: g.Node, entries: Mapping[g.Node, Entry]) -> Setting:
    """Split `arg` into elements and row values. Raises Unmodelled where sympy cannot follow."""
    reader = _Reader(arg, graph.names, entries)
    reader.collect_rows(arg)
    reduced = {
        r.arg for row in reader.rows for r in g.reductions_of(row)
        if isinstance(entries[r], Base) and not isinstance(r, g.Own)
    }
    reduced |= _weighed(arg, reader.rows)
    elements = reader.collect_elements(arg, reduced)
    leaves: dict[g.Node, sp.Expr] = {n: p.symbol for n, p in reader.rows.items()}
    text = freeze(arg, {**leaves, **elements})
    numbers = {n: r for n, r in reader.rows.items() if n not in graph.wide and not _sums_vectors(n)}
    bounds = _bounds(elements, numbers)
    f, used, differences = on_domain(text, bounds)
    ordered = dict.fromkeys(b.row for b in (*used, *less_than(f, bounds)))
    f, indicators = with_indicators(f, bounds)
    if f.has(sp.Piecewise):
        f = conditions_alone(f)
    finite = tuple(b.row for b in differences)
    setting = Setting(
        graph, arg, text, f, elements, reader.rows, bounds, indicators, tuple(ordered), finite
    )
    rows = {n: replace(r, pivotal=r.pivotal and n in numbers)  # a state has one move, not many
            for n, r in _with_averages(setting, entries).items()}
    return replace(setting, rows=rows)


@g.asked_once
def _sums_vectors(node: g.Node) -> bool:
    """Is it known only when the row is finished, being made of a whole vector?"""
    return isinstance(node, g.Inner) or any(map(_sums_vectors, g.operands(node)))


def _weighed(arg: g.Node, rows: Collection[g.Node]) -> set[g.Node]:
    """Elements e of differences e − p with a row value p of products with e: means of e under
    weights, which are as good as plain ones."""
    found = set()
    for n in g.topological((arg,)):
        if isinstance(n, g.Map) and n.op == "sub" and n.args[1] in rows:
            e, p = n.args
            products = [r.arg for r in g.reductions_of(p) if isinstance(r, g.Reduce)]
            plain = not g.reductions_of(e)  # what holds row values itself is no element
            if plain and any(e in _factors(product) for product in products):
                found.add(e)
    return found


def _factors(product: g.Node) -> set[g.Node]:
    """What a product, or what a condition chooses of one, multiplies."""
    found: set[g.Node] = set()
    todo = [product]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            match node:
                case g.Map(op="mul", args=(a, b)) | g.Map(op="where", args=(_, a, b)):
                    todo += [a, b]
    return found


def _with_averages(
    setting: Setting, entries: Mapping[g.Node, Entry]
) -> dict[g.Node, RowParameter]:
    """Merged sums that average an element may be pivots too."""
    rows, sums = dict(setting.rows), setting.sums
    for node, row in setting.rows.items():
        merged = isinstance(node, g.Reduce) and isinstance(entries.get(node), Dependent)
        if merged and any(averages(node, x, sums) for x in setting.elements):
            rows[node] = replace(row, pivotal=True)
    return rows


def _bounds(
    elements: Mapping[g.Node, sp.Symbol], rows: Mapping[g.Node, RowParameter]
) -> tuple[Bound, ...]:
    """max x, min x and max |x| where x itself is an element here."""
    found = []
    for n, r in rows.items():
        match n:
            case g.Reduce(fold=g.Fold.MAX | g.Fold.MIN as fold, arg=arg) if arg in elements:
                found.append(Bound(elements[arg], r.symbol, fold is g.Fold.MAX))
            case g.Reduce(fold=g.Fold.MAX, arg=g.Map(op="abs", args=(x,))) if x in elements:
                found.append(Bound(elements[x], r.symbol, True))
    return tuple(found)


class _Reader:
    def __init__(
        self, arg: g.Node, names: Mapping[g.Node, str], entries: Mapping[g.Node, Entry]
    ) -> None:
        self.names, self.entries = names, entries
        self.divisors = divisors(arg)
        self.rows: dict[g.Node, RowParameter] = {}

    def _symbol(self, node: g.Node) -> sp.Symbol:
        known = {"nonnegative": True} if is_nonnegative(node) else {}
        if counts_as_positive(node, self.divisors):
            known = {"positive": True}
        return sp.Symbol(self.names[node], real=True, **known)

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
            self.rows[node] = RowParameter(
                node, self._symbol(node), constant=False, pivotal=False
            )
            return
        needs = g.reductions_of(node)
        finished = [r for r in needs if not isinstance(self.entries[r], Base)]
        if finished and not isinstance(node, g.Reduce):
            for a in g.operands(node):
                self.collect_rows(a)
            return
        if any(isinstance(r, g.TopK) for r in needs):
            raise Unmodelled(node)
        pivotal = bool(needs) and not finished and not is_condition(node)
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
