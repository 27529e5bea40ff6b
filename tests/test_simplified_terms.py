"""What sympy simplifies is no fact in floats: r / r is NaN for 0, r − r for ∞; sign(exp(y)) is 0.

Every text runs on every row, beside NumPy in float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegen as fg

inf, nan = float("inf"), float("nan")
ROWS = np.array([
    (0, 1), (1, 2), (0, -1), (7, 6), (0, 0), (-3, -3), (0, -200), (-200, -400), (-1, 2000),
    (3e38, -3e38), (inf, 1), (-inf, 1), (inf, -inf), (-inf, -inf), (inf, 0), (-inf, 0), (nan, 1),
], np.float32)


def many(c: Any) -> Any:
    """How many of a row are greater than 5: 0 of most."""
    return (c > 5).sum(-1, keepdims=True).astype(np.float32)


def least_inverse(x: Any) -> Any:
    return (1 / x).min(-1, keepdims=True)


def total(terms: Any) -> Any:
    return np.broadcast_to(terms, ROWS.shape).sum(-1, dtype=np.float32)


def chosen(c: Any, a: Any, b: Any) -> Any:
    return np.where(c, np.float32(a), np.float32(b))


def sigmoid(x: Any) -> Any:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


Text = Callable[[Any], Any]
Oracle = Callable[[Any, Any, Any], Any]  # of x, its maxima and minima
CANCELLED: dict[str, tuple[Text, Oracle]] = {
    "r / r": (lambda x: fg.sum(x * fg.count(x > 5) / fg.count(x > 5)),
              lambda x, m, n: total(x * many(x) / many(x))),
    "r / r of minima": (lambda x: fg.sum(x * fg.min(x) / fg.min(x)),
                        lambda x, m, n: total(x * n / n)),
    "(x / r) r": (lambda x: fg.sum(x / fg.max(x) * fg.max(x)),
                  lambda x, m, n: total(x / m * m)),
    "r² / r": (lambda x: fg.sum(x * fg.max(x) * fg.max(x) / fg.max(x)),
               lambda x, m, n: total(x * m * m / m)),
    "exp r / r": (lambda x: fg.sum(fg.exp(x - fg.max(x)) * fg.max(x) / fg.max(x)),
                  lambda x, m, n: total(np.exp(x - m) * m / m)),
    "minimum / r": (lambda x: fg.sum(fg.minimum(x, fg.min(x)) / fg.min(x)),
                    lambda x, m, n: total(np.minimum(x, n) / n)),
    "exp exp": (lambda x: fg.sum(fg.exp(x - fg.max(x)) * fg.exp(fg.max(x) - x)),
                lambda x, m, n: total(np.exp(x - m) * np.exp(m - x))),
    "r - r": (lambda x: fg.sum(x + fg.max(x) - fg.max(x)),
              lambda x, m, n: total(x + m - m)),
    "r - r + r": (lambda x: fg.sum(x + fg.min(x) - fg.min(x) + fg.min(x)),
                  lambda x, m, n: total(x + n - n + n)),
    "r - r of others": (lambda x: fg.sum(x + fg.min(1 / x) - fg.min(1 / x)),
                        lambda x, m, n: total(x + least_inverse(x) - least_inverse(x))),
    "minimum - x": (lambda x: fg.sum(fg.minimum(x, fg.max(x)) - x),
                    lambda x, m, n: total(np.minimum(x, m) - x)),
    "0 r": (lambda x: fg.sum(x + 0 * fg.min(x)), lambda x, m, n: total(x + 0 * n)),
    "r**0": (lambda x: fg.sum(x * fg.min(x) ** 0), lambda x, m, n: total(x * n**0)),
}
"""Sums of more than what is left of them over the reals."""
DROPPED: dict[str, tuple[Text, Oracle]] = {
    "1 / x": (lambda x: fg.sum(fg.where(x == fg.max(x), 1 / x, 0)),
              lambda x, m, n: total(chosen(x == m, 1 / x, 0))),
    "1 / x²": (lambda x: fg.sum(fg.where(x == fg.min(x), 1 / x**2, 0)),
               lambda x, m, n: total(chosen(x == n, 1 / x**2, 0))),
    "exp": (lambda x: fg.sum(fg.where(x == fg.min(x), fg.exp(x), 0)),
            lambda x, m, n: total(chosen(x == n, np.exp(x), 0))),
    "log": (lambda x: fg.sum(fg.where(x == fg.max(x), fg.log(fg.abs(x)), 0)),
            lambda x, m, n: total(chosen(x == m, np.log(np.abs(x)), 0))),
    "x exp": (lambda x: fg.sum(fg.where(x == fg.min(x), x * fg.exp(x), 0)),
              lambda x, m, n: total(chosen(x == n, x * np.exp(x), 0))),
    "other 1 / x": (lambda x: fg.sum(fg.where(x < fg.max(x), 1 / x, 0)),
                    lambda x, m, n: total(chosen(x < m, 1 / x, 0)) + chosen(m == m, 0, nan)[:, 0]),
    "count": (lambda x: fg.count((x < fg.max(x)) & (x >= fg.max(x))),
              lambda x, m, n: ((x < m) & (x >= m)).sum(-1)),
    "count all": (lambda x: fg.count((x < fg.max(x)) | (x >= fg.max(x))),
                  lambda x, m, n: ((x < m) | (x >= m)).sum(-1)),
    "count none": (lambda x: fg.count(x > fg.max(x)), lambda x, m, n: (x > m).sum(-1)),
    "whole numbers": (lambda x: fg.sum(fg.where((x < fg.max(x)) & (x >= fg.max(x)), 2, 0)),
                      lambda x, m, n: chosen((x < m) & (x >= m), 2, 0).sum(-1)),
    "probabilities": (lambda x: fg.count(fg.exp(x - fg.max(x)) >= 0),
                      lambda x, m, n: (np.exp(x - m) >= 0).sum(-1)),
}
"""What a condition leaves out is 0, whatever it is; and NaN fails every comparison."""
ORDERED: dict[str, tuple[Text, Oracle]] = {
    "max sign exp": (lambda x: fg.max(fg.sign(fg.exp(x - fg.max(x)))),
                     lambda x, m, n: np.sign(np.exp(x - m)).max(-1)),
    "min sign exp": (lambda x: fg.min(fg.sign(fg.exp(x - fg.max(x)))),
                     lambda x, m, n: np.sign(np.exp(x - m)).min(-1)),
    "max of less": (lambda x: fg.max(x / 1000 - fg.sign(fg.exp(x - fg.max(x)))),
                    lambda x, m, n: (x / np.float32(1000) - np.sign(np.exp(x - m))).max(-1)),
    "sign sigmoid": (lambda x: fg.min(fg.sign(fg.sigmoid(x - fg.max(x)))),
                     lambda x, m, n: np.sign(sigmoid(x - m)).min(-1)),
    "x / r": (lambda x: fg.max(x / fg.count(x > 5)), lambda x, m, n: (x / many(x)).max(-1)),
    "exp / r": (lambda x: fg.max(fg.exp(x) / fg.count(x > 5)),
                lambda x, m, n: (np.exp(x) / many(x)).max(-1)),
    "r x": (lambda x: fg.max(x * fg.count(x > 5)), lambda x, m, n: (x * many(x)).max(-1)),
    "least r x": (lambda x: fg.min(x * fg.where(fg.max(x) > 1, 0, 2)),
                  lambda x, m, n: (x * chosen(m > 1, 0, 2)).min(-1)),
    "all finite": (lambda x: fg.all(fg.isfinite(x - fg.max(x))),
                   lambda x, m, n: np.isfinite(x - m).all(-1)),
    "any nan": (lambda x: fg.any(fg.isnan(x - fg.max(x))),
                lambda x, m, n: np.isnan(x - m).any(-1)),
    "itself": (lambda x: fg.any(x - fg.max(x) != x - fg.max(x)),
               lambda x, m, n: (x - m != x - m).any(-1)),
    "finite minimum": (lambda x: fg.all(fg.isfinite(fg.minimum(x, fg.max(x) - 1))),
                       lambda x, m, n: np.isfinite(np.minimum(x, m - 1)).all(-1)),
    "chosen": (lambda x: fg.max(fg.where(fg.isfinite(x), x - fg.max(x), 0)),
               lambda x, m, n: chosen(np.isfinite(x), x - m, 0).max(-1)),
    "chosen least": (lambda x: fg.min(fg.where(fg.isfinite(x - fg.max(x)), 1, 0)),
                     lambda x, m, n: chosen(np.isfinite(x - m), 1, 0).min(-1)),
    "not above": (lambda x: fg.min(fg.where(x - fg.max(x) <= 0, 1, 0)),
                  lambda x, m, n: chosen(x - m <= 0, 1, 0).min(-1)),
}
"""Maxima and minima of what follows the order of x over the reals."""


def values(text: Text, oracle: Oracle) -> tuple[Any, Any]:
    ends = (fold(ROWS, axis=-1, keepdims=True) for fold in (np.max, np.min))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")  # no defect of fusegen is told of
        return fg.pipeline(text)(ROWS), oracle(ROWS, *ends)


@pytest.mark.parametrize("name", CANCELLED)
def test_nothing_cancels_that_is_no_number(name: str) -> None:
    found, wanted = values(*CANCELLED[name])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", DROPPED)
def test_what_is_left_out_is_zero(name: str) -> None:
    found, wanted = values(*DROPPED[name])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ORDERED)
def test_extrema_are_those_of_the_text(name: str) -> None:
    found, wanted = values(*ORDERED[name])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_refusals_name_the_value() -> None:
    text = fg.pipeline(lambda x: fg.sum(x * fg.min(x) / fg.min(x)))
    shown = str(text.explain())
    assert "simpler than it is written, and for special values of min_x" in shown
    text = fg.pipeline(lambda x: fg.max(x * fg.count(x > 5)))
    assert "may be 0: the text is then NaN" in str(text.explain())


def test_refusals_of_inputs_that_reductions_alone_vary() -> None:
    """A witness is looked for on rows where inputs per column are 1."""
    text = fg.pipeline(chosen_columns)
    x, y = np.array([[0, 1], [2, 3]], np.float32), np.array([1, 3], np.float32)
    np.testing.assert_array_equal(text(x, y), [3, 3])


def chosen_columns(x: Any, y: fg.PerColumn) -> Any:
    return fg.sum(fg.where(y == fg.max(x), 1.0, 2))


def test_sigmoids_are_right_to_the_least_float() -> None:
    x = np.array([[-104, -103, -100, -89, -88, -20, -1, 0, 1, 20, 200]], np.float32)
    wanted = 1 / (1 + np.exp(-x.astype(np.float64)))
    found = fg.pipeline(lambda x: fg.sigmoid(x))(x)
    np.testing.assert_allclose(found, wanted, rtol=3e-7, atol=2e-45)
    assert fg.pipeline(lambda x: fg.argmin(fg.sigmoid(-x)))(-x[:, 2:]) == 0
