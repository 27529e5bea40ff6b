"""Generated C++ against plain NumPy: forms, chunks, odd rows, types, special values, threads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from cpu_cases import (
    LEAST_COLUMNS, ORACLES, conditions, cross_entropy, executable, extremes, inputs_of, layer_norm,
    logsumexp, moe_gate, norm, np_logsumexp, np_topk, program, quantize, run, softmax, softmax_topk,
    source, topk, var_mean,
)  # fmt: skip

from fusegen import dtypes as dt
from fusegen import lang as fg
from fusegen.errors import ArgumentError, BackendError, InternalError
from fusegen.runtime import cpu
from fusegen.runtime.threads import thread_count
from fusegen.schedule.cpu import PIECE_COLUMNS, select_cpu
from fusegen.schedule.problem import Problem
from fusegen.schedule.target import CPU_TARGETS, CpuTarget, host_cpu

pytestmark = pytest.mark.skipif(cpu.find_compiler() is None, reason="no C++ compiler")

COLUMNS = (1, 2, 3, 17, 255, 256, 257, 1000, 5003)
LABELS = (("labels", dt.INT64),)


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSEGEN_CACHE_DIR", str(folder))
        yield


def arrays_for(fn, n_rows, n_cols, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    found = {"x": rng.normal(0, 2, (n_rows, n_cols)).astype(dtype)}
    for name in inputs_of(fn)[1:]:
        if name == "labels":
            found[name] = rng.integers(0, n_cols, n_rows)
        else:
            found[name] = rng.normal(0, 1, n_cols).astype(dtype)
    return found


def expected(fn, arrays):
    wide = {
        n: a if a.dtype.kind == "i" and n == "labels" else a.astype(np.float64)
        for n, a in arrays.items()
    }
    with np.errstate(all="ignore"):
        return ORACLES[fn](**wide)


def assert_close(got, want, rtol=1e-5, atol=1e-6):
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        if g.dtype.kind in "ib":
            np.testing.assert_array_equal(g, w)
        else:
            np.testing.assert_allclose(g.astype(np.float64), w, rtol=rtol, atol=atol)


VARIANTS = [("online", None), ("online", 1), ("safe", None), ("unfused", None)]


@pytest.mark.parametrize(("form", "chunk"), VARIANTS, ids=lambda v: str(v))
@pytest.mark.parametrize("fn", ORACLES, ids=lambda f: f.__name__)
def test_every_form_and_shape(fn, form, chunk):
    found = executable(fn, form, chunk, LABELS if fn is cross_entropy else ())
    for n_cols in COLUMNS:
        if n_cols >= LEAST_COLUMNS.get(fn, 1):
            arrays = arrays_for(fn, 4, n_cols, seed=n_cols)
            assert_close(run(found, arrays, n_cols), expected(fn, arrays))


# ---- top-K ----


@pytest.mark.parametrize("k", [1, 32, 33, 700])
@pytest.mark.parametrize("seed", range(3))
def test_lists_of_every_length_with_ties_and_nan(k, seed):
    rng = np.random.default_rng(seed)
    found = executable(topk, constants=(("k", k),))
    for n_cols in (k, k + 1, 1500, 5003):
        x = rng.choice([np.nan, -np.inf, np.inf, 0, 1, 2, 3], (3, max(k, n_cols))).astype("f4")
        x[1] = rng.normal(size=x.shape[1])  # few ties
        x[2] = np.arange(x.shape[1])  # every element enters the list
        values, columns = run(found, {"x": x}, x.shape[1])
        want_values, want_columns = np_topk(x, k)
        np.testing.assert_array_equal(columns, want_columns)
        np.testing.assert_array_equal(values, want_values)


@pytest.mark.parametrize("k", [3, 40])
def test_lists_of_integers(k):
    found = executable(topk, dtypes=(("x", dt.INT64),), constants=(("k", k),))
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    x = np.array([[low] * 50, [high, low] * 25, range(50)])
    values, columns = run(found, {"x": x}, 50)
    order = np.argsort(-x.astype(object), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(columns, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


# ---- special values ----


def special_rows(n_cols=700):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(11, n_cols)).astype("f4")
    x[0, :300] = -np.inf
    x[1] = -np.inf
    x[2, 400] = np.inf
    x[3, [5, 600]] = np.inf
    x[4, 0] = np.nan
    x[5, -1] = np.nan
    x[6, 350] = -np.nan  # NaN with its sign bit set
    x[7] = 3.25
    x[8, ::2] = -np.inf
    x[9, 699] = 1e30
    x[10] = -3e38
    return x


@pytest.mark.parametrize("fn", [logsumexp, softmax, var_mean, extremes], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("form", "chunk"), VARIANTS[:3], ids=lambda v: str(v))
def test_special_rows(fn, form, chunk):
    x = special_rows()
    if fn is var_mean:
        x = x[[4, 5, 6, 7]]  # squares of the others overflow float32
    got = run(executable(fn, form, chunk), {"x": x}, x.shape[1])
    assert_close(got, expected(fn, {"x": x}), rtol=3e-5)


def test_the_softmax_of_what_the_list_holds():
    x = special_rows()
    values, columns = run(executable(softmax_topk), {"x": x}, x.shape[1])
    usable = [0, 7, 8, 9, 10]
    want_values, want_columns = expected(softmax_topk, {"x": x[usable]})
    np.testing.assert_array_equal(columns[usable], want_columns)
    np.testing.assert_allclose(values[usable], want_values, rtol=1e-5)
    assert np.isnan(values[[1, 2, 3, 4, 5, 6]]).all()


def test_a_label_out_of_range_gives_nan():
    x, labels = np.zeros((4, 9), "f4"), np.array([0, -1, 9, 2**40])
    (got,) = run(executable(cross_entropy, dtypes=LABELS), {"x": x, "labels": labels}, 9)
    np.testing.assert_array_equal(np.isnan(got), [False, True, True, True])


def test_zero_rows_of_the_scale_pivot():
    x = np.zeros((2, 300), "f4")
    x[1, 7] = 1e-40
    (got,) = run(executable(norm), {"x": x}, 300)
    np.testing.assert_allclose(got, [0, 1e-40], rtol=1e-3)


# ---- functions ----


def exponential(x):
    return fg.exp(x)


@pytest.mark.parametrize("dtype", [dt.FLOAT32, dt.FLOAT64], ids=str)
def test_exp_is_accurate_to_about_one_ulp(dtype):
    kind, (low, high) = dtype.name, {"float32": (-86.9, 88.7), "float64": (-707, 709.7)}[dtype.name]
    x = np.linspace(low, high, 400_001).astype(kind)[None]
    (got,) = run(executable(exponential, dtypes=(("x", dtype),)), {"x": x}, x.size)
    want = np.exp(x.astype(np.longdouble))
    spacing = np.spacing(want.astype(kind)).astype(np.longdouble)
    assert (abs(got.astype(np.longdouble) - want) / spacing).max() < 1.2


@pytest.mark.parametrize("dtype", [dt.FLOAT32, dt.FLOAT64], ids=str)
def test_exp_of_special_values(dtype):
    x = np.array([[-np.inf, np.inf, np.nan, 0, -0.0, -1e30, 1e30, -800, 800] * 5], dtype.numpy)
    (got,) = run(executable(exponential, dtypes=(("x", dtype),)), {"x": x}, x.size)
    np.testing.assert_array_equal(got[0], [0, np.inf, np.nan, 1, 1, 0, np.inf, 0, np.inf] * 5)
    tail = np.linspace(-110, -80, 999, dtype="f4")[None]
    (flushed,) = run(executable(exponential), {"x": tail}, tail.size)
    np.testing.assert_allclose(flushed, np.exp(tail.astype("f8")), rtol=1e-6, atol=1.7e-38)


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


@pytest.mark.parametrize("dtype", [dt.FLOAT16, dt.BFLOAT16], ids=str)
def test_every_16_bit_float_is_read_exactly(dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)[None]
    (got,) = run(executable(as_float32, dtypes=(("x", dtype),)), {"x": x}, x.size)
    np.testing.assert_array_equal(got, x.astype("f4"))
    assert (np.signbit(got) == np.signbit(x.astype("f4")))[~np.isnan(got)].all()


@pytest.mark.parametrize(
    ("fn", "kind"), [(as_float16, np.float16), (as_bfloat16, ml_dtypes.bfloat16)],
    ids=["float16", "bfloat16"],
)  # fmt: skip
def test_16_bit_floats_are_rounded_to_nearest_even(fn, kind):
    every = np.arange(1 << 16, dtype=np.uint16).view(kind).astype("f4")
    finite = np.sort(every[np.isfinite(every)])
    middle = (finite[1:].astype("f8") + finite[:-1]) / 2
    x = np.concatenate([finite, middle.astype("f4"), np.nextafter(middle.astype("f4"), np.inf),
                        [np.inf, -np.inf, np.nan, 65519.9, 65520, 1e-45, 3.4e38]])  # fmt: skip
    x = x.astype("f4")[None]
    (got,) = run(executable(fn), {"x": x}, x.size)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got.astype("f4"), x.astype(kind).astype("f4"))


def test_float64_is_rounded_to_float16_once():
    x = np.array([[1 + 2**-11 + 2**-40, 1 + 2**-11, 2**-25 + 2**-60, np.nan, 1e300, -0.0]])
    (got,) = run(executable(as_float16, dtypes=(("x", dt.FLOAT64),)), {"x": x}, 6)
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


def chosen(x, keep):
    return fg.sum(fg.where(keep, x, 0.0)), fg.where(keep, x, fg.max(x)) > 0


def test_conditions_in_memory():
    x = arrays_for(softmax, 3, 301)["x"]
    keep = x > 1
    got = run(executable(chosen, dtypes=(("keep", dt.BOOL),)), {"x": x, "keep": keep}, 301)
    np.testing.assert_allclose(got[0], np.where(keep, x, 0).sum(1), rtol=1e-5)
    np.testing.assert_array_equal(got[1], np.where(keep, x, x.max(1, keepdims=True)) > 0)


@pytest.mark.parametrize("dtype", [dt.FLOAT16, dt.BFLOAT16, dt.FLOAT64], ids=str)
@pytest.mark.parametrize("fn", [softmax_topk, layer_norm, quantize], ids=lambda f: f.__name__)
def test_every_float_type(fn, dtype):
    found = executable(fn, dtypes=tuple((name, dtype) for name in inputs_of(fn)))
    rtol = {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-12}[dtype.name]
    for n_cols in (17, 1000):
        arrays = arrays_for(fn, 3, n_cols, dtype=dtype.numpy)
        got, want = run(found, arrays, n_cols), expected(fn, arrays)
        for g, w in zip(got, want, strict=True):
            if fn is quantize and dtype is dt.FLOAT64:
                np.testing.assert_allclose(g.astype("f8"), w, rtol=1e-6, atol=1)
            elif g.dtype.kind == "i":
                np.testing.assert_allclose(g, w, atol=fn is quantize)
            else:
                np.testing.assert_allclose(g.astype("f8"), w, rtol=rtol, atol=rtol / 10)


# ---- instruction sets ----


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64", "generic"])
@pytest.mark.parametrize("fn", [softmax_topk, conditions], ids=lambda f: f.__name__)
def test_narrower_vectors(fn, name):
    target = CPU_TARGETS[name]
    if not isinstance(target, CpuTarget) or not host_cpu().name.startswith("x86-64"):
        pytest.skip(f"{host_cpu().name} does not run {name}")
    arrays = arrays_for(fn, 3, 1000)
    assert_close(run(executable(fn, target=target), arrays, 1000), expected(fn, arrays))


def test_foreign_code_is_refused():
    made = program(softmax)
    with pytest.raises(BackendError, match="cannot run code for"):
        cpu.CpuExecutable(made, *source(made, target=CPU_TARGETS["aarch64"]))


# ---- memory ----


def test_inputs_may_be_broadcast_strided_and_read_only():
    x = arrays_for(softmax_topk, 6, 2000)["x"]
    found = executable(softmax_topk)
    for given in (np.broadcast_to(x[0], (5, 2000)), x[::2, 300:], x[::-1]):
        frozen = given.view()
        frozen.flags.writeable = False
        want = expected(softmax_topk, {"x": given})
        assert_close(run(found, {"x": frozen}, given.shape[1]), want)


def test_a_label_may_be_shared_by_all_rows():
    x = arrays_for(softmax, 5, 40)["x"]
    found = executable(cross_entropy, dtypes=LABELS)
    (got,) = run(found, {"x": x, "labels": np.broadcast_to(np.int64(3), 5)}, 40)
    np.testing.assert_allclose(got, np_logsumexp(x.astype("f8")) - x[:, 3], rtol=1e-5)


def test_results_may_overwrite_their_input():
    x = arrays_for(softmax, 5, 1001)["x"]
    want = expected(softmax, {"x": x})[0]
    executable(softmax)({"x": x, executable(softmax).program.outputs[0].name: x}, 5, 1001)
    np.testing.assert_allclose(x, want, rtol=1e-5)


def test_arrays_of_other_shapes_are_our_own_mistake():
    with pytest.raises(InternalError, match=r"x: float64 \(2, 3\)"):
        run(executable(softmax), {"x": np.zeros((2, 3))}, 3)


def test_no_rows_is_no_work():
    x = np.empty((0, 10), "f4")
    assert run(executable(softmax), {"x": x}, 10)[0].shape == (0, 10)


# ---- threads ----


@pytest.mark.parametrize("fn", [softmax_topk, var_mean, layer_norm], ids=lambda f: f.__name__)
@pytest.mark.parametrize("form", ["online", "unfused"])
def test_results_do_not_depend_on_the_number_of_threads(fn, form):
    n_cols = 2 * PIECE_COLUMNS + 12345
    found = executable(fn, form)
    arrays = arrays_for(fn, 2, n_cols)
    alone = run(found, arrays, n_cols, threads=1)
    assert_close(alone, expected(fn, arrays), rtol=2e-5)
    for threads in (2, 3, 8):
        for a, b in zip(alone, run(found, arrays, n_cols, threads=threads), strict=True):
            np.testing.assert_array_equal(a, b)


def test_many_short_rows_on_many_threads():
    arrays = arrays_for(moe_gate, 30_000, 64)
    reports = []
    got = run(executable(moe_gate), arrays, 64, threads=5, progress=reports.append)
    assert_close(got, expected(moe_gate, arrays))
    assert reports == sorted(reports)
    assert 0 < reports[-1] <= 1


def test_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("FUSEGEN_THREADS", "3")
    assert thread_count() == 3
    assert thread_count(2) == 2
    for wrong in ("0", "-1", "many"):
        monkeypatch.setenv("FUSEGEN_THREADS", wrong)
        with pytest.raises(ArgumentError, match="whole number"):
            thread_count()
    monkeypatch.delenv("FUSEGEN_THREADS")
    assert thread_count() >= 1


# ---- source and compiler ----


@pytest.mark.parametrize("form", ["online", "unfused"])
def test_the_same_bytes_every_time(form):
    program.cache_clear()
    first = source(program(softmax_topk, form))[1]
    program.cache_clear()
    assert source(program(softmax_topk, form))[1] == first


def test_chunks_are_one_or_whole_vectors():
    made, problem = program(softmax), Problem(dtypes={})
    target = CPU_TARGETS["x86-64-v4"]
    assert select_cpu(made, problem, target, 1).algorithm.startswith("online, one element")
    assert select_cpu(made, problem, target, 64).algorithm == "block online, chunks of 64"
    for chunk in (0, -16, 8, 40):
        with pytest.raises(ArgumentError, match="impossible"):
            select_cpu(made, problem, target, chunk)


def test_source_that_does_not_compile_is_kept():
    made = program(softmax)
    schedule, _ = source(made)
    with pytest.raises(InternalError, match=r"(?s)failed_softmax\.cpp.*error"):
        cpu.CpuExecutable(made, schedule, "int broken(;\n")


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    assert cpu.find_compiler() is None
    made = program(softmax)
    with pytest.raises(BackendError, match=r"g\+\+"):
        cpu.CpuExecutable(made, *source(made))


def test_the_compiler_may_be_chosen(monkeypatch):
    chosen_one = cpu.find_compiler()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert cpu.find_compiler() == chosen_one
