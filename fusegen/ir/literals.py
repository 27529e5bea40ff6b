"""Constants: where they enter they become exact numbers of Python's own, and are spelled by us.

What the class of a number says of itself (its repr, its sums, what it equals) is not asked.
"""

from __future__ import annotations

import operator
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from fusegen.ir.varying import Number, magnitude_of, raw

Plain = bool | int | float

_SMALL = 1000
_PLAIN = (bool, int, float, str, type(None))
_INT64 = range(-(2**63), 2**63)


def plain(value: object) -> Plain | None:
    """A Python or NumPy number, or an array of one, as Python's own; None for anything else.

    None also for numbers of more digits than a float has, and for dates and durations.
    """
    if type(value) is Number:
        return value.number()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int):
        return int.__index__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, np.generic) and value.dtype.kind in "iufV":  # V: bfloat16 and its like
        found = np.generic.item(value)
        if type(found) in (int, float):
            return found  # type: ignore[no-any-return]
        near = float(found)  # of a long double
        return near if near == found or near != near else None
    return None


def as_index(value: object) -> int | None:
    """A whole number of any library as Python's own, exactly; None for anything else.

    Arrays of several numbers, or of one that has an axis, have the method and refuse."""
    try:
        return int.__index__(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        return None


def constant(value: Any) -> Any:
    """A constant as the text sees it: numbers and strings as Python's own.

    Members of enumerations stay what they are, for the text may ask which one it was given.
    """
    if type(value) in _PLAIN or type(value) is Number or isinstance(value, Enum):
        return value
    number = plain(value)
    if number is not None:
        return number
    if isinstance(value, str):
        return str.__str__(value)
    return tuple(map(constant, value)) if type(value) is tuple else value


def constant_key(value: Any) -> tuple[type, Any]:
    """What tells constants apart: the class and the exact value, inside tuples and records too.

    1 is not True or 1.0, and 0.0 not -0.0; NaN is NaN.
    """
    kind = type(value)
    if kind is float:
        return kind, repr(value) if value == 0.0 or value != value else value
    if kind in _PLAIN:
        return kind, value
    if kind is Number:
        return kind, (repr(value.formula), magnitude_of(raw(value)))
    if isinstance(value, Enum):
        return kind, value.name
    number = plain(value)
    if number is not None:
        return kind, constant_key(number)
    if isinstance(value, str):
        return kind, str.__str__(value)
    if isinstance(value, tuple):
        return kind, tuple(map(constant_key, value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(constant_key, value))
    if is_dataclass(kind) and kind.__hash__ is not object.__hash__:
        return kind, tuple(constant_key(getattr(value, f.name)) for f in fields(value))
    return kind, value


def fits_float(value: Plain) -> bool:
    """Is there a float near the number? (Not near 10**400.)"""
    try:
        float(value)
    except OverflowError:
        return False
    return True


def is_whole(value: Plain) -> bool:
    """Is it a whole number that 64 bits hold? Greater ones are floats wherever they stand."""
    return type(value) is int and value in _INT64


def exact(value: float) -> Fraction:
    """The simplest fraction that rounds to the literal: 0.7 is 7/10, and 1 / 3 is a third.

    Raises ValueError or OverflowError for NaN and infinities.
    """
    near = Fraction(value).limit_denominator(_SMALL)
    return near if float(near) == value else Fraction(repr(value))


def rounded(value: float, *, single: bool) -> float:
    """As kernels hold it."""
    if not single:
        return float(value)
    with np.errstate(over="ignore"):  # infinity, as it would be in memory
        return float(np.float32(value))


def spelled(value: float, *, single: bool) -> str:
    """The shortest decimal that is read as this finite number; always with a point or exponent."""
    return str(np.float32(value)) if single else repr(float(value))
