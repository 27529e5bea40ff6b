"""Exponentials about the greatest of their own elements."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from fusegen.algebra.facts.elements import Elements
from fusegen.algebra.facts.terms import masks_of
from fusegen.ir import graph as g
from fusegen.rewrite.build import at_element, fold
from fusegen.rewrite.exponent import (
    Exponent,
    gathered,
    is_bounded,
    linear,
    parts,
    spelled,
)
from fusegen.rewrite.repair.sums import Repaired, Sum, name_pivot


@dataclass(frozen=True, slots=True)
class OwnExponent:
    """exp(x − P) = root² · relative, with relative = exp(x − m) and m the greatest x selected."""

    pivot: g.Node  # m
    relative: g.Node
    off: g.Node  # m − P, as the text forms it
    root: g.Node  # exp((m − P) / 2): exp(m − P) alone may be subnormal, or infinite
    infinite: g.Node  # is P?
    shared: frozenset[g.Node]  # what P is made of as well, at m: it has rounded there as here


def own_exponent(own: Sum, *, everywhere: bool = False) -> OwnExponent | None:
    """The exponentials of the term about a pivot of their own, if they have the shape. everywhere:
    about the greatest of all x, and not of those selected alone."""
    varying, rows = parts(own.term.exponent)
    if not varying or any(g.reductions_of(n) for n in varying):
        return None
    x, c = _element(own, varying)
    if x not in own.known:  # a sum of elements that the text does not form may cancel
        return None
    most = own.known.most
    greatest, nothing = (g.Fold.MAX, -most) if c > 0 else (g.Fold.MIN, most)
    m = fold(greatest, x if everywhere else own.chosen(x, nothing), own.loc)
    name_pivot(m, x, f"{greatest.value}{'' if everywhere else own.where}")
    # The text's own term at m, difference by difference: beside a great m and P, which it may
    # never add up, they are small. An exponent that holds more elements has no such term.
    off = _exponent_at(own, x, m)
    if g.extent(off) is not g.Extent.ROW:
        return None
    return OwnExponent(
        m, own.op("exp", spelled({x: c, m: -c}, own.loc)), off,
        own.op("exp", own.op("mul", off, own.number(0.5))), _is_infinite(own, rows),
        _shared(own, rows, x, m),
    )


def _is_infinite(own: Sum, rows: Exponent) -> g.Node:
    """Is a row value of the exponent? A multiple or a sum of them may leave the range where the
    text's differences do not."""
    asked = [own.op("isinf", row) for row in rows or (own.number(0.0),)]
    return reduce(lambda a, b: own.op("or", a, b), asked)


def exponential(own: Sum) -> Repaired | None:
    # Where no x − P is positive, as beside P = log Σ exp x, no exp(x − m) is less than the text's
    # exp(x − P): weights of 0 need no pivot of the others.
    everywhere = not own.term.masks and is_bounded(own.term.exponent)
    e = own_exponent(own, everywhere=everywhere)
    if e is None:
        return None
    rest = own.sum_of(e.relative) if everywhere else own.sum_where_selected(e.relative)
    plain = own.op("mul", own.op("mul", e.root, rest), e.root)
    infinite = e.root if not own.term.weights else own.op("zero_wins", e.root, rest)
    value = own.op("where", own.op("isinf", e.pivot), infinite, corrected(own, plain, e))
    # Of an infinite P exp(x − P) is 0; or infinite, NaN where x is so too: NaN stands for both.
    beyond = own.op("mul", e.root, own.number(0.0))
    value = own.op("where", e.infinite, beyond, value)
    value = value if everywhere else own.guarded(value)
    return Repaired(own.read_out(value), own.read(plain), (e.pivot,))


def _element(own: Sum, varying: Exponent) -> tuple[g.Node, Fraction]:
    """What varies in the exponent as a multiple of one node: where the text forms it, and rounds
    it, that very node; else the rounding of c·m would be that of every term."""
    for node in g.topological(tuple(own.term.exponentials)):
        element = g.extent(node) is g.Extent.ELEMENT and not g.reductions_of(node)
        if element and node in own.known and linear(node) == varying:
            return node, Fraction(1)
    ((x, c),) = gathered(varying, own.loc).items()
    return x, c


def _shared(own: Sum, rows: Exponent, x: g.Node, m: g.Node) -> frozenset[g.Node]:
    """Elements of the exponents that the row values are made of, too, where x is m."""
    below = g.topological([r.arg for row in rows for r in g.reductions_of(row)
                           if isinstance(r, g.Reduce)])
    elements = set(below) & set(g.topological(own.term.exponentials))
    return frozenset(at_element(n, x, m) for n in elements if g.extent(n) is g.Extent.ELEMENT)


def corrected(own: Sum, value: g.Node, e: OwnExponent) -> g.Node:
    """The value times exp of what the exponent of its scale has lost in rounding. In the text
    every term rounds its own exponent, and the sum averages; here all share one."""
    lost = _lost(own, e.off, e.shared)
    if lost is None:
        return value
    some = own.op("lt", own.op("abs", lost), own.number(1.0))  # not beside an infinity
    lost = own.op("where", some, lost, own.number(0.0))
    return own.op("mul", value, own.op("add", own.number(1.0), lost))


def _lost(own: Sum, off: g.Node, shared: frozenset[g.Node]) -> g.Node | None:
    """What the differences in an exponent at m are off by: the two-sum of Møller and Knuth. None
    where nothing is lost, or not by differences, or P is made of what is lost too."""
    if off in own.known or off in shared or not isinstance(off, g.Map):
        return None
    match off.op, off.args:
        case ("mul" | "div") as name, (a, g.Literal() as c):
            lost = _lost(own, a, shared)
            return None if lost is None else own.op(name, lost, c)
        case ("add" | "sub") as name, (a, b):
            part = own.op("sub", off, a)  # what has come of ±b
            rest = own.op("sub" if name == "add" else "add", b, part)
            lost = own.op(name, own.op("sub", a, own.op("sub", off, part)), rest)
            for inner, sign in ((_lost(own, a, shared), "add"), (_lost(own, b, shared), name)):
                lost = lost if inner is None else own.op(sign, lost, inner)
            return lost
        case _:
            return None


def is_about_its_extreme(own: Sum) -> bool:
    """Do all exponentials of the term together say exp(x − max x), or exp(min x − x)?"""
    varying, rows = parts(own.term.exponent)
    if len(rows) != 1 or not varying:
        return False
    ((row, by),) = rows.items()
    ((x, c),) = gathered(varying, own.loc).items()
    greatest = g.Fold.MAX if c > 0 else g.Fold.MIN
    return isinstance(row, g.Reduce) and row.fold is greatest and row.arg is x and by == -c


def is_never_positive(own: Sum) -> bool:
    """Is every exponent of the text at most 0, so that no term of it is greater than about the
    greatest x?"""
    facts = Elements(masks_of(own.total.arg))
    return all(_falls(node, facts) for node in own.term.exponentials)


def _falls(power: g.Node, facts: Elements) -> bool:
    """Is it exp(a − b) with a ≤ b?"""
    match power:
        case g.Map(op="exp", args=(g.Map(op="sub", args=(a, b)),)):
            return facts.le(a, b)
        case _:
            return False


def _exponent_at(own: Sum, x: g.Node, m: g.Node) -> g.Node:
    """What the text takes exp of, where x is m."""
    found: g.Node | None = None
    for node in own.term.exponentials:
        assert isinstance(node, g.Map)
        one = at_element(node.args[0], x, m)
        found = one if found is None else own.op("add", found, one)
    assert found is not None
    return found
