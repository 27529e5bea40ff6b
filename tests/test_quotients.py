"""Quotients and casts of elements in generated CUDA, on the emulator: products with an inverse that
are corrected, and floats that become short integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cuda_cases import Case
from support.emulated import EMULATED

import fusegen as fg

pytestmark = EMULATED

SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1.2e-38, 1e-45,
                    -1e-40, 5e-39], np.float32)
SAFE = 2.0**-102  # of quotients and dividends that are IEEE's (docs/special_values.md)


def floats(count: int, seed: int = 0) -> np.ndarray:
    """Of every magnitude, and special ones."""
    bits = np.random.default_rng(seed).integers(0, 2**32, count - SPECIAL.size, np.uint32)
    return np.concatenate([SPECIAL, bits.view(np.float32)])[None]


def emulated(text: Any, x: np.ndarray) -> np.ndarray:
    """Its first result."""
    case = Case(fg.pipeline(text), {"x": x}, 1, x.shape[1])
    return np.asarray(case.emulate(n_rows=4000)[0])


NUMBERS = (30, 0.7, -3, 127, 1e-3, 1e20, -1e-30, 1e-40, 3e38, 1.0000001, 0.1)


@pytest.mark.long
@pytest.mark.parametrize("by", NUMBERS)
def test_quotients_by_numbers_are_those_of_ieee(by: float) -> None:
    x = floats(20_000)
    found = emulated(lambda x: (x / by, fg.max(x)), x)
    with np.errstate(all="ignore"):
        wanted = x / np.float32(by)
    np.testing.assert_allclose(found, wanted, rtol=1.3e-7, atol=3e-45)
    held = (np.abs(x) >= SAFE) & (np.abs(wanted) >= SAFE) | ~np.isfinite(wanted) | (x == 0)
    np.testing.assert_array_equal(found[held], wanted[held])
    np.testing.assert_array_equal(np.signbit(found[held]), np.signbit(wanted[held]))


def test_halves_are_products_as_they_were() -> None:
    work = Case(fg.pipeline(lambda x: fg.max(x / 8) + fg.sum(x / 3)), {"x": floats(64)}, 1, 64)
    text = work.work(n_rows=4000).source.split("below: the kernel")[1]
    assert "/ 8.0f" in text
    assert "Divisor(3.0f)" in text


def test_sigmoids_are_the_quotients_of_ieee() -> None:
    """Of the exponential that they take: none of these is the one divisor that is off."""
    x = np.sort(np.concatenate([
        np.random.default_rng(1).normal(size=20_000) * 40, np.linspace(-104, 20, 9000),
        np.linspace(-1e-5, 1e-5, 999)])).astype(np.float32)[None]
    found = emulated(lambda x: (fg.sigmoid(x), fg.max(x)), x)
    wanted = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(found, wanted, rtol=3e-7, atol=3e-45)
    t = emulated(lambda x: (fg.exp(-fg.abs(x)), fg.max(x)), x)
    quotients = np.where(x < 0, t, np.float32(1)) / (1 + t)
    np.testing.assert_array_equal(found, quotients)
    ends = np.array([[np.inf, -np.inf, np.nan, 0, -0.0, 1e30, -1e30]], np.float32)
    np.testing.assert_array_equal(emulated(lambda x: (fg.sigmoid(x), fg.max(x)), ends),
                                  [[1, 0, np.nan, 0.5, 0.5, 1, 0]])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("real", ["float32", "float64"])
def test_floats_become_the_nearest_integers_there_are(dtype: str, real: str) -> None:
    limits = np.iinfo(dtype)
    edges = [limits.min, limits.max]
    near = [e + d for e in edges for d in (-1.5, -1, -0.5, -0.25, 0, 0.25, 0.5, 1, 1.5)]
    with np.errstate(invalid="ignore"):
        x = np.concatenate([floats(4000)[0], near, np.linspace(-70_000, 70_000, 5001)])
        x = x.astype(real)
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30))
    wanted = np.clip(whole, limits.min, limits.max).astype(np.int64)
    found = emulated(lambda x: (fg.cast(x, dtype), fg.max(x)), x[None])[0]
    np.testing.assert_array_equal(found.astype(np.int64), wanted)
    rounded = emulated(lambda x: (fg.cast(fg.round(x), dtype), fg.max(x)), x[None])[0]
    nearest = np.clip(np.rint(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e30,
                                            neginf=-1e30)), limits.min, limits.max)
    np.testing.assert_array_equal(rounded.astype(np.int64), nearest.astype(np.int64))


def test_results_of_rows_and_of_lists_are_clamped_so() -> None:
    x = np.array([[300.5, -3, 7, np.inf], [1, 2, -400, np.nan]], np.float32)
    case = Case(fg.pipeline(lambda x: (fg.cast(fg.sum(x), "int8"),
                                       fg.cast(fg.topk(x, 2)[0], "uint8"))), {"x": x}, 2, 4)
    total, best = case.emulate(n_rows=4000)
    np.testing.assert_array_equal(total, [127, 0])
    np.testing.assert_array_equal(best, [[255, 255], [0, 2]])
