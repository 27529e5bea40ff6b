"""Generated C++: elementwise functions, and element types as they are read and written."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.cpu_cases import (
    arrays_for,
    assert_close,
    executable,
    expected,
    inputs_of,
    layer_norm,
    quantize,
    run,
    softmax,
    softmax_topk,
)

from fusegen import library
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.target import host_cpu, runnable
from fusegen.ir import dtypes as dt
from fusegen.lang import lang as fg
from fusegen.pipeline.decorator import pipeline

pytestmark = [
    pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler"),
    pytest.mark.usefixtures("own_cache", "users_flags"),
]


# ---- functions ----


def exponential(x):
    return fg.exp(x)


RANGE = {"float32": (-110.0, -86.9, 88.7), "float64": (-760.0, -708.0, 709.7)}
"""Where exp is 0, where its results are normal by far, where they overflow."""


@pytest.mark.parametrize("target", runnable(host_cpu()), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [dt.FLOAT32, dt.FLOAT64], ids=str)
def test_exp_is_accurate_to_the_least_subnormal(dtype, target):
    nought, low, high = RANGE[dtype.name]
    found = executable(exponential, dtypes=(("x", dtype),), target=target)
    for first, last, most in ((low, high, 1.2), (nought, low, 2.2)):
        x = np.linspace(first, last, 400_001).astype(dtype.name)[None]
        (got,) = run(found, {"x": x}, x.size)
        want = np.exp(x.astype(np.longdouble))
        spacing = np.spacing(want.astype(dtype.name)).astype(np.longdouble)
        assert (abs(got.astype(np.longdouble) - want) / spacing).max() < most


@pytest.mark.parametrize("dtype", [dt.FLOAT32, dt.FLOAT64], ids=str)
def test_exp_of_special_values(dtype):
    x = np.array([[-np.inf, np.inf, np.nan, 0, -0.0, -1e30, 1e30, -800, 800] * 5], dtype.numpy)
    (got,) = run(executable(exponential, dtypes=(("x", dtype),)), {"x": x}, x.size)
    np.testing.assert_array_equal(got[0], [0, np.inf, np.nan, 1, 1, 0, np.inf, 0, np.inf] * 5)


def test_subnormal_exponentials_are_numbers_in_sums():
    """log Σ exp(x) and exp(x) / Σ exp(x) as written, where every exponential is subnormal."""
    x = np.array([[-89, -90, -91, -92]], "f4")
    e = np.exp(x.astype("f8"))
    np.testing.assert_allclose(library.naive_softmax(x), e / e.sum(), rtol=1e-4)
    assert_close(pipeline(lambda x: fg.log(fg.sum(fg.exp(x))))(x), np.log(e.sum(1)))


def everything(x):
    y = fg.sin(x) + fg.cos(x) * fg.tanh(x) + fg.erf(x) - fg.floor(x) + fg.ceil(x) * fg.round(x)
    z = fg.where(fg.abs(x) > 1, fg.log(fg.abs(x)), fg.log1p(x * x)) + fg.sigmoid(x) ** 1.5
    w = fg.maximum(x, 0) - fg.minimum(x, fg.mean(x)) + fg.sign(x) + fg.expm1(x / 10) + fg.exp2(x)
    odd = fg.index(x) * 2 + 1 > fg.length(x)
    return fg.where(odd & ~fg.isnan(x), y + z, w) + fg.sqrt(x * x) + fg.rsqrt(x * x + 1)


def test_every_elementwise_function():
    from scipy.special import erf

    x = arrays_for(softmax, 3, 301)["x"]
    v = x.astype("f8")
    y = np.sin(v) + np.cos(v) * np.tanh(v) + erf(v) - np.floor(v) + np.ceil(v) * np.rint(v)
    z = np.where(abs(v) > 1, np.log(abs(v)), np.log1p(v * v)) + (1 / (1 + np.exp(-v))) ** 1.5
    mean = v.mean(1, keepdims=True)
    w = np.maximum(v, 0) - np.minimum(v, mean) + np.sign(v) + np.expm1(v / 10) + np.exp2(v)
    want = np.where(np.arange(301) * 2 + 1 > 301, y + z, w) + abs(v) + 1 / np.sqrt(v * v + 1)
    for chunk in (None, 1):
        (got,) = run(executable(everything, chunk=chunk), {"x": x}, 301)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


# ---- element types ----


def as_float32(x):
    return fg.cast(x, "float32")


def as_float16(x):
    return fg.cast(x, "float16")


def as_bfloat16(x):
    return fg.cast(x, "bfloat16")


def as_int8(x):
    return fg.cast(x, "int8")


def as_uint8(x):
    return fg.cast(x, "uint8")


def as_int64(x):
    return fg.cast(x, "int64")


WAYS = [*((target, None) for target in runnable(host_cpu())), (host_cpu(), 1)]
"""Of conversion: vectors of each size, by instructions and without, and one number at a time."""
ways = pytest.mark.parametrize(("target", "chunk"), WAYS, ids=lambda w: getattr(w, "name", str(w)))


@ways
@pytest.mark.parametrize("dtype", [dt.FLOAT16, dt.BFLOAT16], ids=str)
def test_every_16_bit_float_is_read_exactly(dtype, target, chunk):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)[None]
    found = executable(as_float32, dtypes=(("x", dtype),), target=target, chunk=chunk)
    (got,) = run(found, {"x": x}, x.size)
    np.testing.assert_array_equal(got, x.astype("f4"))
    assert (np.signbit(got) == np.signbit(x.astype("f4")))[~np.isnan(got)].all()


@ways
@pytest.mark.parametrize(
    ("fn", "kind"), [(as_float16, np.float16), (as_bfloat16, ml_dtypes.bfloat16)],
    ids=["float16", "bfloat16"],
)
def test_16_bit_floats_are_rounded_to_nearest_even(fn, kind, target, chunk):
    every = np.arange(1 << 16, dtype=np.uint16).view(kind).astype("f4")
    finite = np.sort(every[np.isfinite(every)])
    middle = (finite[1:].astype("f8") + finite[:-1]) / 2
    x = np.concatenate([finite, middle.astype("f4"), np.nextafter(middle.astype("f4"), np.inf),
                        [np.inf, -np.inf, np.nan, 65519.9, 65520, 1e-45, 3.4e38]])
    x = x.astype("f4")[None]
    (got,) = run(executable(fn, target=target, chunk=chunk), {"x": x}, x.size)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got.astype("f4"), x.astype(kind).astype("f4"))


@ways
def test_float64_is_rounded_to_float16_once(target, chunk):
    x = np.array([[1 + 2**-11 + 2**-40, 1 + 2**-11, 2**-25 + 2**-60, np.nan, 1e300, -0.0] * 3])
    found = executable(as_float16, dtypes=(("x", dt.FLOAT64),), target=target, chunk=chunk)
    (got,) = run(found, {"x": x}, x.size)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, x.astype(np.float16))


@pytest.mark.parametrize("chunk", [None, 1])
def test_integers_saturate(chunk):
    x = np.array([[-np.inf, np.inf, np.nan, -129, 127.9, 255.5, 1e30, -0.9] * 3], "f4")
    wanted = {
        as_int8: [-128, 127, 0, -128, 127, 127, 127, 0],
        as_uint8: [0, 255, 0, 0, 127, 255, 255, 0],
        as_int64: [-(2**63), 2**63 - 1, 0, -129, 127, 255, 2**63 - 1, 0],
    }
    for fn, want in wanted.items():
        (got,) = run(executable(fn, chunk=chunk), {"x": x}, x.size)
        assert got[0].tolist() == want * 3


INTEGERS = (dt.INT8, dt.INT16, dt.INT32, dt.INT64, dt.UINT8, dt.UINT16, dt.UINT32)


def whole_numbers(x):
    return fg.sum(x), fg.max(x), fg.min(x), fg.argmax(x), fg.sum(fg.where(x > 3, x * x, -x))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_stay_whole(dtype):
    info = np.iinfo(dtype.numpy)
    low, high = max(info.min, -(2**31)), min(info.max, 2**31 - 1)
    x = np.random.default_rng(0).integers(low, high, (3, 301), dtype=np.int64).astype(dtype.numpy)
    got = run(executable(whole_numbers, dtypes=(("x", dtype),)), {"x": x}, 301)
    v = x.astype(np.int64)
    with np.errstate(over="ignore"):
        want = (v.sum(1), v.max(1), v.min(1), v.argmax(1), np.where(v > 3, v * v, -v).sum(1))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def chosen(x, wanted):
    return fg.sum(fg.where(wanted, x, 0.0)), fg.where(wanted, x, fg.max(x)) > 0


def test_conditions_in_memory():
    x = arrays_for(softmax, 3, 301)["x"]
    wanted = x > 1
    got = run(executable(chosen, dtypes=(("wanted", dt.BOOL),)), {"x": x, "wanted": wanted}, 301)
    np.testing.assert_allclose(got[0], np.where(wanted, x, 0).sum(1), rtol=1e-5)
    np.testing.assert_array_equal(got[1], np.where(wanted, x, x.max(1, keepdims=True)) > 0)


@pytest.mark.parametrize("dtype", [dt.FLOAT16, dt.BFLOAT16, dt.FLOAT64], ids=str)
@pytest.mark.parametrize("fn", [softmax_topk, layer_norm, quantize], ids=lambda f: f.__name__)
def test_every_float_type(fn, dtype):
    found = executable(fn, dtypes=tuple((name, dtype) for name in inputs_of(fn)))
    rtol = {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-12}[dtype.name]
    for n_cols in (17, 1000):
        arrays = arrays_for(fn, 3, n_cols, dtype=dtype.numpy)
        got, want = run(found, arrays, n_cols), expected(fn, arrays)
        for g, w in zip(got, want, strict=True):
            if fn is quantize and dtype == dt.FLOAT64:
                np.testing.assert_allclose(g.astype("f8"), w, rtol=1e-6, atol=1)
            elif g.dtype.kind == "i":
                np.testing.assert_allclose(g, w, atol=fn is quantize)
            else:
                np.testing.assert_allclose(g.astype("f8"), w, rtol=rtol, atol=rtol / 10)
