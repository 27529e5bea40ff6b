"""What all rows share is asked for while states meet, where threads have registers for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cuda_cases import Case, assert_close, library_case
from support.emulated import emulated

import fusegen as fg
from fusegen.backend.cuda.schedule.on_chip import asks_before
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.compile.passes import Work


@fg.pipeline
def read_twice(x, w: fg.PerColumn, v: fg.PerColumn):  # type: ignore[no-untyped-def]
    """w by the first and the last of three sweeps, v by the last two."""
    y = x - fg.max(x * w)
    z = fg.abs(y) / fg.sum(fg.exp(y * v))
    return z * w + fg.max(z * z * v) * v


def cases(n_cols: int, dtype: str) -> list[Case]:
    rng = np.random.default_rng(n_cols)
    x, w, v = (rng.standard_normal(shape).astype(dtype) for shape in ((3, n_cols), n_cols, n_cols))
    norms = [library_case(name, 3, n_cols, dtype) for name in ("rms_norm", "layer_norm")]
    return [*norms, Case(read_twice, {"x": x, "w": w, "v": v}, 3, n_cols)]


def asked(work: Work, schedule: Any) -> set[str]:
    (kernel,) = work.program.kernels
    return {p.name for sweep in kernel.sweeps for name in sweep.streams
            if asks_before(p := kernel.param(name), sweep, kernel, schedule)}


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n_cols", "aligned"), [(96, True), (515, False), (1000, True)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_results_do_not_depend_on_it(n_cols: int, aligned: bool, dtype: str) -> None:
    early = 0
    for case in cases(n_cols, dtype):
        work = case.work(n_rows=4000, aligned=aligned)
        found = [c.schedule for c in candidates(work.program, work.problem, work.target)]
        for schedule in found[:4]:
            early += bool(asked(work, schedule))
            assert_close(case.emulate(schedule=schedule), case.reference(), 2e-2)
    assert early


def test_it_is_asked_for_before_states_meet() -> None:
    """Of rows of warps, and of those of blocks that have one such array."""
    for name, n_cols, of_warps, expected in (
            ("layer_norm", 512, True, {"weight", "bias"}), ("rms_norm", 4096, False, {"weight"}),
            ("layer_norm", 4096, False, set())):
        work = library_case(name, 1, n_cols, "bfloat16").work(n_rows=4000)
        schedule = next(c.schedule for c in candidates(work.program, work.problem, work.target)
                        if c.schedule.in_warp == of_warps and c.schedule.home.threads_keep
                        and c.schedule.vectors <= 4)
        assert asked(work, schedule) == expected
        text = work.scheduled(schedule).source.split("using namespace fusegen;")[1]
        meets = min(at for call in ("lanes_reduce<", "block_reduce<", "lanes_sums", "::known<")
                    if (at := text.find(call)) >= 0)
        for weight in ("weight", "bias"):
            if (at := text.find(f"load_items({weight}_items")) >= 0:
                assert (at < meets) == (weight in expected)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_bands_ask_once(name: str) -> None:
    """Lanes that own rows one after the other keep what these share, if that is few elements."""
    work = library_case(name, 1, 45, "float16").work(n_rows=500_000, aligned=False)
    bands = [c.schedule for c in candidates(work.program, work.problem, work.target)
             if c.schedule.home.band_rows]
    every = {"weight", "bias"} if name == "layer_norm" else {"weight"}
    for schedule in bands:
        few = schedule.items * len(every) <= 32
        assert asked(work, schedule) == (every if few else set())
        text = work.scheduled(schedule).source.split("using namespace fusegen;")[1]
        loop = text.index("for (int step = 0;")
        for array in every:
            at = text.index(f"load_items({array}_items")
            assert (at < loop) == few
            assert text.count(f"load_items({array}_items") == 1
    assert {s.lanes for s in bands if s.items * len(every) <= 32}


@pytest.mark.long
@emulated
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rows", [1, 37, 131])
def test_rows_of_bands_in_turns(dtype: str, rows: int) -> None:
    """Several turns of a block, the last of fewer rows; rows apart from one another; arrays that
    two sweeps read."""
    rng = np.random.default_rng(rows)
    x, w, v = (rng.standard_normal(shape).astype(dtype) for shape in ((rows, 45), 45, 45))
    case = Case(read_twice, {"x": x, "w": w, "v": v}, rows, 45)
    for aligned in (False, True):
        work = case.work(n_rows=500_000, aligned=aligned)
        bands = [c.schedule for c in candidates(work.program, work.problem, work.target)
                 if c.schedule.home.band_rows and asked(work, c.schedule) == {"w", "v"}]
        assert bands
        for schedule in bands[:3]:
            assert_close(case.emulate(schedule=schedule), case.reference(), 2e-2)
            apart = case.emulate(schedule=schedule, apart=5)
            assert_close(apart, case.reference(), 2e-2)
