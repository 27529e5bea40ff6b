"""Positive numbers stand outside of greatest elements and of distances from them: exponentials at a
temperature are exponentials of logits, and one product."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cuda_cases import Case
from support.emulated import EMULATED

import fusegen as fg
from fusegen import library
from fusegen.backend.cuda.emit.kept import with_kept_terms
from fusegen.backend.cuda.emit.source import cuda_source
from fusegen.backend.cuda.schedule.instructions import effort
from fusegen.ir.dtypes import dtype_of

pytestmark = EMULATED


def shares(y: Any) -> Any:
    e = fg.exp(y - fg.max(y))
    return e / fg.sum(e)


@fg.pipeline
def divided(x):  # type: ignore[no-untyped-def]
    return shares(x / 0.7)


@fg.pipeline
def multiplied(x):  # type: ignore[no-untyped-def]
    return shares((x * 3) / 8 * 0.1)


@fg.pipeline
def distance_divided(x):  # type: ignore[no-untyped-def]
    d = (x - fg.max(x)) / 0.7
    e = fg.exp(d)
    return e / fg.sum(e)


@fg.pipeline
def both_divided(x):  # type: ignore[no-untyped-def]
    y = x / 2
    e = fg.exp((y - fg.max(y)) * 1.5)
    return e / fg.sum(e)


@fg.pipeline
def logarithm(x):  # type: ignore[no-untyped-def]
    y = x * 0.3
    return y - fg.logsumexp(y)


@fg.pipeline
def three_temperatures(x):  # type: ignore[no-untyped-def]
    return fg.logsumexp(x / 4), fg.logsumexp(x), fg.logsumexp(x * 2.0)


@fg.pipeline
def entropy(x):  # type: ignore[no-untyped-def]
    y = x / 2.5
    return fg.logsumexp(y) - fg.sum(shares(y) * y)


@fg.pipeline
def ties(x):  # type: ignore[no-untyped-def]
    y = x / 0.7
    m = fg.max(y)
    return m, fg.sum(fg.where(y == m, 1.0, 0.0)), fg.sum(fg.exp(y - m))


@fg.pipeline
def top(x):  # type: ignore[no-untyped-def]
    return fg.topk(shares(x / 0.7), 5)


@fg.pipeline
def left_out(x):  # type: ignore[no-untyped-def]
    return shares(fg.where(x > 0.5, x / 0.7, float("-inf")))


@fg.pipeline
def distances(x):  # type: ignore[no-untyped-def]
    """Not of exponentials: a distance of elements may be infinite where these are not."""
    y = x / 5
    return fg.mean(y - fg.max(y)), y - fg.max(y)


def _softmax(y: np.ndarray) -> np.ndarray:
    e = np.exp(y - y.max(1, keepdims=True))
    found: np.ndarray = e / e.sum(1, keepdims=True)
    return found


def _lse(y: np.ndarray) -> np.ndarray:
    m = y.max(1, keepdims=True)
    found: np.ndarray = (m + np.log(np.exp(y - m).sum(1, keepdims=True)))[:, 0]
    return found


def _top(y: np.ndarray) -> tuple[np.ndarray, ...]:
    p = _softmax(y)
    at = np.argsort(-p, 1, kind="stable")[:, :5]
    return np.take_along_axis(p, at, 1), at


def _distances(y: np.ndarray) -> tuple[np.ndarray, ...]:
    d = y - y.max(1, keepdims=True)
    return d.mean(1), d


ORACLES: dict[str, tuple[fg.Pipeline, Callable[[np.ndarray], Any]]] = {
    "divided": (divided, lambda x: _softmax(x / 0.7)),
    "multiplied": (multiplied, lambda x: _softmax(x * 3 / 80)),
    "distance divided": (distance_divided, lambda x: _softmax(x / 0.7)),
    "both divided": (both_divided, lambda x: _softmax(x * 0.75)),
    "logarithm": (logarithm, lambda x: x * 0.3 - _lse(x * 0.3)[:, None]),
    "three temperatures": (three_temperatures, lambda x: (_lse(x / 4), _lse(x), _lse(x * 2))),
    "entropy": (entropy, lambda x: _lse(x / 2.5) - (_softmax(x / 2.5) * x / 2.5).sum(1)),
    "ties": (ties, lambda x: (x.max(1) / 0.7, (x == x.max(1, keepdims=True)).sum(1),
                              np.exp((x - x.max(1, keepdims=True)) / 0.7).sum(1))),
    "top": (top, lambda x: _top(x / 0.7)),
    "left out": (left_out, lambda x: _softmax(np.where(x > 0.5, x / 0.7, -np.inf))),
    "distances": (distances, lambda x: _distances(x / 5)),
}


def rows_of(n_cols: int, dtype: str) -> np.ndarray:
    """Normal ones, far from 0, of few values, ascending, masked."""
    rng = np.random.default_rng(n_cols)
    x = 3 * rng.standard_normal((5, n_cols))
    x[1] += 100
    x[2] = np.round(x[2])
    x[3] = np.sort(x[3])
    x[4, ::3] = -np.inf
    return x.astype(dtype_of(dtype).numpy)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("n_cols", [37, 2100])
@pytest.mark.parametrize("name", ORACLES)
def test_results_are_those_of_doubles(name: str, n_cols: int, dtype: str, backend: str) -> None:
    text, oracle = ORACLES[name]
    x = rows_of(n_cols, dtype)
    if name in ("entropy", "distances"):  # of which a masked element makes no number
        x = x[:4]
    found = text(x) if backend == "cpu" else Case(text, {"x": x}, len(x), n_cols).emulate()
    expected = oracle(x.astype(np.float64))
    near = {"float32": 2e-5, "bfloat16": 1e-2, "float64": 1e-12}[dtype]
    for one, other in zip(_each(found), _each(expected), strict=True):
        if name == "top" and one.dtype.kind == "i":  # of equal ones, any
            one, other = (np.take_along_axis(x.astype(np.float64), np.asarray(i), 1)
                          for i in (one, other))
        np.testing.assert_allclose(one.astype(np.float64), other, rtol=near, atol=near)


def _each(found: Any) -> tuple[np.ndarray, ...]:
    return tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))


COMPARED = r"greatest_item\(x_items|greater_of\((chunk|state)\.\w+, x\)"  # elements as they are


@pytest.mark.long
@pytest.mark.parametrize("text", [divided, distance_divided, both_divided, multiplied],
                         ids=lambda p: str(p.name))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_costs_a_product_an_exponential(text: fg.Pipeline, dtype: str) -> None:
    """No element is divided, none scaled to be compared, and terms are those of a softmax."""
    x = np.zeros((1, 4096), dtype_of(dtype).numpy)
    costs = []
    for one in (text, library.softmax):
        work = Case(one, {"x": x}, 1, 4096).work(n_rows=8000, aligned=True)
        costs.append(effort(work.program, work.schedule).item)
        kernel = re.sub(r"//.*", "", cuda_source(work.program, work.schedule).text()
                        .split("below: the kernel")[1])
        assert re.search(COMPARED, kernel)
        assert kernel.count("Divisor(") == 0
    assert costs[0] - costs[1] <= 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_terms_of_lanes_are_kept(dtype: str) -> None:
    x = np.zeros((1, 1000), dtype_of(dtype).numpy)
    for text in (divided, distance_divided):
        work = Case(text, {"x": x}, 1, 1000).work(n_rows=20_000, aligned=True)
        assert with_kept_terms(work.program, work.schedule)[1]


@fg.pipeline
def at_constants(x, *, t: fg.Positive = 0.7, a=1.5):  # type: ignore[no-untyped-def]
    half = t * 2
    return shares(x / t * a), fg.logsumexp(x * 4 / half)


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("n_cols", [37, 2100])
@pytest.mark.parametrize(
    ("t", "a"), [(0.7, 1.5), (0.001, 0.002), (500.0, 3.0), (0.7, -1.5), (1e-6, 1.0)])
def test_constants_stand_outside(
    n_cols: int, dtype: str, backend: str, t: float, a: float
) -> None:
    """One kernel for all moderate ones above 0; those below it, or beyond, are as written."""
    x = rows_of(n_cols, dtype)[:3]
    case = Case(at_constants, {"x": x}, len(x), n_cols, {"t": t, "a": a}, varied=True)
    found = case.emulate() if backend == "cuda" else at_constants(x, t=t, a=a)
    exact = x.astype(np.float64)
    with np.errstate(over="ignore"):
        expected = _softmax(exact / t * a), _lse(exact * 2 / t)
    near = {"float32": 2e-5, "bfloat16": 1e-2}[dtype]
    for one, other in zip(_each(found), expected, strict=True):
        np.testing.assert_allclose(one.astype(np.float64), other, rtol=near, atol=near)
    kernel = cuda_source(case.work().program, case.work().schedule).text()
    assert bool(re.search(COMPARED, kernel)) is (t > 2.0**-13)


@fg.pipeline
def falling(x):  # type: ignore[no-untyped-def]
    return shares(x / -0.7)


@fg.pipeline
def extreme(x):  # type: ignore[no-untyped-def]
    return shares(x * 1e-38)


@fg.pipeline
def by_another_factor(x):  # type: ignore[no-untyped-def]
    """About the greatest of other multiples."""
    y = x / 0.7
    m = fg.max(y)
    return fg.exp(x * 2 - m), fg.sum(fg.exp(y - m))


@fg.pipeline
def greatest_ones(x):  # type: ignore[no-untyped-def]
    """Which elements are the greatest, and how far the others are below."""
    y = x / 0.7
    m = fg.max(y)
    return fg.where(y == m, 1.0, 0.0), y - m, fg.sum(fg.exp(y - m))


@fg.pipeline
def thrice(x, *, t: fg.Positive = 0.7):  # type: ignore[no-untyped-def]
    y = x / t / t / t
    return fg.sum(fg.exp(y - fg.max(y)))


@fg.pipeline
def masked_within(x):  # type: ignore[no-untyped-def]
    y = fg.where(x > -1, fg.where(x < 2, x / 0.7, -np.inf), -np.inf)
    return fg.sum(fg.exp(y - fg.max(y))), fg.logsumexp(fg.where(x > -1, x / 0.7, -np.inf))


@fg.pipeline
def tiny_steps(x):  # type: ignore[no-untyped-def]
    y = x / 3e-19
    return fg.sum(fg.exp(y - fg.max(y)))


def _kept_in(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = np.where((x > -1) & (x < 2), x / 0.7, -np.inf)
    return np.exp(y - y.max(1, keepdims=True)).sum(1), _lse(np.where(x > -1, x / 0.7, -np.inf))


BESIDE: dict[str, tuple[fg.Pipeline, float, Callable[[np.ndarray], Any]]] = {
    "another factor": (by_another_factor, 1.0, lambda x: (
        np.exp(x * 2 - x.max(1, keepdims=True) / 0.7),
        np.exp((x - x.max(1, keepdims=True)) / 0.7).sum(1))),
    "greatest ones": (greatest_ones, 1.0, lambda x: (
        x == x.max(1, keepdims=True), (x - x.max(1, keepdims=True)) / 0.7,
        np.exp((x - x.max(1, keepdims=True)) / 0.7).sum(1))),
    "thrice": (thrice, 1.0,
               lambda x: np.exp((x - x.max(1, keepdims=True)) / 0.7**3).sum(1)),
    "masked within": (masked_within, 1.0, _kept_in),
    "tiny steps": (tiny_steps, 3e-12,
                   lambda x: np.exp((x - x.max(1, keepdims=True)) / 3e-19).sum(1)),
}


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
@pytest.mark.parametrize("n_cols", [8, 700])
@pytest.mark.parametrize("name", BESIDE)
def test_what_does_not_fit_the_rule(name: str, n_cols: int, backend: str) -> None:
    text, size, oracle = BESIDE[name]
    x = np.random.default_rng(1).uniform(-1, 1, (50, n_cols)).astype(np.float32)
    x = (x * size).astype(np.float32)
    constants = {"t": 0.7} if text is thrice else {}
    case = Case(text, {"x": x}, *x.shape, constants, varied=True)
    found = text(x, **constants) if backend == "cpu" else case.emulate()
    for one, other in zip(_each(found), _each(oracle(x.astype(np.float64))), strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-5, atol=1e-6)


@pytest.mark.usefixtures("users_flags")  # by which products may be contracted with sums
@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_logarithms_of_shares_are_not_above_0(backend: str) -> None:
    """An element's product is the one that is its row's greatest, to the last digit."""

    @fg.pipeline
    def text(x, *, t=0.7):  # type: ignore[no-untyped-def]
        y = x * t
        return y - fg.logsumexp(y)

    column = np.array([[100.1], [3.3], [-7.7], [33333.3]], np.float32)
    x = np.concatenate([column, np.full((4, 40), -np.inf, np.float32)], 1)
    case = Case(text, {"x": x}, *x.shape, {"t": 0.7}, varied=True)
    found = text(x, t=0.7) if backend == "cpu" else case.emulate()[0]
    np.testing.assert_array_equal(np.asarray(found)[:, 0], 0)


@pytest.mark.parametrize("steepness", [20.0, 200.0])
def test_terms_that_are_kept_are_moved_in_steps(steepness: float) -> None:
    """Rows that ascend over many chunks: terms are kept about pivots that are far from the last."""

    @fg.pipeline
    def text(x):  # type: ignore[no-untyped-def]
        return shares(x * steepness)

    x = np.sort(np.random.default_rng(3).uniform(0, 1, (3, 9000)), 1).astype(np.float32)
    np.testing.assert_allclose(text(x), _softmax(x.astype(np.float64) * steepness),
                               rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("text", [falling, extreme], ids=lambda p: str(p.name))
@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_others_are_as_written(text: fg.Pipeline, backend: str) -> None:
    """Beyond the range of floats distances of elements are none of their multiples."""
    x = np.array([[3e38, -3e38, 1e38, 0.0, -1e38] * 9], np.float32)
    x = x if text is extreme else x * np.float32(1e-38)
    by = 1e-38 if text is extreme else 1 / -0.7
    found = text(x) if backend == "cpu" else Case(text, {"x": x}, *x.shape).emulate()[0]
    np.testing.assert_allclose(found, _softmax(x.astype(np.float64) * by), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
@pytest.mark.parametrize("factor", [2.0**-59, 2.0**59, 0.3, 7.0])
def test_rows_at_the_ends_of_the_range(factor: float, backend: str) -> None:
    """Infinite, missing, greatest and least: what the text makes of them."""

    @fg.pipeline
    def text(x):  # type: ignore[no-untyped-def]
        y = x * factor
        e = fg.exp(y - fg.max(y))
        return e / fg.sum(e), fg.max(y) + fg.log(fg.sum(e))

    inf, nan = np.inf, np.nan
    x = np.array([[3e38, -3e38, 1.0], [inf, 0, 1], [-inf, -inf, -inf], [-inf, 2, 1], [nan, 1, 2],
                  [1e-45, 0, -1e-45], [1e-30, 2e-30, -1e-30]], np.float32).repeat(11, 1)
    found = text(x) if backend == "cpu" else Case(text, {"x": x}, *x.shape).emulate()
    with np.errstate(invalid="ignore", over="ignore"):
        y = x.astype(np.float64) * factor
        y = np.where(np.abs(y) > 3.4e38, np.inf * np.sign(y), y)
        expected = _softmax(y), _lse(y)
    for row in range(len(x)):
        overflows = np.isinf(y[row]).any() and not np.isinf(x[row]).any()
        if overflows:  # the text's own elements are infinite, those that fusegen compares are not
            continue
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one[row], other[row], rtol=2e-5, atol=1e-7)
