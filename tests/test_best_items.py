"""argmax and argmin of rows that are hard to rank, on the emulator: the value is found first, its
column after that, in every way in which rows come to registers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.cuda_cases import Case
from support.emulated import EMULATED
from support.strip_cases import StripCase

import fusegen as fg
from fusegen.backend.cuda.schedule.levels import Block, Grid
from fusegen.backend.cuda.schedule.select import candidates

pytestmark = EMULATED


@fg.pipeline
def columns(x):  # type: ignore[no-untyped-def]
    """Some of values that are folded as well, some not."""
    return fg.argmax(x), fg.argmin(x), fg.max(x), fg.sum(x)


def hard(rng: Any, n_cols: int, dtype: Any) -> Any:
    """Equals, zeros of both signs, infinities, NaN at the end, in the middle, all of them."""
    x = rng.integers(-3, 3, (9, n_cols)).astype("f8")
    x[1] = np.where(rng.random(n_cols) < 0.5, 0.0, -0.0)
    x[2], x[3] = -np.inf, np.inf
    x[4, n_cols // 2] = x[4, -1] = np.nan
    x[5, -1] = np.nan
    x[6] = np.nan
    x[7, n_cols // 3 :] = np.inf
    x[8] = np.sort(rng.normal(size=n_cols))
    return x.astype(dtype)


def wanted(x: Any) -> tuple[Any, Any]:
    """NumPy's: the first NaN, or the first of the best."""
    found = x.astype("f8")
    return np.argmax(found, -1), np.argmin(found, -1)


def case_of(n_cols: int, dtype: str) -> Case:
    x = hard(np.random.default_rng(n_cols), n_cols, getattr(ml_dtypes, dtype, dtype))
    return Case(columns, {"x": x}, len(x), n_cols)


def right(case: Case, results: Any) -> None:
    for found, want in zip(results, wanted(case.inputs["x"]), strict=False):
        np.testing.assert_array_equal(found, want)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize(("n_cols", "shift"), [
    (1, 0), (7, 1), (33, 0), (70, 3), (300, 0), (1027, 1), (9001, 0)])
def test_rows(n_cols: int, shift: int, dtype: str) -> None:
    case = case_of(n_cols, dtype)
    right(case, case.emulate(shift=shift))


@fg.pipeline
def statistics(x):  # type: ignore[no-untyped-def]
    """States of many members, whose rows may go by a warp each."""
    total = fg.logsumexp(x)
    return fg.argmax(x), fg.argmin(x), total - fg.sum(fg.exp(x - total) * x), fg.var(x)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("n_cols", "shift"), [(300, 0), (1027, 1), (2600, 0)])
def test_every_schedule(n_cols: int, shift: int, dtype: str) -> None:
    case = case_of(n_cols, dtype)
    case = Case(statistics, case.inputs, case.n_rows, n_cols)
    work = case.work(n_rows=100_000, aligned=shift == 0)
    found = [c.schedule for c in candidates(work.program, work.problem, work.target)]
    assert n_cols < 1000 or any(s.in_warp and not s.home.keeps for s in found)
    for schedule in found:
        right(case, case.emulate(shift=shift, schedule=schedule, aligned=shift == 0))


@pytest.mark.parametrize("choices", [{"chunk": 1}, {"n_rows": 2}, {"form": "unfused"}])
def test_rows_in_parts(choices: dict[str, Any]) -> None:
    """One element at a time; over blocks; by a kernel for each."""
    case = case_of(70_001 if "n_rows" in choices else 3000, "float32")
    right(case, case.emulate(**choices))


def scattered(n_cols: int, dtype: str) -> Case:
    """The best two or three times, a thread's chunks apart, neighbours, in the first vector and in
    the last; what comes before is worse, worse still, or the type's least."""
    x = np.random.default_rng(n_cols).normal(size=(12, n_cols))
    x[6:9] = -np.inf
    last = n_cols - 1
    places = [(0, last), (last,), (last - 1, last), (n_cols // 2, n_cols // 2 + 1), (5000, 9096),
              (4097, 4096), (7,), (last - 9, last), (0, 4096, 8192), (1, 2, 3), (8, 4104), (9003,)]
    for row, (at, best) in enumerate(zip(places, [9.0, np.inf, np.nan] * 4, strict=True)):
        x[row, list(at)] = best
    return Case(columns, {"x": x.astype(getattr(ml_dtypes, dtype, dtype))}, len(x), n_cols)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("team", [Block, Grid])
def test_the_first_of_equals_far_apart(team: type, dtype: str) -> None:
    """Threads know which of their chunks has the best before they know where it is."""
    case = scattered(40_003, dtype)
    work = case.work(n_rows=2, aligned=False)
    one = next(c.schedule for c in candidates(work.program, work.problem, work.target)
               if isinstance(c.schedule.team, team) and not c.schedule.home.keeps)
    for shift in (0, 3):
        right(case, case.emulate(shift=shift, schedule=one))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_side_by_side(dtype: str) -> None:
    case = case_of(300, dtype)
    strips = StripCase(case, 3)
    right(case, strips.emulate(pick=lambda found: next(
        s for s in found if s.blocks <= 16 and s.blocks * s.threads <= 8192)))
