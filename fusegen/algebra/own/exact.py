"""Lift and merge in exact numbers, and by IEEE arithmetic where there is no finite number.

Finite numbers are those of `algebra.numbers`; infinities and NaN are Python's floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from fusegen.algebra.numbers import (
    OPERATIONS,
    USUAL_DIGITS,
    Number,
    Outside,
    difference,
    digits_apart,
    spelled,
)
from fusegen.algebra.numbers import same as same_number
from fusegen.ir.expr import Call, Expr, Lit, Var
from fusegen.ir.operator import State
from fusegen.ir.ops import OPS


def evaluate(expr: Expr, env: Mapping[str, Number]) -> Number:
    """The expression's value; of `where`, only the chosen side is looked at."""
    match expr:
        case Var(name=name):
            return env[name]
        case Lit(value=value):
            return exact(value)
        case Call(op="where", args=(condition, then, other)):
            return evaluate(then if evaluate(condition, env) else other, env)
        case Call(op=op, args=args):
            return computed(op, [evaluate(a, env) for a in args])


def exact(value: Any) -> Number:
    """A number as it is written: 0.1 is 1/10."""
    if isinstance(value, bool | Fraction):
        return value
    return Fraction(repr(value)) if math.isfinite(value) else float(value)


def same(a: Number, b: Number) -> bool:
    """Equal; NaN equals NaN."""
    if isinstance(a, float) or isinstance(b, float):
        return isinstance(a, float) and isinstance(b, float) and (a == b or (a != a and b != b))
    return bool(a == b) if isinstance(a, bool) else same_number(a, b)


def shown(value: Number, digits: int = USUAL_DIGITS) -> str:
    """As a person writes it: 3, -1/2, true, inf; so many digits where it has no fraction."""
    if isinstance(value, bool | float):
        return str(value).lower()
    return spelled(value, digits)


def told_apart(one: State, other: State) -> tuple[int, str]:
    """(digits that show that two states differ, or the usual; what says so where none do)."""
    differ = [n for n in one if not same(one[n], other[n])]
    if any(isinstance(s[n], bool | float) for n in differ for s in (one, other)):
        return USUAL_DIGITS, ""
    digits = digits_apart([one[n] for n in differ], [other[n] for n in differ])
    if any(shown(one[n], digits) != shown(other[n], digits) for n in differ):
        return digits, ""
    where = f" in {differ[0]}" if len(one) > 1 else ""
    return digits, f"they differ by {difference(one[differ[0]], other[differ[0]])}{where}"


def computed(op: str, args: list[Number]) -> Number:
    """One operation."""
    special = any(isinstance(a, float) for a in args)
    if not special and op in OPERATIONS:
        try:
            return OPERATIONS[op](*args)
        except Outside:
            pass
    with np.errstate(all="ignore"):
        found = OPS[op].numpy(*(a if isinstance(a, bool) else float(a) for a in args)).item()
    if op in ("maximum", "minimum") and math.isfinite(found):
        return next(a for a in args if not isinstance(a, float))  # of which the rest is ±inf
    return found if isinstance(found, bool) else exact(found)
