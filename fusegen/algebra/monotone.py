"""Reductions that commute with a monotone map: topk(f(x)) = f(topk(x)), and max, min, argmax.

A strictly monotone f keeps the order of elements, and ties. One that only never falls (relu,
floor) keeps the greatest *values*: enough for max, min and the values of a top-K, not for columns,
which go to the lowest column among elements that f makes equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from fusegen.algebra.laws import obligation
from fusegen.algebra.setting import Setting
from fusegen.ir.derivation import Obligation


@dataclass(frozen=True)
class Trend:
    """+1 never falls, −1 never rises, 0 not known; `strict`: equal results only of equals."""

    sign: int
    strict: bool


_UNKNOWN = Trend(0, False)
_STEPS = (sp.Max, sp.Min, sp.floor, sp.ceiling, sp.sign)
_RISING = (sp.exp, sp.log, sp.tanh, sp.erf)
_MOST_TIMES = 1000
"""Of an exponent: polynomials in exp(x) have a place for every power up to exp(1000·x)."""


def trend_of(setting: Setting) -> tuple[Trend, Obligation]:
    """How f follows its one element over the element's domain, with the proof."""
    found = _UNKNOWN

    def prove() -> bool:
        nonlocal found
        found = _trend(setting)
        return found.sign != 0

    element = next(iter(setting.elements.values()))
    proof = obligation("monotone", f"f follows the order of {element}, or reverses it", prove)
    return found, proof


def _trend(setting: Setting) -> Trend:
    if len(setting.elements) != 1 or setting.indicators:
        return _UNKNOWN
    (element,) = setting.elements.values()
    setting = replace(setting, f=setting.f.replace(
        lambda e: isinstance(e, sp.Piecewise) and element not in e.free_symbols,
        lambda e: sp.Dummy(real=True, nonnegative=all(v.is_nonnegative for v, _ in e.args) or None)
    ))  # a number of the row, whichever
    if setting.f.has(sp.Piecewise) or setting.f.atoms(sp.core.function.AppliedUndef):
        return _UNKNOWN
    best = _UNKNOWN
    for f, variable, turn in _views(setting, element):
        trend = trend_in(f, variable)
        if trend.sign:
            best = Trend(turn * trend.sign, trend.strict)
        if trend.strict:
            return best
    return best


def trend_in(f: sp.Expr, x: sp.Symbol) -> Trend:
    """How f follows x, by composition or by its slope; strictly if either shows it."""
    best = _UNKNOWN
    for trend in (_composed(f, x), _by_slope(f, x)):
        if trend.sign and trend.strict:
            return trend
        best = trend if trend.sign else best
    return best


def _views(setting: Setting, element: sp.Symbol) -> list[tuple[sp.Expr, sp.Symbol, int]]:
    """f over the element, and over its distance from an extreme, which is known to be ≥ 0."""
    views = [(setting.f, element, 1)]
    for b in setting.bounds:
        f = sp.expand_power_base(setting.f.subs(b.element, b.inside))
        views.append((f, b.distance, -1 if b.above else 1))
    return views


def _composed(f: sp.Expr, x: sp.Symbol) -> Trend:
    """By the rules of composition: sums of rising terms rise, a rising map of one rises, …"""
    if f == x:
        return Trend(1, True)
    if not f.has(x):
        return Trend(1, False)
    if isinstance(f, sp.Add):
        return _together([_composed(a, x) for a in f.args if a.has(x)], any)
    if isinstance(f, sp.Mul):
        return _product(f, x)
    if isinstance(f, _RISING):
        return _composed(f.args[0], x)
    if isinstance(f, _STEPS):
        return _together([Trend(t.sign, False) for a in f.args if (t := _composed(a, x))], all)
    if isinstance(f, sp.Abs):
        inside = _composed(f.args[0], x)
        return _scaled(inside, f.args[0])
    if isinstance(f, sp.Pow) and not f.exp.has(x):
        return _power(f, x)
    return _UNKNOWN


def _together(trends: list[Trend], strict: object) -> Trend:
    signs = {t.sign for t in trends}
    if len(signs) != 1 or 0 in signs:
        return _UNKNOWN
    is_strict = any(t.strict for t in trends) if strict is any else all(t.strict for t in trends)
    return Trend(signs.pop(), is_strict)


def _scaled(trend: Trend, by: sp.Expr) -> Trend:
    """The trend times something of known sign."""
    if by.is_nonnegative:
        return Trend(trend.sign, trend.strict and bool(by.is_positive))
    if by.is_nonpositive:
        return Trend(-trend.sign, trend.strict and bool(by.is_negative))
    return _UNKNOWN


def _product(f: sp.Mul, x: sp.Symbol) -> Trend:
    """Constants times one factor, or factors ≥ 0 that all rise (or all fall)."""
    constant, rest = f.as_independent(x, as_Add=False)
    factors = sp.Mul.make_args(rest)
    if len(factors) == 1:
        return _scaled(_composed(factors[0], x), constant)
    if not all(a.is_nonnegative for a in factors):
        return _UNKNOWN
    trends = [Trend(t.sign, t.strict) for a in factors if (t := _composed(a, x))]
    positive = all(a.is_positive for a in factors)
    joined = _together(trends, any)
    return _scaled(Trend(joined.sign, joined.strict and positive), constant)


def _power(f: sp.Pow, x: sp.Symbol) -> Trend:
    base, power = f.args
    inside = _composed(base, x)
    odd = power.is_Integer and power.is_positive and power % 2 == 1
    if odd:
        return inside
    if base.is_nonnegative and power.is_positive:
        return inside
    if base.is_positive and power.is_negative:
        return Trend(-inside.sign, inside.strict)
    return _UNKNOWN


def _by_slope(f: sp.Expr, x: sp.Symbol) -> Trend:
    """By the sign of the derivative, where f has one everywhere."""
    if f.has(*_STEPS, sp.Abs):
        return _UNKNOWN
    slope = sp.diff(f, x)
    shapes = (lambda e: e, sp.factor, lambda e: sp.factor(sp.simplify(e.rewrite(sp.exp))))
    for shape in shapes[:1] if _has_high_powers(slope) else shapes:
        candidate = shape(slope)
        if candidate.is_positive or candidate.is_negative:
            return Trend(1 if candidate.is_positive else -1, True)
        # A polynomial's slope, unless it is 0 throughout, is 0 at finitely many points.
        strict = candidate.is_polynomial(x) and bool(sp.Poly(candidate, x).LC().is_nonzero)
        if strict and (candidate.is_nonnegative or candidate.is_nonpositive):
            return Trend(1 if candidate.is_nonnegative else -1, True)
    return _UNKNOWN


def _has_high_powers(f: sp.Expr) -> bool:
    """Would polynomials in its exponentials be too long to be written out?"""
    numbers = (n for e in f.atoms(sp.exp) for n in e.exp.atoms(sp.Rational))
    return any(max(abs(n.p), n.q) > _MOST_TIMES for n in numbers)
