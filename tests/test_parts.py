"""Float32 vectors as parts of 16 bits on the emulator, against float64: usual ones, and those that
are no sums of parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import nvrtc
from support.cases import leaves
from support.emulated import emulated
from support.tiles import emulate, prepared

import fusegen as fg
from fusegen.backend.cuda.schedule.tiles import select as select_tiles

compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


@pytest.fixture(autouse=True)
def _also_of_few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_tiles, "LEAST_WORK", 0)


@fg.pipeline
def best(q: fg.RowVector, k: fg.ColumnVector):
    s = fg.dot(q, k)
    return fg.max(s), fg.argmax(s), fg.logsumexp(s)


@fg.pipeline
def causal(q: fg.RowVector, k: fg.ColumnVector, bias: fg.PerColumn):
    s = fg.dot(q, k) + bias
    return fg.logsumexp(fg.where(fg.index(s) <= fg.row(s), s, -np.inf))


@fg.pipeline
def attention(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale=0.1):
    s = scale * fg.dot(q, k)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p), fg.max(s)


@fg.pipeline
def windowed(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    s = fg.dot(q, k)
    s = fg.where((fg.index(s) <= fg.row(s)) & (fg.index(s) > fg.row(s) - 100), s, -np.inf)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


def drawn(*shape: int, seed: int = 0) -> Any:
    numbers = np.random.default_rng((seed, *shape)).standard_normal(shape)
    return numbers.astype("f4")


def check(text: Any, *arrays: Any, parts: str = "bf16x6", **more: Any) -> None:
    """Numbers are off by what float32 arithmetic may be off by, of the sum of products' sizes."""
    _, work = prepared(text, *arrays, **more)
    assert (work.schedule.engine, work.schedule.parts) == ("wgmma", parts)
    found = leaves(emulate(text, *arrays, **more))
    want = leaves(text.reference(*(a.astype("f8") for a in arrays)))
    q, k = arrays[:2]
    size = np.prod([np.sqrt((a.astype("f8") ** 2).sum(-1)).max() for a in (q, k)])
    step = {"tf32": 2.0**-11, "bf16x3": 2.0**-16, "bf16x6": 2.0**-22}[parts]
    for f, w in zip(found, want, strict=True):
        np.testing.assert_allclose(np.asarray(f, "f8"), w, rtol=1e-6, atol=2 * step * size)


@emulated
@pytest.mark.parametrize(("n", "m", "d"), [(64, 1, 8), (70, 130, 24), (300, 129, 64),
                                           (65, 170, 100), (130, 90, 128), (64, 70, 256)])
def test_shapes_that_fill_no_tile(n: int, m: int, d: int) -> None:
    check(best, drawn(n, d), drawn(m, d, seed=1))


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "m", "d", "e"), [(64, 1, 8, 8), (70, 330, 24, 40), (70, 200, 64, 64),
                                                (70, 100, 128, 128), (65, 90, 40, 100)])
@pytest.mark.parametrize("text", [attention, windowed], ids=lambda t: t.name)
def test_sums_of_vectors(text: Any, n: int, m: int, d: int, e: int) -> None:
    check(text, drawn(n, d) / np.float32(d**0.5), drawn(m, d, seed=1), drawn(m, e, seed=2))


@pytest.mark.long
@emulated
@pytest.mark.parametrize("bad", [1e-40, np.inf, np.nan])
def test_summed_vectors_that_are_no_sums_of_parts(bad: float) -> None:
    """In all rows that they count for; elsewhere they have no effect."""
    q, k, v = drawn(200, 16), drawn(200, 16, seed=1), drawn(200, 24, seed=2)
    want = windowed.reference(*(a.astype("f8") for a in (q, k, v)))
    v[150, 3] = bad
    found = emulate(windowed, q, k, v)
    if abs(bad) < 1:
        want = windowed.reference(*(a.astype("f8") for a in (q, k, v)))
    else:
        assert not np.isfinite(found[150:, 3]).any()
        found[150:, 3] = want[150:, 3]
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


@pytest.mark.long
@emulated
def test_the_smallest_weights() -> None:
    """They decide where the greatest one's vector is zero; float32 has 24 digits of 2^-100."""
    q, k, v = np.zeros((64, 8), "f4"), np.zeros((70, 8), "f4"), np.zeros((70, 8), "f4")
    q[:, 0], k[1:, 0], v[1:] = 1, -70 + drawn(69, seed=3), drawn(69, 8, seed=4)
    q[:, 1] = np.arange(64) / 8 - 4
    k[1:, 1] = 2 + drawn(69, seed=5)
    found = emulate(attention, q, k, v, scale=1.0)[0]
    want, size = (attention.reference(*(a.astype("f8") for a in (q, k, values)), scale=1.0)[0]
                  for values in (v, np.abs(v)))
    assert 0 < size.min() < 2.0**-98
    assert np.all(np.abs(found - want) < 3e-5 * size)


@emulated
@pytest.mark.parametrize("precision", ["bf16x3", "tf32"])
@pytest.mark.parametrize("text", [best, attention], ids=lambda t: t.name)
def test_fewer_products_by_choice(text: Any, precision: str) -> None:
    """Sums of vectors have no products in tfloat32."""
    arrays = drawn(70, 36), drawn(130, 36, seed=1), drawn(130, 24, seed=2)
    check(text, *arrays[: len(text.signature.arrays)], precision=precision,
          parts="bf16x3" if text is attention else precision)


@emulated
@pytest.mark.parametrize("precision", ["bf16x3", "tf32"])
def test_what_is_not_finite_where_products_are_few(precision: str) -> None:
    q, k = drawn(70, 20), drawn(130, 20, seed=1)
    q[5, 3], q[6, 3], q[7] = np.inf, np.nan, 2.0**70
    found = emulate(best, q, k, precision=precision)[0]
    with np.errstate(all="ignore"):
        want = (q.astype("f8") @ k.T.astype("f8")).max(-1)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(want))
    usual = np.isfinite(want)
    np.testing.assert_allclose(found[usual], want[usual], rtol=5e-3)


REFUSED = [
    ({"precision": "bf17"}, "f4", fg.ArgumentError, "Did you mean 'bf16x3'"),
    ({"precision": 3}, "f4", fg.ArgumentError, "Precisions are"),
    ({"precision": "bf16x3"}, "f8", fg.DTypeError, "no vectors of float32: q float64"),
    ({"precision": "bf16x3", "deterministic": True}, "f4", fg.ArgumentError, "exclude one another"),
]


@pytest.mark.parametrize(("asked", "dtype", "error", "said"), REFUSED)
def test_precisions_that_mean_nothing(asked: Any, dtype: str, error: Any, said: str) -> None:
    q, k = drawn(5, 16).astype(dtype), drawn(6, 16).astype(dtype)
    for call in (best, best.compile):
        with pytest.raises(error, match=said):
            call(q, k, **asked)
    with pytest.raises(fg.ArgumentError, match="multiplies no vectors"):
        fg.library.softmax(q.astype("f4"), precision="bf16x3")


def test_precision_inside_another_text() -> None:
    @fg.pipeline
    def outer(q: fg.RowVector, k: fg.ColumnVector):
        return best(q, k, precision="bf16x3")

    with pytest.raises(fg.TraceError, match="precision inside a pipeline"):
        outer(drawn(5, 16), drawn(6, 16))


@pytest.mark.parametrize("precision", ["float32", "bf16x3", "tf32"])
def test_calls_on_cpus(precision: str) -> None:
    """Float32 is what they compute in, remembered or not."""
    q, k = drawn(5, 16), drawn(6, 16)
    wanted = best(q, k)
    for _ in range(3):
        for f, w in zip(best(q, k, precision=precision), wanted, strict=True):
            np.testing.assert_array_equal(f, w)


@pytest.mark.long
@emulated
def test_batches_of_any_strides() -> None:
    """Rows of a batch share columns; parts of what lies apart lie side by side."""
    q, k = drawn(2, 3, 70, 40)[..., 3:27], drawn(2, 1, 180, 24, seed=1)[:, :, ::2]
    check(causal, q, k, drawn(90, seed=2))


@pytest.mark.long
@emulated
@pytest.mark.parametrize("bad", [1e-40, 3e-39, 3.4e38, np.inf, -np.inf, np.nan])
def test_rows_that_are_no_sums_of_parts(bad: float) -> None:
    """As in float32 arithmetic, and other rows as ever."""
    q, k = drawn(130, 24), drawn(150, 24, seed=1)
    wanted = emulate(best, q, k)
    q[[5, 70], 3] = bad
    q[6] = 0
    q[6, 2] = bad
    k[:, 2] = np.where(np.abs(bad) < 1, 2.0**100, 1)  # what is small becomes usual again
    found = emulate(best, q, k)
    with np.errstate(all="ignore"):
        scores = q.astype("f8") @ k.T.astype("f8")
    np.testing.assert_allclose(found[0][6], scores[6].max(), rtol=1e-6)
    clean = [i for i in range(130) if i not in (5, 6, 70)]
    np.testing.assert_allclose(found[0][clean], scores[clean].max(-1), rtol=1e-5)
    assert np.isnan(found[0][5]) == np.isnan(scores[5]).any()
    assert len(wanted) == len(found)


@emulated
@pytest.mark.parametrize("bad", [1e-40, np.inf, np.nan])
def test_columns_that_are_no_sums_of_parts(bad: float) -> None:
    """In every row; and where a mask leaves them out, they have no effect."""
    q, k, bias = drawn(150, 24), drawn(150, 24, seed=1), drawn(150, seed=2)
    k[90, 4] = bad
    found = emulate(causal, q, k, bias)
    want = causal.reference(q.astype("f8"), k.astype("f8"), bias.astype("f8"))
    np.testing.assert_allclose(found[:90], want[:90], rtol=1e-5)
    usual = np.isfinite(want)
    np.testing.assert_allclose(found[usual], want[usual], rtol=1e-5)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))


@emulated
def test_numbers_whose_last_digits_decide() -> None:
    """Products of the smallest parts: what is left of it is two rounded products."""
    rng = np.random.default_rng(5)
    q = rng.integers(2**22, 2**24, (64, 8)).astype("f4")
    k = rng.integers(2**22, 2**24, (64, 8)).astype("f4") * np.float32(2.0**-20)
    k[:, 4:] = -k[:, :4] * (1 + np.float32(2.0**-12))
    q[:, 4:] = q[:, :4]
    check(best, q, k)


@pytest.mark.long
@compiled
@pytest.mark.parametrize("length", [64, 128, 256])
def test_products_run_beside_threads(length: int) -> None:
    """Not one of the six waits for the one before, and registers are enough."""
    _, work = prepared(best, drawn(100, length), drawn(200, length))
    found = nvrtc.compile_for(work.source, work.schedule.arch)
    assert not found.serialised
    assert max(r.spill_bytes for r in found.reports) <= 160


