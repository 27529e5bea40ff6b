"""Rows padded with the least number of a type, as masks of models do: sums that leave the range
before the row's own elements come, and weights of 0 beside elements that are all but infinite.

The oracle is NumPy's, in float64, where neither happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from support import textual
from support.cuda_cases import Case
from support.emulated import emulated

import fusegen as fg

N = 700
LEAST = float(np.finfo(np.float32).min)
PADS = {"float32": (LEAST, -1e38, -1e30), "bfloat16": (float(np.float32(-3.3895314e38)), -1e38),
        "float16": (-65504.0,), "float64": (float(np.finfo(np.float64).min), LEAST)}


def weights(m: Any, x: Any) -> Any:
    e = m.exp(x - m.max(x))
    return e / m.sum(e)


def mean(m: Any, x: Any) -> Any:
    return m.sum(weights(m, x) * x)


def entropy(m: Any, x: Any) -> Any:
    total = m.max(x) + m.log(m.sum(m.exp(x - m.max(x))))
    return total - m.sum(m.exp(x - total) * x)


def second_moment(m: Any, x: Any) -> Any:
    return m.sum(weights(m, x) * x * x)


def magnitude(m: Any, x: Any) -> Any:
    return m.sum(weights(m, x) * abs(x))


def at_temperature(m: Any, x: Any) -> Any:
    return m.sum(weights(m, x * 0.125) * x)


def from_the_least(m: Any, x: Any) -> Any:
    e = m.exp(m.min(-x) + x)
    return m.sum(e * x) / m.sum(e)


def beside_a_sink(m: Any, x: Any) -> Any:
    top = m.maximum(m.max(x), 0.5)
    e = m.exp(x - top)
    return m.sum(e * x) / (m.exp(0.5 - top) + m.sum(e))


def of_the_positive(m: Any, x: Any) -> Any:
    e = m.exp(x - m.max(x))
    return m.sum(m.where(x < 1e6, e * x, 0.0)) / m.sum(e)


def leaky(m: Any, x: Any) -> Any:
    return m.sum(weights(m, x) * m.where(x > 0, x, 0.125 * x))


TEXTS: dict[str, Callable[[Any, Any], Any]] = {t.__name__: t for t in (
    mean, entropy, second_moment, magnitude, at_temperature, from_the_least, beside_a_sink,
    of_the_positive, leaky)}


def padded(pad: float, dtype: str, seed: int = 0) -> np.ndarray:
    """Padding first, last, between others, but for one element, around some, and at one place."""
    x = np.random.default_rng(seed).normal(size=(7, N)) * 3
    x[0, :300] = x[1, -300:] = x[2, ::2] = x[3, :-1] = x[4, 1:] = pad
    x[5, :260] = x[5, 300:] = x[6, 17] = pad
    return x.astype(bfloat16 if dtype == "bfloat16" else dtype)


def wanted(name: str, x: np.ndarray) -> np.ndarray:
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    with np.errstate(under="ignore"):
        return TEXTS[name](textual, x.astype(wide)).astype(np.float64)[:, 0]


def pipeline(name: str) -> fg.Pipeline:
    def of_row(x: Any) -> Any:
        return TEXTS[name](fg, x)

    return fg.pipeline(of_row)


def agree(got: Any, want: np.ndarray, dtype: str) -> None:
    tolerance = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 2e-2, "float16": 4e-3}[dtype]
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), want, rtol=tolerance,
                               atol=tolerance)


CELLS = [(dtype, pad) for dtype, pads in PADS.items() for pad in pads]


@pytest.mark.parametrize(("dtype", "pad"), CELLS)
@pytest.mark.parametrize("name", TEXTS)
def test_padding_weighs_nothing(name: str, dtype: str, pad: float) -> None:
    x = padded(pad, dtype)
    p = pipeline(name)
    agree(p(x), wanted(name, x), dtype)


@emulated
@pytest.mark.parametrize("name", TEXTS)
def test_padding_weighs_nothing_on_gpus(name: str) -> None:
    x = padded(LEAST, "float32")
    (got,) = Case(pipeline(name), {"x": x}, *x.shape).emulate()
    agree(got, wanted(name, x), "float32")


@pytest.mark.parametrize("name", TEXTS)
def test_pieces_that_are_padding_alone(name: str) -> None:
    """States of pieces, merged: some have seen nothing but padding."""
    x = padded(LEAST, "float32")
    p = pipeline(name)
    states = [p.states(x[:, at : at + 100], at=at) for at in range(0, N, 100)]
    agree(p.finish(fg.merge(p, *states)), wanted(name, x), "float32")


@pytest.mark.parametrize("name", TEXTS)
def test_infinities_are_no_padding(name: str) -> None:
    """A sum of infinite elements is what the text says, however far away the pivot is then."""
    x = padded(-1e3, "float32")
    for value in (np.inf, -np.inf, np.nan):
        for at in (0, 299, 300, N - 1):
            row = x[:1].copy()
            row[0, at] = value
            with np.errstate(all="ignore"):
                want = TEXTS[name](textual, row.astype(np.float64))[:, 0]
            np.testing.assert_allclose(pipeline(name)(row), want, rtol=2e-5, atol=2e-5)
