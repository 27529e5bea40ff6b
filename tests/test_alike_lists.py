"""Lists that differ in numbers of the row alone share one text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import nvrtc
from support.cuda_cases import Case, section_lists_case
from support.emulated import emulated

import fusegen as fg
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.target import CUDA_TARGETS

INF = float("inf")


def below(x: Any) -> Any:
    """The three greatest below each of five numbers."""
    mean = fg.mean(x)
    bars = [mean + step for step in (2.0, 1.0, 0.5, 0.25, 0.0)]
    return tuple(v for b in bars for v in fg.topk(fg.where(x < b, x, -INF), 3))


def shifted(x: Any) -> Any:
    """Likewise of what one of the numbers has been taken from: it is not the list's alone."""
    bars = [fg.mean(x) * step for step in (1.0, 2.0, 3.0, 4.0)]
    y = x - bars[0]
    return tuple(v for b in bars for v in fg.topk(fg.where(y < b, y, -INF), 3))


def several(x: Any) -> Any:
    """Four of one length, then two of another."""
    mean = fg.mean(x)
    longer = [fg.topk(fg.where(x < mean + s, x, -INF), 5) for s in (1.0, 0.5)]
    same = [fg.topk(fg.where(x < mean + s, x, -INF), 2) for s in (4.0, 3.0, 2.0, 1.5)]
    return tuple(v for pair in (*same, *longer) for v in pair)


def beside_others(x: Any) -> Any:
    """Five, then two of the same length that differ in more than numbers."""
    mean = fg.mean(fg.where(fg.isfinite(x), x, 0.0))
    bars = [mean + step for step in (0.0, 1.0, 2.0, 3.0, 4.0)]
    found = [fg.topk(fg.where(x < b, x, -INF), 3) for b in bars]
    above = fg.topk(fg.where(x > mean, x, -INF), 3)
    return tuple(v for pair in (*found, above, fg.topk(x, 3)) for v in pair)


def want(name: str, x: np.ndarray) -> list[np.ndarray]:
    """By sorting, in float64."""
    x = x.astype(np.float64)
    mean = x.mean(axis=1, keepdims=True)
    lists = {
        "below": [(x, mean + s, 3) for s in (2.0, 1.0, 0.5, 0.25, 0.0)],
        "shifted": [(x - mean, mean * s, 3) for s in (1.0, 2.0, 3.0, 4.0)],
        "beside_others": [(x, mean + s, 3) for s in (0.0, 1.0, 2.0, 3.0, 4.0)]
        + [(np.where(x > mean, x, -np.inf), INF, 3), (x, INF, 3)],
        "several": [(x, mean + s, 2) for s in (4.0, 3.0, 2.0, 1.5)]
        + [(x, mean + s, 5) for s in (1.0, 0.5)],
    }[name]
    found = []
    for values, bar, k in lists:
        kept = np.where(values < bar, values, -np.inf)
        columns = np.argsort(-kept, axis=1, kind="stable")[:, :k]
        found += [np.take_along_axis(kept, columns, axis=1), columns]
    return found


TEXTS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "below": (below, 5), "shifted": (shifted, 0), "several": (several, 4),
    "beside_others": (beside_others, 5)}


def collected(case: Case) -> list[CudaSchedule]:
    work = case.work(n_rows=4000, aligned=case.n_cols % 8 == 0)
    found = {(s.team.said, s.vectors): s for s in (c.schedule for c in candidates(
        work.result("lower"), work.problem, CUDA_TARGETS["sm_90"])) if s.lists == "collected"}
    assert found
    return [*found.values()]


@pytest.mark.long
@emulated
@pytest.mark.parametrize("n_cols", [640, 1733])
@pytest.mark.parametrize("name", [*TEXTS])
def test_lists_of_one_text(name: str, n_cols: int) -> None:
    text, alike = TEXTS[name]
    rng = np.random.default_rng(n_cols)
    # Quarters: means and bars are the same in every order of summing, and many values are equal.
    x = (rng.integers(-40, 60, (3, n_cols)) / 4).astype("float32")
    case = Case(fg.pipeline(text), {"x": x}, 3, n_cols)
    for schedule in collected(case):
        source = case.work(n_rows=4000, aligned=n_cols % 8 == 0).scheduled(schedule).source
        shared = re.findall(r"// (\d+) lists that differ", source)
        assert shared == ([str(alike)] if alike and schedule.blocks == 1 else [])
        got = case.emulate(schedule=schedule, seed=n_cols)
        for mine, its in zip(got, want(name, x), strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-6, atol=1e-5)


@pytest.mark.long
@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_many_lists_compile_in_time(dtype: str) -> None:
    """Two of each eighth of a thousand, eight of all: nine lists took compilers 18 seconds."""
    work = section_lists_case(1024, dtype).work(n_rows=4000)
    assert "// 8 lists that differ" in work.source
    found = nvrtc.compile_for(work.source, "sm_90")
    assert found.within(4.0), found.seconds
    assert all(report.spill_bytes == 0 for report in found.reports)
