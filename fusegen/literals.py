"""Literals as exact numbers."""

from __future__ import annotations

from fractions import Fraction

_SMALL = 1000


def exact(value: float) -> Fraction:
    """The simplest fraction that rounds to the literal: 0.7 is 7/10, and 1 / 3 is a third.

    Raises ValueError or OverflowError for NaN and infinities.
    """
    near = Fraction(value).limit_denominator(_SMALL)
    return near if float(near) == value else Fraction(repr(value))
