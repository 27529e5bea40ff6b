"""Conditions that always hold over the real numbers and not in floats are switches, not facts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegen as fg

ROWS = {
    "underflow": [0, -1, -300, -2], "far": [1e9, -3, 7, 0], "vast": [1e25, 2e20, 3, -1e25],
    "near": [0, -1, -2, -3], "infinite": [-np.inf, -1, -np.inf, 2],
}
"""exp(x - max(x)) reaches 0; x - max(x) + 1 is x - max(x); (x - max(x))² is infinite; none; NaN."""


def least(c: Any) -> Any:
    return fg.min(fg.where(c, 1, 0))


TEXTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "all": (lambda x: fg.all(fg.exp(x - fg.max(x)) > 0),
            lambda x, m: (np.exp(x - m) > 0).all(-1)),
    "any": (lambda x: fg.any(fg.exp(x - fg.max(x)) <= 0),
            lambda x, m: (np.exp(x - m) <= 0).any(-1)),
    "count": (lambda x: fg.count(fg.exp2(x - fg.max(x)) != 0),
              lambda x, m: (np.exp2(x - m) != 0).sum(-1)),
    "sum": (lambda x: fg.sum(fg.where(fg.sigmoid(x - fg.max(x)) > 0, 1, 0)),
            lambda x, m: (1 / (1 + np.exp(m - x)) > 0).sum(-1)),
    "min": (lambda x: fg.min(fg.where(fg.exp(x - fg.max(x)) > 0, x, 5)),
            lambda x, m: np.where(np.exp(x - m) > 0, x, np.float32(5)).min(-1)),
    "argmin": (lambda x: fg.argmin(fg.where(fg.exp(x - fg.max(x)) > 0, x, 5)),
               lambda x, m: np.where(np.exp(x - m) > 0, x, np.float32(5)).argmin(-1)),
    "topk": (lambda x: fg.topk(-fg.where(fg.exp(x - fg.max(x)) > 0, x, 5), 1)[1],
             lambda x, m: np.where(np.exp(x - m) > 0, x, np.float32(5)).argmin(-1)[:, None]),
    "quotient": (lambda x: least(1 / (1 + (x - fg.max(x)) ** 2) > 0),
                 lambda x, m: (1 / (1 + (x - m) ** 2) > 0).min(-1)),
    "distance": (lambda x: fg.count(fg.abs(fg.min(x) - x) > -3),
                 lambda x, m: (np.abs(x.min(-1, keepdims=True) - x) > -3).sum(-1)),
    "step": (lambda x: least(fg.max(x) - x + 1 > fg.max(x) - x),
             lambda x, m: (m - x + 1 > m - x).min(-1)),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", TEXTS)
def test_results_are_those_of_floats(name: str, row: str) -> None:
    text, numpy = TEXTS[name]
    x = np.array([ROWS[row], ROWS["near"]], np.float32)
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("error")  # no defect of fusegen is told of
        found = fg.pipeline(text)(x)
        np.testing.assert_array_equal(found, numpy(x, x.max(-1, keepdims=True)))


@pytest.mark.parametrize(("text", "sweeps"), [
    (lambda x: fg.min(fg.where(x - fg.max(x) <= 0, 1, 0)), 2),  # NaN where both are infinite
    (lambda x: fg.sum(fg.where(x - fg.max(x) <= 0, 1.0, 0)), 2),
    (lambda x: fg.sum(fg.where(x <= fg.max(x), 1.0, 0)), 1),
    (lambda x: fg.sum(fg.where(fg.exp(x - fg.max(x)) > 0,
                               fg.exp(x - fg.max(x)) * (x - fg.max(x)), 0)), 1),
    (lambda x: fg.max(fg.exp(x - fg.max(x))), 1),
    (lambda x: least(fg.exp(x - fg.max(x)) > 0), 2)])
def test_what_floats_decide_alike_still_shares_a_sweep(
    text: Callable[[Any], Any], sweeps: int
) -> None:
    """Infinities compare as over the reals, their differences are NaN; entropy's 0 is what it
    tends to."""
    assert fg.pipeline(text).compile(fg.Spec((3, 100))).plan.sweeps == sweeps
