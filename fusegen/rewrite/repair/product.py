"""The term of a sum taken apart into a product: what the repairs match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from fusegen.algebra.facts.terms import literal
from fusegen.algebra.symbols import is_nonnegative
from fusegen.ir import graph as g
from fusegen.ir.loc import Loc
from fusegen.ir.walk import asked_once
from fusegen.rewrite.build import at_element, op
from fusegen.rewrite.build import literal as number
from fusegen.rewrite.exponent import Exponent, linear, parts, plus, scaled, spelled


@dataclass(frozen=True, slots=True)
class Deviation:
    """node^power with node = by·(element − row), the difference as the text has it."""

    element: g.Node
    row: g.Node
    power: int
    node: g.Node
    by: Fraction

    def off(self, mean: g.Node) -> g.Node:
        """mean − row. Where the row value is made of several, difference by difference, as the text
        has them: it may never add up a great one and a small one."""
        loc = self.node.loc
        if len(linear(self.row)) > 1:
            found = at_element(self.node, self.element, mean)
            if g.extent(found) is g.Extent.ROW:
                by = number(float(self.by), loc)
                return found if self.by == 1 else op("div", loc, found, by)
        return op("sub", loc, mean, self.row)


@dataclass(frozen=True, slots=True)
class Quotient:
    """(element / row)^power, or of their magnitudes."""

    element: g.Node
    row: g.Node
    power: float


@dataclass(slots=True)
class Product:
    """± [masks] · Π over / Π under · exp(exponent) · Π deviations · Π quotients · Π weights.

    `over` and `under` are row values; all else varies over the row.
    """

    negative: bool = False
    over: list[g.Node] = field(default_factory=list)
    under: list[g.Node] = field(default_factory=list)
    masks: list[g.Node] = field(default_factory=list)
    exponent: Exponent = field(default_factory=dict)
    exponentials: list[g.Node] = field(default_factory=list)  # the very nodes; none if divided by
    deviations: list[Deviation] = field(default_factory=list)
    quotients: list[Quotient] = field(default_factory=list)
    weights: list[g.Node] = field(default_factory=list)
    within: list[g.Node] = field(default_factory=list)  # of over and under, in a choice of the text

    @property
    def has_plain_exponent(self) -> bool:
        """Does every exponential depend on elements and fixed values alone?"""
        return not any(g.reductions_of(n) for n in self.exponent)


MOST_FACTORS = 64
"""Of a product, or terms of a sum, that is taken apart: squares of squares have any number."""


def taken_apart(term: g.Node) -> Product:
    """The term as a product; what is no product, or one of too many factors, is a weight."""
    found = Product()
    if _factors(term) > MOST_FACTORS:
        found.weights.append(term)
    else:
        _take(term, found)
    return found


def _count(node: g.Node) -> int:
    if g.extent(node) is g.Extent.ROW:
        return 1
    match node:
        case g.Map(op="mul" | "where", args=args):
            return sum(map(_factors, args))
        case g.Map(op="neg" | "div", args=args):
            return _factors(args[0]) + len(args) - 1
        case _:
            return 1


_factors = asked_once(_count, g.operands)
"""At least as many as `_take` finds."""


def moves(node: g.Node) -> bool:
    """Is it a row value that is still to come?"""
    return g.extent(node) is g.Extent.ROW and bool(g.reductions_of(node))


def _take(node: g.Node, into: Product) -> None:
    if g.extent(node) is g.Extent.ROW:
        into.over.append(node)
        return
    deviation = _deviation(node, 1)
    if deviation is not None:
        into.deviations.append(deviation)
        return
    match node:
        case g.Map(op="neg", args=(a,)):
            into.negative = not into.negative
            _take(a, into)
        case g.Map(op="mul", args=(a, b)):
            _take(a, into)
            _take(b, into)
        case g.Map(op="div", args=(a, b)) if g.extent(b) is g.Extent.ROW:
            into.under.append(b)
            _take(a, into)
        case g.Map(op="div", args=(a, g.Map(op="exp", args=(e,)))):
            into.exponent = plus(into.exponent, linear(e), -1)
            into.exponentials.append(op("exp", node.loc, spelled(scaled(linear(e), -1), node.loc)))
            _take(a, into)
        case g.Map(op="exp", args=(e,)):
            into.exponent = plus(into.exponent, linear(e))
            into.exponentials.append(node)
        case g.Map(op="where", args=(c, a, b)) if literal(b) == 0:
            _take_chosen(c, a, into)
        case g.Map(op="where", args=(c, a, b)) if literal(a) == 0:
            _take_chosen(op("not", node.loc, c), b, into)
        case g.Map(op="square", args=(a,)):
            _take_power(node, a, 2, into)
        case g.Map(op="pow", args=(a, k)) if literal(k) == 1:
            _take(a, into)
        case g.Map(op="pow", args=(a, k)) if (literal(k) or 0) > 1:
            _take_power(node, a, literal(k) or 1, into)
        case _:
            into.weights.append(node)


def _take_chosen(condition: g.Node, value: g.Node, into: Product) -> None:
    before = len(into.over), len(into.under)
    into.masks.append(condition)
    _take(value, into)
    into.within += [*into.over[before[0]:], *into.under[before[1]:]]


def _take_power(node: g.Node, base: g.Node, power: float, into: Product) -> None:
    deviation = _deviation(base, int(power)) if power == int(power) else None
    quotient = _quotient(base, power)
    if deviation is not None:
        into.deviations.append(deviation)
    elif quotient is not None:
        into.quotients.append(quotient)
    else:
        into.weights.append(node)


def _deviation(node: g.Node, power: int) -> Deviation | None:
    """(x − p)^power with p a row value that is still to come and x none."""
    if not (isinstance(node, g.Map) and node.op in ("add", "sub")):
        return None
    varying, rows = parts(linear(node))
    if not (varying and any(moves(n) for n in rows)) or any(g.reductions_of(n) for n in varying):
        return None
    by = next(iter(varying.values())) if len(varying) == 1 else Fraction(1)
    if not _is_power_of_two(by):  # x·3 is rounded in the text, and perhaps in p as well
        by = Fraction(1)
    element = spelled(scaled(varying, 1 / by), node.loc)
    return Deviation(element, spelled(scaled(rows, -1 / by), node.loc), power, node, by)


def _is_power_of_two(number: Fraction) -> bool:
    n, d = abs(number.numerator), number.denominator
    return n & (n - 1) == 0 and d & (d - 1) == 0


def _quotient(node: g.Node, power: float) -> Quotient | None:
    """(x / p)^power, x / p or |x / p| or |x| / p."""
    match node:
        case g.Map(op="div", args=(x, p)) if moves(p) and not g.reductions_of(x):
            return Quotient(x, p, power)
        case g.Map(op="abs", args=(g.Map(op="div", args=(x, p)),)) \
                if moves(p) and not g.reductions_of(x):
            return Quotient(op("abs", node.loc, x), op("abs", node.loc, p), power)
        case _:
            return None


def multiplied(factors: Sequence[g.Node], loc: Loc) -> g.Node | None:
    """The product; None of no factors."""
    total: g.Node | None = None
    for factor in factors:
        total = factor if total is None else op("mul", loc, total, factor)
    return total


def both(conditions: Sequence[g.Node], loc: Loc) -> g.Node | None:
    """All conditions at once; None if there are none."""
    total: g.Node | None = None
    for condition in conditions:
        total = condition if total is None else op("and", loc, total, condition)
    return total


def magnitude(node: g.Node, loc: Loc) -> g.Node:
    return node if is_nonnegative(node) else op("abs", loc, node)
