"""The whole road on a real GPU: every pipeline, form, type and layout, against the reference."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from support import own_cases as own
from support.algebra_cases import ACCEPTED
from support.cuda_cases import (
    CONSTANTS,
    LIBRARY,
    Case,
    accepted_case,
    assert_close,
    assert_close_sums,
    library_case,
)

import fusegen as fg

pytestmark = pytest.mark.gpu

FORMS = ("online", "safe", "unfused")
STEP = {"float32": 3e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2}


def on_gpu(array: np.ndarray) -> Any:
    import cupy

    return cupy.asarray(array)


def run(case: Any, **options: Any) -> tuple[np.ndarray, ...]:
    import cupy

    found = case.pipeline(*map(on_gpu, case.inputs.values()), **case.constants, **options)
    found = found if isinstance(found, tuple) else (found,)
    assert all(isinstance(f, cupy.ndarray) for f in found)
    return tuple(cupy.asnumpy(f) for f in found)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LIBRARY)
def test_library_in_every_form(name: str, form: str) -> None:
    for n_rows, n_cols in ((1, 1), (37, 63), (5, 1009), (300, 4096), (3, 25_001), (2, 300_000)):
        constants = {"k": 1} if n_cols == 1 and "k" in CONSTANTS.get(name, {}) else {}
        case = library_case(name, n_rows, n_cols, **constants)
        assert_close(run(case, form=form), case.reference(), STEP["float32"])


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_the_algebra_accepts(name: str) -> None:
    for n_rows, n_cols in ((37, 63), (300, 4096), (3, 25_001), (2, 300_000)):
        for dtype, step in (("float32", 4e-5), ("float64", 1e-10)):
            case = accepted_case(name, n_rows, n_cols, dtype)
            assert_close_sums(run(case, form="online"), case.reference(), step)


@pytest.mark.parametrize("shape", [(1, 1), (9, 31), (300, 1025), (4, 40_001), (2, 300_000)])
def test_monoids_of_ones_own(shape: tuple[int, int]) -> None:
    """Commutative ones in any order; others in the row's own, exactly."""
    rng = np.random.default_rng(shape[1])
    x = rng.integers(-3, 4, shape).astype(np.float32)
    case = Case(own.statistics, {"x": x}, *shape)
    found = own.statistics(on_gpu(x))
    assert_close(tuple(v.get() for v in found.values()),
                 tuple(case.pipeline.reference(x).values()), 3e-6)
    a = rng.choice([-1, 1, 0], shape, p=[0.45, 0.53, 0.02]).astype(np.float32)
    h = np.zeros(shape[0])
    for j in range(shape[1]):
        h = a[:, j] * h + x[:, j]
    np.testing.assert_array_equal(own.scan(on_gpu(a), on_gpu(x)).get(), h)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "entropy", "norm2"])
def test_gradients(name: str) -> None:
    import cupy

    rng = np.random.default_rng(5)
    p = fg.library.PIPELINES[name]
    backward = fg.grad(p)
    x = rng.standard_normal((50, 5003))
    g = rng.standard_normal(np.shape(p(x)))
    got = backward(cupy.asarray(g), cupy.asarray(x)).get()
    np.testing.assert_allclose(got, backward.reference(g, x), rtol=1e-9, atol=1e-12)


def test_gradients_of_weights_sum_over_rows() -> None:
    import cupy

    rng = np.random.default_rng(6)
    g, x, w, b = (rng.standard_normal(s) for s in ((70, 515), (70, 515), 515, 515))
    backward = fg.grad(fg.library.layer_norm, wrt="weight")
    got = backward(*map(cupy.asarray, (g, x, w, b))).get()
    xhat = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, (g * xhat).sum(0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("name", LIBRARY)
def test_element_types(name: str, dtype: str) -> None:
    case = library_case(name, 9, 1003, dtype)
    got, want = run(case), case.reference()
    if name == "absmax_quantize":
        got, want = got[1:], want[1:]
    assert_close(got, want, STEP[dtype])


@pytest.mark.parametrize("k", [1, 31, 64, 100, 300, 1024, 2500, 5000])
def test_any_k(k: int) -> None:
    case = library_case("topk", 40, 6000, k=k)
    assert_close(run(case), case.reference(), 0)


@pytest.mark.parametrize("chunk", [1, 4, 32])
def test_chunks(chunk: int) -> None:
    case = library_case("softmax_topk", 6, 5003)
    compiled = case.pipeline.compile(on_gpu(case.inputs["x"]), chunk=chunk, **case.constants)
    import cupy

    got = tuple(cupy.asnumpy(f) for f in compiled(on_gpu(case.inputs["x"])))
    assert_close(got, case.reference(), STEP["float32"])


def test_strides_broadcast_and_axes() -> None:
    x = np.random.default_rng(0).standard_normal((6, 5, 1030)).astype(np.float32)
    gpu = on_gpu(x)
    for view, like in ((gpu[::2], x[::2]), (gpu[..., 3:1001], x[..., 3:1001]),
                       (gpu[:, :, ::2], x[:, :, ::2])):
        want = fg.library.logsumexp.reference(like)
        assert_close((fg.library.logsumexp(view).get(),), (want,), 3e-6)
    for axis in (0, 1, -1):
        got = fg.library.softmax(gpu, axis=axis).get()
        assert_close((got,), (fg.library.softmax.reference(x, axis=axis),), 3e-6)


def test_columns_off_alignment_under_aligned_rows() -> None:
    case = library_case("layer_norm", 8, 1024)
    whole = {n: on_gpu(np.concatenate([a[:1], a])) for n, a in case.inputs.items() if a.ndim == 1}
    got = fg.library.layer_norm(on_gpu(case.inputs["x"]), whole["weight"][1:], whole["bias"][1:])
    assert_close((got.get(),), case.reference(), STEP["float32"])


def test_same_bits_every_time() -> None:
    case = library_case("softmax_topk", 7, 50_000)
    first = run(case)
    for _ in range(5):
        for a, b in zip(first, run(case), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_torch_tensors_in_and_out(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = (torch.randn(33, 2050, device="cuda") * 3).to(getattr(torch, dtype))
    values, indices = fg.library.softmax_topk(x, k=5)
    assert values.dtype == x.dtype
    assert values.is_cuda
    want = torch.topk(torch.softmax(x.double(), -1), 5)
    torch.testing.assert_close(values.double(), want.values, rtol=STEP[dtype], atol=1e-6)
    picked = torch.gather(torch.softmax(x.double(), -1), 1, indices)
    torch.testing.assert_close(picked, want.values, rtol=1e-9, atol=0)


def test_other_libraries_through_dlpack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    x = jax.random.normal(jax.random.key(0), (40, 3000))
    found = fg.library.logsumexp(x * 2.0)
    assert isinstance(found, jax.Array)
    want = jax.nn.logsumexp(x * 2.0, axis=-1)
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=3e-6)


def test_callers_stream() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(20):
            x = torch.full((64, 4096), 2.0, device="cuda")
            x += 1.0
            assert float(fg.library.var_mean(x[:, ::2])[1].max()) == 3.0


def test_many_threads() -> None:
    case = library_case("logsumexp", 64, 3000)
    want, x = case.reference(), on_gpu(case.inputs["x"])
    failures = []

    def work() -> None:
        try:
            for _ in range(20):
                assert_close((fg.library.logsumexp(x).get(),), want, 3e-6)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_out_and_zero_rows() -> None:
    import cupy

    x = cupy.random.standard_normal((10, 700), dtype=cupy.float32)
    out = cupy.full(10, cupy.nan, dtype=cupy.float32)
    assert fg.library.logsumexp(x, out=out) is out
    assert_close((out.get(),), (fg.library.logsumexp.reference(x.get()),), 3e-6)
    assert fg.library.softmax(x[:0]).shape == (0, 700)


def test_more_than_2_31_elements() -> None:
    import cupy

    if cupy.cuda.runtime.memGetInfo()[0] < 24 << 30:
        pytest.skip("needs 24 GiB of device memory")
    x = cupy.zeros((3, 2**30 + 5), dtype=cupy.float16)
    x[2, 2**30 + 1] = 7
    values, indices = fg.library.topk(x, k=2)
    assert int(indices[2, 0]) == 2**30 + 1
    assert float(values[2, 0]) == 7
    assert indices[0].tolist() == [0, 1]


def test_a_row_longer_than_2_31() -> None:
    import cupy

    if cupy.cuda.runtime.memGetInfo()[0] < 8 << 30:
        pytest.skip("needs 8 GiB of device memory")
    x = cupy.zeros((1, 2**31 + 9), dtype=cupy.uint8)
    x[0, 2**31 + 3] = 9
    assert int(fg.library.argmax(x)[0]) == 2**31 + 3


def test_subnormal_numbers() -> None:
    """They are numbers like others: their sums are exact."""

    @fg.pipeline
    def facts(x: Any) -> Any:
        return fg.max(x), fg.min(x), fg.sum(x)

    x = (np.random.default_rng(0).integers(-1000, 1000, (50, 3000)) * 2.0**-149).astype("float32")
    for got, want in zip(facts(on_gpu(x)), (x.max(1), x.min(1), x.sum(1)), strict=True):
        np.testing.assert_array_equal(got.get(), want)


def test_special_values() -> None:
    rows = np.zeros((5, 64), np.float32)
    rows[0] = -np.inf
    rows[1, 7] = np.inf
    rows[2, 9] = np.nan
    rows[3, :32] = -np.inf
    with np.errstate(all="ignore"):
        for name in ("softmax", "logsumexp", "entropy", "var_mean", "norm2", "argmax"):
            pipeline = getattr(fg.library, name)
            got, want = pipeline(on_gpu(rows)), pipeline.reference(rows)
            got = got if isinstance(got, tuple) else (got,)
            want = want if isinstance(want, tuple) else (want,)
            assert_close(tuple(g.get() for g in got), want, 3e-6)
