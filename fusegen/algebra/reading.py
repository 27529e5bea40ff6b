"""From a reduction's element expression to its `Setting`: what is an element, what a row value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import isinf

import sympy as sp

from fusegen.algebra.domain import Bound, conditions_alone, less_than, on_domain, with_indicators
from fusegen.algebra.facts.questions import asked_extreme, is_mask
from fusegen.algebra.rowsums import averages
from fusegen.algebra.setting import RowParameter, Setting
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


def read_setting(
    graph: g.Graph, arg: g.Node, entries: Mapping[g.Node, Entry], *,
    whole: bool = False, finite: bool = False, filled: bool = False,
) -> Setting:
    """Split `arg` into elements and row values. Raises Unmodelled where sympy cannot follow.

    whole: what elements and inputs per row make of one another is an element, not looked into.
    finite: extremes that the text asks isinf of are numbers; where they are none, the sum is NaN.
    filled: where(c, x, -inf), which has a place in every order, is an element.
    """
    reader = _Reader(arg, graph.names, entries, finite)
    reader.collect_rows(arg)
    reduced = {
        r.arg for row in reader.rows for r in g.reductions_of(row)
        if isinstance(entries[r], Base) and not isinstance(r, g.Own)
    }
    reduced |= _weighed(arg, reader.rows)
    reduced |= set(wholes_of(arg)) if whole else set()
    reduced |= set(g.outermost((arg,), _is_filled)) if filled else set()
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
    asked = [reader.rows[n].symbol for n in reader.asked]
    ordered |= dict.fromkeys(asked)
    setting = Setting(
        graph, arg, text, f, elements, reader.rows, bounds, indicators, tuple(ordered),
        (*(b.row for b in differences), *asked),
    )
    rows = {n: replace(r, pivotal=r.pivotal and n in numbers)  # a state has one move, not many
            for n, r in _with_averages(setting, entries).items()}
    return replace(setting, rows=rows)


def wholes_of(arg: g.Node) -> tuple[g.Node, ...]:
    """The largest element expressions inside it of which no reduction is a part, and inputs per row
    are: what the text computes before it meets a value that changes as the row is read."""
    largest = g.outermost(
        (arg,), lambda n: g.extent(n) is not g.Extent.ELEMENT or not g.reductions_of(n))
    return tuple(n for n in largest if g.extent(n) is g.Extent.ELEMENT and any(
        isinstance(i, g.Input) and i.per_row for i in g.topological((n,))))


def _is_filled(node: g.Node) -> bool:
    """Does a condition choose between elements and an infinity?"""
    match node:
        case g.Map(op="where", args=(_, a, b)):
            return g.extent(node) is g.Extent.ELEMENT and not g.reductions_of(node) and any(
                isinstance(v, g.Literal) and isinf(v.value) for v in (a, b))
        case _:
            return False


def asks_of_extremes(arg: g.Node) -> bool:
    """Does it ask whether a maximum or minimum is a number, as log Σ exp x does?"""
    asked = g.outermost((arg,), lambda n: asked_extreme(n) is not None or g.is_reduction(n))
    return any(asked_extreme(n) is not None for n in asked)


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
        self, arg: g.Node, names: Mapping[g.Node, str], entries: Mapping[g.Node, Entry],
        finite: bool,
    ) -> None:
        self.names, self.entries, self.finite = names, entries, finite
        self.asked: dict[g.Node, None] = {}  # extremes that must be numbers
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
        extreme = asked_extreme(node) if self.finite else None
        if extreme is not None:
            self.asked[extreme] = None
            self.collect_rows(extreme)
            return
        needs = g.reductions_of(node)
        finished = [r for r in needs if not isinstance(self.entries[r], Base)]
        if finished and not isinstance(node, g.Reduce) and not is_condition(node):
            for a in g.operands(node):
                self.collect_rows(a)
            return
        if any(isinstance(r, g.TopK) for r in needs):
            raise Unmodelled(node)
        pivotal = bool(needs) and not finished and not is_condition(node) and not any(
            isinstance(n, g.Input) and n.per_row  # which states do not have at hand
            for n in g.topological((node,), g.is_reduction))
        self.rows[node] = RowParameter(node, self._symbol(node), not needs, pivotal)

    def collect_elements(
        self, node: g.Node, reduced: set[g.Node]
    ) -> dict[g.Node, sp.Symbol]:
        """Inputs, and the very expressions that the row values were reduced from."""
        found: dict[g.Node, sp.Symbol] = {}

        def visit(n: g.Node) -> None:
            if g.extent(n) is not g.Extent.ELEMENT or n in found:
                return
            if n in reduced or isinstance(n, g.Input | g.Index) or is_mask(n):
                if g.reductions_of(n):
                    raise Unmodelled(n)
                found[n] = self._symbol(n)
                return
            for a in g.operands(n):
                visit(a)

        visit(node)
        return found
