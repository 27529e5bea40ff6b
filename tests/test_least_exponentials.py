"""Exponentials below the normal numbers are numbers like others: whatever a text makes of them, of
arrays of any type. Only the terms of a sum about its maximum are 0 there. On the emulator, which
flushes what a GPU's instruction flushes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.cuda_cases import Case
from support.tiles import emulate

import fusegen as fg
from fusegen.ir.dtypes import dtype_of

X = np.array([0, -85, -88, -90, -95], np.float32)  # e⁻⁹⁵ is 3950 · 2⁻¹⁴⁹
E = np.exp(X.astype(np.float64))


@fg.pipeline
def scaled(x):
    return fg.exp(x - fg.max(x)) * 1e30


@fg.pipeline
def logarithm(x):
    e = fg.exp(x - fg.max(x))
    return fg.log(e / fg.sum(e))


@fg.pipeline
def above(x):
    return fg.where(fg.exp(x - fg.max(x)) > 0, 1.0, 0.0)


@fg.pipeline
def least(x):
    return fg.log(fg.min(fg.exp(x - fg.max(x))))


@fg.pipeline
def greatest(x):
    return fg.max(fg.exp(x - 92.0) * 1e30)


@fg.pipeline
def softmax(x):
    e = fg.exp(x - fg.max(x))
    return e / fg.sum(e)


@fg.pipeline
def power(x):
    return fg.exp2(x - fg.max(x)) * 1e30


WANT: dict[fg.Pipeline, Callable[[], np.ndarray]] = {
    scaled: lambda: E * 1e30, logarithm: lambda: np.log(E / E.sum()), above: lambda: E > 0,
    least: lambda: np.log(E.min()), greatest: lambda: np.exp(-92.0) * 1e30,
    softmax: lambda: E / E.sum(), power: lambda: np.exp2(X.astype(float)) * 1e30,
}


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("text", WANT, ids=lambda text: text.name)
def test_what_texts_make_of_the_least_exponentials(text: fg.Pipeline, dtype: str) -> None:
    kind = dtype_of(dtype).numpy
    case = Case(text, {"x": np.tile(X, (3, 1)).astype(kind)}, 3, len(X))
    (got,) = case.emulate()
    with np.errstate(over="ignore", under="ignore"):
        want = np.broadcast_to(np.float64(WANT[text]()), got.shape[1:]).astype(kind)
    assert got.dtype == kind
    digits = {"bfloat16": 8, "float16": 11, "float32": 11}[dtype]
    least = {"bfloat16": 2.0**-133, "float16": 2.0**-24, "float32": 2.0**-149}[dtype]
    with np.errstate(invalid="ignore"):  # both are infinite, of float16
        off = np.abs(got.astype(float) - want.astype(float))
    allowed = np.abs(want.astype(float)) * 2.0**-digits + least
    assert np.all((off <= allowed) | (got == want)), (got[0], want)


@fg.pipeline
def kernel_sum(x: fg.RowVector, y: fg.ColumnVector, *, s=0.5):
    return fg.sum(fg.exp(-fg.sqdist(x, y) * s) * 1e36)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_what_texts_make_of_the_least_exponentials_of_products(dtype: str) -> None:
    """Elements of tiles, which no maximum is taken of: e⁻⁹⁰ for each of 70 columns."""
    kind = dtype_of(dtype).numpy
    x, y = np.zeros((3, 20), kind), np.full((70, 20), 3, kind)
    (got,) = np.atleast_2d(emulate(kernel_sum, x, y).astype(float))
    np.testing.assert_allclose(got, np.full(3, 70 * np.exp(-90.0) * 1e36), rtol=2.0**-8)
