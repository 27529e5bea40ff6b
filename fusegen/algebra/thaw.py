"""Back from sympy: `thaw` spells an expression in fusegen's own language."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import sympy as sp

from fusegen.ir.expr import Expr, Lit, Var, call, product

_PRODUCT = 8  # the greatest power that is a product: that rounds less than pow, and costs less


def without_logs_of_nothing(expr: sp.Expr) -> sp.Expr:
    """The same with every product a·log b as xlogy(a, b), which is 0 where a is."""
    return expr.replace(lambda e: isinstance(e, sp.Mul) and bool(e.atoms(sp.log)), _logs_taken)


def _logs_taken(product: sp.Mul) -> sp.Expr:
    logs = [p for p in product.args if isinstance(p.as_base_exp()[0], sp.log)
            and p.as_base_exp()[1].is_Integer and p.as_base_exp()[1] > 0]
    number, rest = sp.Mul(*(a for a in product.args if a not in logs)).as_coeff_Mul()
    if rest == 1:
        return product
    for power in logs:
        log, times = power.as_base_exp()
        for _ in range(int(times)):
            rest = _XLOGY(rest, log.args[0])
    return number * rest


def with_log1p(expr: sp.Expr) -> sp.Expr:
    """The same with every log(1 + e) as log1p(e), which keeps the digits of a small e."""
    return expr.replace(
        lambda e: isinstance(e, sp.log) and isinstance(e.args[0], sp.Add) and 1 in e.args[0].args,
        lambda e: sp.Function("log1p", real=True)(e.args[0] - 1))


_XLOGY = sp.Function("xlogy", real=True)


def thaw(expr: sp.Expr, names: Mapping[sp.Symbol, Expr], moving: frozenset[str]) -> Expr:
    """A sympy expression in fusegen's own language.

    `moving` names relatives and moves: products of their powers with an exponential are guarded,
    so that u·exp(u) at u = −inf is 0 (its limit), not NaN. So is all that an indicator selects.
    """
    if expr in names:
        return names[expr]
    if expr.is_Integer or expr.is_Rational or expr.is_Float:
        return Lit(float(expr))
    if isinstance(expr, sp.Add):
        return _thaw_sum(expr, names, moving)
    if isinstance(expr, sp.Mul):
        return _thaw_product(expr, names, moving)
    if isinstance(expr, sp.exp):
        return call("exp", thaw(expr.args[0], names, moving))
    if isinstance(expr, sp.Pow):
        return _thaw_power(expr, names, moving)
    if isinstance(expr, sp.Piecewise):
        return _thaw_cases(expr, names, moving)
    if expr in (sp.true, sp.false):
        return Lit(expr == sp.true, "bool")
    if isinstance(expr, sp.And | sp.Or | sp.Not):
        inner = [_condition(a, names, moving) for a in _ordered(expr.args)]
    else:
        inner = [thaw(a, names, moving) for a in _ordered(expr.args)]
    if isinstance(expr, sp.core.function.AppliedUndef):
        return call(expr.func.__name__, *(thaw(a, names, moving) for a in expr.args))
    for kind, op in _WORDS.items():
        if isinstance(expr, kind):
            return functools.reduce(lambda a, b: call(op, a, b), inner) if len(inner) > 1 \
                else call(op, *inner)
    for kind, op in _RELATIONS.items():
        if isinstance(expr, kind):
            return call(op, *(thaw(a, names, moving) for a in expr.args))
    raise ValueError(f"no spelling for {expr}")


_WORDS = {
    sp.log: "log", sp.tanh: "tanh", sp.sin: "sin", sp.cos: "cos", sp.erf: "erf", sp.Abs: "abs",
    sp.sign: "sign", sp.floor: "floor", sp.ceiling: "ceil", sp.Max: "maximum", sp.Min: "minimum",
    sp.And: "and", sp.Or: "or", sp.Not: "not",
}
_RELATIONS = {
    sp.StrictLessThan: "lt", sp.LessThan: "le", sp.StrictGreaterThan: "gt", sp.GreaterThan: "ge",
    sp.Equality: "eq", sp.Unequality: "ne",
}


def _thaw_cases(
    expr: sp.Piecewise, names: Mapping[sp.Symbol, Expr], moving: frozenset[str]
) -> Expr:
    *cases, (last, condition) = expr.args
    if condition != sp.true:
        raise ValueError(f"no spelling for {expr}")
    total = thaw(last, names, moving)
    for value, when in reversed(cases):
        total = call("where", _condition(when, names, moving), thaw(value, names, moving), total)
    return total


def _condition(
    expr: sp.Expr, names: Mapping[sp.Symbol, Expr], moving: frozenset[str]
) -> Expr:
    """An array that holds conditions is spelled as 0 or 1, as all arrays are."""
    found = thaw(expr, names, moving)
    varies = isinstance(found, Var) and found.varying and found.kind != "bool"
    return call("ne", found, Lit(0.0)) if varies else found


def _ordered(args: tuple[sp.Expr, ...]) -> list[sp.Expr]:
    """The same in every process: equal graphs have the same bytes of source."""
    return sorted(args, key=sp.default_sort_key)


def _thaw_sum(expr: sp.Add, names: Mapping[sp.Symbol, Expr], moving: frozenset[str]) -> Expr:
    """a − b, and not a + (−1)·b, as sympy has it."""
    plus = [t for t in _ordered(expr.args) if not t.could_extract_minus_sign()]
    minus = [-t for t in _ordered(expr.args) if t.could_extract_minus_sign()]
    terms = [thaw(t, names, moving) for t in plus]
    total = terms[0] if terms else call("neg", thaw(minus.pop(0), names, moving))
    for term in terms[1:]:
        total = call("add", total, term)
    for t in minus:
        total = call("sub", total, thaw(t, names, moving))
    return total


def _thaw_product(expr: sp.Mul, names: Mapping[sp.Symbol, Expr], moving: frozenset[str]) -> Expr:
    """Signs first, then choices, quotients, and what exponentials and indicators weigh.

    A weight of 0 leaves out what it weighs, whatever that is: an element far below the pivot has
    u = −∞ and exp(u) = 0, and contributes nothing to Σ u·exp(u). IEEE's −∞ · 0 is NaN.
    """
    if expr.args[0] == -1:
        return call("neg", thaw(-expr, names, moving))
    # [condition]·rest: chosen, not multiplied, for the same reason.
    choice = next((a for a in _ordered(expr.args) if isinstance(a, sp.Piecewise)
                   and [v for v, _ in a.args] in ([1, 0], [0, 1])), None)
    if choice is not None:
        rest = thaw(sp.Mul(*(a for a in expr.args if a != choice)), names, moving)
        sides = (rest, Lit(0.0)) if choice.args[0][0] == 1 else (Lit(0.0), rest)
        return call("where", _condition(choice.args[0][1], names, moving), *sides)
    indicators = [a for a in _ordered(expr.args) if a.is_Symbol and a.is_integer]
    over, under = sp.fraction(expr, exact=True)
    # exp(−u) is a weight; to sympy it is 1 / exp(u). What an indicator drops may divide by 0.
    if under != 1 and not under.has(sp.exp) and not indicators:
        return call("div", thaw(over, names, moving), thaw(under, names, moving))
    weights = indicators + [
        a for a in _ordered(expr.args) if isinstance(a, sp.exp)
        and not (indicators and {s.name for s in a.free_symbols} - moving)  # may be infinite
    ]
    growing = [
        a for a in _ordered(expr.args)
        if a not in weights and (indicators or {s.name for s in a.free_symbols} & moving)
        and not a.is_number
    ]
    others = [a for a in _ordered(expr.args) if a not in weights and a not in growing]
    if not (weights and growing):
        factors = _weighed([*others, *growing], weights)
        return product([thaw(f, names, moving) for f in factors])
    weight = product([thaw(a, names, moving) for a in weights])
    value = product([thaw(a, names, moving) for a in growing])
    guarded = call("zero_wins", weight, value)
    return product([*(thaw(a, names, moving) for a in others), guarded])


def _weighed(plain: list[sp.Expr], weights: list[sp.Expr]) -> list[sp.Expr]:
    """A weight of 0 comes before a product that may leave the range: x² is infinite beyond 1e19."""
    factors = [f for e in plain for f in _repeated(e)]
    several = sum(not f.is_number for f in factors) > 1
    return [*weights, *factors] if weights and several else [*plain, *weights]


def _repeated(expr: sp.Expr) -> list[sp.Expr]:
    """A power as its factors."""
    base, power = expr.as_base_exp()
    few = power.is_Integer and 2 <= power <= _PRODUCT
    return [base] * int(power) if few else [expr]


def _thaw_power(expr: sp.Pow, names: Mapping[sp.Symbol, Expr], moving: frozenset[str]) -> Expr:
    base, power = expr.args
    inner = thaw(base, names, moving)
    if power.is_Integer and 2 <= power <= _PRODUCT:
        return product([inner] * int(power))
    if power.is_Integer and -4 <= power <= -1:
        return call("div", Lit(1.0), product([inner] * -int(power)))
    if power == sp.Rational(1, 2):
        return call("sqrt", inner)
    if power == sp.Rational(-1, 2):
        return call("rsqrt", inner)
    return call("pow", inner, thaw(power, names, moving))
