"""Short rows that pass through shared memory, a band of neighbouring ones at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.cuda_cases import Case, assert_close, library_case
from support.emulated import EmulatedExecutable, emulated

import fusegen as fg
from fusegen.backend.cuda.schedule.assumptions import longest_row, shortest_row
from fusegen.backend.cuda.schedule.bands import Rows
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.target import CUDA_TARGETS
from fusegen.compile.passes import Work
from fusegen.pipeline.pipeline import Pipeline

FILL = 99  # every byte between rows
TOLERANCE = {"float32": 3e-6, "float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-12}


def band_of(case: Case, lanes: int, width: int = 1, passes: int = 2) -> tuple[Work, CudaSchedule]:
    """The schedule with so many lanes a row, of bands that short inputs have several of."""
    work = case.work(n_rows=100_000, aligned=width > 1)
    found = candidates(work.program, work.problem, CUDA_TARGETS["sm_90"])
    (one,) = (c.schedule for c in found if c.schedule.home.band_rows
              and (c.schedule.lanes, c.schedule.width) == (lanes, width))
    return work, one.having(home=replace(one.home, rows=passes * one.rows_per_block))


@emulated
@pytest.mark.parametrize(("name", "dtype", "n_cols", "shift", "lanes", "width", "n_rows"), [
    ("softmax", "float32", 35, 1, 8, 1, 77),  # bands of 32, the last of 13
    ("softmax", "bfloat16", 39, 1, 2, 1, 130),
    ("softmax", "float32", 32, 0, 2, 4, 300),
    ("rms_norm", "bfloat16", 48, 0, 2, 8, 129),
    ("layer_norm", "float32", 200, 3, 32, 1, 5),
    ("layer_norm", "float64", 20, 1, 2, 1, 100),
    ("cross_entropy", "float16", 35, 3, 4, 1, 70),  # takes elements by their columns
    ("var_mean", "float32", 2, 1, 1, 1, 300),
    ("weighted_mean", "float16", 45, 1, 16, 1, 40),  # two arrays
    ("absmax_quantize", "float32", 45, 2, 8, 1, 40),  # results of one byte
])
def test_rows_of_any_kind(
    name: str, dtype: str, n_cols: int, shift: int, lanes: int, width: int, n_rows: int
) -> None:
    case = library_case(name, n_rows, n_cols, dtype)
    _, one = band_of(case, lanes, width)
    assert_close(case.emulate(schedule=one, shift=shift, seed=n_cols), case.reference(),
                 TOLERANCE[dtype])


@emulated
@pytest.mark.parametrize(("n_cols", "width"), [(40, 1), (35, 1), (37, 1), (32, 4)])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_the_shortest_rows_that_a_kernel_takes(n_cols: int, width: int, lanes: int) -> None:
    """Lanes take for granted how many vectors they have, as far as all of these rows have them."""
    work, one = band_of(library_case("logsumexp", 1, n_cols, "float32"), lanes, width)
    least = -(-shortest_row(work.program, one) // width) * width
    assert least <= n_cols
    case = library_case("logsumexp", 70, max(least, 1), "float32")
    assert_close(case.emulate(schedule=one, seed=n_cols), case.reference(), 3e-6)


@fg.pipeline
def many_results(x, y, z, *, k):  # type: ignore[no-untyped-def]
    values, columns = fg.topk(x, k)
    return values, columns, fg.exp(y - fg.max(y)), z - fg.mean(z), x / fg.sum(x)


@fg.pipeline
def many_entries(x, y, z, *, k):  # type: ignore[no-untyped-def]
    values, columns = fg.topk(x, k)
    return (values, columns, *(fg.take(a, columns) * n for a in (y, z) for n in (1, 2, 3, 4)))


@fg.pipeline
def many_sums(x, y, z):  # type: ignore[no-untyped-def]
    return fg.sum(x), fg.sum(y * y), fg.var(z)


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90", "sm_120"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("pipeline", [many_results, many_entries, many_sums])
def test_bands_leave_room_for_another_block(pipeline: Pipeline, dtype: str, arch: str) -> None:
    """However many arrays rows have, and however many entries wait for those of neighbours."""
    target, counted = CUDA_TARGETS[arch], 0
    for n_cols in (24, 60, 77, 97, 128):
        x = np.zeros((1, n_cols), dtype)
        constants = {} if pipeline is many_sums else {"k": min(24, n_cols)}
        work = Case(pipeline, dict.fromkeys("xyz", x), 1, n_cols, constants).work(n_rows=100_000)
        for found in candidates(work.program, work.problem, target):
            if found.schedule.home.band_rows:
                counted += 1
                (launch,) = launches(work.program, found.schedule)
                assert launch.shared_bytes <= target.shared_per_block // 2
    lists = pipeline is not many_sums  # those of 64 bits are streamed
    assert counted > 0 or (lists and dtype == "float64")


@fg.pipeline
def two_results(x, y, b: fg.PerRow):  # type: ignore[no-untyped-def]
    s = x + y * b
    return s, fg.exp(s - fg.max(s)) / fg.sum(fg.exp(s - fg.max(s)))


def rows_in(values: np.ndarray, stride: int, shift: int) -> np.ndarray:
    """The same rows so many elements apart, the first `shift` after a boundary, among others'."""
    n_rows, n_cols = values.shape
    size = values.itemsize
    buffer = np.full(((n_rows - 1) * stride + n_cols + 32) * size, FILL, np.uint8)
    begin = -buffer.ctypes.data % 64 + shift * size
    found = np.ndarray(values.shape, values.dtype, buffer, begin, (stride * size, size))
    found[...] = values
    return found


@emulated
@pytest.mark.parametrize(("strides", "shift"), [
    ((35, 35, 35, 35), 1),  # one behind the other
    ((36, 40, 35, 43), 2),
    ((37, 0, 59, 35), 3),  # the same row each time
    ((1, 35, 64, 36), 0),  # a window that moves
])
def test_rows_apart(strides: tuple[int, ...], shift: int) -> None:
    """One kernel, whatever lies between rows: what is not theirs is not written."""
    n_rows, n_cols = 77, 35
    rng = np.random.default_rng(0)
    values = rng.standard_normal((4, n_rows, n_cols)).astype(np.float32)
    values[1, 1:] = values[1, 0] if strides[1] == 0 else values[1, 1:]
    b = rng.standard_normal(n_rows).astype(np.float32)
    case = Case(two_results, {"x": values[0], "y": values[1], "b": b}, n_rows, n_cols)
    work, one = band_of(case, 8)
    work = work.scheduled(one)
    params = [p for p in (*work.program.inputs, *work.program.outputs) if p.shape == "element"]
    arrays = {p.name: rows_in(v, s, shift + at) for at, (p, v, s)
              in enumerate(zip(params, values, strides, strict=True))}
    x, y = (np.array(arrays[p.name], np.float64) for p in params[:2])
    outputs = [arrays[p.name] for p in params[2:]]
    row = next(p.name for p in work.program.inputs if p.shape == "row")
    EmulatedExecutable(work.program, one, work.source, seed=1)({**arrays, row: b}, n_rows, n_cols)
    s = x + y * b[:, None]
    weights = np.exp(s - s.max(axis=1, keepdims=True))
    assert_close(tuple(outputs), (s, weights / weights.sum(axis=1, keepdims=True)), 3e-6)
    for found in outputs:
        found[...] = np.full(4, FILL, np.uint8).view(np.float32)[0]
        assert (found.base == FILL).all()


@pytest.mark.long
@pytest.mark.parametrize("n_cols", [2, 35, 128, 511])
def test_short_rows_off_alignment_come_in_bands(n_cols: int) -> None:
    case = library_case("softmax", 100_000, n_cols)
    work = case.work(aligned=False, in_phase=False)
    found = candidates(work.result("lower"), work.problem, work.target)
    one = next(c.schedule for c in found if c.schedule.home.band_rows)
    assert n_cols > 35 or work.schedule == one  # longer ones may be shifted in registers
    (launch,) = launches(work.program, one)
    assert launch.rows_per_block == one.home.band_rows
    assert launch.shared_bytes <= 48 * 1024
    assert shortest_row(work.program, one) <= n_cols <= (longest_row(one) or 0)


def test_rows_with_gaps_are_not_read_from_the_same_banks() -> None:
    """Rows that begin on vectors and do not end there lie whole vectors apart: of lanes with a row
    each, four or more wait for the same bank."""
    packed, gaps = (
        candidates(work.program, work.problem, CUDA_TARGETS["sm_90"])[0].schedule
        for work in (library_case("var_mean", 1, 35, "bfloat16").work(n_rows=400_000, aligned=lies)
                     for lies in (False, True)))
    assert packed.home.band_rows
    assert gaps.home.band_rows
    assert packed.lanes < gaps.lanes
    assert gaps.home.rows_apart == 1


@pytest.mark.parametrize(("n_cols", "gaps"), [(32, False), (40, False), (33, True), (36, True)])
def test_rows_of_whole_vectors_have_no_gaps(n_cols: int, gaps: bool) -> None:
    """Where an array of them begins inside a vector, and another does not, all of its rows do."""
    work = library_case("softmax", 1, n_cols, "float16").work(aligned=False, in_phase=False)
    rows = Rows.of(work.program, work.problem, n_cols)
    assert (rows.packed, rows.gaps) == (True, gaps)


def test_few_lanes_meet_in_few_banks() -> None:
    """Rows of 64 bytes begin in two places of the banks: with half as many of them at a time, that
    is a price."""
    work = library_case("rms_norm", 1, 32, "bfloat16").work(
        n_rows=594_713, aligned=False, in_phase=False)
    assert work.schedule.home.band_rows
    assert work.schedule.lanes == 8
