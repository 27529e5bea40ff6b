"""Rows that are hard, each of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

DTYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16),
          "float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}
_Draw = Callable[[Any, int], Any]


def _some(rng: Any, n: int, bad: float, share: float) -> Any:
    return np.where(rng.random(n) < share, bad, _tame(rng, n))


def _one(rng: Any, n: int, bad: float) -> Any:
    row = _tame(rng, n)
    row[rng.integers(n)] = bad
    return row


def _tame(rng: Any, n: int) -> Any:
    return 3 * rng.standard_normal(n)


FINITE: dict[str, _Draw] = {
    "tame": _tame,
    "tied": lambda rng, n: np.round(_tame(rng, n) / 2),
    "equal": lambda rng, n: np.full(n, rng.standard_normal()),
    "ascending": lambda rng, n: np.sort(_tame(rng, n)),
    "descending": lambda rng, n: -np.sort(_tame(rng, n)),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, -0.0),
    "outlier": lambda rng, n: _one(rng, n, 70.0),
    "far from 0": lambda rng, n: 100 + _tame(rng, n),
    "all negative": lambda rng, n: -1 - abs(_tame(rng, n)),
}
"""Numbers of moderate size."""
SPECIAL: dict[str, _Draw] = {
    "some −inf": lambda rng, n: _some(rng, n, -np.inf, 0.3),
    "mostly −inf": lambda rng, n: _some(rng, n, -np.inf, 0.95),
    "all −inf": lambda rng, n: np.full(n, -np.inf),
    "a +inf": lambda rng, n: _one(rng, n, np.inf),
    "both inf": lambda rng, n: np.where(rng.random(n) < 0.5, np.inf, -np.inf),
    "a NaN": lambda rng, n: _one(rng, n, np.nan),
    "some NaN": lambda rng, n: _some(rng, n, np.nan, 0.3),
    "all NaN": lambda rng, n: np.full(n, np.nan),
}
"""What is not finite."""


def sized(kind: str, dtype: np.dtype[Any], degree: int) -> _Draw:
    """Numbers at an end of the range that their `degree`-th powers, summed, do not leave."""
    info = ml_dtypes.finfo(dtype)
    if kind == "huge":
        most = min(float(info.max) / 16, 10 ** (32 / degree))
        return lambda rng, n: most * rng.uniform(-1, 1, n)
    least = max(float(info.smallest_subnormal), 10 ** (-30 / degree) if degree > 1 else 0.0)
    return lambda rng, n: least * np.round(64 * rng.standard_normal(n))


def rows_of(
    rng: Any, kinds: Sequence[str], n_cols: int, dtype: np.dtype[Any], degree: int
) -> np.ndarray:
    """One row of each kind in turn."""
    found = np.zeros((len(kinds), n_cols), dtype)
    known = {**FINITE, **SPECIAL}
    for row, kind in zip(found, kinds, strict=True):
        draw = known.get(kind) or sized(kind, dtype, degree)
        if n_cols:
            row[:] = draw(rng, n_cols).astype(dtype)
    return found
