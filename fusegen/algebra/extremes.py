"""Extremes of what holds row values that are still to come, out of extremes of the elements.

  factor  max c·h = c·max h and min c·h = c·min h for c ≥ 0: of rows, known when they are finished
  ends    max |g(x)| = max(|g(max x)|, |g(min x)|) where g follows the order of x, or reverses it

Roundings are monotone, so both give what the text does, bit for bit, where c multiplies or divides
last, and up to the rounding of a product where it does not.
"""

from __future__ import annotations

import sympy as sp

from fusegen.algebra.laws import is_zero, obligation
from fusegen.algebra.monotone import trend_in
from fusegen.algebra.symbols import (
    Unmodelled,
    counts_as_positive,
    divisors,
    freeze,
    is_nonnegative,
    operations,
)
from fusegen.ir import graph as g
from fusegen.ir.derivation import Obligation

_MOST = 60  # operations of the expression: sympy's time grows with them
_STOPS = (Unmodelled, ArithmeticError, TypeError, ValueError, NotImplementedError, RecursionError)


def factored(name: str, term: g.Node, scaled: g.Node) -> Obligation:
    """That an expression of elements is `scaled`, which is h times row values ≥ 0."""

    def prove() -> bool:
        if operations(term, scaled) > _MOST:
            return False
        leaves = _leaves((term, scaled), None)
        try:
            return is_zero(freeze(term, leaves) - freeze(scaled, leaves))
        except _STOPS:
            return False

    return obligation("factor", f"{name} is taken of c·h with c ≥ 0, and of h alone it is at the "
                      "same element", prove)


def follows(name: str, inner: g.Node, element: g.Node) -> Obligation:
    """That g, an expression of one element, follows or reverses its order: |g| is then greatest at
    an end."""

    return obligation("ends", f"{name} is taken of g(x) or |g(x)|, and g follows the order of x, "
                      "or reverses it: the greatest x or the least has it",
                      lambda: order_of(inner, element) != 0)


def order_of(inner: g.Node, element: g.Node) -> int:
    """+1 if an expression of the one element follows its order, −1 if it reverses it, else 0."""
    leaves = _leaves((inner,), element)
    try:
        symbol = leaves[element]
        f = freeze(inner, leaves)
        others = {s for n, s in leaves.items() if g.extent(n) is g.Extent.ELEMENT} - {symbol}
        return 0 if f.free_symbols & others else trend_in(f, symbol).sign
    except _STOPS:
        return 0


def _leaves(roots: tuple[g.Node, ...], element: g.Node | None) -> dict[g.Node, sp.Expr]:
    """A symbol for the element, for other inputs, and for the largest row values."""
    found = g.outermost(roots, lambda n: n is element or (
        not isinstance(n, g.Literal) and (g.extent(n) is g.Extent.ROW or not g.operands(n))))
    divided_by = frozenset[g.Node]().union(*map(divisors, roots))
    return {n: sp.Symbol(f"v_{i}", real=True, **_sign(n, divided_by)) for i, n in enumerate(found)}


def _sign(node: g.Node, divided_by: frozenset[g.Node]) -> dict[str, bool]:
    if counts_as_positive(node, divided_by):
        return {"positive": True}
    return {"nonnegative": True} if is_nonnegative(node) else {}
