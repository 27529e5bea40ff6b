"""Expressions in exact numbers: whole numbers and fractions, and 50 digits where there are none.

Infinities and NaN follow IEEE arithmetic, and so does division by 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath

from fusegen.expr import Call, Expr, Lit, Var

Number = bool | int | Fraction | Any
"""Any: mpmath's numbers, for what has no fraction."""

_MP = mpmath.mp.clone()
_MP.dps = 50
_CLOSE = _MP.mpf(10) ** -40


def evaluate(expr: Expr, env: Mapping[str, Number]) -> Number:
    """The expression's value; both sides of `where` are looked at only if they are chosen."""
    match expr:
        case Var(name=name):
            return env[name]
        case Lit(value=value):
            return exact(value)
        case Call(op="where", args=(condition, then, other)):
            return evaluate(then if evaluate(condition, env) else other, env)
        case Call(op=op, args=args):
            values = [evaluate(a, env) for a in args]
            if op in _LOGIC:
                return _LOGIC[op](*values)
            if op in _EXACT and all(isinstance(v, int | Fraction) for v in values):
                found = _EXACT[op](*values)
                if found is not None:
                    return found
            return _inexact(op, *map(_wide, values))


def exact(value: float | int | bool) -> Number:
    """A number as it is written: 0.1 is 1/10."""
    if isinstance(value, bool | int):
        return value
    if value - value != 0:
        return _MP.mpf(value)
    return Fraction(repr(value))


def same(a: Number, b: Number) -> bool:
    """Equal; NaN equals NaN."""
    if isinstance(a, int | Fraction) and isinstance(b, int | Fraction):
        return a == b
    x, y = _wide(a), _wide(b)
    return bool(x == y or (_MP.isnan(x) and _MP.isnan(y)) or _near(x, y))


def shown(value: Number) -> str:
    """As a person writes it: 3, -1/2, true, inf; six digits where it has no fraction."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Fraction):
        return str(value)
    return mpmath.nstr(value, 7) if _MP.isfinite(value) else str(float(value))


def _wide(value: Number) -> Any:
    if isinstance(value, Fraction):
        return _MP.mpf(value.numerator) / value.denominator
    return _MP.mpf(value)


def _near(x: Any, y: Any) -> bool:
    if not (_MP.isfinite(x) and _MP.isfinite(y)):
        return False
    return bool(abs(x - y) <= _CLOSE * max(1, abs(x), abs(y)))


def _less(x: Any, y: Any) -> bool:
    return bool(x < y and not _near(x, y))


def _power(a: Any, b: Any) -> Any:
    if b != int(b) or (a == 0 and b < 0) or abs(b) > 64:
        return None
    return Fraction(a) ** int(b)


def _root(a: Any) -> Any:
    a = Fraction(a)
    if a < 0:
        return None
    over, under = (int(_MP.sqrt(n) + 0.5) for n in (a.numerator, a.denominator))
    return Fraction(over, under) if Fraction(over**2, under**2) == a else None


_LOGIC: dict[str, Callable[..., bool]] = {
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": lambda a: not a,
    "eq": lambda a, b: not _is_nan(a, b) and same(a, b),
    "ne": lambda a, b: _is_nan(a, b) or not same(a, b),
    "lt": lambda a, b: _less(_wide(a), _wide(b)),
    "gt": lambda a, b: _less(_wide(b), _wide(a)),
    "le": lambda a, b: not _is_nan(a, b) and not _less(_wide(b), _wide(a)),
    "ge": lambda a, b: not _is_nan(a, b) and not _less(_wide(a), _wide(b)),
    "isnan": lambda a: _is_nan(a), "isinf": lambda a: bool(_MP.isinf(_wide(a))),
    "isfinite": lambda a: bool(_MP.isfinite(_wide(a))),
    "to_bool": lambda a: not same(a, 0),
}  # fmt: skip

_EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: Fraction(a) / b if b else None, "neg": lambda a: -a, "pow": _power,
    "square": lambda a: a * a, "abs": abs, "sign": lambda a: (a > 0) - (a < 0),
    "maximum": max, "minimum": min, "zero_wins": lambda a, b: a * b,
    "floor": lambda a: a // 1, "ceil": lambda a: -(-a // 1), "round": round,
    "sqrt": _root, "to_float": lambda a: a + 0, "to_int": int,
    "exp": lambda a: 1 if a == 0 else None, "log": lambda a: 0 if a == 1 else None,
    "xlogy": lambda a, b: 0 if a == 0 or b == 1 else None,
}  # fmt: skip
"""None: not a fraction."""


def _is_nan(*values: Number) -> bool:
    return any(bool(_MP.isnan(_wide(v))) for v in values)


def _divided(a: Any, b: Any) -> Any:
    if b == 0:
        return _MP.nan if a == 0 or _MP.isnan(a) else _MP.inf * (1 if a > 0 else -1)
    return a / b


def _extreme(a: Any, b: Any, *, greatest: bool) -> Any:
    if _is_nan(a, b):
        return _MP.nan
    return (a if a > b else b) if greatest else (a if a < b else b)


_WIDE: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": _divided, "neg": lambda a: -a, "pow": lambda a, b: a**b, "square": lambda a: a * a,
    "abs": abs, "sign": _MP.sign, "floor": _MP.floor, "ceil": _MP.ceil, "round": _MP.nint,
    "maximum": lambda a, b: _extreme(a, b, greatest=True),
    "minimum": lambda a, b: _extreme(a, b, greatest=False),
    "zero_wins": lambda a, b: _MP.mpf(0) if a == 0 else a * b,
    "exp": _MP.exp, "exp2": lambda a: _MP.mpf(2) ** a, "expm1": _MP.expm1,
    "log": _MP.log, "log2": lambda a: _MP.log(a, 2), "log1p": lambda a: _MP.log(1 + a),
    "sqrt": _MP.sqrt, "rsqrt": lambda a: 1 / _MP.sqrt(a), "tanh": _MP.tanh, "sin": _MP.sin,
    "cos": _MP.cos, "erf": _MP.erf, "sigmoid": lambda a: 1 / (1 + _MP.exp(-a)),
    "xlogy": lambda a, b: _MP.mpf(0) if a == 0 and not _MP.isnan(b) else a * _MP.log(b),
    "to_float": lambda a: a,
    "to_int": lambda a: 0 if _MP.isnan(a) else int(max(-(2.0**63), min(2.0**63, a))),
}  # fmt: skip


def _inexact(op: str, *args: Any) -> Any:
    try:
        found = _WIDE[op](*args)
    except (ValueError, ZeroDivisionError, OverflowError):
        return _MP.nan
    return _MP.nan if isinstance(found, _MP.mpc) else found
