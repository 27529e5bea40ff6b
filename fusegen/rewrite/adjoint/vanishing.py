"""Where a factor of an adjoint is 0: outside of what a mask leaves.

exp(where(c, s, −∞) − m) is 0 where c does not hold, whatever m is: a text that masks its scores
says that the others do not take part. So is exp(s + b − m) where a stored b is −∞. As a choice of
its own, c leaves the product: nothing else of it is asked there, no infinity or NaN, and kernels
need not visit those columns at all.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator

from fusegen.ir import graph as g
from fusegen.lang.value import Value
from fusegen.rewrite.adjoint.terms import Product, Terms, choice, is_choice, times

Condition = tuple[g.Node, bool]
"""A condition, and what it is where the factor need not be 0."""


def nothing_outside(product: Product) -> Product:
    """Choices of columns and rows outside of which a factor of the product is 0."""
    found = {c: None for node, e in product if e > 0 and _may_be(node) for c in _outside(node)}
    return frozenset((choice(condition, holds).node, 1) for condition, holds in found)


def unless_nothing(rows: Product, elements: Product, summed: Terms) -> Product:
    """Row factors that left a sum of masked elements, with the choice of 0 where the mask leaves
    nothing: 1 / Σ exp(s − m) is 1 / 0 in such rows, and each of the terms was 0."""
    match [*summed]:
        case [product] if len(product) == 1 and any(e < 0 for _, e in rows):
            ((total, _),) = product
            if any(is_choice(n) for n, _ in elements):
                nothing = _is_nothing(total, elements, rows)
                return times(rows, frozenset({(choice(nothing.node, False).node, 1)}))
    return rows


def _is_nothing(total: g.Node, elements: Product, rows: Product) -> Value:
    """Does a mask leave nothing of the row? That the total is 0 does not say so: where a cotangent
    is 0 it is, and its derivative by the cotangent, a tangent's way, is not."""
    for node, _ in elements:
        for pivot in _pivots(node):
            return Value(pivot) == -math.inf
    found = Value(total) == 0.0
    below = [Value(n) == 0.0 for n, e in rows if e < 0 and not g.is_vector(n)]
    return found & functools.reduce(operator.or_, below) if below else found


def _pivots(node: g.Node) -> Iterator[g.Node]:
    """Row values that a power is about: that of nothing is −∞, as a maximum."""
    match node:
        case g.Map(op="exp" | "exp2", args=(a,)):
            yield from _about(a)
        case g.Map(op="mul" | "div", args=args):
            for a in args:
                yield from _pivots(a)


def _about(node: g.Node) -> Iterator[g.Node]:
    match node:
        case g.Map(op="sub", args=(_, m)) if g.extent(m) is g.Extent.ROW:
            yield m
        case g.Map(op="mul" | "div", args=args):
            for a in args:
                yield from _about(a)


def _may_be(node: g.Node) -> bool:
    return g.extent(node) is g.Extent.ELEMENT and not g.is_vector(node)


def _outside(node: g.Node) -> Iterator[Condition]:
    match node:
        case g.Map(op="exp" | "exp2" | "sigmoid", args=(a,)):
            yield from _infinite(a)
        case g.Map(op="mul" | "div", args=(a, b)) if g.extent(b) is g.Extent.ROW:
            yield from _outside(a)
        case g.Map(op="mul", args=(a, b)) if g.extent(a) is g.Extent.ROW:
            yield from _outside(b)


def _infinite(node: g.Node) -> Iterator[Condition]:
    """Conditions without which the node is −∞."""
    match node:
        case g.Map(op="where", args=(c, a, b)) if _is_place(c):
            if _is_lowest(b):
                yield c, True
                yield from _infinite(a)
            if _is_lowest(a):
                yield c, False
                yield from _infinite(b)
        case g.Map(op="add", args=(a, b)):
            yield from _infinite(a)
            yield from _infinite(b)
            yield from _by_bias(a, b)
            yield from _by_bias(b, a)
        case g.Map(op="sub", args=(a, _)):
            yield from _infinite(a)
        case g.Map(op="mul", args=(a, b)) if _is_positive(a):
            yield from _infinite(b)
        case g.Map(op="mul" | "div", args=(a, b)) if _is_positive(b):
            yield from _infinite(a)


def _by_bias(score: g.Node, bias: g.Node) -> Iterator[Condition]:
    """A stored −∞ that is added to an element made of vectors is a mask, too: there are no numbers
    beside it in which rows of nothing could be told by themselves."""
    if isinstance(bias, g.Input) and bias.axis is g.Axis.ELEMENT and any(
            isinstance(n, g.Inner) for n in g.topological((score,))):
        yield (Value(bias) != -math.inf).node, True


def _is_place(condition: g.Node) -> bool:
    """Does it depend on columns and on what is known of the row, or stored, before any sweep?"""
    nodes = g.topological((condition,))
    return g.extent(condition) is not g.Extent.LIST and not g.is_vector(condition) and all(
        isinstance(n, g.Index | g.RowNumber | g.Literal | g.Length | g.Map | g.Cast)
        or (isinstance(n, g.Input) and n.axis not in g.VECTORS)
        for n in nodes)


def _is_lowest(node: g.Node) -> bool:
    return isinstance(node, g.Literal) and node.value == -math.inf


def _is_positive(node: g.Node) -> bool:
    match node:
        case g.Literal(value=value):
            return value > 0
        case g.Input(axis=g.Axis.SCALAR, magnitude=magnitude):
            return magnitude > 0
        case _:
            return False
