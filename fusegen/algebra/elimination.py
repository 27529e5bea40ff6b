"""Determinants of numbers of any kind that divide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Number = Any  # Fraction, mpf


def determinant(rows: Sequence[Sequence[Number]]) -> Number:
    """Its size, without the sign, by elimination with partial pivots.

    mpmath's own raises TypeError where elimination leaves a column of zeros."""
    found: Number = 1
    while rows:
        first, *others = sorted(rows, key=lambda row: -abs(row[0]))
        if not first[0]:
            return first[0]
        found *= abs(first[0])
        rows = [[v - row[0] / first[0] * w for v, w in zip(row[1:], first[1:], strict=True)]
                for row in others]
    return found
