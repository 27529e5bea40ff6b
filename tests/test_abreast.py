"""Short rows on CPUs: one in every lane of vectors, whatever stands in them."""

from __future__ import annotations

import numpy as np
import pytest
from support.cpu_cases import executable, np_topk, run

from fusegen.backend.cpu.abreast import COLUMNS, COLUMNS_OF_LISTS
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.target import CPU_TARGETS, host_cpu, runnable
from fusegen.ir import dtypes as dt
from fusegen.lang import lang as fg

pytestmark = [
    pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler"),
    pytest.mark.usefixtures("own_cache", "users_flags"),
]

WIDTHS = {t.vector_bytes: t.name for t in reversed(runnable(host_cpu()))}
LEVELS = [WIDTHS[n] for n in sorted(WIDTHS, reverse=True)]  # one of each width of vectors


def of_rows(x):
    total = fg.logsumexp(x)
    entropy = total - fg.sum(fg.exp(x - total) * x)
    return total, entropy, fg.var(x), fg.argmax(x), fg.min(x), fg.argmin(x)


def of_lists(x, *, k):
    m = fg.max(x)
    return fg.topk(fg.exp(x - m) / fg.sum(fg.exp(x - m)), k)


def of_sums(x):
    return fg.mean(x), fg.var(x)


def hard(n_rows, n_cols):
    """Rows of which some are equal, infinite, or hold NaN, side by side with others."""
    rng = np.random.default_rng(n_cols)
    x = np.round(rng.normal(size=(n_rows, n_cols)) * 3, 1).astype("f4")
    x[1::7] = rng.choice([1, 1, 2, -0.0, 0], (len(x[1::7]), n_cols))
    x[2::7, n_cols // 2] = np.nan
    x[3::7] = np.where(rng.random((len(x[3::7]), n_cols)) < 0.5, -np.inf, x[3::7])
    x[3::7, n_cols - 1] = 0
    return x


def alone(found, x, n_cols):
    """Every row by itself."""
    parts = [run(found, {"x": x[i : i + 1]}, n_cols) for i in range(len(x))]
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


@pytest.mark.long
@pytest.mark.parametrize("target", LEVELS)
def test_values_of_rows(target):
    found = executable(of_rows, target=CPU_TARGETS[target])
    for n_cols in (1, 2, 15, 16, 33, COLUMNS, COLUMNS + 1):
        x = hard(37, n_cols)
        got = run(found, {"x": x}, n_cols)
        for one, among in zip(alone(found, x, n_cols), got, strict=True):
            np.testing.assert_array_equal(one, among)
        wide = x.astype("f8")
        with np.errstate(all="ignore"):
            p = np.exp(wide - wide.max(1, keepdims=True))
            total = np.log(p.sum(1)) + wide.max(1)
            p /= p.sum(1, keepdims=True)
            entropy = total - np.where(p == 0, 0, p * wide).sum(1)
            var = wide.var(1)
        np.testing.assert_array_equal(got[3], np.where(np.isnan(x), np.inf, x).argmax(1))
        np.testing.assert_array_equal(got[4], x.min(1))
        np.testing.assert_array_equal(got[5], np.where(np.isnan(x), -np.inf, x).argmin(1))
        np.testing.assert_allclose(got[0], total, rtol=1e-5, atol=1e-6)
        plain = np.isfinite(x).all(1)
        np.testing.assert_allclose(got[1][plain], entropy[plain], rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(got[2][plain], var[plain], rtol=2e-5, atol=1e-6)
        assert np.isnan(got[2][np.isnan(x).any(1)]).all()


def plain(x, *, k):
    return fg.topk(x, k)


@pytest.mark.long
def test_lists_alone_have_the_same_bits_one_by_one_and_abreast():
    found = executable(plain, constants=(("k", 5),))
    x = hard(37, 90)
    got, single = run(found, {"x": x}, 90), alone(found, x, 90)
    for one, among, want in zip(single, got, np_topk(x, 5), strict=True):
        np.testing.assert_array_equal(one, among)
        np.testing.assert_array_equal(among, want)


@pytest.mark.long
@pytest.mark.parametrize(("target", "k", "dtype"), [
    (LEVELS[0], 1, dt.FLOAT32), (LEVELS[0], 3, dt.BFLOAT16), (LEVELS[-1], 2, dt.FLOAT32),
    (LEVELS[len(LEVELS) // 2], 8, dt.FLOAT16), (LEVELS[0], 13, dt.FLOAT32),
])
def test_lists_of_softmax(target, k, dtype):
    found = executable(of_lists, target=CPU_TARGETS[target], dtypes=(("x", dtype),),
                       constants=(("k", k),))
    for n_cols in (k, k + 1, 2 * k + 17, COLUMNS_OF_LISTS, COLUMNS):
        x = hard(37, n_cols).astype(dtype.numpy)
        values, columns = run(found, {"x": x}, n_cols)
        single = alone(found, x, n_cols)
        np.testing.assert_array_equal(columns, single[1])
        np.testing.assert_array_equal(values.astype("f4"), single[0].astype("f4"))
        np.testing.assert_array_equal(columns, np_topk(x, k)[1])
        wide = x.astype("f8")
        p = np.exp(wide - wide.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        want = np.take_along_axis(p, columns, 1)
        np.testing.assert_allclose(values.astype("f8"), want, rtol=1e-2, atol=1e-3)


@pytest.mark.long
def test_sums_are_no_farther_off_than_those_of_folded_lanes():
    """One after the other, 256 equal numbers are off by the roundings of as many sums."""
    x = np.concatenate([np.full((20, COLUMNS), 1e8), 1e4 + np.random.default_rng(0).normal(
        size=(200, COLUMNS))]).astype("f4")
    wide = x.astype("f8")
    for level in LEVELS:
        found = executable(of_sums, target=CPU_TARGETS[level])
        mean, var = run(found, {"x": x}, COLUMNS)
        assert np.max(np.abs(mean - wide.mean(1)) / np.spacing(np.abs(x[:, 0]))) < 2.5
        assert np.max(np.abs(var - wide.var(1))) < 1e-5
