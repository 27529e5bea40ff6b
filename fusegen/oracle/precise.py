"""Arithmetic in as many digits as wanted: every operation of `OPS` on mpmath's numbers.

Numbers are mpmath's reals; arrays are NumPy's, of such objects. An operation outside its domain
gives NaN, or the infinity that IEEE arithmetic gives. The only importer of mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from fusegen.ir.expr import Arithmetic

_TOO_LARGE = 10**100  # exponents beyond it are infinite here: their powers would not fit a memory
_CERTAIN_DIGITS = 12  # a decimal this short was meant as it stands
_SIMPLE = 100_000  # denominators of fractions that a derivation works out: 10/7 for 1/0.7


@cache
def precise(digits: int) -> Arithmetic:
    """Arithmetic of `digits` decimal digits. Contexts are fusegen's own: mpmath.mp stays as is."""
    import mpmath

    context = mpmath.mp.clone()
    context.dps = digits
    number = _reader(context)
    functions = {
        name: _lifted(function, arity, number)
        for arity, table in ((1, _unary(context)), (2, _binary(context)))
        for name, function in table.items()
    }
    functions["where"] = np.frompyfunc(lambda c, a, b: a if c else b, 3, 1)
    return Arithmetic(
        functions, lambda v: number(exact(v)[0] if isinstance(v, bool | int | float) else v)
    )


def exact(value: float | int | bool) -> tuple[Fraction | float, bool]:
    """The number that a literal stands for, and whether that is certain.

    Derivations work with 7/10 where a text says 0.7, and print 10/7 as the nearest float: a float
    that is nearest to a short decimal or a simple fraction is read as that.
    """
    if value != value or abs(value) == float("inf"):
        return value, True
    decimal = Fraction(repr(float(value)))
    if len(repr(float(value)).partition("e")[0].strip("-.0").replace(".", "")) <= _CERTAIN_DIGITS:
        return decimal, True
    if decimal.denominator == 1:
        return decimal, abs(decimal) <= 2**53
    simple = Fraction(value).limit_denominator(_SIMPLE)
    return (simple, True) if float(simple) == value else (decimal, False)


def _reader(context: Any) -> Callable[[Any], Any]:
    mpf = context.mpf
    whole = (bool, int, np.integer, np.bool_)

    def number(value: Any) -> Any:
        if isinstance(value, mpf):
            return value
        if isinstance(value, Fraction):
            return mpf(value.numerator) / value.denominator
        return mpf(int(value) if isinstance(value, whole) else float(value))

    return number


def _lifted(function: Callable[..., Any], arity: int, number: Callable[[Any], Any]) -> Any:
    if arity == 1:
        return np.frompyfunc(lambda a: function(number(a)), 1, 1)
    return np.frompyfunc(lambda a, b: function(number(a), number(b)), 2, 1)


def _unary(c: Any) -> dict[str, Callable[[Any], Any]]:
    nan, inf, far = c.nan, c.inf, c.mpf(10) ** (2 * _TOO_LARGE)

    def exp(a: Any) -> Any:
        return c.exp(a) if abs(a) < _TOO_LARGE or a != a else inf if a > 0 else c.zero

    def log(a: Any) -> Any:
        return c.ln(a) if a > 0 else -inf if a == 0 else nan

    def sqrt(a: Any) -> Any:
        return c.sqrt(a) if a >= 0 else nan

    def mirror(a: Any) -> Any:
        if a != a or a == -inf:
            return -inf if a != a else nan
        # Beyond every number, and above what NaN becomes.
        return -far if a == inf else inf if a == -far else -a

    def wave(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda a: f(a) if abs(a) < _TOO_LARGE else nan

    def whole(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda a: f(a) if c.isfinite(a) else a

    return {
        "neg": lambda a: -a, "square": lambda a: a * a, "abs": abs,
        "sign": lambda a: a if a != a else c.mpf((a > 0) - (a < 0)),
        "mirror": mirror, "exp": exp, "exp2": lambda a: exp(a * c.ln2),
        "expm1": lambda a: c.expm1(a) if abs(a) < 1 else exp(a) - 1,
        "log": log, "log2": lambda a: log(a) / c.ln2,
        "log1p": lambda a: c.log1p(a) if abs(a) < 1 else log(1 + a),
        "sqrt": sqrt, "rsqrt": lambda a: inf if a == 0 else 1 / sqrt(a),
        "tanh": c.tanh, "sin": wave(c.sin), "cos": wave(c.cos), "erf": c.erf,
        "sigmoid": lambda a: 1 / (1 + exp(-a)),
        "floor": whole(c.floor), "ceil": whole(c.ceil), "round": whole(c.nint),
        "isnan": lambda a: bool(c.isnan(a)), "isinf": lambda a: bool(c.isinf(a)),
        "isfinite": lambda a: bool(c.isfinite(a)), "not": lambda a: not a,
        "to_float": lambda a: a, "to_int": lambda a: int(a) if c.isfinite(a) else 0,
        "to_bool": lambda a: bool(a != 0),
    }


def _binary(c: Any) -> dict[str, Callable[[Any, Any], Any]]:
    nan, inf, one = c.nan, c.inf, _unary(c)

    def divided(a: Any, b: Any) -> Any:
        if b != 0:
            return a / b
        return nan if a == 0 or a != a else inf if a > 0 else -inf

    def power(a: Any, b: Any) -> Any:
        if a == 0:
            return c.one if b == 0 else c.zero if b > 0 else inf
        if c.isint(b) and abs(b) < _TOO_LARGE:
            return a ** int(b)
        return one["exp"](b * one["log"](a)) if a > 0 else nan

    def zero_wins(a: Any, b: Any) -> Any:
        return c.zero if a == 0 else a * b

    def zeros_win(a: Any, b: Any) -> Any:
        return c.zero if b == 0 and a == a else zero_wins(a, b)

    return {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "rounded_mul": lambda a, b: a * b,
        "div": divided, "pow": power, "zero_wins": zero_wins, "zeros_win": zeros_win,
        "maximum": lambda a, b: a if a != a or a >= b else b,
        "minimum": lambda a, b: a if a != a or a <= b else b,
        "xlogy": lambda a, b: b if b != b else c.zero if a == 0 else a * one["log"](b),
        "lt": lambda a, b: bool(a < b), "le": lambda a, b: bool(a <= b),
        "gt": lambda a, b: bool(a > b), "ge": lambda a, b: bool(a >= b),
        "eq": lambda a, b: bool(a == b), "ne": lambda a, b: bool(a != b),
        "and": lambda a, b: bool(a) and bool(b), "or": lambda a, b: bool(a) or bool(b),
    }
