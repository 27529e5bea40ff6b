"""Adjoints as sums of products: what cancels is gone before anything is written down.

A product holds whole powers of graph nodes. Multiplication, division and their like are taken
apart, so that e/d · d is e; everything else (exp, a difference, a row sum) stays one factor.
A *choice*, where(c, 1, 0) or where(c, 0, 1), is a factor too; choosing twice is choosing once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import partial

from fusegen.ir import graph as g
from fusegen.ir import walk
from fusegen.lang import lang as fg
from fusegen.lang.lines import here
from fusegen.lang.value import Value, builder

Product = frozenset[tuple[g.Node, int]]
Terms = Mapping[Product, Fraction]
"""Coefficient by product; no coefficient is 0. Empty: 0."""

ONE: Product = frozenset()
_WHOLE_POWERS = range(-4, 5)
_MOST_FACTORS = 32  # of a product, powers counted; larger ones stay whole


def times(a: Product, b: Product) -> Product:
    powers = dict(a)
    for node, e in b:
        powers[node] = _clamped(node, powers.get(node, 0) + e)
    return frozenset((n, e) for n, e in powers.items() if e)


def power(a: Product, exponent: int) -> Product:
    return frozenset((n, _clamped(n, e * exponent)) for n, e in a if exponent)


def _clamped(node: g.Node, e: int) -> int:
    return min(e, 1) if is_choice(node) else e


def size(product: Product) -> int:
    """Factors, powers counted."""
    return sum(abs(e) for _, e in product)


def divides(word: Product, product: Product) -> bool:
    """Has the product all powers of the word, with the same signs?"""
    powers = dict(product)
    return all(e * powers.get(n, 0) > 0 and abs(e) <= abs(powers[n]) for n, e in word)


def without(product: Product, part: Product) -> Product:
    """product / part, where part divides it."""
    powers = dict(product)
    for node, e in part:
        powers[node] -= e
    return frozenset((n, e) for n, e in powers.items() if e)


def apart(product: Product) -> Product:
    """Named values taken apart again, so that like terms meet."""
    found = ONE
    for node, e in product:
        found = times(found, power(factors(node)[1], e))
    return found


def plus(a: Terms, b: Terms) -> Terms:
    total = dict(a)
    for product, coefficient in b.items():
        total[product] = total.get(product, Fraction(0)) + coefficient
    return {p: c for p, c in total.items() if c}


def scaled(terms: Terms, coefficient: Fraction, factor: Product) -> Terms:
    """Every term times `coefficient` · `factor`."""
    found: Terms = {}
    for product, own in terms.items():
        found = plus(found, {times(product, factor): own * coefficient})
    return found


def of(node: g.Node) -> Terms:
    """The node as one term."""
    coefficient, product = factors(node)
    return {product: coefficient} if coefficient else {}


def _inner(node: g.Node) -> tuple[g.Node, ...]:
    """The operands that `factors` takes apart."""
    match node:
        case g.Map(op="neg" | "mul" | "div", args=args):
            return args
        case g.Map(op="pow", args=(a, _)):
            return (a,)
        case _:
            return ()


@partial(walk.asked_once, operands=_inner)
def factors(node: g.Node) -> tuple[Fraction, Product]:
    """The node as coefficient · product, taken apart as far as that is exact and short."""
    coefficient, product = _taken_apart(node)
    if sum(abs(e) for _, e in product) > _MOST_FACTORS:
        return Fraction(1), frozenset({(node, 1)})
    return coefficient, product


def _taken_apart(node: g.Node) -> tuple[Fraction, Product]:
    match node:
        case g.Literal(value=value) if not isinstance(value, bool) and math.isfinite(value):
            return Fraction(value), ONE
        case g.Map(op="neg", args=(a,)):
            coefficient, product = factors(a)
            return -coefficient, product
        case g.Map(op="mul", args=(a, b)):
            (left, p), (right, q) = factors(a), factors(b)
            return left * right, times(p, q)
        case g.Map(op="div", args=(a, b)) if factors(b)[0]:
            (left, p), (right, q) = factors(a), factors(b)
            return left / right, times(p, power(q, -1))
        case g.Map(op="pow", args=(a, g.Literal(value=value))) if value in _WHOLE_POWERS:
            coefficient, product = factors(a)
            if coefficient or value >= 0:
                return coefficient ** int(value), power(product, int(value))
        case g.Reduce(fold=g.Fold.MEAN, arg=arg, loc=loc) if g.is_reduction(node):
            total = builder().add(g.Reduce(g.Fold.SUM, arg, loc)).node
            length = builder().add(g.Length(loc)).node
            return Fraction(1), frozenset({(total, 1), (length, -1)})
    return Fraction(1), frozenset({(node, 1)})


def choice(condition: g.Node, holds: bool = True, other: float | Value = 0.0) -> Value:
    """1 where the condition is as said, else 0 (or `other`, itself 0 or NaN, one per row)."""
    return fg.where(Value(condition), 1.0, other) if holds else fg.where(Value(condition), 0.0, 1.0)


def is_choice(node: g.Node) -> bool:
    """Was it made by `choice`, or is it the same?"""
    match node:
        case g.Map(op="where", args=(_, a, b)):
            if is_number(a, 1.0):
                return is_number(b, 0.0) or is_absence(b)
            return is_number(a, 0.0) and is_number(b, 1.0)
    return False


def is_absence(node: g.Node) -> bool:
    """0, or NaN for rows in which nothing can be chosen."""
    match node:
        case g.Map(op="where", args=(_, a, g.Literal(value=float(value)))):
            return is_number(a, 0.0) and math.isnan(value)
    return False


def is_number(node: g.Node, value: float) -> bool:
    """Is the node this very float?"""
    return isinstance(node, g.Literal) and type(node.value) is float and node.value == value


def one_hot(column: g.Node) -> Value:
    """1 at the column; elsewhere 0, NaN if the row has no such column, as fg.take gives."""
    found = builder().add(g.Index(here())) == Value(column)
    return choice(found.node, True, fg.where(_inside(column), 0.0, math.nan))


def _inside(column: g.Node) -> Value:
    at = Value(column)
    return (at >= 0) & (at < builder().add(g.Length(here())))


def split(product: Product) -> tuple[Product, Product]:
    """(element factors, row factors)."""
    elements = frozenset(f for f in product if g.extent(f[0]) is g.Extent.ELEMENT)
    return elements, product - elements


def split_vectors(product: Product) -> tuple[Product, Product]:
    """(factors that are vectors, numbers)."""
    vectors = frozenset(f for f in product if g.is_vector(f[0]))
    return vectors, product - vectors


def filled(number: float | Value, like: g.Node) -> Value:
    """A vector as long as those of `like`, of one number."""
    return fg.where(Value(like) == Value(like), number, number)


def common(products: Iterable[Product]) -> Product:
    """The greatest product that divides all of them, sign of every power kept."""
    first, *others = (dict(p) for p in products)
    shared = {}
    for node, e in first.items():
        powers = [e, *(o.get(node, 0) for o in others)]
        if all(p > 0 for p in powers) or all(p < 0 for p in powers):
            shared[node] = min(powers, key=abs)
    return frozenset(shared.items())


# ---- sums that are known ----


def column_of(node: g.Node) -> g.Node | None:
    """i of a choice made by `one_hot(i)`."""
    match node:
        case g.Map(op="where", args=(g.Map(op="eq", args=(g.Index(), column)), _, other)):
            if is_choice(node) and is_absence(other):
                return column if g.operands(other)[0] is _inside(column).node else None
    return None


@g.asked_once
def sums_to_zero(node: g.Node) -> bool:
    """Σ (a − mean(a)) = 0, also times a row value."""
    match node:
        case g.Map(op="sub", args=(a, b)):
            return _is_mean_of(b, a) or _is_mean_of(a, b)
        case g.Map(op="neg", args=(a,)):
            return sums_to_zero(a)
        case g.Map(op="mul" | "div", args=(a, b)) if g.extent(b) is g.Extent.ROW:
            return sums_to_zero(a)
        case g.Map(op="mul", args=(a, b)) if g.extent(a) is g.Extent.ROW:
            return sums_to_zero(b)
    return False


def _is_mean_of(node: g.Node, element: g.Node) -> bool:
    return isinstance(node, g.Reduce) and node.fold is g.Fold.MEAN and node.arg is element


def sums_to_one(node: g.Node) -> bool:
    """Σ (a / Σ a) = 1."""
    match node:
        case g.Map(op="div", args=(a, g.Reduce(fold=g.Fold.SUM, arg=arg))):
            return arg is a
    return False
