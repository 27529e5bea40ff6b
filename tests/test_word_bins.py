"""The bins that put a list in order: never against that of keys, with few ties to a bin."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import simt
from support.emulated import emulated

from fusegen.backend.emit.source import Source

BINS = 1024
KERNEL = """
typedef LaneKeys<FloatOrder<{spare}>, int> Keys;
extern "C" __global__ void bins_of(
    const float* x, const int* column, unsigned long long* keys, unsigned* bins, int n, int first,
    int columns)
{{
    unsigned low = 0xffffffffu, high = 0;
    for (int i = 0; i < n; ++i) {{
        const unsigned word = top_word(Keys::key(x[i], column[i]));
        low = min(low, word), high = max(high, word);
    }}
    const WordBins<Keys, {bins}, {apart}> found(low, high, Span{{first, columns}});
    for (int i = threadIdx.x; i < n; i += 32)
        keys[i] = Keys::key(x[i], column[i]), bins[i] = found.of(keys[i]);
}}
"""
SPARE = {"float32": 0, "float16": 13, "bfloat16": 16}


def binned(
    x: np.ndarray[Any, Any], column: np.ndarray[Any, Any], dtype: str, first: int, columns: int,
    apart: bool = True,
) -> np.ndarray[Any, Any]:
    """The bins of keys, the best first."""
    text = KERNEL.format(spare=SPARE[dtype], bins=BINS, apart=str(apart).lower())
    headers = ("fusegen/topk/lane_keys.cuh", "fusegen/topk/collected_order.cuh")
    module = simt.compile_module(Source(text, headers=headers).text())
    n = len(x)
    keys, bins = np.zeros(n, np.uint64), np.zeros(n, np.uint32)
    x, column = x.astype(np.float32), column.astype(np.int32)
    module.launch("bins_of", (1,), (32,), [x, column, keys, bins, n, first, columns],
                  outputs={2, 3})
    return bins[np.argsort(keys)[::-1]]


def rounded(x: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        return x.astype(getattr(ml_dtypes, dtype, dtype)).astype(np.float32)


def rows() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    n = 700
    return {
        "normal": rng.standard_normal(n), "positive": rng.random(n) + 2, "equal": np.full(n, 1.5),
        "two": rng.integers(0, 2, n) + 1.0, "few": rng.integers(3, 20, n) / 4,
        "negative": -rng.random(n) - 1, "wide": np.exp(rng.standard_normal(n) * 9),
        "infinite": np.where(rng.random(n) < .1, np.inf, rng.random(n)),
        "not numbers": np.where(rng.random(n) < .1, np.nan, rng.random(n)),
        "zeros": np.where(rng.random(n) < .5, -0.0, 0.0), "one of many": np.eye(n)[3] + 1,
    }


@emulated
@pytest.mark.parametrize("dtype", SPARE)
@pytest.mark.parametrize(("first", "columns"), [
    (0, 700), (0, 1 << 29), (5, 690), (900, 64), (3, 0)])
def test_bins_follow_the_order_of_keys(dtype: str, first: int, columns: int) -> None:
    """Columns of a few elements lie before the span, or behind it."""
    rng = np.random.default_rng(columns)
    for name, x in rows().items():
        beside = first + rng.integers(-5, columns + 9, len(x))
        column = np.unique(np.clip(beside, 0, None))
        x = rounded(x[: len(column)], dtype)
        for apart in (True, False):
            bins = binned(x, column, dtype, first, columns, apart)
            assert bins.max() < BINS, name
            assert (np.diff(bins.astype(np.int64)) >= 0).all(), name


@emulated
def test_equal_values_are_apart_by_their_columns() -> None:
    """The best of a long row have few values of 16 bits: a bin for each of them would hold dozens,
    that are held to one another one by one."""
    rng = np.random.default_rng(7)
    row = rounded(rng.standard_normal(200_000), "bfloat16")
    best = np.argsort(-row, kind="stable")[:1000]
    bins = binned(row[best], best, "bfloat16", 0, len(row))
    together = binned(row[best], best, "bfloat16", 0, len(row), apart=False)
    assert np.bincount(bins).max() <= 20 < 40 < np.bincount(together).max()
    bins = binned(np.full(1000, 2.0), np.arange(1000), "float32", 0, 1000)
    assert np.bincount(bins).max() <= 3
