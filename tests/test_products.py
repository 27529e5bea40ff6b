"""A product that is used more than once is one number, whatever compilers contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegen as fg

X = np.array([[1.2345678, 1.1111, 0.3, 1.2345678]], "f4")
Y = np.array([[1.7654321, 1.3333, 0.9, 1.7654321]], "f4")


def _distances(x, y):
    p = x * y
    return fg.sqrt(fg.max(p) - p), fg.sqrt(p - fg.min(p)), fg.count(p == fg.max(p))


def _squares(x, y):
    p = x**2
    return fg.sqrt(fg.max(p) - p), fg.max(-(x * y)) + x * y


def _normaliser(x, y):
    return fg.sum(fg.exp(x * y - fg.max(x * y))), fg.sum(fg.where(x * y < fg.max(x * y), 1.0, 0.0))


def _probabilities(x, y):
    z = x * 0.07
    e = fg.exp(z - fg.max(z))
    return e / fg.sum(e), (z - fg.min(z)) / (fg.max(z) - fg.min(z))


def _expected(text: Any, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Products rounded to float32, the rest in float64."""
    p, square, z = (np.float64(v) for v in (x * y, x * x, x * np.float32(0.07)))
    top, low = p.max(1, keepdims=True), p.min(1, keepdims=True)
    e = np.exp(z - z.max(1, keepdims=True))
    return {
        _distances: (np.sqrt(top - p), np.sqrt(p - low), (p == top).sum(1)),
        _squares: (np.sqrt(square.max(1, keepdims=True) - square), p - low),
        _normaliser: (np.exp(p - top).sum(1), (p < top).sum(1)),
        _probabilities: (e / e.sum(1, keepdims=True), (z - z.min(1, keepdims=True)) / np.ptp(z)),
    }[text]


def _check(text: Any, x: np.ndarray, y: np.ndarray, found: Any) -> None:
    for got, right in zip(found, _expected(text, x, y), strict=True):
        np.testing.assert_allclose(np.float64(got), right, rtol=3e-5, atol=1e-30)


TEXTS = (_distances, _squares, _normaliser, _probabilities)


@pytest.mark.parametrize("text", TEXTS)
def test_every_use_sees_one_number(text):
    p = fg.pipeline(text)
    for scale in (1.0, 1e3, 1e8):
        x, y = np.tile(X, (3, 40)) * np.float32(scale), np.tile(Y, (3, 40))
        for form in ("online", "safe", "unfused"):
            _check(text, x, y, p(x, y, form=form))


@pytest.mark.parametrize("text", TEXTS)
def test_cuda_rounds_it_by_itself(text):
    for dtype, name in (("float32", "__fmul_rn"), ("float64", "__dmul_rn")):
        assert name in fg.pipeline(text).source(target="sm_90", dtype=dtype)


def test_products_that_are_used_once_are_contracted():
    p = fg.pipeline(lambda x, y: fg.sum(x * y + y))
    assert "rounded_product" not in p.source(target="cpu")
    assert "mul_rn" not in p.source(target="sm_90")


def _two_spellings(x, y):
    z = x * x + y * y
    return fg.count(z == fg.max(z)), fg.max(x**2)


def _higher_power(x, y):
    z = x * x + y * y
    return fg.count(z == fg.max(z)), fg.sum(x**3)


def _other_order(x, y):
    z = x * y + 1
    return fg.count(z == fg.max(z)), fg.max(y * x)


def _behind_a_mask(x, y):
    z = fg.where(y > 0, fg.exp(0.1 * x * y - x * x), -np.inf)
    return fg.count(z == fg.max(z)), fg.sum(fg.exp(-(x**2)))


def _with_a_number(x, y):
    z = x * 0.3 + y * 0.7
    return fg.count(z == fg.max(z)), fg.max(0.3 * x)


def _beside_a_covariance(x, y):
    z = x * y + y
    return fg.count(z == fg.max(z)), fg.sum((x - fg.mean(x)) * (y - fg.mean(y)))


def _of_what_is_spelled_twice(x, y):
    z = fg.exp(x * y) * x + y
    return fg.count(z == fg.max(z)), fg.max(fg.exp(y * x) * x)


SPELLED = (_two_spellings, _higher_power, _other_order, _behind_a_mask, _with_a_number,
           _beside_a_covariance, _of_what_is_spelled_twice)


def _normal(rows: int, columns: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=(rows, columns)).astype("f4") for _ in range(2)]


@pytest.mark.usefixtures("users_flags")
@pytest.mark.parametrize("form", ["online", "safe", "unfused"])
@pytest.mark.parametrize("text", SPELLED)
def test_what_is_compared_is_made_of_one_number(text, form):
    """However a product is spelled elsewhere: some element is equal to the greatest."""
    for columns in (7, 1000):
        x, y = _normal(300, columns)
        assert np.all(fg.pipeline(text)(x, y, form=form)[0] >= 1)


@pytest.mark.usefixtures("users_flags")
def test_the_best_but_one_is_less_than_the_best():
    def second(x, y):
        z = x * x - y * y
        return fg.max(fg.where(z < fg.max(z), z, -np.inf)), fg.max(x**2)

    x, y = _normal(300, 1000)
    z = np.sort(np.float64(x) ** 2 - np.float64(y) ** 2)
    np.testing.assert_allclose(fg.pipeline(second)(x, y)[0], z[:, -2], rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("text", SPELLED)
def test_what_is_compared_is_made_of_one_number_on_a_gpu(text):
    import cupy

    for columns in (7, 1000):
        x, y = (cupy.asarray(a) for a in _normal(300, columns))
        assert (fg.pipeline(text)(x, y)[0] >= 1).all()


@pytest.mark.gpu
@pytest.mark.parametrize("text", TEXTS)
def test_every_use_sees_one_number_on_a_gpu(text):
    import cupy

    x, y = np.tile(X, (3, 40)), np.tile(Y, (3, 40))
    found = fg.pipeline(text)(cupy.asarray(x), cupy.asarray(y))
    _check(text, x, y, [cupy.asnumpy(v) for v in found])
