"""How many instructions a schedule is said to take, beside those that ptxas makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import nvrtc
from support.cuda_cases import Case, library_case
from support.sass import loop_sizes
from support.short_rows import TEXTS, case_of

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.instructions import effort, issue_seconds
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.compile.passes import Work

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason=str(nvrtc.available()))


def band(work: Work, lanes: int) -> CudaSchedule:
    """Of several passes, which are a loop."""
    one = next(c.schedule for c in candidates(work.program, work.problem, work.target)
               if c.schedule.home.band_rows and c.schedule.lanes == lanes
               and c.schedule.width == 1)
    return one.having(home=replace(one.home, rows=3 * one.rows_per_block, apart=1))


@pytest.mark.parametrize(("name", "dtype", "n_cols", "slack"), [
    ("statistics", "bfloat16", 153, 0.26),  # a sum about two pivots takes more than is said
    ("shares", "float16", 150, 0.25), ("softmax", "float32", 290, 0.25),
    ("rms_norm", "bfloat16", 131, 0.25), ("entropy", "float16", 171, 0.25),
    ("log_softmax", "float32", 130, 0.25),
])
def test_elements_take_what_is_said(name: str, dtype: str, n_cols: int, slack: float) -> None:
    """A step of a band: all of it, and what an element more adds. The model counts copies to
    shared memory as well, which are no part of the loop."""
    case: Case = case_of(name, 8, n_cols, dtype) if name in TEXTS else (
        library_case(name, 1, n_cols, dtype))
    work = case.work(n_rows=100_000, aligned=False, in_phase=False)
    counted = {}
    for lanes in (8, 16):
        one = band(work, lanes)
        said = effort(work.program, one)
        copied = sum(p.dtype.itemsize * (8 if p.output else 6) / 16
                     for p in work.program.kernels[0].elements)
        counted[one.items] = (loop_sizes(work.scheduled(one).source)[0],
                              one.items * (said.item - copied) + said.row
                              + (said.finish if said.finish > 10 else 0))
    (few, (least, said_least)), (many, (most, said_most)) = sorted(counted.items())
    assert said_most == pytest.approx(most, rel=0.25)
    slope, said_slope = (most - least) / (many - few), (said_most - said_least) / (many - few)
    assert said_slope == pytest.approx(slope, rel=slack), (counted)


def test_the_least_does_not_depend_on_the_schedule() -> None:
    work = library_case("softmax", 1, 300, "bfloat16").work(n_rows=50_000)
    found = {issue_seconds(work.program, c.schedule, 10**7)
             for c in candidates(work.program, work.problem, work.target)}
    assert len(found) == 1
    lists = library_case("topk", 1, 300).work()
    assert issue_seconds(lists.program, lists.schedule, 10**7) is None
