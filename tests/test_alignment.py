"""Rows of arrays of several types, which all begin on a vector's boundary and do not end there."""

from __future__ import annotations

import numpy as np
import pytest
from support.cuda_cases import Case, assert_close
from support.emulated import EmulatedExecutable, emulated

import fusegen as fg
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.target import CUDA_TARGETS
from fusegen.ir.kernel import Param
from fusegen.pipeline.pipeline import Pipeline

VECTOR = 16  # bytes


@fg.pipeline
def statistics(x, y):  # type: ignore[no-untyped-def]
    return fg.sum(x), fg.max(y)


@fg.pipeline
def rows(x, y):  # type: ignore[no-untyped-def]
    return x - fg.mean(x), y / fg.max(fg.abs(y))


@fg.pipeline
def listed(x, y):  # type: ignore[no-untyped-def]
    return fg.sum(x), *fg.topk(y, 3)


def on_boundaries(values: np.ndarray, columns: int) -> np.ndarray:
    """The same values, `columns` from row to row, which is a whole number of vectors."""
    n_rows, n_cols = values.shape
    size = values.dtype.itemsize
    assert columns * size % VECTOR == 0
    raw = np.full(n_rows * columns * size + VECTOR, 99, np.uint8)
    there = np.ndarray((n_rows, n_cols), values.dtype, raw, -raw.ctypes.data % VECTOR,
                       (columns * size, size))
    there[...] = values
    return there


def results(param: Param, n_cols: int) -> np.ndarray:
    """Where results go."""
    if param.shape == "element":
        return on_boundaries(np.zeros((8, n_cols), param.dtype.numpy), n_cols + 64 - n_cols % 16)
    return np.zeros((8, 3) if param.shape == "list" else 8, param.dtype.numpy)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("n_cols", [41, 2001])
@pytest.mark.parametrize("pipeline", [statistics, rows, listed])
@pytest.mark.parametrize(("x_type", "y_type"), [
    ("float64", "float32"), ("float32", "float16"), ("float16", "float64")])
def test_wide_elements_beside_narrow_ones(
    pipeline: Pipeline, n_cols: int, x_type: str, y_type: str
) -> None:
    """A vector of the narrow ones takes two accesses, or four, of the wide ones, whose rows may
    begin at any of these."""
    rng = np.random.default_rng(n_cols)
    values = {n: rng.standard_normal((8, n_cols)).astype(t) for n, t in
              (("x", x_type), ("y", y_type))}
    case = Case(pipeline, values, 8, n_cols)
    work = case.work(n_rows=100_000, aligned=True)
    found = candidates(work.result("lower"), work.problem, CUDA_TARGETS["sm_90"])
    peeled = {(s.home.kind, s.team_threads, s.lists, s.blocks > 1): s
              for s in (c.schedule for c in found) if s.load == "peeled"}
    assert peeled
    odd = {n: n_cols + 16 // v.itemsize - n_cols % (16 // v.itemsize) for n, v in values.items()}
    x, y = (on_boundaries(v, odd[n]) for n, v in values.items())
    for schedule in peeled.values():
        one = work.scheduled(schedule)
        outputs = {p.name: results(p, n_cols) for p in one.program.outputs}
        EmulatedExecutable(one.program, schedule, one.source, seed=1)(
            {"x": x, "y": y, **outputs}, 8, n_cols)
        assert_close(tuple(outputs.values()), case.reference(), 2e-3)
