"""Products and linear combinations as a person writes them: no zeros, ones, or double signs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusegen.ir.expr import Call, Expr, Lit, call

ONE, ZERO = Lit(1.0), Lit(0.0)


def factors_of(expr: Expr) -> tuple[int, list[Expr]]:
    """Sign and factors of a product; a limit 0·∞ = 0 and x·log y are products to a reader."""
    match expr:
        case Call(op="neg", args=(inner,)):
            sign, factors = factors_of(inner)
            return -sign, factors
        case Call(op="zero_wins", args=(weight, value)):
            return factors_of(Call("mul", (value, weight)))
        case Call(op="mul", args=(left, right)):
            s, first = factors_of(left)
            t, second = factors_of(right)
            return s * t, [*first, *second]
        case Call(op="xlogy", args=(left, right)):
            return 1, [left, Call("log", (right,))]
        case Lit(value=value) if value == 1 and not isinstance(value, bool):
            return 1, []
        case Lit(value=value) if not isinstance(value, bool) and value < 0:
            return -1, [] if value == -1 else [Lit(-value)]
        case _:
            return 1, [expr]


def product_of(factors: Sequence[Expr]) -> Expr:
    """The product; 1 if there are no factors."""
    total: Expr | None = None
    for factor in factors:
        total = factor if total is None else Call("mul", (total, factor))
    return Lit(1.0) if total is None else total


def combination(terms: Iterable[tuple[Expr, Expr]]) -> Expr:
    """Σ coefficient · value."""
    total: Expr | None = None
    for coefficient, value in terms:
        if coefficient == ZERO:
            continue
        sign, term = _term(coefficient, value)
        if total is None:
            total = term if sign > 0 else call("neg", term)
        else:
            total = call("add" if sign > 0 else "sub", total, term)
    return ZERO if total is None else total


def _term(coefficient: Expr, value: Expr) -> tuple[int, Expr]:
    sign, factors = factors_of(coefficient)
    match factors:
        case [Call(op="div", args=(over, under))]:
            inner, over_factors = factors_of(over)
            return sign * inner, call("div", _times(over_factors, value), under)
        case _:
            return sign, _times(factors, value)


def _times(factors: list[Expr], value: Expr) -> Expr:
    return product_of(factors if value == ONE else [*factors, value])
