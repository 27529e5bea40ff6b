"""What a term is made of: numbers, what is known before the row, masks."""

from __future__ import annotations

from fusegen.ir import graph as g
from fusegen.ir.walk import asked_once

Mask = frozenset[tuple[g.Node, bool]]
"""Conditions, and whether they hold."""

EVERYWHERE: Mask = frozenset()


def literal(node: g.Node) -> float | None:
    """The number that the node is, if it is one."""
    if isinstance(node, g.Literal) and not isinstance(node.value, bool):
        return float(node.value) if abs(node.value) <= 1e300 else None
    return None


def is_fixed(node: g.Node) -> bool:
    """Is the row value known before the row is read?"""
    return g.extent(node) is g.Extent.ROW and not g.reductions_of(node)


def chooses(node: g.Node) -> bool:
    """Does it choose between elements, by a condition of elements?"""
    return isinstance(node, g.Map) and node.op == "where" and (
        g.extent(node.args[0]) is g.Extent.ELEMENT)


def _masks(term: g.Node) -> Mask:
    match term:
        case g.Map(op="where", args=(c, a, b)):
            if literal(b) == 0:
                return conditions(c, True) | masks_of(a)
            if literal(a) == 0:
                return conditions(c, False) | masks_of(b)
            return masks_of(a) & masks_of(b)
        case g.Map(op="mul" | "zero_wins", args=(a, b)):
            return masks_of(a) | masks_of(b)
        case g.Map(op="div" | "neg" | "abs" | "square" | "sqrt", args=(a, *_)):
            return masks_of(a)
        case g.Map(op="add" | "sub", args=(a, b)):
            return masks_of(a) & masks_of(b)
        case g.Cast(arg=a):
            return masks_of(a)
        case _:
            return EVERYWHERE


masks_of = asked_once(_masks, g.operands)
"""Conditions outside of which a term is 0 whatever else stands in it: where(c, …, 0)."""


def conditions(c: g.Node, holds: bool) -> Mask:
    """What is known where the condition holds, or does not."""
    match c:
        case g.Map(op="not", args=(inner,)):
            return conditions(inner, not holds)
        case g.Map(op="and", args=(a, b)) if holds:
            return conditions(a, True) | conditions(b, True)
        case g.Map(op="or", args=(a, b)) if not holds:
            return conditions(a, False) | conditions(b, False)
        case _:
            return frozenset({(c, holds)})
