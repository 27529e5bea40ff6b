"""Texts of many statistics of rows that lanes of a warp hold, and rows that are hard for them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import fusegen as fg
from support.cuda_cases import Case


@fg.pipeline
def statistics(x):  # type: ignore[no-untyped-def]
    """Sums about a maximum and about a mean, a sum about one of those, the best of both ends."""
    total = fg.logsumexp(x)
    p = fg.exp(x - total)
    mean = fg.sum(p * x)
    return total, total - mean, fg.var(x), fg.sum(p * (x - mean) ** 2), fg.argmax(x), fg.argmin(x)


@fg.pipeline
def shares(x, w):  # type: ignore[no-untyped-def]
    """Exponentials that are summed and written, beside what else is written of the same rows."""
    e = fg.exp(x - fg.max(x))
    return e / fg.sum(e), e * w, fg.sum(e * w), fg.argmax(x)


@fg.pipeline
def residual(x, w):  # type: ignore[no-untyped-def]
    """A sum of two arrays that is written, folded, and all that later sweeps need of them."""
    s = x + w * 0.5
    return s, s / fg.sqrt(fg.mean(s * s) + 1e-6), fg.max(s), (s - fg.mean(s)) * 2


@fg.pipeline
def beside(x, w):  # type: ignore[no-untyped-def]
    """Likewise, but that what is folded is made of one of the arrays alone."""
    s = x + w
    return s, s / fg.sqrt(fg.mean(x * x) + 1e-6)


TEXTS = {"statistics": statistics, "shares": shares, "residual": residual, "beside": beside}


def hard(rng: Any, n_rows: int, n_cols: int) -> Any:
    """Normal numbers far from 0, equals, infinities, NaN at the end, in the middle, everywhere."""
    x = rng.normal(size=(n_rows, n_cols)) * 3 + 3 * rng.normal(size=(n_rows, 1))
    x[1] = rng.integers(-2, 2, n_cols)
    x[2], x[3] = -np.inf, np.inf
    x[4, n_cols // 2] = x[4, -1] = np.nan
    x[5] = np.nan
    x[6, : n_cols - 1] = -np.inf
    x[7, -1] = np.inf
    return x


def case_of(name: str, n_rows: int, n_cols: int, dtype: str) -> Case:
    rng = np.random.default_rng(n_cols)
    kind = getattr(ml_dtypes, dtype, dtype)
    inputs = {"x": hard(rng, n_rows, n_cols).astype(kind)}
    if name != "statistics":
        inputs["w"] = rng.normal(size=(n_rows, n_cols)).astype(kind)
    return Case(TEXTS[name], inputs, n_rows, n_cols)
