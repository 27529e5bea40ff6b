"""Generated C++ against plain NumPy: forms, chunks, odd rows, types, special values, threads."""

from __future__ import annotations

import numpy as np
import pytest
from support.cpu_cases import (
    LEAST_COLUMNS,
    ORACLES,
    arrays_for,
    assert_close,
    conditions,
    cross_entropy,
    executable,
    expected,
    extremes,
    layer_norm,
    logsumexp,
    moe_gate,
    norm,
    np_logsumexp,
    program,
    run,
    softmax,
    softmax_topk,
    source,
    var_mean,
)

from fusegen.backend.cpu import run as cpu
from fusegen.backend.cpu.schedule import select_cpu
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.host.chunks import PIECE_COLUMNS
from fusegen.backend.host.threads import thread_count
from fusegen.backend.problem import Problem
from fusegen.backend.target import CPU_TARGETS, host_cpu, runnable
from fusegen.ir import dtypes as dt
from fusegen.ir.errors import ArgumentError, BackendError, InternalError

pytestmark = [
    pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler"),
    pytest.mark.usefixtures("own_cache", "users_flags"),
]

COLUMNS = (1, 2, 3, 17, 255, 256, 257, 1000, 5003)
LABELS = (("labels", dt.INT64),)


VARIANTS = [("online", None), ("online", 1), ("safe", None), ("unfused", None)]


@pytest.mark.parametrize(("fn", "form", "chunk"), [
    (fn, *variant) for at, fn in enumerate(ORACLES)
    for variant in (VARIANTS[0], VARIANTS[1 + at % (len(VARIANTS) - 1)])],
    ids=lambda v: getattr(v, "__name__", str(v)))
def test_every_form_and_shape(fn, form, chunk):
    """As it is called, and in one of the other forms; the library's all are `test_library`'s."""
    found = executable(fn, form, chunk, LABELS if fn is cross_entropy else ())
    loose = 8 if chunk == 1 else 1  # one element at a time, sums round thousands of times
    for n_cols in COLUMNS:
        if n_cols >= LEAST_COLUMNS.get(fn, 1):
            arrays = arrays_for(fn, 4, n_cols, seed=n_cols)
            got, want = run(found, arrays, n_cols), expected(fn, arrays)
            assert_close(got, want, rtol=1e-5 * loose, atol=5e-6 * loose)


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


@pytest.mark.long
def test_the_softmax_of_what_the_list_holds():
    x = special_rows()
    values, columns = run(executable(softmax_topk), {"x": x}, x.shape[1])
    want_values, want_columns = expected(softmax_topk, {"x": x})
    np.testing.assert_allclose(values[[0, 7, 8, 9, 10]], want_values[[0, 7, 8, 9, 10]], rtol=1e-5)
    # Beside 1e30 everything underflows to 0: the text ties where the list still tells apart.
    np.testing.assert_array_equal(columns[[0, 7, 8, 10]], want_columns[[0, 7, 8, 10]])
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


# ---- instruction sets ----


@pytest.mark.parametrize("target", runnable(host_cpu()), ids=lambda t: t.name)
@pytest.mark.parametrize("fn", [softmax_topk, conditions], ids=lambda f: f.__name__)
def test_every_level_that_this_machine_runs(fn, target):
    arrays = arrays_for(fn, 3, 1000)
    assert_close(run(executable(fn, target=target), arrays, 1000), expected(fn, arrays))


def test_foreign_code_is_refused():
    made = program(softmax)
    foreign = set(CPU_TARGETS.values()) - set(runnable(host_cpu()))
    assert foreign  # no CPU is of both families
    for target in foreign:
        with pytest.raises(BackendError, match="cannot run code for"):
            cpu.made(made, *source(made, target=target))


def test_a_level_includes_the_lower_ones():
    known = {n: [t.name for t in runnable(target)] for n, target in CPU_TARGETS.items()}
    assert known == {
        "x86-64-v4": ["x86-64-v4", "x86-64-v3", "x86-64", "generic"],
        "x86-64-v3": ["x86-64-v3", "x86-64", "generic"], "x86-64": ["x86-64", "generic"],
        "aarch64": ["aarch64", "generic"], "generic": ["generic"],
    }


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


@pytest.mark.long
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


SPLIT = [softmax_topk, var_mean, layer_norm, cross_entropy, extremes]


@pytest.mark.parametrize("fn", SPLIT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("form", ["online", "unfused"])
def test_results_do_not_depend_on_the_number_of_threads(fn, form):
    n_cols = 5 * PIECE_COLUMNS + 12345
    found = executable(fn, form, dtypes=LABELS if fn is cross_entropy else ())
    arrays = arrays_for(fn, 2, n_cols)
    alone = run(found, arrays, n_cols, threads=1)
    assert_close(alone, expected(fn, arrays), rtol=2e-5, atol=1e-5)
    for threads in (2, 3, 8):
        for a, b in zip(alone, run(found, arrays, n_cols, threads=threads), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.long
def test_many_short_rows_on_many_threads():
    arrays = arrays_for(moe_gate, 30_000, 64)
    reports = []
    got = run(executable(moe_gate), arrays, 64, threads=5, progress=reports.append)
    assert_close(got, expected(moe_gate, arrays))
    assert reports == sorted(reports)  # none where others take all parts
    assert all(0 < report <= 1 for report in reports)


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
    for chunk in (0, -16, 8, 40, 2**18 + 16, 2**31, 2**63, 2**70):
        with pytest.raises(ArgumentError, match="impossible"):
            select_cpu(made, problem, target, chunk)


def test_source_that_does_not_compile_is_kept():
    made = program(softmax)
    schedule, _ = source(made)
    with pytest.raises(InternalError, match=r"(?s)failed_softmax\.cpp.*error"):
        cpu.made(made, schedule, "int broken(;\n")


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    assert find_compiler() is None
    made = program(softmax)
    with pytest.raises(BackendError, match=r"g\+\+"):
        cpu.made(made, *source(made))
