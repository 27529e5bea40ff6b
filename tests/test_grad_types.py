"""Gradients take the type of their own input, whatever the others have; sums are kept wider."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fusegen as fg
from fusegen.backend.cpu.backend import CpuBackend

torch = pytest.importorskip("torch")

TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MIXES = [tuple(TYPES[i] for i in mix) for mix in itertools.product(range(4), repeat=4)
         if sum(mix) % 4 == 0]  # every three of them with every other three


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch):
    """Types are decided before a backend is: the NumPy path shows them all in seconds."""
    monkeypatch.setattr(CpuBackend, "hindrance", lambda *_, **__: "a test's wish")


@fg.pipeline
def scaled_norm(x, weight: fg.PerColumn, bias: fg.PerColumn, slope: fg.PerRow):
    y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + 1e-3)
    return (y * weight + bias) * slope


def by_torch(cotangent, x, weight, bias, slope):
    """The gradients in float64, of the very numbers that the types hold."""
    given = [a.double().requires_grad_() for a in (x, weight, bias, slope)]
    x, weight, bias, slope = given
    mean, var = x.mean(1, keepdim=True), x.var(1, correction=0, keepdim=True)
    y = ((x - mean) / torch.sqrt(var + 1e-3) * weight + bias) * slope[:, None]
    y.backward(cotangent.double())
    return [a.grad for a in given]


def arrays(types, n_rows=33, n_cols=17):
    made = np.random.default_rng(7)
    x, weight, bias, slope = (made.standard_normal(s) for s in
                              ((n_rows, n_cols), (n_cols,), (n_cols,), (n_rows,)))
    cotangent = torch.from_numpy(made.standard_normal((n_rows, n_cols)))
    kept, *rest = types
    given = [torch.from_numpy(a) for a in (x, weight, bias, slope)]
    return cotangent.to(kept), *(a.to(t) for a, t in zip(given, (*rest, kept), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("first", TYPES, ids=str)
@pytest.mark.parametrize("wrt", ["x", "weight", "bias", "slope"])
def test_every_mix_against_torch(wrt, first):
    """wrt by types of cotangent (and slope), x, weight and bias."""
    gradient = fg.grad(scaled_norm, wrt=wrt)
    place = ["x", "weight", "bias", "slope"].index(wrt)
    for types in (m for m in MIXES if m[0] is first):
        given = arrays(types)
        found, right = gradient(*given), by_torch(*given)[place]
        assert found.dtype == given[1 + place].dtype, types
        ulp = torch.finfo(found.dtype).eps
        # Sums in float32, unless something is float64; the result is rounded once.
        sums = 2e-15 if torch.float64 in types else 4e-7
        bound = ulp * right.abs() + 64 * sums * right.abs().max()
        assert ((found.double() - right).abs() <= bound).all(), types


def test_a_whole_number_input_has_no_gradient():
    x = np.ones((3, 4), int)
    with pytest.raises(fg.DTypeError, match="it has no gradient"):
        fg.grad(fg.library.softmax)(np.ones((3, 4), "f4"), x)
    with pytest.raises(fg.DTypeError, match="it has no gradient"):
        fg.grad(fg.library.rms_norm, wrt="weight")(x * 1.0, x * 1.0, np.ones(4, int))


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_the_gradient_of_a_weight_over_no_rows_is_zero(kind):
    x, weight = kind(np.ones((0, 4), "f4")), kind(np.ones(4, "f8"))
    found = fg.grad(fg.library.rms_norm, wrt="weight")(x, x, weight)
    assert type(found) is type(weight)
    assert found.dtype == weight.dtype
    assert found.tolist() == [0, 0, 0, 0]


@fg.pipeline
def masked_loss(x, t: fg.PerRow):
    at = fg.where(t < 0, 0, t)
    return fg.where(t < 0, 0.0, fg.logsumexp(x) - fg.take(x, at))


@fg.pipeline
def masked_by_columns(x, t: fg.PerRow):
    hot = fg.index(x) == fg.maximum(t, 0)
    return fg.sum(fg.where(hot, x, 0.0))


@pytest.mark.parametrize("p", [masked_loss, masked_by_columns], ids=lambda p: p.name)
def test_labels_are_whole_numbers_however_they_are_guarded(p):
    assert "long long" in p.source(target="sm_90")
    assert str(p.explain())
    assert fg.check(p)
    x = np.random.default_rng(3).standard_normal((5, 6)).astype("f4")
    t = np.array([0, 5, -1, 2, -100])
    found = fg.grad(p, wrt="x")(np.ones(5, "f4"), x, t)
    assert found.shape == x.shape
    with pytest.raises(fg.ArgumentError, match="t holds int64"):
        fg.grad(p, wrt="t")
