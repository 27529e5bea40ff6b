"""Rows that lanes of a warp hold: pivots are known before sums, exponentials are kept, lanes finish
a row each; against float64."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulated import EMULATED
from support.short_rows import case_of

from fusegen.backend.cuda.schedule.select import candidates

pytestmark = EMULATED
TOLERANCE = {"float32": 2e-5, "bfloat16": 1.6e-2, "float16": 3e-3, "float64": 1e-10}


@pytest.mark.parametrize(("name", "dtype", "n_cols", "shift", "lanes", "band"), [
    ("statistics", "bfloat16", 66, 1, 4, True),
    ("statistics", "float32", 33, 0, 2, True),
    ("statistics", "float64", 20, 1, 8, True),
    ("statistics", "float16", 129, 0, 16, False),  # edges on both sides
    ("statistics", "float32", 200, 0, 32, False),
    ("statistics", "bfloat16", 700, 3, 16, False),  # more items than are kept unpacked
    ("shares", "float16", 130, 1, 4, True),
    ("shares", "float32", 64, 0, 8, True),
    ("shares", "bfloat16", 99, 0, 16, False),
    ("shares", "float32", 101, 0, 8, False),
])
def test_hard_rows(
    name: str, dtype: str, n_cols: int, shift: int, lanes: int, band: bool
) -> None:
    case = case_of(name, 45, n_cols, dtype)
    work = case.work(n_rows=100_000, aligned=shift == 0 and n_cols % 8 == 0)
    one = next(c.schedule for c in candidates(work.program, work.problem, work.target)
               if c.schedule.in_warp and c.schedule.lanes == lanes
               and bool(c.schedule.home.band_rows) == band)
    with np.errstate(all="ignore"):
        wanted = case.reference()
    for found, want in zip(case.emulate(schedule=one, shift=shift), wanted, strict=True):
        if found.dtype == np.int64:
            np.testing.assert_array_equal(found, want)
        else:
            size = 1 + np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)))
            np.testing.assert_allclose(found.astype("f8") / size, want.astype("f8") / size,
                                       rtol=0, atol=TOLERANCE[dtype])
