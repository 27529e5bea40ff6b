"""Sums about a reference that lags behind their maximum: the obligation, and folds that use it."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import simt
from support.emulated import emulated
from support.tiles import emulate, prepared

import fusegen as fg
from fusegen.backend.cuda.schedule.tiles import select as select_tiles
from fusegen.backend.emit.source import Source
from fusegen.ir.derivation import Dependent

ATTENTION = fg.library.attention


@pytest.fixture(autouse=True)
def _also_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_tiles, "LITTLE", -1)


def drawn(*shape: int, seed: int = 0, dtype: Any = ml_dtypes.bfloat16) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def check(text: Any, *arrays: Any, lags: bool = True, tolerance: float = 2e-2, **named: Any) -> Any:
    """The results of wgmma are the text's in float64."""
    _, work = prepared(text, *arrays, **named)
    assert work.schedule.engine == "wgmma"
    assert ("exceeded_by(greatest" in work.source) is lags
    found = emulate(text, *arrays, seed=1, multiprocessors=3, **named)
    want = text.reference(*(a.astype("f8") for a in arrays), **named)
    for f, w in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, want)), strict=True):
        np.testing.assert_allclose(np.asarray(f, "f8"), w, rtol=tolerance, atol=tolerance)
    return found


def lagging(text: Any, **named: Any) -> list[bool]:
    return [e.lags for e in text.derivation(**named) if isinstance(e, Dependent)]


@fg.pipeline
def about_a_mean(x):
    return fg.sum((x - fg.mean(x)) ** 2)


@fg.pipeline
def norm(x):
    top = fg.max(fg.abs(x))
    return top * fg.sqrt(fg.sum((x / top) ** 2))


@fg.pipeline
def surprise(q: fg.RowVector, k: fg.ColumnVector):
    """Sums that move with another one."""
    s = fg.dot(q, k)
    u = s - fg.max(s)
    return fg.sum(fg.exp(u) * u) / fg.sum(fg.exp(u))


def test_what_may_be_about_a_reference() -> None:
    """Exponentials of what is measured from a maximum; no squares, no quotients."""
    assert lagging(fg.library.softmax) == [True]
    assert lagging(ATTENTION, scale=1.0) == [True, True]
    assert lagging(about_a_mean) == [False]
    assert lagging(norm) == [False]
    shown = str(fg.library.softmax.derivation())
    assert "reference: r does in m's place: T(r→m) T(m→r) = 1 for every r" in shown


def growing(n: int, m: int, step: float) -> Any:
    """Scores that grow, or fall, from column to column, by powers of e."""
    q, k = np.zeros((n, 16)), np.zeros((m, 16))
    q[:, 0], k[:, 0] = 1, step * np.arange(m)
    q[:, 1], k[:, 1] = np.linspace(-1, 1, n), np.sin(np.arange(m))
    return q.astype(ml_dtypes.bfloat16), k.astype(ml_dtypes.bfloat16)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("step", [0.03, 0.5, -0.5, 40.0])
@pytest.mark.parametrize("causal", [False, True])
def test_maxima_that_move(step: float, causal: bool) -> None:
    q, k = growing(200, 500, step)
    check(ATTENTION, q, k, drawn(500, 24), scale=1.0, causal=causal, with_lse=True)


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("d", "causal"), [(64, True), (128, False)])
def test_items_that_follow_one_another(d: int, causal: bool) -> None:
    """The last vectors of one are added while the first scores of the other are folded; also where
    an item has one tile, or a warpgroup has none of it."""
    q, k, v = drawn(3, 300, d), drawn(3, 1100, d, seed=1), drawn(3, 1100, d, seed=2)
    check(ATTENTION, q, k, v, scale=d**-0.5, causal=causal)
    check(ATTENTION, q, k, v, scale=d**-0.5, window=150)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("softcap", [2.0, 30.0])
def test_tangents_share_a_reciprocal(softcap: float) -> None:
    """NaN and what is large stay with their own row and column."""
    q, k, v = drawn(150, 64), drawn(400, 64, seed=1), drawn(400, 64, seed=2)
    q[5] *= 100
    check(ATTENTION, q, k, v, scale=0.3, softcap=softcap, causal=True)
    check(ATTENTION, q, k, v, scale=-0.3, softcap=softcap)  # of which none is near
    q[7] = math.nan
    found = np.asarray(emulate(ATTENTION, q, k, v, scale=0.3, softcap=softcap), "f8")
    assert np.flatnonzero(np.isnan(found).any(axis=1)).tolist() == [7]


POWERS = """
extern "C" __global__ void powers(
    const float* x, float* power, float* tangent, float c, float p, float start)
{
    const NearTangents near = NearTangents::of(c, p);
    power[threadIdx.x] = near.power(x[threadIdx.x], start);
    tangent[threadIdx.x] = fabsf(x[threadIdx.x]) < near.far ? near.tangent(x[threadIdx.x]) : 2.0f;
}
"""


@emulated
@pytest.mark.parametrize("c", [2.0**-12, 1.0, 3000.0])
def test_tangents_that_are_a_polynomial(c: float) -> None:
    """To a few units in the last place, up to where they are near, and no further."""
    power, tangent = np.zeros((2, 1024), "f4")
    x = (np.geomspace(1e-6, 0.3749, 1024) / c * np.tile([1, -1], 512)).astype("f4")
    source = Source(POWERS, headers=("fusegen/tiles/tangents.cuh",))
    simt.compile_module(source.text()).launch("powers", (1,), (1024,), [
        x, power, tangent, np.float32(c), np.float32(40), np.float32(0.5)], outputs={1, 2})
    want = np.tanh(c * x.astype("f8"))
    np.testing.assert_allclose(tangent, want, rtol=3e-7)
    np.testing.assert_allclose(power, 40 * want - 0.5, rtol=0, atol=40 * 3e-7)


@emulated
def test_sums_that_move_together_are_about_the_maximum() -> None:
    check(surprise, drawn(70, 16), drawn(300, 16, seed=1), lags=False)


@fg.pipeline
def with_entropy(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, lengths: fg.PerRow, *,
            scale, cap=None):
    """With a sum of powers times elements, which is kept of what these are multiples of."""
    s = scale * fg.dot(q, k)
    s = fg.ragged(s if cap is None else cap * fg.tanh(s / cap), lengths)
    m = fg.max(s)
    p = fg.exp(s - m)
    z = fg.sum(p)
    return fg.sum(p * v) / z, m + fg.log(z) - fg.sum(p * s) / z, m


def entropies(q: Any, k: Any, v: Any, lengths: Any, cap: float | None) -> tuple[Any, ...]:
    """The text of each row's own columns, in float64."""
    s = 0.4 * q.astype("f8") @ k.astype("f8").T
    s = s if cap is None else cap * np.tanh(s / cap)
    s[np.arange(len(k)) >= lengths[:, None]] = -math.inf
    m = s.max(axis=1, initial=-1e9)
    p = np.exp(s - m[:, None])
    p /= np.maximum(p.sum(axis=1, keepdims=True), 1)
    return p @ v.astype("f8"), -(p * np.log(np.where(p > 0, p, 1))).sum(axis=1), m


@pytest.mark.long
@emulated
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("cap", [None, 5.0])
def test_powers_times_what_is_left_out(arch: str, cap: float | None) -> None:
    """A tile that is not whole, one without a column for some rows first, rows without any; and
    what a row leaves out may be anything."""
    arrays = [drawn(150, 16), drawn(400, 16, seed=1), drawn(400, 24, seed=2),
              np.random.default_rng(0).integers(1, 400, 150)]
    arrays[3][[3, 80]] = 0
    _, work = prepared(with_entropy, *arrays, arch=arch, scale=0.4, cap=cap)
    assert "_nothing(given)" in work.source
    found = emulate(with_entropy, *arrays, arch=arch, seed=1, scale=0.4, cap=cap)
    counts = arrays[3] > 0
    for f, w in zip(found, entropies(*arrays, cap), strict=True):
        np.testing.assert_allclose(np.asarray(f, "f8")[counts], w[counts], rtol=2e-2, atol=2e-2)
    arrays[3] = np.minimum(arrays[3], 390)
    kept = emulate(with_entropy, *arrays, arch=arch, scale=0.4, cap=cap)
    arrays[1][390:] = math.nan
    again = emulate(with_entropy, *arrays, arch=arch, scale=0.4, cap=cap)
    for f, w in zip(again, kept, strict=True):
        np.testing.assert_array_equal(np.asarray(f)[counts], np.asarray(w)[counts])
