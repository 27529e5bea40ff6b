"""What conditions of the row choose, masks that take nothing, and what numbers of the row do to
both: finite rows and rows with infinities, each with the number that the text has."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegen as fg

inf, nan = float("inf"), float("nan")


def flat_square(x: Any) -> Any:
    p = fg.mean(x * x)
    return fg.sum(fg.where(p > 0, (x * x - p) / p, 0))


def underflown_shares(x: Any) -> Any:
    s = fg.sum(fg.exp(x))
    return fg.sum(fg.where(s > 0, fg.exp(x) / s, 1))


def one_or_centred(x: Any) -> Any:
    return fg.sum(fg.where(fg.mean(x) > 0, 1, x - fg.mean(x)))


def one_or_square(x: Any) -> Any:
    m = fg.mean(x)
    return fg.sum(fg.where(fg.isfinite(m), (x - m) ** 2, 1))


def one_or_exponential(x: Any) -> Any:
    m = fg.max(x)
    return fg.sum(fg.where(fg.isinf(m), 1, fg.exp(x - m)))


def scale_of_nothing(x: Any) -> Any:
    p = fg.max(fg.abs(x))
    return fg.sum((x - p) * p / p)


def above_what_is_there(x: Any) -> Any:
    v = fg.where(x == x, x, 0)
    return fg.max(fg.max(fg.abs(v)) - v)


def over_the_least(x: Any) -> Any:
    v = fg.maximum(x, 0)
    p = fg.min(v)
    return fg.min((v - fg.sum((v - p) ** 2)) / p)


ROWS: list[tuple[Callable[[Any], Any], tuple[float, ...], float]] = [
    (flat_square, (0, 0), 0), (flat_square, (1, 3), 0), (underflown_shares, (-200, -300), 2),
    (underflown_shares, (0, 1), 1), (one_or_centred, (inf, 1), 2), (one_or_centred, (-1, -3), 0),
    (one_or_square, (inf, 1), 2), (one_or_square, (1, 3), 2), (one_or_exponential, (-inf, -inf), 2),
    (one_or_exponential, (0, -1), 1 + np.exp(-1)), (scale_of_nothing, (0,), nan),
    (above_what_is_there, (nan, -0.5), 1), (above_what_is_there, (nan, -1, -3), 6),
    (over_the_least, (-2, 1), nan), (over_the_least, (1, 2), 0),
]


def squares(x: Any, y: Any, c: Any) -> Any:
    return fg.sum(fg.where(c, x * x / fg.sum(y), 0))


def of_the_taken(x: Any, y: Any, c: Any) -> Any:
    p = fg.sum(fg.where(c, x, 0))
    return fg.sum(fg.where(c, x * x / p, 0))


def about_the_mean(x: Any, y: Any, c: Any) -> Any:
    p = fg.mean(y)
    return fg.sum(fg.where(c, fg.exp(x - p) / p, 0))


def deviations(x: Any, y: Any, c: Any) -> Any:
    p = fg.sum(y)
    return fg.sum(fg.where(c, (x - p) / p, 0))


def outside(x: Any, y: Any, c: Any) -> Any:
    """The text divides what is left out, too."""
    return fg.sum(fg.where(c, x * x, 0) / fg.sum(y))


EMPTY = {squares: 0.0, of_the_taken: 0.0, about_the_mean: 0.0, deviations: 0.0, outside: nan}


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize(("text", "row", "wanted"), ROWS,
                         ids=[f"{t.__name__}-{k}" for k, (t, _, _) in enumerate(ROWS)])
def test_rows(text: Any, row: Any, wanted: float) -> None:
    np.testing.assert_allclose(fg.pipeline(text)(np.array([row], np.float32)), [wanted], rtol=1e-6)


@pytest.mark.parametrize("text", EMPTY, ids=lambda f: f.__name__)
def test_masks_that_take_nothing(text: Any) -> None:
    x = np.array([(1, 2), (1, 2)], np.float32)
    y = np.array([(1, -1), (1, 3)], np.float32)
    c = np.array([(False, False), (True, False)])
    got = fg.pipeline(text)(x, y, c)
    np.testing.assert_array_equal(got[0], EMPTY[text])
    assert np.isfinite(got[1])
    plan = fg.pipeline(text).compile(fg.Spec((2, 9)), fg.Spec((2, 9)), fg.Spec((2, 9), "bool")).plan
    assert plan.sweeps == 1


def test_numbers_of_the_row_beside_masks() -> None:
    def weighed(x: Any, c: Any, k: fg.PerRow) -> Any:
        return fg.sum(fg.where(c, fg.exp(x - fg.max(x)) / k, 0))

    x, c = np.array([(1, 2)] * 2, np.float32), np.array([(False, False), (True, True)])
    got = fg.pipeline(weighed)(x, c, np.array([0, 2], np.float32))
    np.testing.assert_allclose(got, [0, (1 + np.exp(-1)) / 2], rtol=1e-6)


def test_sums_that_numbers_of_the_row_make_means() -> None:
    """Σ (x / t − Σ x)² cancels where 1 / t is the length."""
    def spread(x: Any, t: fg.PerRow) -> Any:
        return fg.sum((x / t - fg.sum(x)) ** 2)

    x = np.array([(9999.287, 10000.621), (1000.1257, 999.8679)], np.float32)
    t = np.array([0.5, 0.5], np.float32)
    exact = x.astype(np.float64)
    wanted = ((exact / 0.5 - exact.sum(-1, keepdims=True)) ** 2).sum(-1)
    np.testing.assert_allclose(fg.pipeline(spread)(x, t), wanted, rtol=1e-2)
