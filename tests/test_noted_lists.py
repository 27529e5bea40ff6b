"""Lists of an entry or two of rows that go by, whose threads note chunks, executed on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from support import nvrtc
from support.cases import best
from support.cuda_cases import Case, assert_close, library_case
from support.emulated import emulated
from test_cuda_topk import ROWS, check, every

from fusegen import library
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import Noted
from fusegen.backend.cuda.schedule.levels import Block, Grid
from fusegen.backend.cuda.schedule.select import candidates

compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


def noting(case: Case, threads: int, blocks: int, n_rows: int = 4, **phase: bool) -> CudaSchedule:
    """One that is offered for a few rows, with so many threads and blocks."""
    work = case.work(n_rows=n_rows, **phase)
    one = next(c.schedule for c in candidates(work.result("lower"), work.problem, work.target)
               if c.schedule.home.notes)
    return one.having(threads=threads, team=Grid(blocks) if blocks > 1 else Block(threads))


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "k", "dtype", "shift", "threads", "blocks"), [
    (9000, 1, "float32", 0, 64, 1),
    (9001, 2, "float32", 3, 128, 1),  # some elements stand beside whole vectors
    (9000, 2, "bfloat16", 0, 64, 3),
    (9003, 2, "float16", 1, 64, 5),
    (5000, 1, "bfloat16", 5, 64, 40),  # the last slices are empty
    (8300, 2, "float32", 1, 64, 60),
])
def test_hard_rows(n: int, k: int, dtype: str, shift: int, threads: int, blocks: int) -> None:
    """Whatever the values: all chunks may tie, or hold NaN."""
    x = every(ROWS, dtype, n)
    case = Case(best, {"x": x}, *x.shape, {"k": k})
    check(x, k, seed=n, shift=shift, schedule=noting(case, threads, blocks, aligned=shift == 0))


@emulated
@pytest.mark.parametrize("k", [1, 2])
def test_the_best_in_few_chunks(k: int) -> None:
    """Of one thread, of one warp, and of neighbours; ties stand in the order of columns."""
    rng = np.random.default_rng(k)
    x = rng.standard_normal((5, 9000)).astype("f4")
    x[0, 2048:2052] = 50  # one vector
    x[1, 100::1024] = 50  # one thread of 64, in every tile; ties
    x[2, 4096:4096 + 128] = np.arange(128) + 10.0  # a warp
    x[3, ::7] = 50
    x[4, 8000:] = 50
    case = Case(best, {"x": x}, *x.shape, {"k": k})
    check(x, k, schedule=noting(case, 64, 1))
    check(x, k, schedule=noting(case, 64, 2))


@emulated
@pytest.mark.parametrize("blocks", [1, 4])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_beside_a_softmax(dtype: str, blocks: int) -> None:
    case = library_case("softmax_topk", 3, 9001, dtype, k=2)
    got = case.emulate(shift=1, schedule=noting(case, 64, blocks, aligned=False))
    assert_close(got, case.reference(), 2e-6 if dtype == "float32" else 1e-2)


def test_where_it_is_offered() -> None:
    """Of few entries, of floats of up to 32 bits: a word says all of their order."""
    def offered(dtype: str, k: int) -> bool:
        x = every({"random": ROWS["random"]}, dtype, 70_000)
        case = Case(best, {"x": x}, *x.shape, {"k": k})
        work = case.work()
        return any(isinstance(c.schedule.home, Noted)
                   for c in candidates(work.result("lower"), work.problem, work.target))

    assert offered("float32", 1)
    assert offered("bfloat16", 2)
    assert not offered("float32", 3)
    assert not offered("float64", 1)
    assert not offered("int32", 1)


@compiled
@pytest.mark.parametrize(("dtype", "k", "rows"), [
    ("float32", 2, 2048), ("bfloat16", 1, 2048), ("float16", 2, 100),
])
def test_registers_and_time(dtype: str, k: int, rows: int) -> None:
    """No spills, room for 32 warps."""
    source = library.softmax_topk.source(
        target="sm_90", n_rows=rows, n_cols=150_001, dtype=dtype, k=k)
    assert "look_again(" in source
    found = nvrtc.compile_for(source, "sm_90")
    assert found.quick, found.seconds
    for report in found.reports:
        assert (report.spill_bytes, report.stack_bytes) == (0, 0)
        assert report.registers <= 64
