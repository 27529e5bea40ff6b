"""Statistics over what a mask takes of a row: numbers that are not NaN, what is not padding. One
sweep each, and NumPy's answers on rows of which the mask takes all, some, one or nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.everywhere import BACKENDS, results

import fusegen as fg
from fusegen.algebra.facts.questions import is_mask, leads
from fusegen.ir import graph as g

inf, nan = float("inf"), float("nan")
lse = fg.library.logsumexp


def rows_with_gaps() -> np.ndarray:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((12, 37)).astype(np.float32)
    x[1] += 1e4
    x[2, ::2] = nan
    x[3, 1:] = nan
    x[4] = nan
    x[5, 7] = inf
    x[6, 7] = -inf
    x[7, ::3], x[7, 1::3] = nan, -inf
    x[8] = 3
    x[9] *= 1e-20
    x[10, 3:9] = nan
    x[10] -= 300
    return x


X = rows_with_gaps()
K = np.random.default_rng(6).random(X.shape) < np.linspace(0, 1, 12)[:, None]
"""Of the first row it takes nothing, of the last all."""


# ---- what is not NaN ----

def variance(x: Any, ok: Any) -> Any:
    n = fg.count(ok)
    m = fg.sum(fg.where(ok, x, 0)) / n
    return fg.sum(fg.where(ok, (x - m) ** 2, 0)) / n


def unbiased(x: Any) -> Any:
    ok = ~fg.isnan(x)
    n = fg.count(ok)
    m = fg.sum(fg.where(ok, x, 0)) / n
    return fg.sqrt(fg.sum(fg.where(ok, (x - m) ** 2, 0)) / (n - 1))


def entropy_of_numbers(x: Any) -> Any:
    ok = ~fg.isnan(x)
    v = fg.where(ok, x, -inf)
    a = v - lse(v)
    return -fg.sum(fg.where(ok, fg.exp(a) * a, 0))


def softmax_total(x: Any) -> Any:
    v = fg.where(fg.isnan(x), -inf, x)
    return fg.sum(fg.exp(v - fg.max(v)))


def finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), x, nan)


def np_lse(v: np.ndarray) -> np.ndarray:
    m = v.max(-1, keepdims=True)
    total = np.log(np.exp(v - m).sum(-1)) + m[:, 0]
    return np.where(np.isinf(m[:, 0]), m[:, 0], total)


def without_nan(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), -inf, x)


def np_entropy(x: np.ndarray, ok: np.ndarray) -> np.ndarray:
    """0 of nothing; −inf taken is 0 · −inf in the text, and 0 here: exp(x) = 0 weighs nothing."""
    v = np.where(ok, x, -inf)
    a = v - np_lse(v)[:, None]
    return -np.where(ok & ~(a == -inf), np.exp(a) * a, 0).sum(-1)


NUMBERS: dict[Callable[[Any], Any], Callable[[np.ndarray], Any]] = {
    lambda x: variance(x, ~fg.isnan(x)): lambda x: np.nanvar(x, -1),
    lambda x: variance(x, x == x): lambda x: np.nanvar(x, -1),
    lambda x: variance(x, fg.isfinite(x)): lambda x: np.nanvar(finite(x), -1),
    unbiased: lambda x: np.where(np.isnan(x).all(-1), 0, np.nanstd(x, -1, ddof=1)),  # √(0 / −1)
    softmax_total: lambda x: np.exp(without_nan(x) - without_nan(x).max(-1, keepdims=True)).sum(-1),
    lambda x: lse(fg.where(fg.isnan(x), -inf, x)): lambda x: np_lse(without_nan(x)),
    lambda x: lse(fg.where(fg.isfinite(x), x, -inf)):
        lambda x: np_lse(np.where(np.isfinite(x), x, -inf)),
    entropy_of_numbers: lambda x: np_entropy(x, ~np.isnan(x)),
}


def checked(text: Callable[..., Any], *given: np.ndarray) -> Any:
    """Warnings say of what is no number, or of what fusegen finds wrong in itself: none."""
    pipeline = fg.pipeline(text)
    assert pipeline.plan().sweeps == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return pipeline(*given)


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=1e-5)


@pytest.mark.parametrize("case", range(len(NUMBERS)))
def test_what_is_not_nan(case):
    text, oracle = list(NUMBERS.items())[case]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, about rows of nothing
        wanted = oracle(X.astype(np.float64))
    same(checked(text, X), wanted)


# ---- what a mask takes ----

def entropy(x: Any, k: Any) -> Any:
    v = fg.where(k, x, -inf)
    a = v - lse(v)
    return -fg.sum(fg.where(k, fg.exp(a) * a, 0))


def entropy_of_the_scores(x: Any, k: Any) -> Any:
    a = x - lse(fg.where(k, x, -inf))
    return -fg.sum(fg.where(k, fg.exp(a) * a, 0))


def surprise(x: Any, k: Any) -> Any:
    v = fg.where(k, x, -inf)
    return -fg.sum(fg.where(k, v - lse(v), 0))


def surprise_of_some(x: Any, k: Any) -> Any:
    v = fg.where(k, x, -inf)
    return -fg.sum(fg.where(k & (x > 0), v - lse(v), 0))


def expected(x: Any, k: Any) -> Any:
    m = fg.max(fg.where(k, x, -inf))
    s = fg.sum(fg.where(k, fg.exp(x - m), 0))
    return fg.sum(fg.where(k, fg.exp(x - m) / s * x, 0))


def guarded_variance(x: Any, k: Any) -> Any:
    n = fg.count(k)
    m = fg.where(n > 0, fg.sum(fg.where(k, x, 0)) / n, 0)
    return fg.where(n > 0, fg.sum(fg.where(k, (x - m) ** 2, 0)) / n, 0)


def deviations(x: Any, k: Any) -> Any:
    m = fg.sum(fg.where(k, x, 0)) / fg.count(k)
    return fg.sum(fg.where(k, (x - m) ** 2, 0))


def by_the_greatest(x: Any, k: Any) -> Any:
    return fg.sum(fg.where(k, x / fg.max(fg.where(k, fg.abs(x), 0)), 0))


def by_the_total(x: Any, k: Any) -> Any:
    return fg.sum(fg.where(k, x * x / fg.sum(fg.where(k, x, 0)), 0))


def taken(x: np.ndarray, k: np.ndarray, of: Callable[[np.ndarray], Any]) -> np.ndarray:
    """By row, of what the mask takes; 0 of nothing."""
    return np.array([of(row[mask]) if mask.any() else 0.0
                     for row, mask in zip(x.astype(np.float64), k, strict=True)])


def log_share(v: np.ndarray) -> np.ndarray:
    u = v - v.max()
    return u - np.log(np.exp(u).sum())


SURPRISES: dict[Callable[[Any, Any], Any], Callable[[np.ndarray], Any]] = {
    entropy: lambda v: -(np.exp(log_share(v)) * log_share(v)).sum(),
    entropy_of_the_scores: lambda v: -(np.exp(log_share(v)) * log_share(v)).sum(),
    surprise: lambda v: -log_share(v).sum(),
    surprise_of_some: lambda v: -log_share(v)[v > 0].sum(),
    expected: lambda v: (np.exp(log_share(v)) * v).sum(),
    guarded_variance: np.var,
    deviations: lambda v: ((v - v.mean()) ** 2).sum(),
    by_the_greatest: lambda v: v.sum() / np.abs(v).max(),
    by_the_total: lambda v: (v * v).sum() / v.sum(),
}


@pytest.mark.parametrize("text", SURPRISES)
def test_what_a_mask_takes(text):
    x = np.where(np.isfinite(X), X, -2).astype(np.float32)
    same(checked(text, x, K), taken(x, K, SURPRISES[text]))


def centred(x: Any, k: Any) -> Any:
    return x - fg.sum(fg.where(k, x, 0)) / fg.count(k)


ORDERS: dict[Callable[[Any, Any], Any], tuple[Callable[[np.ndarray], Any], float]] = {
    lambda x, k: fg.max(fg.where(k, centred(x, k), -inf)): (lambda v: v.max() - v.mean(), -inf),
    lambda x, k: fg.min(fg.where(k, centred(x, k), inf)): (lambda v: v.min() - v.mean(), inf),
    lambda x, k: fg.max(fg.where(k, -centred(x, k), -inf)): (lambda v: v.mean() - v.min(), -inf),
    lambda x, k: fg.max(fg.where(k, 0, abs(centred(x, ~k)))): (None, 0),
    lambda x, k: fg.max(fg.where(k, abs(centred(x, k)), 0)):
        (lambda v: abs(v - v.mean()).max(), 0),
    lambda x, k: fg.max(fg.where(k, x - lse(fg.where(k, x, -inf)), -inf)):
        (lambda v: log_share(v).max(), -inf),
    lambda x, k: fg.max(fg.where(k, fg.exp(x - fg.max(fg.where(k, x, -inf))), 0)): (lambda v: 1, 0),
}
"""What is taken of the mask's elements, and of none."""


@pytest.mark.parametrize("case", range(len(ORDERS)))
def test_orders_of_what_a_mask_takes(case):
    text, (oracle, nothing) = list(ORDERS.items())[case]
    x = np.where(K, np.where(np.isfinite(X), X, -2), [nan, inf, -inf, 3e38, 0.0] * 7 + [nan, 1])
    k = K
    if oracle is None:  # the mask is the other one
        k, oracle = ~K, lambda v: abs(v - v.mean()).max()
        x = np.where(k, np.nan_to_num(X, posinf=0, neginf=0), x)
    x[1] -= 1e4  # far from 0 the text's own roundings are seen
    x[10] += 300
    x = x.astype(np.float32)
    wanted = [oracle(row[m]) if m.any() else nothing
              for row, m in zip(x.astype(np.float64), k, strict=True)]
    same(checked(text, x, K), np.array(wanted))


@pytest.mark.parametrize("text", [
    lambda x, k: fg.argmax(fg.where(k, x - lse(x), -inf)),
    lambda x, k: fg.argmax(fg.where(k, 2 * centred(x, k), -inf)),
])
def test_columns_of_what_a_mask_takes(text):
    x = np.nan_to_num(X, posinf=1, neginf=-1)
    np.testing.assert_array_equal(checked(text, x, K), np.where(K, x, -inf).argmax(-1))


@pytest.mark.long
def test_what_is_left_out_may_be_anything():
    """NaN and infinities that the mask does not take are not met."""
    x = np.where(K, np.where(np.isfinite(X), X, -2), [nan, inf, -inf, 3e38, 0.0] * 7 + [nan, 1])
    x = x.astype(np.float32)
    for text, oracle in SURPRISES.items():
        same(checked(text, x, K), taken(x, K, oracle))


# ---- what takes nothing, however it is written ----

def scores(x: Any, c: Any) -> Any:
    n = fg.count(c)
    m = fg.sum(fg.where(c, x, 0)) / n
    s = fg.sqrt(fg.sum(fg.where(c, (x - m) ** 2, 0)) / n)
    return fg.sum(fg.where(s != 0, fg.where(c, (x - m) / s, 0), 0))


def guarded(x: Any, c: Any) -> Any:
    m = fg.sum(fg.where(c, x, 0)) / fg.count(c)
    return fg.sum(fg.where(m != 5, fg.where(c, x - m, 0), 0))


def inner(x: Any, c: Any) -> Any:
    s = fg.sum(x)
    return fg.sum(fg.where(s != 0, fg.where(c, x * s, 0), 0))


NOWHERE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "bands": lambda x, b, k: (x > k) & (x < 5),
    "bands of the row": lambda x, b, k: (x > 8.5) & (x < k + 1),
    "not not": lambda x, b, k: ~(~b),
    "not not equal": lambda x, b, k: ~(~(x == 0)),
    "neither": lambda x, b, k: ~(~b | (x > 0)),
    "of the row and NaN": lambda x, b, k: (k > 0) & (x != x),
    "of the row": lambda x, b, k: (k < 0) & b,
    "a range of columns": lambda x, b, k: (fg.index(x) < k - 4) & (x == x),
}


@pytest.mark.parametrize("name", NOWHERE)
@pytest.mark.parametrize("text", [deviations, by_the_greatest, scores, guarded, inner])
def test_nothing_is_taken_however_the_mask_is_written(name, text):
    """Numbers, NaN and infinities: the text adds up zeros."""
    def whole(x: Any, b: Any, k: fg.PerRow) -> Any:
        return text(x, NOWHERE[name](x, b, k))

    x = np.array([[9, 2, 3], [inf, 2, 3], [-inf, 6, 1], [8, 8, 8]], np.float32)
    b = np.zeros(x.shape, bool)
    same(fg.pipeline(whole)(x, b, np.full(4, 4, np.float32)), np.zeros(4))


def test_conditions_of_per_row_inputs_alone():
    """They stand in row values, and states know nothing of them."""
    def text(x: Any, k: fg.PerRow) -> Any:
        c = k == k
        low = fg.min(fg.where(c, x, inf))
        r = fg.max(x) - low
        m = fg.max(fg.where(c, x, -inf))
        return fg.sum(fg.where(c, m - x, 0)), fg.sum(fg.where(c, (x - low) / r / k, 0))

    x = np.array([[1, 2, 3], [1, 2, 3]], np.float32)
    first, second = fg.pipeline(text)(x, np.array([2, nan], np.float32))
    same(first, np.array([3, 0]))
    same(second, np.array([0.75, 0]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", [entropy, expected, guarded_variance, by_the_greatest])
def test_of_every_backend(backend, text):
    x = np.where(np.isfinite(X), X, -2).astype(np.float32)
    x[1] -= 1e4  # far from 0 the text's own roundings are seen, on NumPy
    (found,) = results(backend, fg.pipeline(text), x, K)
    same(found.reshape(-1), taken(x, K, SURPRISES[text]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_nan_of_every_backend(backend):
    (found,) = results(backend, fg.pipeline(lambda x: variance(x, ~fg.isnan(x))), X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(found.reshape(-1), np.nanvar(X.astype(np.float64), -1))


def above_the_row(x: Any, k: fg.PerRow) -> Any:
    return variance(x, x > k)


def above_a_number(x: Any, *, t: float = 0.5) -> Any:
    return variance(x, t < x)


@pytest.mark.parametrize("text", [
    above_the_row, above_a_number,
    lambda x: variance(x, ~fg.isnan(x)), lambda x, k: guarded_variance(x, k > 0),
    lambda x, k: variance(x, k > 0), lambda x, k: variance(x, (k > 0) & (x == x)),
])
def test_one_sum_counts_what_a_mask_takes(text):
    """The count that the text divides by, that moves second moments, and that the answer asks."""
    source = fg.pipeline(text).source(target="sm_90")
    assert source.count("? 1 : 0;") == 1
    assert "? 1.0f" not in source


def test_a_row_value_that_such_a_number_leads_is_no_pivot():
    """where(isinf(x), 5, exp(x - max x)) has a value where max x is infinite."""
    def text(x: Any) -> Any:
        return fg.sum(fg.where(fg.isinf(x), 5, fg.exp(x - fg.max(x))))

    x = np.array([[1, inf, 2], [0, 1, 2], [-inf, 1, 1]], np.float32)
    same(fg.pipeline(text)(x), np.array([5, 1 + np.exp(-1) + np.exp(-2), 7]))


def masks_of(text: Callable[[Any], Any]) -> tuple[list[g.Map], list[g.Node]]:
    graph = fg.pipeline(text).work().graph
    masks = [n for n in graph.nodes if isinstance(n, g.Map) and is_mask(n) and n.op != "not"]
    return masks, [n for n in graph.nodes if g.is_reduction(n)]


@pytest.mark.parametrize(("text", "led"), [
    (lambda x: fg.max(fg.where(fg.isnan(x), -inf, x)), False),
    (lambda x: fg.max(fg.where(~fg.isnan(x), x, -inf)), False),
    (lambda x: fg.sum(fg.where(x == x, x, 0)), False),
    (lambda x: fg.sum(fg.where(fg.isfinite(x) & (x > 0), x, 0)), False),
    (lambda x: fg.count(fg.isnan(x)), False),
    (lambda x: fg.max(x) + fg.count(fg.isnan(x)), True),
    (lambda x: fg.sum(fg.where(fg.isnan(x) | (x > 0), x, 0)), True),
    (lambda x: fg.max(fg.where(fg.isinf(x * 2), 0, x)), False),
    (lambda x: fg.max(fg.where(fg.isnan(x), x, 0)), True),
])
def test_what_leads_a_row_value(text, led):
    masks, reductions = masks_of(text)
    assert masks
    assert any(leads(mask, r) for mask in masks for r in reductions) is led
