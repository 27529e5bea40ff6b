"""Rows side by side on a real GPU: read where they lie, in every kind of schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.cuda_cases import assert_close, assert_close_sums
from support.strip_cases import StripCase, strip_case

import fusegen as fg
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.compile.passes import Work
from fusegen.pipeline.call import run_on

pytestmark = pytest.mark.gpu

NAMES = ("softmax", "logsumexp", "var_mean", "layer_norm", "rms_norm", "argmax", "cross_entropy")
SHAPES = (  # outer, columns, inner
    (1, 4096, 4096), (1, 32768, 1024), (3, 1009, 33), (2, 70_000, 8), (700, 64, 40),
    (1, 5, 100_003), (1, 300_000, 4), (40, 2048, 2), (2, 3, 5200), (5, 43, 2048),
)
STEP = {"float32": 4e-6, "float16": 2e-3, "float64": 1e-11}
TYPED = [*((n, "float32") for n in NAMES), ("softmax", "float16"), ("var_mean", "float64")]


@pytest.fixture
def picked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[CudaSchedule]]:
    """Schedules of the executables that are made."""
    found: list[CudaSchedule] = []
    made = Work.executable

    def seen(work: Work) -> Any:
        found.append(work.schedule)
        return made(work)

    monkeypatch.setattr(Work, "executable", seen)
    return found


def call(case: StripCase, **options: Any) -> tuple[np.ndarray, ...]:
    """Rows first. The second call is one that is remembered."""
    import cupy

    inputs = [cupy.asarray(_as_called(a, n, case)) for n, a in case.case.inputs.items()]
    for _ in range(2):
        found = case.case.pipeline(*inputs, axis=1, **case.case.constants, **options)
    found = found if isinstance(found, tuple) else (found,)
    return tuple(_rows_first(cupy.asnumpy(f), case) for f in found)


def _as_called(array: np.ndarray, name: str, case: StripCase) -> np.ndarray:
    if array.ndim == 2:
        return case.laid_out(array)
    return array.reshape(case.outer, case.inner) if name == "labels" else array


def _rows_first(array: np.ndarray, case: StripCase) -> np.ndarray:
    if array.ndim == 2:
        return array.reshape(-1)
    return np.moveaxis(array, 1, 2).reshape(case.case.n_rows, case.case.n_cols)


@pytest.mark.parametrize(("name", "dtype"), TYPED)
def test_sizes(name: str, dtype: str, picked: list[CudaSchedule]) -> None:
    for outer, n_cols, inner in SHAPES:
        case = strip_case(name, outer, n_cols, inner, dtype)
        # Elements near the mean of a short row are differences.
        compare = assert_close_sums if name == "layer_norm" else assert_close
        compare(call(case), case.case.reference(), STEP[dtype])
    assert picked
    assert all(one.strip is not None for one in picked)


@pytest.mark.parametrize("name", ["softmax", "var_mean"])
def test_every_kind_of_schedule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for outer, n_cols, inner in ((1, 4096, 4096), (3, 5003, 36)):
        case = strip_case(name, outer, n_cols, inner)
        want = case.case.reference()
        kinds: dict[tuple[Any, ...], CudaSchedule] = {}
        for one in case.schedules(case.work([case.laid_out(case.case.inputs["x"])])):
            kinds.setdefault((*one.kind, one.tiers.rest), one)
        assert len(kinds) > 2
        for one in kinds.values():
            pipeline = fg.Pipeline(case.case.pipeline.fn)
            made = Work.executable

            def forced(work: Work, one: CudaSchedule = one, made: Any = made) -> Any:
                return made(work.scheduled(one))

            with monkeypatch.context() as during:
                during.setattr(Work, "executable", forced)
                again = replace(case, case=replace(case.case, pipeline=pipeline))
                assert_close(call(again), want, 4e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "var_mean"])
def test_every_contestant_agrees(name: str, dtype: str) -> None:
    """Rows that threads own alone among them, the last chunk of which is not whole."""
    import cupy

    for outer, n_cols, inner in ((2, 3, 1360), (3, 43, 2048), (1, 700, 4096)):
        case = strip_case(name, outer, n_cols, inner, dtype)
        inputs = [cupy.asarray(_as_called(a, n, case)) for n, a in case.case.inputs.items()]
        p = fg.Pipeline(case.case.pipeline.fn)
        prepared = p.prepare(inputs, case.case.constants, axis=1)
        work, tuned = prepared.tune()
        assert work.schedule.strip is not None
        assert [t.note for t in tuned.timings if t.seconds is None] == []
        run_on(work.executable(), prepared.layout)
        found = prepared.hand_back()
        found = found if isinstance(found, tuple) else (found,)
        got = tuple(_rows_first(cupy.asnumpy(f), case) for f in found)
        assert_close_sums(got, case.case.reference(), STEP[dtype])
