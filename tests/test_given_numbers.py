"""Numbers that are known before a sweep (inputs per row, arguments, what earlier sweeps finished)
stay where the text has them: exp(x − b) is never exp(−b)·Σ exp(x), nor (x / a)² Σ x² / a²."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegen as fg

softmax = fg.library.softmax


def beside_softmax(x, b: fg.PerRow):
    return fg.sum(fg.exp(x - b) + softmax(x))


def weighted(x, b: fg.PerRow):
    return fg.sum(softmax(x) * fg.exp(x - b)), fg.sum(softmax(x) * (x / b) ** 2)


def quotients(x, b: fg.PerRow):
    return fg.sum((x / b) ** 2 + softmax(x)), fg.sum((x / b) ** 3 * softmax(x))


def differences(x, b: fg.PerRow):
    return fg.sum((x - b) ** 2 + softmax(x)), fg.sum(fg.exp(-((x - b) ** 2)) + softmax(x))


def argument(x, *, c):
    return fg.sum(fg.exp(x - c) + softmax(x)), fg.sum((x / c) ** 2 + softmax(x))


def both(x, b: fg.PerRow, *, c):
    return fg.sum(fg.exp((x - b) / c) + softmax(x))


def finished(x):
    q = softmax(softmax(x))
    return fg.sum(fg.exp(x - fg.max(x)) + q), fg.sum((x / fg.max(fg.abs(x))) ** 2 + q)


def stacked(x):
    for _ in range(3):
        x = x + softmax(x)
    return fg.sum(x)


def _softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _stacked(x):
    for _ in range(3):
        x = x + _softmax(x)
    return (x.sum(1),)


# The same in NumPy; b is a column there.
RIGHT: dict[Callable[..., Any], Callable[..., tuple[Any, ...]]] = {
    beside_softmax: lambda x, b: ((np.exp(x - b) + _softmax(x)).sum(1),),
    weighted: lambda x, b: (
        (_softmax(x) * np.exp(x - b)).sum(1), (_softmax(x) * (x / b) ** 2).sum(1)),
    quotients: lambda x, b: (
        ((x / b) ** 2 + _softmax(x)).sum(1), ((x / b) ** 3 * _softmax(x)).sum(1)),
    differences: lambda x, b: (
        ((x - b) ** 2 + _softmax(x)).sum(1), (np.exp(-((x - b) ** 2)) + _softmax(x)).sum(1)),
    argument: lambda x, c: (
        (np.exp(x - c) + _softmax(x)).sum(1), ((x / c) ** 2 + _softmax(x)).sum(1)),
    both: lambda x, b, c: ((np.exp((x - b) / c) + _softmax(x)).sum(1),),
    finished: lambda x: (
        (np.exp(x - x.max(1, keepdims=True)) + _softmax(_softmax(x))).sum(1),
        ((x / abs(x).max(1, keepdims=True)) ** 2 + _softmax(_softmax(x))).sum(1)),
    stacked: _stacked,
}

# An offset and a scale: of elements, and of the numbers, which lie as the elements do.
PLACES = [(0, 1), (1e3, 1), (-1e3, 1), (1e4, 1e-2), (-1e4, 1), (1e30, 1e29), (1e-30, 1e-31)]


@pytest.mark.long
@pytest.mark.parametrize("text", RIGHT, ids=lambda text: text.__name__)
@pytest.mark.parametrize("form", ["auto", "safe"])
def test_they_stay_where_the_text_has_them(text: Callable[..., Any], form: str) -> None:
    pipeline = fg.pipeline(text)
    for offset, scale in PLACES:
        x = (offset + scale * np.random.default_rng(7).standard_normal((5, 70))).astype(np.float32)
        given: dict[str, Any] = {}
        if "b" in pipeline.signature.arrays:
            given["b"] = x.max(1)
        if "c" in pipeline.signature.constants:
            given["c"] = float(x.flat[1])
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")  # that a proved merge was wrong in floats, too
            found = pipeline(x, form=form, **given)
            wide = {n: np.asarray(v, np.float64)[..., None] if n == "b" else v
                    for n, v in given.items()}
            right = RIGHT[text](x.astype(np.float64), **wide)
        for got, want in zip(found if isinstance(found, tuple) else (found,), right, strict=True):
            with np.errstate(over="ignore"):
                want = want.astype(np.float32)  # what no float32 holds is infinite there, too
            np.testing.assert_allclose(got, want, rtol=3e-4, atol=1e-30, err_msg=f"{offset}")


@pytest.mark.long
@pytest.mark.parametrize("offset", [-3000, -300, -50, 50, 300, 3000])
@pytest.mark.parametrize("power", [1, 2, 3])
def test_small_differences_of_large_numbers_keep_their_digits(offset: int, power: int) -> None:
    def by_argument(x, *, c):
        return fg.sum((x - c) ** power * softmax(x))

    def by_row(x, c: fg.PerRow):
        return fg.sum((x - c) ** power * softmax(x))

    x = (offset + np.random.default_rng(3).standard_normal((6, 90))).astype(np.float32)
    wide = x.astype(np.float64)
    for text, c in ((by_argument, float(x[0, 0])), (by_row, x.max(1))):
        differences = wide - np.asarray(c, np.float64).reshape(-1, 1)
        terms = differences**power * _softmax(wide)
        error = abs(fg.pipeline(text)(x, c=c) - terms.sum(1))
        assert (error <= 16 * 2.0**-24 * abs(terms).sum(1)).all()


def test_a_product_of_numbers_that_vanishes_is_no_defect() -> None:
    """d · max y is subnormal for numbers of 1e-22; the text divides by one after the other."""
    def quotients_of_two(x, y, d: fg.PerRow):
        return fg.mean(softmax(x) * (x / d) * ((x - fg.max(x)) / fg.max(y)))

    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal((3, 40)).astype(np.float32) for _ in range(2))
    d = np.array([1e-3, 1.0, 1e3], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fg.pipeline(quotients_of_two)(x, y, d)
    wide, columns = x.astype(np.float64), d.astype(np.float64)[:, None]
    quotients = (wide - wide.max(1, keepdims=True)) / y.astype(np.float64).max(1, keepdims=True)
    right = (_softmax(wide) * (wide / columns) * quotients).mean(1)
    np.testing.assert_allclose(found, right, rtol=1e-5)
