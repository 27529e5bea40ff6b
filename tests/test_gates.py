"""Routers of mixture-of-experts models against NumPy's text of them, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import rows
from support.everywhere import BACKENDS, results
from support.pairs import pairwise

import fusegen as fg

gate = fg.library.moe_gate
DEEPSEEK_V3 = {"k": 8, "score": "sigmoid", "groups": 8, "groups_kept": 4, "group_score": "top2",
               "scale": 2.5}
DEEPSEEK_V2 = {"k": 6, "groups": 8, "groups_kept": 3, "renormalize": False, "scale": 16.0}
VARIANTS = {
    "softmax": {"k": 4},
    "softmax scaled": {"k": 4, "renormalize": False, "scale": 0.5},
    "sigmoid": {"k": 8, "score": "sigmoid"},
    "DeepSeek-V2": DEEPSEEK_V2,
    "DeepSeek-V3": DEEPSEEK_V3,
    "softmax top2": {**DEEPSEEK_V3, "score": "softmax"},
    "sigmoid max": {**DEEPSEEK_V3, "group_score": "max"},
    "two groups": {"k": 3, "groups": 2, "groups_kept": 1},
}


def best(values, k):
    """Columns of the K greatest: NaN first, ties to the lowest."""
    return np.argsort(np.where(np.isnan(values), -np.inf, -values), axis=1, kind="stable")[:, :k]


def numpy_gate(
    x, bias=None, *, k, score="softmax", renormalize=True, scale=1.0, groups=1, groups_kept=1,
    group_score="max",
):
    """Gate.forward of DeepSeek-V3's inference/model.py, in NumPy and float64."""
    x = x.astype(np.float64)
    if score == "softmax":
        e = np.exp(x - x.max(axis=1, keepdims=True))
        scores = e / e.sum(axis=1, keepdims=True)
    else:
        scores = 1 / (1 + np.exp(-x))
    rated = scores if bias is None else scores + bias
    if groups > 1:
        grouped = rated.reshape(len(x), groups, -1)
        top = -np.sort(-grouped, axis=2)[:, :, : 2 if group_score == "top2" else 1]
        top = np.where(np.isnan(grouped).any(axis=2), np.nan, top.sum(axis=2))
        kept = np.zeros((len(x), groups), bool)
        np.put_along_axis(kept, best(top, groups_kept), True, axis=1)
        rated = np.where(kept[:, :, None], grouped, -np.inf).reshape(rated.shape)
    experts = best(rated, k)
    gates = np.take_along_axis(scores, experts, axis=1)
    return (gates / gates.sum(axis=1, keepdims=True) if renormalize else gates) * scale, experts


def assert_numpys(backend, *arrays, **variant):
    with np.errstate(all="ignore"):
        gates, experts = numpy_gate(*arrays, **variant)
    found = results(backend, gate, *arrays, **variant)
    np.testing.assert_array_equal(found[1], experts)
    np.testing.assert_allclose(found[0], gates, rtol=3e-6)


def biases(n_experts):
    return np.random.default_rng(n_experts).normal(0, 0.1, n_experts).astype("float32")


@pytest.mark.parametrize(("variant", "backend", "with_bias"), pairwise(
    [*VARIANTS], BACKENDS, [False, True]))
def test_every_variant_is_numpys(variant, with_bias, backend):
    x = rows((9, 256), 5)
    arrays = (x, biases(256)) if with_bias else (x,)
    assert_numpys(backend, *arrays, **VARIANTS[variant])


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_experts", [16, 144, 160, 288, 512, 520, 1096])
def test_any_number_of_experts(n_experts, backend):
    assert_numpys(backend, rows((4, n_experts), 2), biases(n_experts), **DEEPSEEK_V3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("variant", ["sigmoid", "DeepSeek-V3", "sigmoid max"])
def test_ties_and_nan(variant, backend):
    x = np.random.default_rng(0).integers(-2, 3, (8, 160)).astype("float32")
    x[1], x[2, 70], x[3, ::3], x[4, :100], x[6, 20:] = 0.5, np.nan, np.nan, -np.inf, np.nan
    assert_numpys(backend, x, **VARIANTS[variant])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("variant", ["DeepSeek-V3", "sigmoid max"])
def test_a_nan_keeps_its_group(variant, backend):
    """One NaN among the worst experts, first or last of its group, or in several groups."""
    x = np.tile(np.linspace(3, -3, 160, dtype="float32"), (5, 1))
    x[0, 159], x[1, 140], x[2, 100], x[2, 159], x[3, 40::20] = [np.nan] * 5
    assert_numpys(backend, x, **VARIANTS[variant])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("variant", ["DeepSeek-V3", "sigmoid max"])
def test_ratings_below_0(variant, backend):
    """Experts of groups that are not kept are worse than any."""
    assert_numpys(backend, rows((4, 160), 8), biases(160) - 9, **VARIANTS[variant])


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_other_types(backend, dtype):
    x = rows((3, 64), dtype=dtype)
    gates, experts = results(backend, gate, x, index_dtype="int32", **DEEPSEEK_V3)
    wanted = numpy_gate(x, **DEEPSEEK_V3)
    np.testing.assert_array_equal(experts, wanted[1])
    np.testing.assert_allclose(gates, wanted[0], rtol=1e-3)
    if backend != "reference":
        assert (gates.dtype, experts.dtype) == (np.dtype(dtype), np.dtype("int32"))


@pytest.mark.long
@pytest.mark.parametrize("form", ["safe", "unfused"])
def test_other_forms(form):
    x, bias = rows((4, 64), 3), biases(64)
    for backend in BACKENDS[1:]:
        gates, experts = results(backend, gate, x, bias, form=form, **DEEPSEEK_V3)
        wanted = numpy_gate(x, bias, **DEEPSEEK_V3)
        np.testing.assert_array_equal(experts, wanted[1])
        np.testing.assert_allclose(gates, wanted[0], rtol=3e-6)


def test_how_often_rows_are_read():
    assert gate.plan(k=8).sweeps == 1
    assert gate.plan(k=8, score="sigmoid", inputs=("bias",)).sweeps == 1
    assert gate.plan(inputs=("bias",), **DEEPSEEK_V3).sweeps == 2


@pytest.mark.long
def test_what_is_refused():
    x = rows((2, 12))
    with pytest.raises(fg.ArgumentError, match=r"(?s)score is 'tanh'.*'softmax' or 'sigmoid'"):
        gate(x, score="tanh")
    with pytest.raises(fg.ArgumentError, match="group_score is 'sum'"):
        gate(x, groups=2, group_score="sum")
    with pytest.raises(fg.ShapeError, match="5 equal sections of rows with 12 columns"):
        gate(x, groups=5)
    for asked in ({"k": 2, "group_score": "top2"}, {"k": 7}):  # of 12 groups; of 6 experts
        with pytest.raises(fg.ShapeError, match="12 sections of rows with 12 columns"):
            gate(x, groups=12, groups_kept=6, **asked)
    for k in (0, "3", 1.5, True):
        with pytest.raises(fg.ArgumentError, match="k must be a whole number"):
            gate(x, k=k, groups=2)
    for kept in (0, 3, 1.5):
        with pytest.raises(fg.ArgumentError, match="groups_kept"):
            gate(x, groups=2, groups_kept=kept)
    with pytest.raises(fg.ArgumentError, match="groups_kept is 2"):
        gate(x, groups_kept=2)
    for groups in (0, True, 1.0):
        with pytest.raises(fg.ArgumentError, match="groups must be a whole number"):
            gate(x, groups=groups)
