"""Rows that lanes of a warp hold: pivots are known before sums, exponentials are kept, lanes finish
a row each; against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.algebra_cases import ACCEPTED
from support.cuda_cases import Case, accepted_case, assert_close_sums
from support.emulated import EMULATED
from support.short_rows import case_of

from fusegen.backend.cuda.emit.source import cuda_source
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import Registers
from fusegen.backend.cuda.schedule.levels import Block, Cluster
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.compile.passes import Work

pytestmark = EMULATED
TOLERANCE = {"float32": 2e-5, "bfloat16": 1.6e-2, "float16": 3e-3, "float64": 1e-10}


def held(work: Work, lanes: int, band: bool) -> CudaSchedule:
    """The schedule whose lanes hold a row, in a band or not."""
    return next(c.schedule for c in candidates(work.program, work.problem, work.target)
                if c.schedule.in_warp and c.schedule.lanes == lanes
                and bool(c.schedule.home.band_rows) == band)


def _has_levels(name: str) -> bool:
    """Has it sums about pivots that are made of other sums?"""
    program = ACCEPTED[name].work(target="sm_90").typed.program()
    return any(len(s.monoid.levels) > 1 for s in program.sweeps)


@pytest.mark.long
@pytest.mark.parametrize("band", [True, False])
@pytest.mark.parametrize("name", [n for n in ACCEPTED if _has_levels(n)])
def test_pivots_that_are_made_of_sums(name: str, band: bool) -> None:
    """Each level's sums are made in a function of its own, which knows earlier pivots."""
    case = accepted_case(name, 40, 50)
    work = case.work(n_rows=100_000, aligned=False)
    assert_close_sums(case.emulate(schedule=held(work, 8, band)), case.reference(), 3e-5)


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
    ("residual", "float16", 130, 1, 4, True),
    ("residual", "float32", 101, 0, 8, False),
    ("residual", "bfloat16", 301, 3, 16, False),
    ("residual", "bfloat16", 700, 1, 32, False),
    ("beside", "float32", 101, 0, 8, False),
])
def test_hard_rows(
    name: str, dtype: str, n_cols: int, shift: int, lanes: int, band: bool
) -> None:
    case = case_of(name, 45, n_cols, dtype)
    work = case.work(n_rows=100_000, aligned=shift == 0 and n_cols % 8 == 0)
    agrees(case, held(work, lanes, band), shift, dtype)


@pytest.mark.parametrize(("dtype", "n_cols", "shift", "team"), [
    ("float16", 1100, 1, Block), ("float32", 700, 0, Block), ("bfloat16", 2001, 3, Cluster),
])
def test_a_value_of_several_arrays_is_kept(dtype: str, n_cols: int, shift: int, team: type) -> None:
    """By the threads of blocks and of clusters, too: later sweeps do not look at the arrays."""
    case = case_of("residual", 12, n_cols, dtype)
    work = case.work(n_rows=100, aligned=shift == 0 and n_cols % 8 == 0)
    one = next(c.schedule for c in candidates(work.program, work.problem, work.target)
               if isinstance(c.schedule.team, team) and c.schedule.home == Registers())
    assert "sweep2_map(" in (text := cuda_source(work.program, one).text())
    assert "x_items" not in text[text.index("sweep2_map(") : text.index("__global__")]
    agrees(case, one, shift, dtype)


def agrees(case: Case, one: CudaSchedule, shift: int, dtype: str, **lies: Any) -> None:
    """With NumPy's reading of the text."""
    with np.errstate(all="ignore"):
        wanted = case.reference()
    for found, want in zip(case.emulate(schedule=one, shift=shift, **lies), wanted,
                           strict=True):
        if found.dtype == np.int64:
            np.testing.assert_array_equal(found, want)
        else:
            size = 1 + np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)))
            np.testing.assert_allclose(found.astype("f8") / size, want.astype("f8") / size,
                                       rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("name", "dtype", "n_cols", "lanes"), [
    ("shares", "float16", 33, 8), ("residual", "bfloat16", 47, 16), ("shares", "bfloat16", 21, 32)])
def test_few_elements_are_read_one_by_one(
    name: str, dtype: str, n_cols: int, lanes: int
) -> None:
    """Short rows of arrays that lie differently are also offered without shared memory."""
    case = case_of(name, 37, n_cols, dtype)
    work = case.work(n_rows=100_000, aligned=False, in_phase=False)
    one = held(work, lanes, band=False)
    assert (one.load, one.width) == ("scalar", 1)
    agrees(case, one, 1, dtype, apart=3, in_phase=False)
