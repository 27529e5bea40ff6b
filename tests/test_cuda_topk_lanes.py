"""Top-K lists of short rows, which lanes of a warp sort or count, executed on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import simt
from cuda_cases import Case, assert_close, library_case
from test_cuda_topk import ROWS, best_columns, check, rows_of

import fusegen as fg
from fusegen.schedule.select import candidates
from fusegen.schedule.target import CUDA_TARGETS

pytestmark = pytest.mark.skipif(simt.available() is not None, reason=str(simt.available()))


def check_all(x: np.ndarray, k: int, shift: int = 0, ways: str = "sorted counted") -> int:
    """Every schedule of these kinds; how many there were."""
    case = Case(best, {"x": x}, *x.shape, {"k": k})
    size = x.dtype.itemsize
    aligned = x.shape[1] * size % 16 == 0 and shift == 0
    work = case.work(n_rows=100_000, aligned=aligned)
    found = candidates(work.program, work.problem, CUDA_TARGETS["sm_90"])
    chosen = [c.schedule for c in found if c.schedule.lists in ways.split()]
    for number, schedule in enumerate(chosen):
        check(x, k, seed=number, shift=shift, schedule=schedule)
    return len(chosen)


@fg.pipeline
def best(x, *, k):  # type: ignore[no-untyped-def]
    values, columns = fg.topk(x, k)
    return fg.max(x), values, columns


@pytest.mark.parametrize("n", [8, 16, 64, 128, 144, 160, 256, 288, 512])
@pytest.mark.parametrize("k", [1, 2, 3, 8, 10, 16, 64])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_experts(n: int, k: int, dtype: str) -> None:
    rng = np.random.default_rng(n + k)
    x = rng.standard_normal((5, n)).astype(rows_of("random", dtype, 8).dtype)
    assert check_all(x, min(k, n)) > 0


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_hard_rows(row: str, dtype: str) -> None:
    for k in (5, 16):
        assert check_all(rows_of(row, dtype, 288), k)
    assert check_all(rows_of(row, dtype, 1000), 64)
    assert check_all(rows_of(row, dtype, 1008), 128)
