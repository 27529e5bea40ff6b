"""Exact numbers: fractions, and 100 digits where there is no fraction; what operations do to them.

Two numbers are equal when they are the same fraction, or agree to 1e-30. The only importer of
mpmath, in a context of its own: sympy's precision is untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import isqrt
from typing import Any

from mpmath import MPContext

from fusegen.algebra.elimination import determinant

Number = Any  # Fraction, mpf, or bool for conditions

_MP = MPContext()
_MP.dps = 100
_SAME = _MP.mpf(10) ** -30
_TIE = _MP.mpf(10) ** -80  # nearer than this, a comparison of inexact numbers sees them equal
_MOST_BITS = 4096
USUAL_DIGITS, EXACT_DIGITS = 6, 15  # of numbers in messages; the last spell any short decimal
_INDEPENDENT = _MP.mpf(10) ** -80
LN2: Number = _MP.ln2 * 1


class Outside(Exception):
    """The row leaves what can be computed here: a division by 0, a column that is not there."""


def same(a: Number, b: Number) -> bool:
    gap = abs(_minus(a, b))
    return bool(gap == 0 if isinstance(gap, Fraction) else gap <= _SAME)


def independent(rows: Sequence[Sequence[Number]]) -> bool:
    """Has the square matrix full rank? False also where 100 digits do not tell."""
    sizes = [max(abs(_mpf(v)) for v in row) for row in rows]
    columns = [max(abs(_mpf(v)) for v in column) for column in zip(*rows, strict=True)]
    if not all(_MP.isfinite(size) and size for size in (*sizes, *columns)):
        return False
    scaled = [[_mpf(v) / size for v in row] for row, size in zip(rows, sizes, strict=True)]
    return bool(determinant(scaled) > _INDEPENDENT)


def apart(a: Number, b: Number) -> float:
    """|a − b|."""
    return float(abs(_mpf(a) - _mpf(b)))


def spelled(value: Number, digits: int = USUAL_DIGITS) -> str:
    """As a fraction, or a fraction of ln 2, where it is a simple one; else with so many digits."""
    if isinstance(value, bool):
        return str(value)
    for unit, suffix in ((Fraction(1), ""), (LN2, "·ln 2")):
        near = _simple(_divided(value, unit))
        if near is not None and (near or not suffix):
            return f"{near}{suffix}".replace("1·", "") if abs(near) == 1 else f"{near}{suffix}"
    if digits <= EXACT_DIGITS:
        return f"{float(value):.{digits}g}"
    return str(_MP.nstr(_mpf(value), digits))


def digits_apart(one: Sequence[Number], other: Sequence[Number]) -> int:
    """How many digits show that two lists of numbers differ: the usual, also where none do, or
    some more than the first that tell, which may be but how the last is rounded."""
    for first, digits in pairwise((0, USUAL_DIGITS, 9, 12, EXACT_DIGITS, 20, 30, 50)):
        least = digits if digits == USUAL_DIGITS else first
        if any(spelled(a, least) != spelled(b, least) for a, b in zip(one, other, strict=True)):
            return digits
    return USUAL_DIGITS


def difference(a: Number, b: Number) -> str:
    """a − b in three digits, however small it is."""
    return str(_MP.nstr(_mpf(_minus(a, b)), 3))


def _simple(value: Number) -> Fraction | None:
    if isinstance(value, Fraction):
        return value if value.denominator < 1000 else None
    near = Fraction(str(_MP.nstr(value, 30))).limit_denominator(999)
    return near if same(value, near) else None


# ---- operations of one or more numbers ----


def best_columns(values: list[Number], k: int) -> list[int]:
    """Columns of the k greatest, best first, ties to the lowest column."""
    left = list(range(len(values)))
    found = []
    for _ in range(k):
        best = left[0]
        for column in left[1:]:
            if _less(values[best], values[column]):
                best = column
        left.remove(best)
        found.append(best)
    return found


def tame(value: Number) -> Number:
    """Fractions with very many digits go on as 100 digits; raises Outside for astronomical ones."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Fraction):
        bits = max(value.numerator.bit_length(), value.denominator.bit_length())
        return value if bits <= _MOST_BITS else _mpf(value)
    if _MP.mag(value) > _MOST_BITS:
        raise Outside
    return value


def _less(a: Number, b: Number) -> bool:
    gap = _minus(b, a)
    return bool(gap > (0 if isinstance(gap, Fraction) else _TIE))


def _equal(a: Number, b: Number) -> bool:
    return not _less(a, b) and not _less(b, a)


def _floor(a: Number) -> Fraction:
    if isinstance(a, Fraction):
        return Fraction(a.__floor__())
    return Fraction(int(_MP.floor(a + _TIE)))


def _round(a: Number) -> Fraction:
    """Halves to even; what is within a tie of a half is one."""
    if isinstance(a, Fraction):
        return Fraction(round(a))
    twice = _floor(2 * a)
    return Fraction(round(twice / 2)) if _equal(2 * a, twice) else _floor(a + Fraction(1, 2))


def _minus(a: Number, b: Number) -> Number:
    return a + -b  # mpf adds fractions from either side, and nothing else


def _divided(a: Number, b: Number) -> Number:
    if b == 0:
        raise Outside
    return a / b if isinstance(a, Fraction) and isinstance(b, Fraction) else _mpf(a) / _mpf(b)


def _power(a: Number, b: Number) -> Number:
    whole = isinstance(b, Fraction) and b.denominator == 1
    if whole and abs(b) < 100 and (a != 0 or b >= 0):
        return a ** int(b)
    if not a > 0:
        raise Outside
    return _MP.power(_mpf(a), _mpf(b))


def _root(a: Number) -> Number:
    if a < 0:
        raise Outside
    if isinstance(a, Fraction):
        over, under = isqrt(a.numerator), isqrt(a.denominator)
        if over * over == a.numerator and under * under == a.denominator:
            return Fraction(over, under)
    return _MP.sqrt(_mpf(a))


def _mpf(a: Number) -> Number:
    return _MP.mpf(a.numerator) / a.denominator if isinstance(a, Fraction) else a


def _exp(a: Number) -> Number:
    if abs(a) > 1000:
        raise Outside
    return Fraction(1) if a == 0 else _MP.exp(_mpf(a))


def _log(a: Number) -> Number:
    if not a > 0:
        raise Outside
    return Fraction(0) if a == 1 else _MP.log(_mpf(a))


def _exp2(a: Number) -> Number:
    whole = isinstance(a, Fraction) and a.denominator == 1 and abs(a) < 1000
    return Fraction(2) ** int(a) if whole else _exp(a * LN2)


def _xlogy(a: Number, b: Number) -> Number:
    return Fraction(0) if a == 0 else a * _log(b)


def _odd(f: Callable[[Number], Number]) -> Callable[[Number], Number]:
    """A function with f(0) = 0, exact there."""
    return lambda a: Fraction(0) if a == 0 else f(_mpf(a))


OPERATIONS: Mapping[str, Callable[..., Number]] = {
    "add": lambda a, b: a + b, "sub": _minus, "mul": lambda a, b: a * b,
    "div": _divided, "neg": lambda a: -a, "pow": _power, "square": lambda a: a * a,
    "abs": abs, "sign": lambda a: Fraction(int(_less(0, a)) - int(_less(a, 0))),
    "maximum": lambda a, b: b if _less(a, b) else a,
    "minimum": lambda a, b: b if _less(b, a) else a,
    "exp": _exp, "exp2": _exp2, "expm1": lambda a: _exp(a) - 1,
    "log": _log, "log2": lambda a: _divided(_log(a), LN2), "log1p": lambda a: _log(1 + a),
    "sqrt": _root, "rsqrt": lambda a: _divided(Fraction(1), _root(a)),
    "tanh": _odd(_MP.tanh), "sin": _odd(_MP.sin), "cos": lambda a: _MP.cos(_mpf(a)),
    "erf": _odd(_MP.erf), "sigmoid": lambda a: 1 / (1 + _exp(-a)),
    "floor": _floor, "ceil": lambda a: -_floor(-a), "round": _round,
    "xlogy": _xlogy, "zero_wins": lambda a, b: a * b,
    "zeros_win": lambda a, b: a * b,
    "rounded_mul": lambda a, b: a * b, "mirror": lambda a: -a,
    "where": lambda c, a, b: a if c else b,
    "lt": _less, "le": lambda a, b: not _less(b, a), "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: not _less(a, b), "eq": _equal, "ne": lambda a, b: not _equal(a, b),
    "isnan": lambda a: False, "isinf": lambda a: False, "isfinite": lambda a: True,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": lambda a: not a,
    "to_float": lambda a: Fraction(a) if isinstance(a, int) else a, "to_bool": lambda a: a != 0,
    "to_int": lambda a: -_floor(-a) if a < 0 else _floor(a),
}
"""Every elementwise operation on finite numbers; raises Outside where it has no finite result."""
