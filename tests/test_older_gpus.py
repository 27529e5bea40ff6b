"""What is offered for GPUs before Ampere: they have no copies to shared memory that run beside
threads, no barriers that count these, and no reductions of a warp."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support import nvrtc
from support.cuda_cases import library_case

from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.cuda.schedule.strips import strip_candidates
from fusegen.compile.passes import Work

NAMES = ["softmax", "layer_norm", "rms_norm", "entropy", "var_mean", "topk", "softmax_topk"]
NEWER = re.compile(r"cp\.async|redux\.sync|mbarrier|__cluster")
LIES = [(64, True, True), (333, False, True), (333, False, False), (4096, True, True),
        (4097, False, False), (200_001, False, True)]


def works(name: str, dtype: str) -> Iterator[Work]:
    """Every schedule that is offered, of rows of several lengths that lie otherwise."""
    for n_cols, aligned, in_phase in LIES:
        for n_rows in (100_000, 3):
            work = library_case(name, 1, n_cols, dtype).work(
                n_rows=n_rows, aligned=aligned, in_phase=in_phase, arch="sm_75")
            found = candidates(work.program, work.problem, work.target)
            yield from {c.schedule.shape: work.scheduled(c.schedule) for c in found}.values()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_sources_ask_for_nothing_newer(name: str, dtype: str) -> None:
    found = [*works(name, dtype)]
    assert len(found) > len(LIES)
    for work in found:
        assert not NEWER.search(work.source), work.schedule.describe()


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in NAMES if "topk" not in n])
def test_strips_ask_for_nothing_newer(name: str) -> None:
    work = library_case(name, 1, 4096).work(n_rows=4096, arch="sm_75")
    work = replace(work, problem=replace(work.problem, inner=1024))
    found = [*strip_candidates(work.result("lower"), work.problem, work.target, None)]
    assert found
    for one in found:
        assert not NEWER.search(work.scheduled(one.schedule).source), one.schedule.describe()


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_machine_code_is_made(name: str) -> None:
    for n_cols in (4096, 4097):
        work = library_case(name, 1, n_cols, "float16").work(
            n_rows=100_000, aligned=n_cols % 8 == 0, arch="sm_75")
        assert nvrtc.valid_for(work.source, "sm_75").reports
