"""Lists beside long vectors, found among the maxima of stored groups, on the emulator: the very
columns of a stable sort of float64 dots, whatever ties and numbers that are none there are."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.emulated import emulated
from support.tiles import emulate, prepared

import fusegen as fg

LENGTH = 264


@fg.pipeline
def best(h: fg.RowVector, w: fg.ColumnVector, *, k):
    return fg.topk(fg.dot(h, w), k)


@fg.pipeline
def least(h: fg.RowVector, w: fg.ColumnVector, b: fg.PerColumn, t: fg.PerRow, *, k):
    s = fg.dot(h, w) * t + b
    values, columns = fg.topk(s, k, largest=False)
    return fg.logsumexp(s), values, columns, fg.take(b, columns), fg.mean(values)


def whole(*shape: int, most: int = 3, seed: int = 0) -> Any:
    """Vectors of which every dot is exact in float32."""
    rng = np.random.default_rng((seed, *shape))
    return rng.integers(-most, most + 1, shape).astype(ml_dtypes.bfloat16)


def order(scores: Any, k: int) -> Any:
    """Columns of the K greatest: NaN above all, ties to the first."""
    keys = np.where(np.isnan(scores), np.inf, scores)
    first = np.lexsort((np.broadcast_to(np.arange(scores.shape[-1]), scores.shape), -keys,
                        ~np.isnan(scores)), axis=-1)
    return first[..., :k]


def check(h: Any, w: Any, k: int, **more: Any) -> None:
    _, work = prepared(best, h, w, k=k, form="online")
    assert work.schedule.grouped
    values, columns = emulate(best, h, w, k=k, form="online", **more)
    with np.errstate(invalid="ignore"):
        scores = h.astype("f8") @ w.astype("f8").swapaxes(-1, -2)
    want = order(scores, k)
    np.testing.assert_array_equal(columns, want)
    np.testing.assert_array_equal(values.astype("f8"), np.take_along_axis(scores, want, -1).astype(
        values.dtype).astype("f8"))


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "m", "k"), [
    (3, 5, 5), (5, 1000, 7), (67, 700, 7), (2, 4500, 64), (130, 520, 100)])
def test_columns_are_exact(n: int, m: int, k: int) -> None:
    """Dots of small whole numbers have ties everywhere; fewer groups than K; more rows than a
    tile."""
    check(whole(n, LENGTH, most=1), whole(m, LENGTH, most=1, seed=1), k, multiprocessors=3)


@pytest.mark.long
@emulated
def test_rows_of_equal_elements() -> None:
    """Every column of every group is a candidate: the first K are the best."""
    h, w = whole(3, LENGTH), whole(2000, LENGTH, seed=1)
    h[0] = 0
    w[100:1900] = w[100]
    check(h, w, 64, multiprocessors=3)


@emulated
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(bad: float) -> None:
    h, w = whole(3, LENGTH, most=1), whole(900, LENGTH, seed=1)
    h[1, 7], w[[5, 70, 71, 800]] = bad, bad
    check(h, w, 7, multiprocessors=3)


@pytest.mark.long
@emulated
def test_batches_and_other_statistics() -> None:
    rng = np.random.default_rng(0)
    h, w = whole(2, 66, LENGTH, most=1), whole(2, 300, LENGTH, most=1, seed=1)
    b, t = rng.integers(-9, 9, 300).astype("f4"), rng.integers(1, 4, (2, 66)).astype("f4")
    lse, values, columns, taken, mean = emulate(least, h, w, b, t, k=9, form="online",
                                                multiprocessors=3)
    scores = (h.astype("f8") @ w.astype("f8").swapaxes(-1, -2)) * t[..., None] + b
    want = order(-scores, 9)
    chosen = np.take_along_axis(scores, want, -1)
    np.testing.assert_array_equal(columns, want)
    np.testing.assert_array_equal(values, chosen)
    np.testing.assert_array_equal(taken, b[want])
    np.testing.assert_allclose(mean.astype("f8"), chosen.mean(-1), rtol=4e-3)
    top = scores.max(-1)
    want_lse = top + np.log(np.exp(scores - top[..., None]).sum(-1))
    np.testing.assert_allclose(lse.astype("f8"), want_lse, rtol=4e-3)
