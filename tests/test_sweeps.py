"""How many sweeps a text takes: one, and one for every cut that nothing is known to avoid."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from support.cuda_cases import Case, assert_close
from support.emulated import EMULATED

import fusegen as fg
from fusegen.ir.derivation import Dependent, Refused
from fusegen.lang.value import PerColumn, PerRow, Value

L = fg.library


def normed_topk(x: Value, w: PerColumn) -> tuple[Value, Value]:
    return L.softmax_topk(L.rms_norm(x, w))


def topk_above_mean(x: Value) -> tuple[Value, Value]:
    return L.softmax_topk(fg.where(x > fg.mean(x), x, -inf))


def lse_above_mean(x: Value) -> Value:
    return fg.logsumexp(fg.where(x > fg.mean(x), x, -inf))


def entropy_of_distances(x: Value) -> Value:
    return L.entropy(fg.abs(x - fg.mean(x)))


def relu_variance(x: Value) -> Value:
    return fg.var(fg.maximum(x - fg.mean(x), 0))


def top_n_sigma(x: Value) -> tuple[Value, Value]:
    return L.softmax_topk(fg.where(x >= fg.max(x) - fg.sqrt(fg.var(x)), x, -inf))


def min_p(x: Value) -> Value:
    p = L.softmax(x)
    return fg.logsumexp(fg.where(p >= 0.1 * fg.max(p), x, -inf))


def entropy_of_normed(x: Value, w: PerColumn, b: PerColumn) -> Value:
    return L.entropy(L.layer_norm(x, w, b))


def clipped_entropy(x: Value) -> Value:
    m, s = fg.mean(x), fg.sqrt(fg.var(x))
    return L.entropy(fg.minimum(fg.maximum(x, m - 2 * s), m + 2 * s))


def huber(x: Value) -> tuple[Value, Value]:
    d, s = fg.abs(x - fg.mean(x)), fg.mean(x * x)
    terms = fg.where(d < s, d * d, d)
    return fg.var(terms), fg.max(terms)


def two_beside(x: Value) -> tuple[Value, Value]:
    return fg.logsumexp(fg.abs(x - fg.mean(x))), fg.var(fg.maximum(x - fg.max(x) * 0.5, 0))


def above_the_best(x: Value) -> Value:
    best, _ = fg.topk(x, 4)
    return fg.logsumexp(fg.where(x > fg.sum(best) / 4, x, -inf))


def from_one_element(x: Value) -> Value:
    return fg.var(fg.abs(x - fg.take(x, fg.argmin(x) + 1)))


def norm_of_relu(x: Value) -> Value:
    return L.norm2(fg.maximum(x - fg.mean(x), 0))


def times_a_sum(x: Value) -> Value:
    return fg.sum(fg.exp(x - fg.max(x)) * fg.sum(fg.abs(x - fg.mean(x))))


def times_a_maximum(x: Value, c: PerRow) -> Value:
    return fg.sum(fg.exp(x - c) * fg.max(x))


def in_units_of_deviation(x: Value) -> Value:
    return fg.sum(fg.exp((x - fg.max(x)) / fg.sqrt(fg.var(x))))


def softmax_of_normed(x: Value, w: PerColumn) -> Value:
    return L.softmax(L.rms_norm(x, w))


def two_norms(x: Value, w: PerColumn) -> Value:
    return L.layer_norm(fg.maximum(L.layer_norm(x, w), 0))


def two_cuts(x: Value) -> tuple[Value, Value]:
    low = fg.logsumexp(fg.where(x > fg.mean(x), x, -inf))
    return L.softmax_topk(fg.where(x > low - 1, x, -inf))


def columns_of_steps(x: Value) -> tuple[Value, Value]:
    y = fg.abs(x - fg.mean(x))
    return fg.topk(fg.floor(y / fg.mean(y) * 8), 3)


def sink(x: Value, b: PerRow) -> Value:
    m = fg.maximum(fg.max(x), b)
    return fg.log(fg.sum(fg.exp(x - m)) + fg.exp(b - m)) + m


def of_two_rows(x: Value, y: Value) -> Value:
    m = fg.maximum(fg.max(x), fg.max(y))
    return fg.log(fg.sum(fg.exp(x - m)) + fg.sum(fg.exp(y - m))) + m


def clamped(x: Value) -> Value:
    m = fg.minimum(fg.maximum(fg.max(x), 0.0), 50.0)
    return fg.sum(fg.exp(x - m))


def moved(x: Value) -> Value:
    return fg.sum(x + fg.max(x))


def cooled(x: Value, b: PerRow) -> Value:
    return fg.sum(fg.exp((x - fg.max(x)) * b))


def cooled_mean(x: Value, b: PerRow) -> tuple[Value, Value]:
    weights = fg.exp((x - fg.max(x)) / b)
    return fg.sum(weights * x) / fg.sum(weights), fg.log(fg.sum(weights))


def cooled_distances(x: Value) -> Value:
    y = fg.abs(x - fg.mean(x))
    return fg.sum(fg.exp((y - fg.max(y)) / fg.mean(fg.abs(x))))


def normed_magnitude(x: Value, w: PerColumn) -> tuple[Value, Value]:
    y = L.rms_norm(x, w)
    return fg.maximum(fg.max(fg.abs(y)), 1e-12), fg.min(y)


def farthest_in_units(x: Value) -> Value:
    return fg.max(((x - fg.mean(x)) / fg.sum(fg.abs(x))) ** 2)


def weighted_distance(x: Value, w: PerColumn) -> Value:
    return fg.max(fg.abs((x - fg.mean(x)) * w))


def signed_factor(x: Value, w: PerColumn) -> Value:
    return fg.max(x * w * fg.mean(x))


def sink_behind_norm(x: Value, w: PerColumn, b: PerRow) -> Value:
    y = L.rms_norm(x, w)
    m = fg.maximum(fg.max(y), b)
    return fg.log(fg.sum(fg.exp(y - m)) + fg.exp(b - m)) + m


def norm_of_layer(x: Value) -> Value:
    return L.norm2(L.layer_norm(x))


def cubes_of_shifted(x: Value) -> Value:
    y = L.layer_norm(x - fg.max(x))
    y = y - fg.max(y)
    return fg.mean((y - fg.mean(y)) ** 3)


def quantised_norm(x: Value, w: PerColumn) -> tuple[Value, Value]:
    return L.absmax_quantize(L.rms_norm(x, w))


def quantised_layer(x: Value) -> tuple[Value, Value]:
    return L.absmax_quantize(L.layer_norm(x))


SWEEPS = {
    1: (normed_magnitude, farthest_in_units, cooled, cooled_mean, sink, of_two_rows, clamped, moved,
        times_a_maximum),
    2: (quantised_norm, quantised_layer, weighted_distance, signed_factor, normed_topk,
        topk_above_mean, lse_above_mean, entropy_of_distances, relu_variance, top_n_sigma, min_p,
        entropy_of_normed, clipped_entropy, huber, two_beside, above_the_best, from_one_element,
        cooled_distances, sink_behind_norm, norm_of_relu, norm_of_layer, times_a_sum,
        in_units_of_deviation),
    3: (softmax_of_normed, two_norms, two_cuts,
        columns_of_steps,  # equal steps go to the lowest column, whatever the elements' order is
        cubes_of_shifted),  # its variance would cancel, and its maximum is read out behind it
}


@pytest.mark.parametrize(("text", "sweeps"), [(t, n) for n, all_ in SWEEPS.items() for t in all_],
                         ids=lambda v: getattr(v, "__name__", str(v)))
def test_texts_take_no_sweep_more_than_they_have_cuts(text, sweeps):
    pipeline = fg.pipeline(text)
    assert pipeline.plan(form="online").sweeps == sweeps
    assert pipeline.derivation().proved


def test_quantised_norms_reach_the_greatest_whole_number():
    """And are the text's, up to the rounding of the norm."""
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((40, 999)) * 10.0 ** rng.integers(-9, 9, (40, 1))).astype(np.float32)
    x[3], x[4] = 0, 7
    online, text = (fg.pipeline(quantised_layer)(x, form=f) for f in ("online", "safe"))
    near = np.abs(online[1] / np.where(text[1] == 0, 1, text[1]) - 1) < 3e-7
    assert np.all(near | (text[1] == online[1]))
    assert np.abs(online[0].astype(int) - text[0]).max() <= 1
    assert np.all(np.abs(online[0].astype(int)).max(1)[online[1] > 0] == 127)


def test_a_derivation_says_what_is_finished_before():
    derivation = fg.pipeline(normed_topk).derivation()
    merged = next(e for e in derivation.entries if isinstance(e, Dependent))
    assert merged.after == ("mean_pow",)
    assert merged.depends_on == ("m",)
    assert "behind    mean_pow, finished in a sweep before" in str(derivation)


def test_what_opens_a_sweep_says_what_it_waits_for_there():
    refused = [e for e in fg.pipeline(two_cuts).derivation().entries if isinstance(e, Refused)]
    assert [e.depends_on for e in refused] == [("mean_x",), ("max_where", "sum_exp")]


# ---- what runs, beside float64 ----


def _softmax(y):
    with np.errstate(invalid="ignore"):  # nothing is left of some rows, and NaN is right
        e = np.exp(y - y.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _entropy(y):
    p = _softmax(y)
    return -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), axis=1)


def _lse(y):
    m = y.max(1, keepdims=True)
    return np.log(np.exp(y - m).sum(1)) + m[:, 0]


def _above_mean(x):
    return np.where(x > x.mean(1, keepdims=True), x, -inf)


def _normed(x, w):
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w


def _layer(x, w, b):
    off = x - x.mean(1, keepdims=True)
    return off / np.sqrt((off * off).mean(1, keepdims=True) + 1e-5) * w + b


def _above_low(x):
    return np.where(x > _lse(_above_mean(x))[:, None] - 1, x, -inf)


def _cooled_distances(x):
    y = np.abs(x - x.mean(1, keepdims=True))
    return np.exp((y - y.max(1, keepdims=True)) / np.abs(x).mean(1, keepdims=True)).sum(1)


ORACLES = {
    cooled: lambda x, b: np.exp((x - x.max(1, keepdims=True)) * b[:, None]).sum(1),
    normed_magnitude: lambda x, w: np.maximum(np.abs(_normed(x, w)).max(1), 1e-12),
    farthest_in_units: lambda x: (
        ((x - x.mean(1, keepdims=True)) / np.abs(x).sum(1, keepdims=True)) ** 2).max(1),
    sink_behind_norm: lambda x, w, b: np.logaddexp(_lse(_normed(x, w)), b),
    cooled_distances: _cooled_distances,
    normed_topk: lambda x, w: -np.sort(-_softmax(_normed(x, w)), axis=1)[:, :5],
    lse_above_mean: lambda x: _lse(_above_mean(x)),
    relu_variance: lambda x: np.maximum(x - x.mean(1, keepdims=True), 0).var(1),
    entropy_of_distances: lambda x: _entropy(np.abs(x - x.mean(1, keepdims=True))),
    entropy_of_normed: lambda x, w, b: _entropy(_layer(x, w, b)),
    times_a_sum: lambda x: np.exp(x - x.max(1, keepdims=True)).sum(1)
    * np.abs(x - x.mean(1, keepdims=True)).sum(1),
    two_cuts: lambda x: -np.sort(-_softmax(_above_low(x)), axis=1)[:, :5],
}


def _rows(text, n_cols: int, seed: int = 0):
    """Rows of usual size, and hard ones: one great element, first or last; small beside an offset;
    near the ends of the range. What elements are compared with is a rounded mean, so no element is
    near it."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((6, n_cols))
    x += np.copysign(0.05, x - x.mean(1, keepdims=True))
    x[1] *= 30
    x[2, 0], x[3, -1] = 200, 200
    x[4] = 64 + x[4]
    x[5] *= 1e-12 if text in (relu_variance, entropy_of_normed, normed_topk) else 5
    given = [x.astype(np.float32)]
    columns = text.__code__.co_argcount - 1
    if text is cooled:  # of either sign, and 0: hot enough for no infinity
        return [given[0], np.array([1, 0.5, -0.1, 0.01, 0, 10], np.float32)]
    if text is sink_behind_norm:
        return [*given, rng.standard_normal(n_cols).astype(np.float32),
                np.array([1, -20, 500, 0, -500, 3], np.float32)]
    return given + [rng.standard_normal(n_cols).astype(np.float32) for _ in range(columns)]


@pytest.mark.long
@pytest.mark.parametrize("text", ORACLES, ids=lambda t: t.__name__)
def test_values_are_those_of_float64(text):
    pipeline = fg.pipeline(text)
    for n_cols in (7, 1000):
        arrays = _rows(text, n_cols)
        wanted = ORACLES[text](*(a.astype(np.float64) for a in arrays))
        for form in ("online", "safe", "unfused"):
            got = pipeline(*arrays, form=form)
            got = got[0] if isinstance(got, tuple) else got
            np.testing.assert_allclose(got, wanted, rtol=4e-5, atol=1e-6 * np.nanmax(wanted))


@pytest.mark.parametrize("text", ORACLES, ids=lambda t: t.__name__)
def test_special_values_are_those_of_the_text(text):
    """An infinity or NaN somewhere, everywhere, and in both signs: NaN and ±inf where the text as
    it is written has them."""
    pipeline, (x, *columns) = fg.pipeline(text), _rows(text, 9)
    for k, value in enumerate((inf, -inf, np.nan)):
        x[k, 4], x[k + 3] = value, value
    with np.errstate(all="ignore"):
        got, written = (pipeline(x, *columns, form=f) for f in ("online", "unfused"))
    if isinstance(got, tuple):
        got, written = got[0], written[0]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(written))
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(written))
    np.testing.assert_array_equal(np.isneginf(got), np.isneginf(written))


@pytest.mark.parametrize(("text", "shape", "split"), [
    pytest.param(*case, marks=EMULATED, id=case[0].__name__) for case in (
        (normed_topk, (3, 70), None), (two_cuts, (2, 2500), None),
        (relu_variance, (2, 70_001), 2), (entropy_of_normed, (2, 2500), None),
        (cooled, (3, 12), None), (cooled_distances, (2, 70_001), 2),
    )])
def test_sources_for_gpus_merge_in_later_sweeps(text, shape, split):
    """Rows of a warp, of a block, and of several blocks, which meet once a sweep."""
    arrays = [a[:shape[0]] if len(a) == 6 else a for a in _rows(text, shape[1], 3)]
    names = fg.pipeline(text).signature.arrays
    case = Case(fg.pipeline(text), dict(zip(names, arrays, strict=True)), *shape, {})
    got = case.emulate(**({"n_rows": split} if split else {}))
    wanted = ORACLES[text](*(a.astype(np.float64) for a in arrays)).astype(np.float32)
    assert_close([got[0]], [wanted], 4e-5)
