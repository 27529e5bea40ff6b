"""Elements over a value of their row: as IEEE's division, on every backend; multiplied by the
inverse alone, 41 / 41 is below 1."""

from __future__ import annotations

import numpy as np
import pytest
from support.everywhere import BACKENDS, results

import fusegen as fg

pytestmark = pytest.mark.usefixtures("users_flags")  # with which products are added unrounded

TINIEST = 2.0**-126


@fg.pipeline
def over(x, d: fg.PerRow):
    return x / d


@fg.pipeline
def reached(x):
    """What is counted in a fold, written, and asked of written quotients."""
    r = x / fg.max(x)
    return {"floor": fg.floor(r), "is_most": r >= 1, "count": fg.sum(fg.where(r >= 1, 1.0, 0.0))}


def _divided(dtype):
    """Whole multiples of whole divisors of both signs, of every size; and what is not usual."""
    rng = np.random.default_rng(7)
    signs, sizes = np.where(np.arange(99) % 3, 1, -1), 2.0 ** rng.integers(-90, 90, 99)
    whole = np.arange(1.0, 100) * signs * sizes
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-40, 3e38, -3e38]
    d = np.concatenate([whole, rng.normal(size=40), 10.0 ** rng.uniform(-37, 37, 40), odd])
    x = np.tile(np.concatenate([np.arange(-30.0, 60), rng.normal(size=60), odd]), (len(d), 1))
    x[:99, :90] *= whole[:, None]
    return x.astype(dtype), d.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_quotients_are_those_of_ieee(backend, dtype):
    x, d = _divided(dtype)
    (got,) = results(backend, over, x, d)
    with np.errstate(all="ignore"):
        want = x / d[:, None]
    same = (got == want) & (np.signbit(got) == np.signbit(want)) | (np.isnan(got) & np.isnan(want))
    assert same[:99, :90].all(), "a quotient that is a number of the type is that number"
    size = np.abs(x) if dtype == "float32" else np.full_like(x, 1)
    usual = (size > TINIEST * 2.0**24) & (np.abs(want) > TINIEST) | ~np.isfinite(want) | (x == 0)
    assert same[usual].mean() > 0.9999
    with np.errstate(all="ignore"):
        off = np.abs(got.astype("f8") - want)
    assert (same | (off <= np.maximum(np.spacing(np.abs(want)), 2.0**-149))).all()


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_the_greatest_is_as_great_as_the_greatest(backend):
    x = np.arange(1, 257, dtype="f4")[:, None] * np.array([[0.5, 1, 0.25]], "f4")
    floor, is_most, count = results(backend, reached, x)
    np.testing.assert_array_equal(floor, [[0, 1, 0]] * len(x))
    np.testing.assert_array_equal(is_most, [[False, True, False]] * len(x))
    np.testing.assert_array_equal(np.ravel(count), 1)
