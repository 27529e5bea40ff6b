"""Generated C++: the K best and their columns, as a stable sort would have them."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import finfo
from support.cpu_cases import executable, np_topk, run, topk
from support.pairs import pairwise

from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.host.chunks import LIST_PIECE_COLUMNS
from fusegen.backend.target import CPU_TARGETS, host_cpu, runnable
from fusegen.ir import dtypes as dt
from fusegen.lang import lang as fg

pytestmark = [
    pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler"),
    pytest.mark.usefixtures("own_cache", "users_flags"),
]

LIGHTLY = pytest.mark.usefixtures("lightly_optimised")
FLOATS = (dt.FLOAT32, dt.FLOAT64, dt.FLOAT16, dt.BFLOAT16)
WIDTHS = {t.vector_bytes: t.name for t in reversed(runnable(host_cpu()))}
LEVELS = [WIDTHS[n] for n in sorted(WIDTHS, reverse=True)]  # one of each width of vectors


def nasty(n_cols, kind="f4"):
    """Rows that are hard to find the best of."""
    rng = np.random.default_rng(n_cols)
    at = np.arange(n_cols)
    few = rng.choice([np.nan, -np.nan, -np.inf, np.inf, 0, -0.0, 1, 2, 3], (2, n_cols))
    normal = rng.normal(size=(12, n_cols))
    few[1] = np.where(few[1] == np.inf, -np.inf, few[1])
    normal[1, rng.integers(n_cols)] = 6e4  # far from the rest
    normal[2] = 1 + normal[2] / 512  # close together
    normal[3, : n_cols // 2] = -np.inf
    normal[4] = np.round(normal[4])  # many ties, zeros of both signs among them
    normal[5] = np.where(at < n_cols // 2, 50, 0) + normal[5]  # the best come first
    normal[6] = at // 256 * 8 + normal[6]  # every chunk is above those before it
    normal[7] = np.abs(normal[7]) * -1e-30
    normal[8] = 1 + at // 40 * float(finfo(kind).eps)  # the next number, again and again
    normal[9] = np.where(at % 41 == 0, 90 - at / 256, normal[9])  # the best are far apart
    normal[10] = 1 + normal[10] / 512
    normal[10, n_cols // 2] = np.inf  # far from the rest, which are close together
    normal[11] = np.where(at < n_cols // 8, normal[11], 30 + normal[11])  # a row of two parts
    slopes = np.stack([at / 16, -at / 16, at * 0 + 7, at * 0 - np.inf, at * np.nan])
    slopes[:, n_cols // 3] = slopes[:, 2 * n_cols // 3]
    with np.errstate(over="ignore"):
        return np.concatenate([few, normal, slopes]).astype(kind)


def check(found, x, k, **options):
    values, columns = run(found, {"x": x}, x.shape[1], **options)
    want_values, want_columns = np_topk(x, k)
    np.testing.assert_array_equal(columns, want_columns)
    np.testing.assert_array_equal(values.astype("f8"), want_values.astype("f8"))
    signs = ~np.isnan(want_values.astype("f8"))
    np.testing.assert_array_equal(np.signbit(values)[signs], np.signbit(want_values)[signs])


@pytest.mark.long
@pytest.mark.parametrize("k", [1, 5, 8, 9, 30, 64, 1024])
def test_lists_of_every_length(k):
    found = executable(topk, constants=(("k", k),))
    # Of a few vectors: chosen without a search. Of as many as a network sorts, and some more.
    short = {1: range(1, 70), 5: range(5, 70), 30: range(30, 150)}.get(k, ())
    for n_cols in (k, k + 1, 2 * k + 3, *short, 300, 1500, 5003, 20011):
        if n_cols >= k:
            check(found, nasty(n_cols), k)


def entries_and_sums(x, *, k):
    e = fg.exp(x - fg.max(x))
    return fg.topk(e / fg.sum(e), k), fg.topk(-x, 2 * k), fg.sum(x * x)


@pytest.mark.long
@pytest.mark.parametrize(("target", "chunk"), [*((t, None) for t in LEVELS), (LEVELS[0], 1)])
def test_what_is_summed_beside_lists_has_no_part_of_the_last_vector_twice(target, chunk):
    found = executable(entries_and_sums, target=CPU_TARGETS[target], chunk=chunk,
                       constants=(("k", 20),))
    for n_cols in (40, 41, 47, 64, 127, 128, 129, 143, 300, 511, 513, 1027, 2060):
        x = np.random.default_rng(n_cols).normal(size=(5, n_cols)).astype("f4")
        values, columns, least, least_columns, squares = run(found, {"x": x}, n_cols)
        e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
        _, want = np_topk(x, 20)
        np.testing.assert_array_equal(columns, want)
        np.testing.assert_allclose(
            values, np.take_along_axis(e / e.sum(1, keepdims=True), want, 1), rtol=3e-6)
        np.testing.assert_array_equal(least_columns, np_topk(-x, 40)[1])
        np.testing.assert_array_equal(least, np_topk(-x, 40)[0])
        np.testing.assert_allclose(squares, (x.astype("f8") ** 2).sum(1), rtol=3e-6)


@LIGHTLY
@pytest.mark.parametrize("k", [5, 64])
@pytest.mark.parametrize("dtype", FLOATS[1:], ids=str)
def test_lists_of_every_float_type(dtype, k):
    found = executable(topk, dtypes=(("x", dtype),), constants=(("k", k),))
    for n_cols in (k, 1500, 5003):
        check(found, nasty(n_cols, dtype.numpy), k)


@LIGHTLY
@pytest.mark.parametrize("target", LEVELS[1:])
@pytest.mark.parametrize(
    ("dtype", "k"), [(dt.FLOAT32, 5), (dt.FLOAT32, 64), (dt.FLOAT64, 64)], ids=str
)
def test_lists_on_narrower_vectors(dtype, k, target):
    found = executable(topk, dtypes=(("x", dtype),), constants=(("k", k),),
                       target=CPU_TARGETS[target])
    for n_cols in (*range(k, k + 40), 1500, 5003):
        check(found, nasty(n_cols, dtype.numpy), k)


@LIGHTLY
@pytest.mark.parametrize(("k", "target", "dtype"),
                         pairwise([256, 257, 4097], LEVELS, FLOATS[:2]), ids=str)
def test_lists_that_networks_sort_and_longer_ones(k, target, dtype):
    found = executable(topk, dtypes=(("x", dtype),), constants=(("k", k),),
                       target=CPU_TARGETS[target])
    for n_cols in (k, 20011):
        check(found, nasty(n_cols, dtype.numpy), k)


@pytest.mark.long
@pytest.mark.parametrize("k", [100, 1000])
def test_values_that_differ_in_their_last_bits_alone(k):
    n_cols = 5003
    rng = np.random.default_rng(0)
    rows = 1 + rng.integers(0, 1 << np.array([[1], [4], [10], [20]]), (4, n_cols)) / 2**23
    rows = np.concatenate([rows, rows, rows])
    rows[4:8, 17] = 1e30  # so that numbers made of the first bits are all the same
    rows[8:, ::700] = np.nan
    rows[11] = np.where(rng.random(n_cols) < 0.97, -np.inf, rng.normal(size=n_cols))
    check(executable(topk, constants=(("k", k),)), rows.astype("f4"), k)


@LIGHTLY
@pytest.mark.parametrize("chunk", [1, 2048])
def test_lists_of_chunks_of_other_lengths(chunk):
    check(executable(topk, "online", chunk, constants=(("k", 64),)), nasty(5003), 64)


@LIGHTLY
@pytest.mark.parametrize("k", [3, 40])
@pytest.mark.parametrize("dtype", [dt.INT64, dt.INT8], ids=str)
def test_lists_of_integers(dtype, k):
    found = executable(topk, dtypes=(("x", dtype),), constants=(("k", k),))
    low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    for n_cols in (50, 5000):
        some = np.random.default_rng(0).integers(low, high, n_cols, dtype=dtype.numpy)
        x = np.stack([some * 0 + low, some * 0 + high, np.sort(some), some, some // 8])
        x[2, ::7] = low
        x[3, ::2] = low
        values, columns = run(found, {"x": x}, n_cols)
        order = np.argsort(-x.astype(object), axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(columns, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


def both_ends(x, *, k=40):
    m = fg.mean(x)
    return *fg.topk(x, k), *fg.topk(-x, 3), *fg.topk(fg.abs(x), 200), *fg.topk((x - m) ** 2, k)


@LIGHTLY
def test_several_lists_of_one_pipeline():
    x = np.random.default_rng(0).integers(-999, 999, (3, 3001)).astype("f4")
    x[:, -1] -= x.sum(1)  # so that the mean is exactly 0
    got = run(executable(both_ends), {"x": x}, 3001)
    want = *np_topk(x, 40), *np_topk(-x, 3), *np_topk(abs(x), 200), *np_topk(x * x, 40)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def scores(x, *, k):
    values, columns = fg.topk(x, k)
    return fg.exp(values - fg.max(x)) * 2, columns, columns * 3 + 1


@LIGHTLY
@pytest.mark.parametrize("chunk", [1, None])
@pytest.mark.parametrize("k", [9, 37, 64])
def test_what_is_computed_of_a_list(k, chunk):
    x = np.random.default_rng(0).normal(size=(3, 1505)).astype("f4")
    got = run(executable(scores, chunk=chunk, constants=(("k", k),)), {"x": x}, 1505)
    values, columns = np_topk(x, k)
    np.testing.assert_allclose(got[0], np.exp(values - values[:, :1]) * 2, rtol=1e-6)
    np.testing.assert_array_equal(got[1], columns)
    np.testing.assert_array_equal(got[2], columns * 3 + 1)


@pytest.mark.long
@pytest.mark.parametrize("k", [5, 700])
def test_lists_of_pieces_become_one(k):
    n_cols = 2 * LIST_PIECE_COLUMNS + 7
    x = np.random.default_rng(0).integers(0, 3000, (2, n_cols)).astype("f4")
    x[1] = np.sort(x[1])
    found = executable(topk, constants=(("k", k),))
    for threads in (1, 3):
        check(found, x, k, threads=threads)
        check(found, x[:1], k, threads=threads)
