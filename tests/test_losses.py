"""Losses and scores as their users write them: log-probabilities x − logsumexp(x) under weights,
standard scores. One sweep each, and right on rows with large offsets, ties and infinities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegen as fg

inf, nan = float("inf"), float("nan")


def log_softmax(x: Any) -> Any:
    return x - fg.library.logsumexp(x)


def soft_cross_entropy(x: Any, y: Any) -> Any:
    return -fg.sum(y * log_softmax(x))


def smoothed_cross_entropy(x: Any, y: Any) -> Any:
    return -fg.sum((0.9 * y + 0.01) * log_softmax(x))


def divergence(x: Any, y: Any) -> Any:
    a, b = log_softmax(x), log_softmax(y)
    return fg.sum(fg.exp(a) * (a - b))


def distillation(x: Any, y: Any) -> Any:
    return -fg.sum(fg.exp(log_softmax(y / 2)) * log_softmax(x / 2)) * 4


def purity(x: Any, y: Any) -> Any:
    return fg.sum(fg.exp(2 * log_softmax(x)) * y)


def squared(x: Any, y: Any) -> Any:
    return fg.sum(y * log_softmax(x) ** 2)


def surprise(x: Any) -> Any:
    """log p(x) by NumPy, which leaves no digits to large offsets."""
    u = x - x.max(-1, keepdims=True)
    return u - np.log(np.exp(u).sum(-1, keepdims=True))


LOSSES: dict[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] = {
    soft_cross_entropy: lambda x, y: -(y * surprise(x)).sum(-1),
    smoothed_cross_entropy: lambda x, y: -((0.9 * y + 0.01) * surprise(x)).sum(-1),
    divergence: lambda x, y: (np.exp(surprise(x)) * (surprise(x) - surprise(y))).sum(-1),
    distillation: lambda x, y: -(np.exp(surprise(y / 2)) * surprise(x / 2)).sum(-1) * 4,
    purity: lambda x, y: (np.exp(2 * surprise(x)) * y).sum(-1),
    squared: lambda x, y: (y * surprise(x) ** 2).sum(-1),
}


def deviation(x: Any) -> Any:
    return fg.sqrt(fg.mean((x - fg.mean(x)) ** 2))


def farthest(x: Any) -> Any:
    return fg.max(fg.abs((x - fg.mean(x)) / deviation(x)))


def farthest_square(x: Any) -> Any:
    variance, mean = fg.library.var_mean(x)
    return fg.max((x - mean) ** 2 / variance)


def scores(x: Any) -> Any:
    return np.abs(x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


SCORES: dict[Callable[[Any], Any], Callable[[Any], Any]] = {
    farthest: lambda x: scores(x).max(-1),
    farthest_square: lambda x: (scores(x) ** 2).max(-1),
}


@pytest.mark.long
@pytest.mark.parametrize("text", LOSSES, ids=lambda f: f.__name__)
def test_losses_of_log_probabilities(text: Any) -> None:
    draw = np.random.default_rng(3)
    x = draw.normal(size=(6, 37)) * np.array([1, 30, 1, 1, 0, 300])[:, None]
    x[2] += 1e4
    x[3] -= 3e3
    y = np.abs(draw.normal(size=(6, 37)))
    x, y = x.astype(np.float32), y.astype(np.float32)
    got = fg.pipeline(text)(x, y)
    size = np.maximum(1, np.abs(x).max(-1))  # of what the text rounds: x − logsumexp(x)
    wanted = LOSSES[text](x.astype(np.float64), y.astype(np.float64))
    weight = 1 + np.abs(y).sum(-1) * (size if text is squared else 1)
    assert (np.abs(got - wanted) <= 3e-7 * size * weight + 2e-6 * np.abs(wanted)).all()
    assert fg.pipeline(text).compile(fg.Spec((3, 100)), fg.Spec((3, 100))).plan.sweeps == 1


@pytest.mark.parametrize("text", [soft_cross_entropy, squared], ids=lambda f: f.__name__)
def test_losses_of_infinite_logits(text: Any) -> None:
    x = np.array([(0, -inf, 1), (0, inf, 1), (-inf,) * 3, (0, nan, 1), (-inf, 0, 1)], np.float32)
    y = np.full_like(x, 0.5)
    sign = -1 if text is squared else 1
    wanted = sign * np.array([sign * inf, nan, nan, nan, sign * inf])
    np.testing.assert_array_equal(fg.pipeline(text)(x, y), wanted)


@pytest.mark.parametrize("text", SCORES, ids=lambda f: f.__name__)
def test_farthest_scores(text: Any) -> None:
    draw = np.random.default_rng(4)
    x = draw.normal(size=(5, 41)) * np.array([1, 1e3, 1, 1, 1e-3])[:, None]
    x[2] += 1e3
    x = x.astype(np.float32)
    np.testing.assert_allclose(fg.pipeline(text)(x), SCORES[text](x.astype(np.float64)), rtol=3e-4)
    special = np.array([(2, 2, 2), (1, inf, 2), (1, nan, 2), (-inf, 1, 2)], np.float32)
    assert np.isnan(fg.pipeline(text)(special)).all()
    assert fg.pipeline(text).compile(fg.Spec((3, 100))).plan.sweeps == 1


def test_masks_beside_log_probabilities_are_left_alone() -> None:
    """What a condition leaves out may be the very element that makes the maximum infinite."""
    def masked(x: Any, y: Any) -> Any:
        return -fg.sum(fg.where(y > 0, y * log_softmax(x), 0))

    x, y = np.array([(inf, 0, 1), (5, 0, 1)], np.float32), np.array([(0, 1, 2)] * 2, np.float32)
    wanted = -(y[1] * surprise(x[1].astype(np.float64))).sum()
    np.testing.assert_allclose(fg.pipeline(masked)(x, y)[1], wanted, rtol=1e-5)
    np.testing.assert_allclose(fg.pipeline(masked)(x, y, form="safe"), [inf, wanted], rtol=1e-5)
