"""Top-K lists of short rows, which lanes of a warp sort, count or deal, executed on the CPU."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pytest
from support import nvrtc
from support.cuda_cases import Case, assert_close, library_case
from support.emulated import emulated
from support.pairs import pairwise
from test_cuda_topk import ROWS, best, check, every, rows_of

import fusegen as fg
from fusegen import library
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.target import CUDA_TARGETS
from fusegen.ir.dtypes import dtype_of
from fusegen.pipeline.pipeline import Pipeline

compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


def short_schedules(case: Case, shift: int = 0, form: str = "online") -> list[CudaSchedule]:
    """The schedules of lanes that sort or count: of each way, the one with the fewest and the one
    with the most threads to a row."""
    kinds: dict[Hashable, list[CudaSchedule]] = {}
    for one in sorted(all_short(case, shift, form), key=lambda s: s.team_threads):
        kinds.setdefault((one.lists, one.home.kind, one.width, one.in_warp), []).append(one)
    return [one for same in kinds.values() for one in dict.fromkeys((same[0], same[-1]))]


def all_short(case: Case, shift: int = 0, form: str = "online") -> list[CudaSchedule]:
    """All of them."""
    widths = {a.dtype.itemsize for a in case.inputs.values()}
    aligned = shift == 0 and all(case.n_cols * w % 16 == 0 for w in widths)
    work = case.work(form, n_rows=100_000, aligned=aligned)
    found = candidates(work.result("lower"), work.problem, CUDA_TARGETS["sm_90"])
    return [c.schedule for c in found if c.schedule.lists != "streamed"]


def check_all(x: np.ndarray, k: int, shift: int = 0) -> None:
    found = short_schedules(Case(best, {"x": np.asarray(x)}, *x.shape, {"k": k}), shift)
    assert found
    for number, schedule in enumerate(found):
        check(x, k, seed=number, shift=shift, schedule=schedule)


def normal(n_rows: int, n_cols: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(n_cols)
    return rng.standard_normal((n_rows, n_cols)).astype(dtype_of(dtype).numpy)


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "k", "dtype"), pairwise(
    [8, 16, 64, 144, 256, 288, 512], [1, 3, 8, 16, 64], ["bfloat16", "float32"]))
def test_experts(n: int, k: int, dtype: str) -> None:
    """Lanes that hold one element, several, and some of them one more; lists of one, of an odd
    number, of networks' lengths, and of more than a lane's elements."""
    check_all(normal(5, n, dtype), min(k, n))


@pytest.mark.long
@emulated
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(("n", "k"), [(288, 5), (288, 16), (1000, 64), (1008, 128)])
def test_hard_rows(n: int, k: int, dtype: str) -> None:
    check_all(every(ROWS, dtype, n), k)


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "k", "dtype"), [
    (28, 28, "bfloat16"), (48, 48, "float32"), (335, 193, "float16"), (540, 280, "float32"),
    (1211, 569, "float32")])
def test_lists_that_are_much_of_a_row(n: int, k: int, dtype: str) -> None:
    check_all(every(ROWS, dtype, n), k)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_values_far_apart(dtype: str) -> None:
    """Bins between extremes hold nothing, all, or as many as they should: over decades, beside one
    value far out, of few values, where half is left out, in the low digits of a large number."""
    x = normal(7, 512, "float32")
    x[0] = np.exp(4 * x[0])
    x[1, 3], x[2], x[3, ::2] = 1e9, np.round(x[2]), -np.inf if dtype == "float32" else -(2.0**31)
    x[4] = 2.0**23 + np.round(100 * x[4])
    x[5], x[6] = np.exp(2 * x[5]) * np.sign(x[6]), x[6] * 1e37
    check_all(np.clip(x, -(2.0**31), 2.0**31 - 128).astype(dtype) if dtype == "int32" else x, 256)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8"])
def test_whole_numbers(dtype: str) -> None:
    kind = dtype_of(dtype).numpy
    info = np.iinfo(kind)
    x = np.random.default_rng(0).integers(info.min, info.max, (3, 512), dtype=kind, endpoint=True)
    x[0, :400], x[1] = info.min, info.min
    check_all(x, 8)
    check_all(x, 100)
    check_all(np.flip(x[:, ::9] // 2 + info.min // 2, axis=0), 16)  # lanes that have nothing


@pytest.mark.long
@emulated
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("shift", [1, 3])
def test_rows_off_alignment(dtype: str, shift: int) -> None:
    for row in ("random", "equal", "NaN and infinities", "ascending"):
        check_all(rows_of(row, dtype, 155), 6, shift)
        check_all(rows_of(row, dtype, 37), 1 if row == "random" else 3, shift)
        check_all(rows_of(row, dtype, 999), 40, shift)


@emulated
def test_long_values_are_streamed() -> None:
    for dtype in ("float64", "int64"):
        x = normal(2, 64, dtype)
        assert not short_schedules(Case(best, {"x": x}, 2, 64, {"k": 4}))
        check(x, 4)


@fg.pipeline
def several(x, y):  # type: ignore[no-untyped-def]
    m = fg.max(x)
    return (*fg.topk(x, 8), *fg.topk(x * y, 3), *fg.topk(-y, 12), fg.var(y),
            fg.log(fg.sum(fg.exp(x - m))) + m, fg.argmin(x))


@pytest.mark.long
@emulated
@pytest.mark.parametrize("n", [64, 160, 500])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_several_lists_and_other_reductions(n: int, dtype: str) -> None:
    x, y = normal(6, n, dtype), normal(6, 2 * n, dtype)[:, n:]
    case = Case(several, {"x": x, "y": np.ascontiguousarray(y)}, 6, n)
    for schedule in short_schedules(case):
        assert_close(case.emulate(schedule=schedule), case.reference(), 2e-3)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("form", ["online", "unfused"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_gates(form: str, dtype: str) -> None:
    """Also where masks leave few experts, or none."""
    case = library_case("moe_gate", 7, 160, dtype, k=8)
    case.inputs["x"][2, 5:] = -np.inf
    case.inputs["x"][3] = -np.inf
    for schedule in short_schedules(case, form=form):
        got = case.emulate(schedule=schedule, form=form)
        assert_close(got, case.reference(), 1e-2 if dtype == "bfloat16" else 1e-5)


def chosen(n_cols: int, dtype: str, k: int, n_rows: int = 65_536) -> CudaSchedule:
    return library_case("softmax_topk", 1, n_cols, dtype, k=k).work(n_rows=n_rows).schedule


@pytest.mark.long
def test_what_is_chosen() -> None:
    for n in (64, 128, 256):
        assert chosen(n, "bfloat16", 8).lists == "sorted"
    assert chosen(512, "bfloat16", 8).lists == "sorted"
    for k in (5, 64):
        assert chosen(1008, "float32", k).lists == "collected"
    assert chosen(25_000, "float32", 5).lists == "streamed"
    for n, k, dtype in ((28, 28, "bfloat16"), (36, 1, "float16"), (77, 18, "bfloat16"),
                        (30, 30, "float32"), (141, 37, "float16")):
        few = chosen(n, dtype, k)  # a lane or some, in a band
        assert (few.lists, few.lanes <= 4, few.home.band_rows > 0) == ("sorted", True, True)
    for n, k in ((64, 8), (97, 18), (53, 29), (121, 60)):
        assert chosen(n, "float32", k).lists == "rounded"
    assert chosen(173, "float32", 154).lists == "sorted"
    for n, k, dtype in ((6123, 341, "bfloat16"), (2724, 649, "bfloat16"), (1739, 300, "float32")):
        assert chosen(n, dtype, k).lists == "collected"


@compiled
@pytest.mark.parametrize(("n", "dtype", "k"), [
    (64, "bfloat16", 8), (128, "bfloat16", 8), (160, "float16", 6), (256, "bfloat16", 8),
    (512, "bfloat16", 16), (128, "float32", 8), (1008, "float32", 5), (1008, "float32", 64),
    (1008, "bfloat16", 64), (1000, "float32", 128), (36, "float16", 1), (48, "float32", 48),
    (540, "float32", 280), (141, "float16", 37), (2724, "bfloat16", 649), (1172, "float32", 57),
    (176, "float32", 59), (371, "bfloat16", 245), (448, "float32", 276), (91, "float32", 43),
])
def test_registers_and_time(n: int, dtype: str, k: int) -> None:
    """No spills, room for 16 warps, compiled quickly: of few experts gates, else the list alone."""
    pipeline = library.moe_gate if n < 1000 else library.softmax_topk
    source = pipeline.source(target="sm_90", n_rows=65_536, n_cols=n, dtype=dtype, k=k)
    found = nvrtc.compile_for(source, "sm_90")
    # The longest networks of keys that a lane holds take 3 to 5 seconds on some machines, where
    # the one that others are measured by takes no longer than elsewhere.
    budget = 6.0 if (n, k) in ((176, 59), (91, 43)) else nvrtc.MOST_SECONDS
    assert found.within(budget), found.seconds
    for report in found.reports:
        # What dealt lists are searched for beyond their bins may wait in two words of memory; and
        # of two kernels compilers of CUDA 12, not 13, spill below 64 registers, for more warps.
        few = {(540, 280): 16, (1008, 64): 88, (1000, 128): 24}
        most = few.get((n, k), 0) if dtype == "float32" else 0
        assert max(report.spill_bytes, report.stack_bytes) <= most
        assert report.registers <= 128


@fg.pipeline
def folded_entries(x, b: fg.PerRow, *, k):  # type: ignore[no-untyped-def]
    values, _ = fg.topk(x, k)
    return fg.sum(values) + b


@fg.pipeline
def beside_a_row(x, b: fg.PerRow, *, k):  # type: ignore[no-untyped-def]
    values, columns = fg.topk(x, k)
    return values * b, columns, fg.argmin(x), fg.exp(x - fg.max(x))


@pytest.mark.long
@compiled
@pytest.mark.parametrize(("n", "k"), [(24, 3), (32, 8), (77, 18), (40, 20), (97, 64)])
@pytest.mark.parametrize("pipeline", [library.topk, folded_entries, beside_a_row])
def test_nothing_is_declared_for_nothing(pipeline: Pipeline, n: int, k: int) -> None:
    """Rows of a band whose numbers nobody asks for, ends that no lane reaches."""
    inputs = {"x": normal(4, n, "float32")}
    if pipeline is not library.topk:
        inputs["b"] = np.zeros(4, np.float32)
    case = Case(pipeline, inputs, 4, n, {"k": k})
    work = case.work(n_rows=100_000, aligned=n % 4 == 0)
    for schedule in all_short(case):
        assert nvrtc.warnings_of(work.scheduled(schedule).source, "sm_90") == ()


def near_rows(n: int) -> np.ndarray:
    """Values that differ in their last bits alone: all of a row, some of it, those at the end of a
    list, beside equal ones, zeros of both signs, NaN and infinities, tiny ones."""
    rng = np.random.default_rng(n)
    last = rng.permutation(n).astype(np.uint32)
    rows = [(np.float32(1.5).view(np.uint32) + last).view(np.float32) for _ in range(2)]
    rows[1] = np.where(rng.random(n) < 0.5, rows[1], rng.standard_normal(n).astype(np.float32))
    rows += [(np.float32(-1.5).view(np.uint32) + last % 5).view(np.float32),
             last.view(np.float32), np.where(last % 2, np.float32(0.0), np.float32(-0.0)),
             rng.integers(0, 3, n).astype(np.float32), np.full(n, 7.0, np.float32)]
    special = rng.standard_normal(n).astype(np.float32)
    special[rng.random(n) < 0.2] = np.nan
    special[rng.random(n) < 0.2] = -np.inf
    special[rng.random(n) < 0.1] = np.inf
    large = (np.float32(3e38).view(np.uint32) + last % 9).view(np.float32)
    return np.stack([*rows, special, np.full(n, -np.inf, np.float32), large])


@emulated
@pytest.mark.parametrize(("n", "k"), [(9, 3), (33, 9), (48, 32), (64, 8), (97, 18), (130, 7)])
def test_values_that_differ_in_their_last_bits(n: int, k: int) -> None:
    """Rounded keys leave these open."""
    x = near_rows(n)
    case = Case(best, {"x": x}, *x.shape, {"k": k})
    found = [s for s in all_short(case) if s.lists == "rounded"]
    assert found
    for number, schedule in enumerate(found):
        check(x, k, seed=number, schedule=schedule)
