"""Positive numbers before an expression: the text's own, and constants that kernels are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from fusegen.ir import graph as g
from fusegen.ir.expr import Call, Expr, Lit, Var
from fusegen.ir.literals import exact
from fusegen.ir.loc import Loc
from fusegen.rewrite.build import literal, op
from fusegen.rewrite.exponent import constant

_MOST = Fraction(2**60)
_MODERATE = 2
"""The magnitude of constants between 2^-13 and 2^13."""


@dataclass(frozen=True, slots=True)
class Factor:
    """number · Π constant^power."""

    number: Fraction = Fraction(1)
    powers: frozenset[tuple[g.Input, int]] = frozenset()

    def __mul__(self, other: Factor) -> Factor:
        powers = dict(self.powers)
        for c, power in other.powers:
            powers[c] = powers.get(c, 0) + power
        left = frozenset((c, power) for c, power in powers.items() if power)
        return Factor(self.number * other.number, left)

    @property
    def inverse(self) -> Factor:
        return Factor(1 / self.number, frozenset((c, -power) for c, power in self.powers))

    @property
    def is_one(self) -> bool:
        return self == Factor()

    @property
    def is_moderate(self) -> bool:
        """Has a product with it the range that the text's has? What is too far away for floats then
        has an exponential of 0."""
        return 1 / _MOST < self.number < _MOST and sum(abs(p) for _, p in self.powers) <= 2

    def moves_out(self, *, constants: bool) -> bool:
        """Is it worth it, and allowed? constants: may it hold those that kernels are given?"""
        return not self.is_one and self.is_moderate and (constants or not self.powers)

    def times(self, expr: Expr, names: Mapping[g.Node, str]) -> Expr:
        """The product, of the call's own numbers alone: merges have them at hand."""
        found = expr if self.number == 1 else Call("mul", (expr, Lit(float(self.number))))
        for c, power in sorted(self.powers, key=_name):
            for _ in range(abs(power)):
                found = Call("mul" if power > 0 else "div", (found, Var(names[c])))
        return found

    def node(self, loc: Loc) -> g.Node:
        """One number, made once for all rows."""
        above = [c for c, power in sorted(self.powers, key=_name) for _ in range(power)]
        below = [c for c, power in sorted(self.powers, key=_name) for _ in range(-power)]
        if not self.powers:
            return literal(float(self.number), loc)
        found: g.Node | None = None if above and self.number == 1 else \
            literal(float(self.number), loc)
        for c in above:
            found = c if found is None else op("mul", loc, found, c)
        for c in below:
            found = op("div", loc, found, c) if found else found
        assert found is not None
        return found

    @property
    def name(self) -> str:
        """How many steps a unit has."""
        return "_".join(("steps", *sorted(c.name for c, _ in self.powers)))


def _name(item: tuple[g.Input, int]) -> str:
    return item[0].name


@dataclass(frozen=True, slots=True)
class Multiple:
    """factor · base."""

    base: g.Node
    factor: Factor


def multiple(node: g.Node) -> Multiple:
    """A node taken apart."""
    match node:
        case g.Map(op="mul", args=(a, b)) if (c := _positive(b)):
            inner, by = multiple(a), c
        case g.Map(op="mul", args=(a, b)) if (c := _positive(a)):
            inner, by = multiple(b), c
        case g.Map(op="div", args=(a, b)) if (c := _positive(b)):
            inner, by = multiple(a), c.inverse
        case _:
            return Multiple(node, Factor())
    return Multiple(inner.base, inner.factor * by)


def _positive(node: g.Node) -> Factor | None:
    if isinstance(node, g.Input):
        known = node.axis is g.Axis.SCALAR and node.magnitude == _MODERATE
        return Factor(powers=frozenset([(node, 1)])) if known else None
    found = constant(node)
    return Factor(found) if found is not None and found > 0 else None


def taken_apart(expr: Expr, node_of: Callable[[str], g.Node | None]) -> tuple[Factor, Expr]:
    """factor · expression. node_of: a graph's node of a name."""
    match expr:
        case Call(op="mul", args=(a, b)) if (c := _number(a, node_of)):
            rest, by = b, c
        case Call(op="mul", args=(a, b)) if (c := _number(b, node_of)):
            rest, by = a, c
        case Call(op="div", args=(a, b)) if (c := _number(b, node_of)):
            rest, by = a, c.inverse
        case _:
            return Factor(), expr
    factor, inner = taken_apart(rest, node_of)
    return factor * by, inner


def _number(expr: Expr, node_of: Callable[[str], g.Node | None]) -> Factor | None:
    match expr:
        case Lit(value=value) if not isinstance(value, bool) and 0 < value < float("inf"):
            return Factor(exact(value))
        case Var(name=name) if (node := node_of(name)) is not None:
            return _positive(node)
        case _:
            return None
