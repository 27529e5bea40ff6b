"""Texts as their users write them: guards of rows that are flat or masked out, masks that are
conditions themselves, statistics that leave NaN out. Right on rows that ask for the guard, and in
as few sweeps as without it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegen as fg

inf, nan = float("inf"), float("nan")
K = np.array([[True, False, True, False], [False] * 4, [True] * 4])


def min_max(x: Any) -> Any:
    r = fg.max(x) - fg.min(x)
    return fg.mean(fg.where(r > 0, (x - fg.min(x)) / r, 0))


def absmax(x: Any) -> Any:
    r = fg.max(fg.abs(x))
    return fg.sum(fg.where(r > 0, x / r, 0))


def absmax_else(x: Any) -> Any:
    r = fg.max(fg.abs(x))
    return fg.sum(fg.where(r == 0, 0, x / r))


def unit_length(x: Any) -> Any:
    r = fg.sqrt(fg.sum(x * x))
    return fg.sum(fg.where(r > 0, x / r, 0))


def shares(x: Any) -> Any:
    r = fg.sum(x)
    return fg.sum(fg.where(r != 0, (x / r) ** 2, 0))


def kept_softmax(x: Any) -> Any:
    m = fg.max(x)
    return fg.sum(fg.where(m > -1e30, fg.exp(x - m), 0))


def over_positive(c: Any, n: Any) -> Any:
    """n / c, and 0 where c is not above 0."""
    return np.where(c > 0, n / np.where(c > 0, c, 1), 0)


def span(x: Any) -> Any:
    return x.max(-1, keepdims=True) - x.min(-1, keepdims=True)


GUARDS: dict[Callable[[Any], Any], Callable[[Any], Any]] = {
    min_max: lambda x: over_positive(span(x), x - x.min(-1, keepdims=True)).mean(-1),
    absmax: lambda x: over_positive(np.abs(x).max(-1, keepdims=True), x).sum(-1),
    absmax_else: lambda x: over_positive(np.abs(x).max(-1, keepdims=True), x).sum(-1),
    unit_length: lambda x: over_positive(np.sqrt((x * x).sum(-1, keepdims=True)), x).sum(-1),
    shares: lambda x: np.where(x.sum(-1) != 0, (x * x).sum(-1) / np.where(
        x.sum(-1) != 0, x.sum(-1), 1) ** 2, 0),
    kept_softmax: lambda x: np.where(x.max(-1, keepdims=True) > -1e30,
                                     np.exp(x - x.max(-1, keepdims=True)), 0).sum(-1),
}


def masked_softmax(x: Any, k: Any) -> Any:
    m = fg.max(fg.where(k, x, -inf))
    return fg.sum(fg.where(k, fg.exp(x - m), 0))


def masked_not(x: Any, k: Any) -> Any:
    m = fg.max(fg.where(~k, x, -inf))
    return fg.sum(fg.where(~k, fg.exp(x - m), 0))


def masked_both(x: Any, k: Any) -> Any:
    c = k & (x > 0)
    m = fg.max(fg.where(c, x, -inf))
    return fg.sum(fg.where(c, fg.exp(x - m), 0))


def masked_variance(x: Any, k: Any) -> Any:
    n = fg.maximum(fg.count(k), 1)
    m = fg.sum(fg.where(k, x, 0)) / n
    return fg.sum(fg.where(k, (x - m) ** 2, 0)) / n


def exponentials(x: Any, c: Any) -> Any:
    m = np.where(c, x, -inf).max(-1, keepdims=True)
    return np.where(c, np.exp(x - np.where(m > -inf, m, 0)), 0).sum(-1)


def variance(x: Any, k: Any) -> Any:
    n = np.maximum(k.sum(-1, keepdims=True), 1)
    m = np.where(k, x, 0).sum(-1, keepdims=True) / n
    return (np.where(k, (x - m) ** 2, 0) / n).sum(-1)


MASKS: dict[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] = {
    masked_softmax: exponentials,
    masked_not: lambda x, k: exponentials(x, ~k),
    masked_both: lambda x, k: exponentials(x, k & (x > 0)),
    masked_variance: variance,
}


def mean_there(x: Any) -> Any:
    return fg.sum(fg.where(x == x, x, 0)) / fg.count(x == x)


def variance_there(x: Any) -> Any:
    return fg.sum(fg.where(x == x, (x - mean_there(x)) ** 2, 0)) / fg.count(x == x)


def softmax_there(x: Any) -> Any:
    m = fg.max(fg.where(x == x, x, -1e30))
    return fg.sum(fg.where(x == x, fg.exp(x - m), 0))


THERE: dict[Callable[[Any], Any], Callable[[Any], Any]] = {
    mean_there: lambda x: np.nanmean(x, -1), variance_there: lambda x: np.nanvar(x, -1),
    softmax_there: lambda x: np.nansum(np.exp(x - np.nanmax(x, -1, keepdims=True)), -1),
}


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("form", ["auto", "safe"])
@pytest.mark.parametrize("text", GUARDS, ids=lambda f: f.__name__)
def test_guards_of_rows(text: Any, form: Any) -> None:
    x = np.array([(2.5, 2.5, 2.5), (0, 0, 0), (1, 2, 4), (-1, -2, 3), (-inf,) * 3], np.float32)
    rows = x if text is kept_softmax else x[:-1]
    np.testing.assert_allclose(fg.pipeline(text)(rows, form=form), GUARDS[text](rows), rtol=1e-6,
                               atol=1e-6)
    assert fg.pipeline(text).compile(fg.Spec((3, 100))).plan.sweeps == 1


@pytest.mark.parametrize("text", MASKS, ids=lambda f: f.__name__)
def test_masks_that_are_conditions(text: Any) -> None:
    x = np.array([(1, 5, 2, -3), (0, 1, 2, 3), (-200, 1e4, 3, 3)], np.float32)
    wanted = MASKS[text](x.astype(np.float64), K)
    np.testing.assert_allclose(fg.pipeline(text)(x, K), wanted, rtol=1e-5)
    plan = fg.pipeline(text).compile(fg.Spec((3, 100)), fg.Spec((3, 100), "bool")).plan
    assert plan.sweeps == 1


@pytest.mark.parametrize("text", THERE, ids=lambda f: f.__name__)
def test_what_leaves_nan_out(text: Any) -> None:
    x = np.array([(1, nan, 2, 4), (nan, nan, 3, -1), (1, 2, 3, 4)], np.float32)
    np.testing.assert_allclose(fg.pipeline(text)(x), THERE[text](x), rtol=1e-5)


def test_conditions_of_the_row_before_exponentials() -> None:
    def gated(x: Any, y: fg.PerRow) -> Any:
        return fg.sum(fg.where(y > 0, fg.exp(x - fg.mean(x)), 0))

    x, y = np.array([(1, 2, 3), (1, 2, 3)], np.float32), np.array([1, -1], np.float32)
    np.testing.assert_allclose(fg.pipeline(gated)(x, y), [np.exp([-1, 0, 1]).sum(), 0], rtol=1e-6)


def test_lists_of_columns_over_row_values() -> None:
    def shares(x: Any, y: fg.PerColumn) -> Any:
        return fg.topk(y / fg.sum(1 / x), 1)

    values, columns = fg.pipeline(shares)(np.array([[1, 2, 4]], np.float32),
                                          np.array([7, 21, 14], np.float32))
    np.testing.assert_allclose(values, [[12]])
    np.testing.assert_array_equal(columns, [[1]])


def test_log_softmax_in_lists_and_logarithms_beside_means() -> None:
    best = fg.pipeline(lambda x: fg.topk(x - fg.logsumexp(x), 2))
    assert best.compile(fg.Spec((3, 100))).plan.sweeps == 1
    x = np.array([[1, 2, 3]], np.float32)
    np.testing.assert_allclose(best(x)[0], [[-0.4076059, -1.4076059]], rtol=1e-6)
    beside = fg.pipeline(lambda x: fg.mean((x - fg.mean(x)) * fg.log1p(x)))
    assert beside.compile(fg.Spec((3, 100))).plan.sweeps == 1
    tiny = np.array([[1e-7, 3e-7, 5e-7]], np.float32)
    np.testing.assert_allclose(beside(tiny), [8e-14 / 3], rtol=1e-4)


def test_the_safe_form_takes_no_order_that_floats_do_not_keep() -> None:
    text = fg.pipeline(lambda x: fg.max(fg.exp(x) * fg.exp(fg.max(x))))
    x = np.array([[200, -200], [1, 2]], np.float32)
    for form in ("auto", "safe", "unfused"):
        np.testing.assert_allclose(text(x, form=form), [nan, np.exp(np.float32(4))], rtol=1e-6)


def test_what_helps_where_shares_are_not_known_to_be_positive():
    """log(w / s) is log(w) − log(s) of w ≥ 0 alone: the refusal says so, and what it says helps."""
    def entropy(w: Any) -> Any:
        p = w / fg.sum(w)
        return -fg.sum(fg.xlogy(p, p))

    (refusal,) = fg.pipeline(entropy).derivation().refusals
    assert "fg.abs(w) or fg.maximum(w, 0)" in refusal.fix
    helped = fg.pipeline(lambda w: entropy(fg.maximum(w, 0)))
    assert helped.plan().sweeps == 1
    np.testing.assert_allclose(helped(np.array([[1, 1, 0, 2]], np.float32)), [1.5 * np.log(2)],
                               rtol=1e-6)
