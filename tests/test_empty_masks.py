"""Moments of what a mask takes, where it takes nothing of a row: deviations are multiplied there,
and the text has no term. The oracle is NumPy's, in float64, operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import textual
from support.cuda_cases import Case
from support.emulated import emulated

import fusegen as fg

N = 300


def deviations(f: Any, x: Any, m: Any) -> Any:
    count = f.maximum(f.count(m), 1)
    return f.where(m, x - f.sum(f.where(m, x, 0.0)) / count, 0.0), count


def variance(f: Any, x: Any, y: Any, m: Any) -> Any:
    d, count = deviations(f, x, m)
    return f.sum(d * d) / count


def chosen_twice(f: Any, x: Any, y: Any, m: Any) -> Any:
    d, count = deviations(f, x, m)
    return f.sum(f.where(m, d * d, 0.0)) / count


def normed(f: Any, x: Any, y: Any, m: Any) -> Any:
    d, count = deviations(f, x, m)
    return d * f.rsqrt(f.sum(d * d) / count + 1e-5)


def third_moment(f: Any, x: Any, y: Any, m: Any) -> Any:
    d, count = deviations(f, x, m)
    return f.sum(d * d * d) / count


def covariance(f: Any, x: Any, y: Any, m: Any) -> Any:
    (a, count), (b, _) = deviations(f, x, m), deviations(f, y, m)
    return f.sum(a * b) / count


def covariance_as_a_whole(f: Any, x: Any, y: Any, m: Any) -> Any:
    count = f.count(m) + 1e-6
    a, b = f.sum(f.where(m, x, 0.0)) / count, f.sum(f.where(m, y, 0.0)) / count
    return f.sum(f.where(m, (x - a) * (y - b), 0.0)) / count


def beside_all(f: Any, x: Any, y: Any, m: Any) -> Any:
    d, count = deviations(f, x, m)
    return f.sum((y - f.mean(y)) * d) / count


def weighed(f: Any, x: Any, y: Any, m: Any) -> Any:
    """About the mean of all, which may be infinite where nothing is taken."""
    return f.sum(f.where(m, x - f.mean(x), 0.0) * f.exp(y - f.max(y)))


TEXTS: dict[str, Callable[..., Any]] = {t.__name__: t for t in (
    variance, chosen_twice, normed, third_moment, covariance, covariance_as_a_whole, beside_all,
    weighed)}
TOLERANCE = {"float32": 2e-4, "float64": 1e-9}
LEFT_OUT = (0.0, -np.inf, np.nan, float(np.finfo("f").min))


def inputs(dtype: str, left_out: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Masks that take all, some, one, nothing; x is `left_out` where they do not hold."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 6, N)) * 3 + 50
    m = np.ones((6, N), bool)
    m[1, ::3] = m[2, 100:] = False
    m[3] = m[4] = False
    m[3, 170] = True
    x[~m] = left_out
    return x.astype(dtype), y.astype(dtype), m


def wanted(name: str, x: Any, y: Any, m: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        found = TEXTS[name](textual, x.astype("f8"), y.astype("f8"), m)
    return np.asarray(found)[:, 0] if found.shape[1] == 1 else np.asarray(found)


def pipeline(name: str) -> fg.Pipeline:
    def of_row(x: Any, y: Any, m: Any) -> Any:
        return TEXTS[name](fg, x, y, m)

    return fg.pipeline(of_row)


def agree(name: str, got: Any, want: np.ndarray, tolerance: float) -> None:
    if name == "weighed":  # the mean of all is NaN where an element left out is
        got, want = np.asarray(got)[4], want[4]
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.long
@pytest.mark.parametrize("left_out", LEFT_OUT)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TEXTS)
def test_moments_of_nothing(name: str, dtype: str, left_out: float) -> None:
    x, y, m = inputs(dtype, left_out)
    agree(name, pipeline(name)(x, y, m), wanted(name, x, y, m), TOLERANCE[dtype])


@emulated
@pytest.mark.parametrize("name", TEXTS)
def test_moments_of_nothing_on_gpus(name: str) -> None:
    x, y, m = inputs("float32", np.nan)
    (got,) = Case(pipeline(name), {"x": x, "y": y, "m": m}, *x.shape).emulate()
    agree(name, got, wanted(name, x, y, m), TOLERANCE["float32"])


@pytest.mark.long
def test_weights_of_zero_alone() -> None:
    """Where weights choose, 0 times what is no number is none, as in the text."""
    @fg.pipeline
    def weighted(x, y, w):  # type: ignore[no-untyped-def]
        total = fg.maximum(fg.sum(w), 1e-9)
        a, b = fg.sum(w * x) / total, fg.sum(w * y) / total
        return fg.sum(w * (x - a) * (y - b))

    x, y, _ = inputs("float32", 0.0)
    none = np.zeros_like(x)
    np.testing.assert_array_equal(weighted(x, y, none), 0)
    x[0, 5], y[1, 7] = np.inf, np.nan
    np.testing.assert_array_equal(np.isnan(weighted(x, y, none)), [1, 1, 0, 0, 0, 0])
