"""Exponents: what stands inside exp, as a combination Σ c·n of nodes with constant c.

A value kept as core · exp(Σ c·n) never forms the exponential before it has met its pivot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, isfinite

from fusegen.ir import graph as g
from fusegen.ir.literals import exact
from fusegen.ir.loc import Loc
from fusegen.rewrite.build import fold, literal, op

Exponent = Mapping[g.Node, Fraction]

_BOUNDED = frozenset(("sigmoid", "tanh", "sin", "cos", "erf", "sign"))


@dataclass(frozen=True, slots=True)
class Scaled:
    """A value, as core · exp(log)."""

    core: g.Node
    log: Exponent = field(default_factory=dict)


def plus(a: Exponent, b: Exponent, factor: Fraction | int = 1) -> Exponent:
    """a + factor·b, without zeros."""
    total = {n: a.get(n, Fraction(0)) + factor * b.get(n, Fraction(0)) for n in (*a, *b)}
    return {n: c for n, c in total.items() if c}


def scaled(a: Exponent, factor: Fraction | int) -> Exponent:
    return plus({}, a, factor)


def constant(node: g.Node) -> Fraction | None:
    """The exact value of a finite number, None for other nodes."""
    match node:
        case g.Literal(value=bool()):
            return None
        case g.Literal(value=value) if isfinite(value):
            return exact(value)
        case _:
            return None


def linear(node: g.Node) -> Exponent:
    """The node taken apart into a linear combination, in the order of the text."""
    order = g.topological((node,))
    weights: dict[g.Node, Fraction] = {node: Fraction(1)}
    for part in reversed(order):  # each once, its users before it: what is shared is not repeated
        terms, weight = _terms(part), weights.get(part)
        if terms and weight is not None:
            del weights[part]
            for term, factor in terms:
                weights[term] = weights.get(term, Fraction(0)) + weight * factor
    return {part: c for part in order if (c := weights.get(part))}


def _terms(node: g.Node) -> tuple[tuple[g.Node, Fraction | int], ...]:
    """What it is a linear combination of; () if it is one of nothing but itself."""
    match node:
        case g.Map(op="add", args=(a, b)):
            return (a, 1), (b, 1)
        case g.Map(op="sub", args=(a, b)):
            return (a, 1), (b, -1)
        case g.Map(op="neg", args=(a,)):
            return ((a, -1),)
        case g.Map(op="mul", args=(a, b)) if (c := constant(a)) is not None:
            return ((b, c),)
        case g.Map(op="mul", args=(a, b)) if (c := constant(b)) is not None:
            return ((a, c),)
        case g.Map(op="div", args=(a, b)) if (c := constant(b)) is not None and c:
            return ((a, 1 / c),)
        case _:
            return ()


def spelled(exponent: Exponent, loc: Loc) -> g.Node:
    """The combination as a node: a common factor outside, then sums, then differences."""
    sizes = {abs(c) for c in exponent.values()}
    common = sizes.pop() if len(sizes) == 1 else Fraction(1)
    ordered = sorted(exponent.items(), key=lambda item: item[1] < 0)
    total: g.Node | None = None
    for node, c in ordered:
        term = _multiple(node, abs(c) / common, loc)
        if total is None:
            total = term if c > 0 else op("neg", loc, term)
        else:
            total = op("add" if c > 0 else "sub", loc, total, term)
    return literal(0.0, loc) if total is None else _multiple(total, common, loc)


def _multiple(node: g.Node, c: Fraction, loc: Loc) -> g.Node:
    """c·node, by the shortest literals that stand for exactly c."""
    if c == 1:
        return node
    up, down = _nearest(c), _nearest(1 / c)
    if _stands_for(up, c) and (len(repr(up)) <= len(repr(down)) or not isfinite(down)):
        return op("mul", loc, node, literal(up, loc))
    if _stands_for(down, 1 / c):
        return op("div", loc, node, literal(down, loc))
    raised = _by("mul", node, c.numerator, loc)
    return _by("div", raised, c.denominator, loc)


_MOST = 2**1000


def _by(name: str, node: g.Node, whole: int, loc: Loc) -> g.Node:
    """Multiplied, or divided, by a whole number of any size."""
    left = Fraction(whole)
    while left > _MOST:
        node, left = op(name, loc, node, literal(float(_MOST), loc)), left / _MOST
    return op(name, loc, node, literal(float(left), loc))


def _nearest(c: Fraction) -> float:
    """As a float; infinite where there is none so great, as one over a subnormal number."""
    try:
        return float(c)
    except OverflowError:
        return inf


def _stands_for(value: float, c: Fraction) -> bool:
    return isfinite(value) and exact(value) == c


def parts(exponent: Exponent) -> tuple[Exponent, Exponent]:
    """What varies over the row (or a list), and what is one value per row."""
    varying = {n: c for n, c in exponent.items() if g.extent(n) is not g.Extent.ROW}
    return varying, {n: c for n, c in exponent.items() if n not in varying}


def gathered(exponent: Exponent, loc: Loc) -> Exponent:
    """The same combination, with all that varies in one node: what is reduced is what is used."""
    varying, rows = parts(exponent)
    if len(varying) > 1:
        c = next(iter(varying.values()))
        varying = {spelled(scaled(varying, 1 / c), loc): c}
    return {**varying, **rows}


def greatest(varying: Exponent, loc: Loc) -> Exponent:
    """The greatest value of the combination over the row, itself as a combination."""
    ((node, c),) = gathered(varying, loc).items()
    return {fold(g.Fold.MAX if c > 0 else g.Fold.MIN, node, loc): c}


def is_bounded(exponent: Exponent) -> bool:
    """Is it known that exp of the combination cannot overflow?"""
    if all(_not_above(n, c) for n, c in exponent.items()):
        return True
    varying, rows = parts(exponent)
    return any(
        _covers(r, c, varying) and all(_not_above(n, k) for n, k in rows.items() if n is not r)
        for r, c in rows.items()
    )


def _not_above(node: g.Node, c: Fraction) -> bool:
    """Is c·node bounded above by a small number (0, or a constant of the text)?"""
    match node:
        case g.Literal():
            return True
        case g.Map(op=name) if name in _BOUNDED:
            return True
        case g.Map(op="div" | "mul", args=(a, b)) if c > 0 and g.extent(b) is g.Extent.ROW:
            return _is_pivoted(a)
        case g.Map(op="mul", args=(a, b)) if c > 0 and g.extent(a) is g.Extent.ROW:
            return _is_pivoted(b)
        case _:
            return c < 0 and _never_negative(node)


def _is_pivoted(node: g.Node) -> bool:
    """Is it x − max(x), before a temperature per row multiplies it?"""
    inner = linear(node)
    return inner != {node: 1} and is_bounded(inner)


def _never_negative(node: g.Node) -> bool:
    match node:
        case g.Map(op="abs" | "square" | "exp" | "sqrt"):
            return True
        case g.Map(op="mul", args=(a, b)):
            return a is b
        case g.Map(op="pow", args=(_, power)):
            c = constant(power)
            return c is not None and c % 2 == 0
        case g.Map(op="log", args=(g.Reduce(fold=g.Fold.SUM, arg=g.Map(op="exp", args=(e,))),)):
            varying, rows = parts(linear(e))  # Σ exp(x − max) ≥ 1: the maximum itself counts 1
            return len(rows) == 1 and all(_is_extreme(r, c, varying) for r, c in rows.items())
        case _:
            return False


def _is_extreme(row: g.Node, c: Fraction, varying: Exponent) -> bool:
    """Is the combination + c·row at most 0, and 0 somewhere, as x − max(x) and min(x) − x are?"""
    match row:
        case g.Reduce(fold=g.Fold.MAX | g.Fold.MIN, arg=arg):
            right = (c < 0) == (row.fold is g.Fold.MAX)
            return right and scaled(linear(arg), -c) == varying
        case _:
            return False


def _covers(row: g.Node, c: Fraction, varying: Exponent) -> bool:
    """Is the combination + c·row at most 0, as x − logsumexp(x) is?

    An extreme that a constant replaces where it is infinite is one too.
    """
    match row:
        case g.Map(op="add", args=(a, b)):
            return c < 0 and _covers(a, c, varying) and _never_negative(b)
        case g.Map(op="where", args=(_, a, b)):
            found = [_covers(n, c, varying) for n in (a, b) if not isinstance(n, g.Literal)]
            return bool(found) and all(found)
        case _:
            return _is_extreme(row, c, varying)
