"""Monoids of one's own on every backend, against the text and against NumPy written by hand."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import simt
from hypothesis import given, settings
from hypothesis import strategies as st
from support import nvrtc
from support import own_cases as own
from support.cases import FORMS, TARGETS, leaves
from support.cuda_cases import Case, assert_close
from support.emulated import emulated

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.cli import main

compiled = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
LENGTHS = (1, 2, 7, 33, 255, 1025)


def whole_rows(shape, seed=0, dtype="float32"):
    """Small whole numbers: sums of them are exact in every type."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def scanned(a, b):
    """h = a·h + b, element by element."""
    h = np.zeros(len(a))
    for j in range(a.shape[1]):
        h = a[:, j] * h + b[:, j]
    return h


# ---- the reference, against NumPy ----


def test_the_reference_is_what_the_monoid_means():
    x = np.array([[1.0, np.nan, 3, 3, -2], [np.nan] * 5, [0, 0, 0, 0, 0]])
    y = np.arange(15.0).reshape(3, 5)
    z = y % 4

    @fg.pipeline
    def several(x, y, z):
        return (fg.reduce(own.last_number, x), fg.reduce(own.first_number, x),
                fg.reduce(own.recurrence, y - 6, y), fg.reduce(own.argmin, z, y),
                fg.reduce(own.longest_run, z))

    last, first, h, payload, run = several.reference(x, y, z)
    np.testing.assert_array_equal(last, [-2, np.nan, 0])
    np.testing.assert_array_equal(first, [1, np.nan, 0])
    np.testing.assert_array_equal(h, scanned(y - 6, y))
    np.testing.assert_array_equal(payload, y[[0, 1, 2], np.argmin(z, 1)])
    np.testing.assert_array_equal(run, [3, 3, 2])
    one, two = own.statistics.reference(x[2:]), own.statistics.reference(np.arange(4.0)[None])
    assert (one["ties"], two["mean"], two["variance"]) == (5, 1.5, 1.25)


# ---- CPU ----


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS)
def test_beside_other_reductions_in_every_form(form, target):
    x = whole_rows((4, 133))
    run = own.statistics.compile(x, form=form, target=target)
    want = own.statistics.reference(x)
    for name, found in run(x).items():
        np.testing.assert_allclose(found, want[name], rtol=2e-6, err_msg=name)
    if form != "unfused":
        assert run.plan.sweeps == (1 if form in ("auto", "online") else 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_element_types_and_axes(dtype):
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = whole_rows((3, 70, 2)).astype(kind)
    found, want = own.statistics(x, axis=1), own.statistics.reference(x.astype("f8"), axis=1)
    step = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-12}[dtype]
    for name in want:
        np.testing.assert_allclose(found[name].astype("f8"), want[name], rtol=step, err_msg=name)
    assert found["mean"].dtype == kind
    assert found["ties"].dtype == np.int64


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_whole_numbers(dtype):
    @fg.pipeline
    def numbers(x):
        return fg.reduce(own.whole_sum, x), fg.reduce(own.depth, x)

    x = whole_rows((3, 500), dtype="int64") % 5 - (0 if dtype == "uint8" else 2)
    total, lows = numbers(x.astype(dtype))
    assert total.dtype == np.int64
    np.testing.assert_array_equal(total, x.sum(1))
    np.testing.assert_array_equal(lows["low"], np.minimum(np.cumsum(x, 1).min(1), 0))


@pytest.mark.parametrize("name", own.PROVED)
def test_every_monoid_on_the_cpu(name):
    monoid = own.PROVED[name]
    from fusegen.library.check import reducing

    pipeline = reducing(monoid)
    kind = "int32" if monoid in (own.depth, own.whole_sum) else "float32"
    scale = 8 if name in ("complex_product", "matrix_product") else 1  # products stay in range
    for n_cols in (1, 40, 700) if scale == 1 else (1, 12):
        arrays = [whole_rows((3, n_cols), seed=i, dtype=kind) / (1 if kind == "int32" else scale)
                  for i in range(len(monoid.elements))]
        arrays = [a.astype(kind) for a in arrays]
        for got, want in zip(leaves(pipeline(*arrays)), leaves(pipeline.reference(*arrays)),
                             strict=True):
            np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-6)


@pytest.mark.long
@compiled
@given(n_cols=st.integers(1, 2300), seed=st.integers(0, 2**31), chunk=st.sampled_from([None, 1]))
@settings(max_examples=40, deadline=None)
def test_row_order_is_kept_on_the_cpu(n_cols, seed, chunk):
    """Exact: slopes are −1, 0 and 1, so that every number stays whole and small."""
    rng = np.random.default_rng(seed)
    a = rng.choice([-1, 1, 1, 1, 0], (2, n_cols), p=[0.3, 0.22, 0.22, 0.22, 0.04])
    b = rng.integers(-3, 4, (2, n_cols))
    run = own.scan.compile(fg.Spec((2, n_cols)), fg.Spec((2, n_cols)), target="cpu", chunk=chunk)
    got = run(a.astype("f4"), b.astype("f4"))
    np.testing.assert_array_equal(got, scanned(a, b))


@compiled
def test_pieces_merge_in_order():
    """Rows longer than a piece, on several threads; the last number stands in the middle."""
    n_cols = 3 * (1 << 18) + 17
    x = np.full((2, n_cols), np.nan, "f4")
    x[0, [5, 300_000]] = 7, 8
    x[1, [9, n_cols - 1]] = 1, 2

    @fg.pipeline
    def ends(x):
        return fg.reduce(own.first_number, x), fg.reduce(own.last_number, x)

    first, last = ends(x)
    np.testing.assert_array_equal(first, [7, 1])
    np.testing.assert_array_equal(last, [8, 2])


@pytest.mark.long
def test_a_list_and_several_ordered_monoids():
    x, y = whole_rows((4, 300)), whole_rows((4, 300), 1)
    want = own.in_order.reference(x, y)
    for name, found in own.in_order(x, y).items():
        np.testing.assert_allclose(found, want[name], rtol=1e-6, err_msg=name)
    assert own.in_order.plan().sweeps == 1


def test_what_is_lifted_may_depend_on_another_reduction():
    """It then waits for it, in a sweep of its own."""

    @fg.pipeline
    def centred(x):
        m = fg.mean(x)
        inner = fg.monoid(0.0, lambda v: (v - m) ** 2, lambda a, b: a + b, name="squares")
        return fg.reduce(own.max_count, fg.abs(x - m))[0], fg.reduce(inner, x)

    x = whole_rows((3, 90))
    greatest, squares = centred(x)
    away = x - x.mean(1, keepdims=True)
    np.testing.assert_allclose(greatest, np.abs(away).max(1), rtol=1e-6)
    np.testing.assert_allclose(squares, (away**2).sum(1), rtol=1e-5)
    assert centred.plan().sweeps == 2
    assert "your monoid" in str(centred.derivation())
    assert all("depends on" in r.why for r in centred.derivation().refusals)
    fg.check(centred)


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_row_values_and_counts_may_be_lifted(target):
    """An element that lift ignores, a value per row beside an element, awkward names."""
    awkward = fg.monoid(
        name="merge", identity={"state": 0.0, "i": 0, "lane": False},
        lift=lambda item, row: {"state": item * row, "i": 1, "lane": item > row},
        merge=lambda a, b: {"state": a["state"] + b["state"], "i": a["i"] + b["i"],
                            "lane": a["lane"] | b["lane"]},
    )
    ones = fg.monoid(0, lambda x: 1, lambda a, b: a + b, name="ones")

    @fg.pipeline
    def mixed(x, scale: fg.PerRow):
        return fg.reduce(awkward, x, scale), fg.reduce(ones, x), fg.reduce(awkward, x, fg.max(x))

    x, scale = whole_rows((3, 77)), np.array([1, -2, 3], "f4")
    per_row, count, per_max = mixed.compile(x, scale, target=target)(x, scale)
    np.testing.assert_allclose(per_row["state"], x.sum(1) * scale)
    np.testing.assert_array_equal(per_row["lane"], (x > scale[:, None]).any(1))
    np.testing.assert_array_equal(count, 77)
    np.testing.assert_array_equal(per_row["i"], 77)
    np.testing.assert_allclose(per_max["state"], x.sum(1) * x.max(1))
    if simt.available() is None:
        case = Case(mixed, {"x": x, "scale": scale}, 3, 77)
        assert_close(case.emulate(), tuple(leaves(mixed.reference(x, scale))), 1e-6)


def test_sums_may_follow_its_result():
    """A row value of one's own is no pivot that could move: what uses it reads the row again."""

    @fg.pipeline
    def variance(x):
        mean = fg.reduce(own.welford, x)["mean"]
        return fg.mean((x - mean) ** 2)

    x = whole_rows((3, 90))
    np.testing.assert_allclose(variance(x), x.var(1), rtol=1e-5)
    assert variance.plan().sweeps == 2
    fg.check(variance)


# ---- CUDA ----


@pytest.mark.long
@emulated
@pytest.mark.parametrize("n_cols", LENGTHS)
def test_cuda_any_length_and_alignment(n_cols):
    x, y = whole_rows((4, n_cols)), whole_rows((4, n_cols), 1)
    for shift in (0, 1) if n_cols > 2 else (0,):
        case = Case(own.statistics, {"x": x}, 4, n_cols)
        assert_close(case.emulate(shift=shift), tuple(case.pipeline.reference(x).values()), 3e-6)
        if n_cols > 1:
            case = Case(own.in_order, {"x": x, "y": y}, 4, n_cols)
            want = tuple(own.in_order.reference(x, y).values())
            assert_close(case.emulate(shift=shift), want, 3e-6)


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n_cols", "choices"), [
    (1, {}), (31, {}), (129, {"shift": 3}), (1023, {"chunk": 1}), (2049, {"form": "unfused"}),
    (4097, {"shift": 1}), (40_001, {"n_rows": 2}),
])
def test_row_order_is_kept_on_the_gpu(n_cols, choices):
    """Thread, warp, block, tiles, and blocks that share a row."""
    rng = np.random.default_rng(n_cols)
    a = rng.choice([-1, 1, 0], (2, n_cols), p=[0.45, 0.53, 0.02])
    b = rng.integers(-3, 4, (2, n_cols))
    case = Case(own.scan, {"a": a.astype("f4"), "b": b.astype("f4")}, 2, n_cols)
    (got,) = case.emulate(**choices)
    np.testing.assert_array_equal(got, scanned(a, b))
    if "n_rows" in choices:
        assert case.work(n_rows=2).schedule.blocks > 1


@emulated
def test_cuda_rows_split_over_blocks():
    x = whole_rows((2, 40_001))
    case = Case(own.statistics, {"x": x}, 2, 40_001)
    want = tuple(own.statistics.reference(x).values())
    assert_close(case.emulate(n_rows=2), want, 3e-6)


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize(("pipeline", "options"), [
    (own.statistics, {}), (own.in_order, {}), (own.in_order, {"dtype": "float64"}),
    (own.scan, {"n_rows": 4, "n_cols": 1_000_000}), (own.scan, {"dtype": "float16", "chunk": 1}),
], ids=lambda v: getattr(v, "name", str(v)))
def test_nvrtc_compiles(pipeline, options):
    def keeps_to_registers(source, arch):
        found = nvrtc.compile_for(source, arch)
        assert found.reports, arch
        assert all(r.spill_bytes <= 192 for r in found.reports), arch  # around calls of exp

    nvrtc.within_budget({arch: pipeline.source(target=arch, **options)
                         for arch in ("sm_80", "sm_90")}, keeps_to_registers)


# ---- errors ----


def pipeline_of(monoid):
    return fg.pipeline(lambda x: fg.reduce(monoid, x))


BROKEN = {
    "lift contains sum": fg.monoid(0.0, lambda x: fg.sum(x), lambda a, b: a + b),
    "merge contains max": fg.monoid(0.0, lambda x: x, lambda a, b: fg.max(a) + b),
    "merge returns a number": fg.monoid((0.0, 0.0), lambda x: (x, x), lambda a, b: a[0] + b[0]),
    "lift returns nothing": fg.monoid(0.0, lambda x: None, lambda a, b: a + b),
    "merge returns {n: a number}": fg.monoid(
        {"n": 0, "m": 0.0}, lambda x: {"n": 1, "m": x}, lambda a, b: {"n": a["n"] + b["n"]}),
    "lift makes value float": fg.monoid(0, lambda x: x * 0.5, lambda a, b: a + b),
    "merge makes value float": fg.monoid(0, lambda x: 1, lambda a, b: (a + b) / 2),
    "branch": fg.monoid(0.0, lambda x: x, lambda a, b: a if a > b else b),
    "casts to float16": fg.monoid(
        0.0, lambda x: x, lambda a, b: fg.cast(a, "float16") + b),
}


@pytest.mark.parametrize("what", BROKEN)
def test_errors_stand_at_the_line(what):
    with pytest.raises(fg.PipelineError) as caught:
        pipeline_of(BROKEN[what])(np.ones((2, 3)))
    assert what in str(caught.value)
    assert caught.value.where.file == __file__


@pytest.mark.parametrize(("arguments", "what"), [
    ({"identity": {}}, "the identity is empty"),
    ({"identity": "zero"}, "the identity has 'zero'"),
    ({"merge": lambda a: a}, "merge takes two states"),
    ({"project": lambda a, b: a}, "project takes one state"),
    ({"lift": np.exp}, "lift must be a function"),
    ({"assume": ("asociative",)}, "Did you mean 'associative'?"),
    ({"commutative": True}, 'assume=("commutative",)'),
])
def test_errors_of_the_definition(arguments, what):
    good = {"identity": 0.0, "lift": lambda x: x, "merge": lambda a, b: a + b}
    with pytest.raises(fg.ArgumentError) as caught:
        fg.monoid(**{**good, **arguments})
    assert what in str(caught.value)
    assert caught.value.where.file == __file__


def test_errors_of_reduce_and_product():
    with pytest.raises(fg.TraceError, match="takes 2 elements, got 1"):
        pipeline_of(own.recurrence)(np.ones((2, 3)))
    with pytest.raises(fg.TraceError, match="reduce takes a monoid first"):
        pipeline_of(lambda x: x)(np.ones((2, 3)))
    with pytest.raises(fg.TraceError, match="needs element values"):
        fg.pipeline(lambda x: fg.reduce(own.welford, fg.sum(x)))(np.ones((2, 3)))
    with pytest.raises(fg.ArgumentError, match="same number of elements"):
        fg.product(own.welford, own.recurrence)
    with pytest.raises(fg.TraceError, match="outside a pipeline"):
        fg.reduce(own.welford, np.ones(3))
    with pytest.raises(fg.ArgumentError, match="a pipeline or a monoid"):
        fg.check(print)


def test_a_value_of_the_pipeline_cannot_be_merged():
    @fg.pipeline
    def leaks(x):
        m = fg.max(x)
        return fg.reduce(fg.monoid(0.0, lambda v: v, lambda a, b: a + b + m), x)

    with pytest.raises(fg.TraceError, match="merge uses a value of the pipeline") as caught:
        leaks(np.ones((2, 3)))
    assert caught.value.where.file == __file__


# ---- command line ----


@pytest.mark.long
def test_the_command_line_checks_monoids(capsys):
    def check(name):
        with pytest.raises(SystemExit) as ended:
            sys.exit(main(["check", f"{own.__file__}:{name}"]))
        return ended.value.code, capsys.readouterr()

    (good, shown), (bad, why), (unknown, advice) = map(
        check, ("welford", "mean_of_means", "unproved"))
    assert (good, bad, unknown) == (0, 1, 2)
    assert "3 of 3 obligations proved" in shown.out
    assert "a ⊕ (b ⊕ c) = 1/4" in why.err
    assert "neither proved nor refuted" in advice.err


def test_explain_shows_the_laws():
    page = str(own.in_order.explain())
    for part in ("your monoid recurrence", "associative:", "kept, as the row has it: a = ",
                 "offset = b.slope·a.offset + b.offset"):
        assert part in page
    assert "WelfordMonoid(0, 0, 0)" in str(own.statistics.explain())
