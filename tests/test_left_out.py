"""Row values in terms that a row may have none of: what a condition leaves out, or a weight of 0
takes away, is 0 whatever it is multiplied by; and where 0 multiplies what the text has, it is NaN.

Every text runs on every row, beside NumPy in float32, and warns of nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegen as fg

inf, nan = float("inf"), float("nan")
FINITE = np.array([
    (0, 1), (1, 0), (0, -1), (1, 2), (0, 0), (1, 1), (-1, 0), (-1, -2), (-3, -3), (200, 1),
    (0, -200), (-200, -400), (100, -100), (1e-30, 1), (1e-40, 1),
], np.float32)
INFINITE = np.array([(inf, 1), (inf, inf), (-inf, 1), (inf, 0), (-inf, -inf)], np.float32)


def chosen(c: Any, a: Any, b: Any) -> Any:
    return np.where(c, np.float32(a), np.float32(b))


def xlogy(a: Any, b: Any) -> Any:
    return np.where((a == 0) & (b == b), np.float32(0), a * np.log(b))


def positive(x: Any) -> Any:
    return (x > 0).sum(-1, keepdims=True).astype(np.float32)


Text = Callable[[Any], Any]
Oracle = Callable[[Any, Any, Any], Any]  # terms, of x, its maxima and minima
TERMS: dict[str, tuple[Text, Oracle]] = {
    "log max": (lambda x: fg.sum(fg.where(x < fg.max(x), fg.log(fg.max(x)), x)),
                lambda x, m, n: chosen(x < m, np.log(m), x)),
    "log max, exp": (lambda x: fg.sum(fg.where(x < fg.max(x), fg.log(fg.max(x)), fg.exp(x))),
                     lambda x, m, n: chosen(x < m, np.log(m), np.exp(x))),
    "1 / max": (lambda x: fg.sum(fg.where(x < fg.max(x), 1 / fg.max(x), x)),
                lambda x, m, n: chosen(x < m, 1 / m, x)),
    "sqrt min": (lambda x: fg.sum(fg.where(x > 0, fg.sqrt(fg.min(x)), 0)),
                 lambda x, m, n: chosen(x > 0, np.sqrt(n), 0)),
    "x log min": (lambda x: fg.sum(fg.where(x > 0, x * fg.log(fg.min(x)), 0)),
                  lambda x, m, n: chosen(x > 0, x * np.log(n), 0)),
    "1 / mean": (lambda x: fg.mean(fg.where(x == 1, 1 / fg.mean(x), 1.0)),
                 lambda x, m, n: chosen(x == 1, 1 / x.mean(-1, keepdims=True), 1) / 2),
    "exp / sum": (lambda x: fg.sum(fg.where(x < 0, fg.exp(x - fg.max(x)) / masked(x), 0)),
                  # Where all of them underflow there is none, as docs/special_values.md says.
                  lambda x, m, n: chosen((x < 0) & (below(x, m) > 0),
                                         np.exp(x - m) / below(x, m), 0)),
    "(exp) / sum": (lambda x: fg.sum(fg.where(x < 0, fg.exp(x - fg.max(x)), 0) / masked(x)),
                    lambda x, m, n: chosen(x < 0, np.exp(x - m), 0) / below(x, m)),
    "chosen": (lambda x: fg.sum(fg.where(x > 0, fg.where(fg.max(x) > 0, fg.max(x), 1), 0)),
               lambda x, m, n: chosen(x > 0, chosen(m > 0, m, 1), 0)),
    "xlogy max": (lambda x: fg.sum(fg.xlogy(x, fg.max(x))), lambda x, m, n: xlogy(x, m)),
    "xlogy |x - max|": (lambda x: fg.sum(fg.xlogy(fg.abs(x - fg.max(x)), fg.max(x))),
                        lambda x, m, n: xlogy(np.abs(x - m), m)),
    "xlogy x max": (lambda x: fg.sum(fg.xlogy(x * fg.max(x), x)),
                    lambda x, m, n: xlogy(x * m, x)),
    "xlogy count": (lambda x: fg.sum(fg.xlogy(x * fg.count(x > 0), x)),
                    lambda x, m, n: xlogy(x * positive(x), x)),
    "xlogy exp, x": (lambda x: fg.sum(fg.xlogy(fg.exp(x - fg.max(x)), x)),
                     lambda x, m, n: xlogy(np.exp(x - m), x)),
    "two quotients": (lambda x: fg.sum(x / size(x) / size(x) + 1e-3),
                      lambda x, m, n: x / length(x) / length(x) + np.float32(1e-3)),
    "sign": (lambda x: fg.sum(fg.where(x > 0, fg.sign(fg.exp(-x)), fg.max(x))),
             lambda x, m, n: chosen(x > 0, np.sign(np.exp(-x)), m)),
    "or": (lambda x: fg.sum(fg.where((x > 5) | (fg.exp(x - fg.max(x)) != 0), fg.min(x), 0)),
           lambda x, m, n: chosen((x > 5) | (np.exp(x - m) != 0), n, 0)),
    "power": (lambda x: fg.sum(fg.abs(x / size(x)) ** 1.5),
              lambda x, m, n: np.abs(x / length(x)) ** np.float32(1.5)),
}
INFINITIES: dict[str, tuple[Text, Oracle]] = {
    "max": (lambda x: fg.sum(fg.where(x < fg.max(x), fg.max(x), 0)),
            lambda x, m, n: chosen(x < m, m, 0)),
    "max beside": (lambda x: fg.sum(fg.where(x < 0, fg.max(x), 0.0)),
                   lambda x, m, n: chosen(x < 0, m, 0)),
    "max or x": (lambda x: fg.sum(fg.where(x < 0, fg.max(x), x)),
                 lambda x, m, n: chosen(x < 0, m, x)),
    "0 beside": (lambda x: fg.sum(fg.where(fg.min(x) < 0, x, 0) * (x - fg.min(x))),
                 lambda x, m, n: chosen(n < 0, x, 0) * (x - n)),
}
ORDERS: dict[str, tuple[Text, Oracle]] = {
    "max": (lambda x: fg.max(fg.exp(x) * fg.exp(x - fg.max(x))),
            lambda x, m, n: (np.exp(x) * np.exp(x - m)).max(-1)),
    "argmax": (lambda x: fg.argmax(fg.exp(x) * fg.exp(x - fg.max(x))),
               lambda x, m, n: first(np.exp(x) * np.exp(x - m))),
    "argmin": (lambda x: fg.argmin(fg.exp2(x - fg.max(x)) * fg.exp(x)),
               lambda x, m, n: first(-np.exp2(x - m) * np.exp(x))),
}
"""Products that are ∞·0 where they should be between others."""


def masked(x: Any) -> Any:
    return fg.sum(fg.where(x < 0, fg.exp(x - fg.max(x)), 0))


def size(x: Any) -> Any:
    return fg.max(fg.abs(x))


def length(x: Any) -> Any:
    return np.abs(x).max(-1, keepdims=True)


def below(x: Any, m: Any) -> Any:
    return chosen(x < 0, np.exp(x - m), 0).sum(-1, keepdims=True)


def first(f: Any) -> Any:
    """The greatest, or the first NaN."""
    return np.where(np.isnan(f).any(-1), np.argmax(np.isnan(f), -1), np.argmax(f, -1))


def values(text: Text, oracle: Oracle, rows: Any) -> tuple[Any, Any]:
    ends = (fold(rows, axis=-1, keepdims=True) for fold in (np.max, np.min))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")  # no defect of fusegen is told of
        return fg.pipeline(text)(rows), oracle(rows, *ends)


@pytest.mark.parametrize("name", TERMS)
def test_sums_of_finite_rows(name: str) -> None:
    found, terms = values(*TERMS[name], FINITE)
    wanted = np.broadcast_to(terms, FINITE.shape).sum(-1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("name", INFINITIES)
def test_sums_of_rows_with_infinities(name: str) -> None:
    found, terms = values(*INFINITIES[name], INFINITE)
    np.testing.assert_array_equal(found, np.broadcast_to(terms, INFINITE.shape).sum(-1))


@pytest.mark.parametrize("name", ORDERS)
def test_orders_that_floats_do_not_keep(name: str) -> None:
    rows = np.array([(200, 400), (400, 200), (1, 2), (88, 0), (0, 89), (150, 90)], np.float32)
    np.testing.assert_allclose(*values(*ORDERS[name], rows), rtol=1e-6)


@pytest.mark.long
def test_orders_that_floats_keep_still_share_a_sweep() -> None:
    for text in (lambda x: fg.topk(fg.library.softmax(x), 3),
                 lambda x: fg.max(fg.exp(x - fg.max(x)) / fg.sum(fg.exp(x - fg.max(x)))),
                 lambda x: fg.argmax(x / fg.sum(fg.abs(x))),
                 lambda x: fg.topk(1 - (x - fg.max(x)), 2)[0],
                 lambda x: fg.max((x - fg.min(x)) / (fg.max(x) - fg.min(x)))):
        assert fg.pipeline(text).compile(fg.Spec((3, 100))).plan.sweeps == 1
