"""Every library kernel through NVRTC and ptxas, with budgets: compile time, registers, spills."""

from __future__ import annotations

import numpy as np
import pytest
from support import nvrtc
from support.algebra_cases import ACCEPTED
from support.cuda_cases import LIBRARY, Case, accepted_case, library_case
from support.pairs import pairwise

import fusegen as fg
from fusegen.backend.cuda.emit.source import cuda_source
from fusegen.backend.cuda.schedule.levels import Block
from fusegen.backend.cuda.schedule.menu import Menu
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.ir.dtypes import dtype_of

pytestmark = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))

MOST_SPILL = 128  # bytes of a thread: registers saved around the rare call that cuts a list
MOST_REGISTERS = 168


@pytest.mark.parametrize(("name", "arch", "kind"), pairwise(
    LIBRARY, ["sm_80", "sm_90", "sm_100"],
    [(1000, "online"), (25_000, "online"), (25_000, "unfused")]))
def test_library_compiles_within_budget(name: str, arch: str, kind: tuple[int, str]) -> None:
    n_cols, form = kind
    case = library_case(name, 1, n_cols)
    most = 160 if (name, arch, n_cols) == ("topk", "sm_90", 1000) else MOST_SPILL
    _within_budget(case.work(form=form, arch=arch, n_rows=4000).source, arch, most)


@pytest.mark.long
@pytest.mark.parametrize("name", ACCEPTED)
def test_what_the_algebra_accepts_compiles_within_budget(name: str) -> None:
    """Texts that call functions, too, as sine and powers are, which save what a thread holds."""
    _within_budget(accepted_case(name, 1, 4096).work(n_rows=4000).source, "sm_90")


def _within_budget(
    source: str, arch: str, most_spill: int = MOST_SPILL, most_seconds: float = nvrtc.MOST_SECONDS
) -> None:
    compiled = nvrtc.compile_for(source, arch)
    assert compiled.reports, f"ptxas reported no kernel for {arch}"
    assert compiled.within(most_seconds), (arch, compiled.seconds)
    for report in compiled.reports:
        assert report.spill_bytes <= most_spill, (arch, report)
        assert report.registers <= MOST_REGISTERS, (arch, report)
        assert report.shared_bytes <= 48 * 1024, (arch, report)


@fg.pipeline
def heavy(x, y):
    p, q = fg.exp(x - fg.max(x)), fg.exp(y - fg.max(y))
    return (fg.log(fg.sum(p)), fg.sum(p * y) / fg.sum(p), fg.sum(q * x) / fg.sum(q),
            fg.argmax(x), fg.argmin(x), fg.argmin(y))


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("n_cols", [300, 511, 1000, 2048])
def test_lanes_have_registers_for_several_arrays(n_cols: int, dtype: str) -> None:
    """Whatever is offered for rows that lanes hold, and states of several pivots."""
    kind = dtype_of(dtype).numpy
    rows = {name: np.ones((1, n_cols), kind) for name in ("x", "y")}
    work = Case(heavy, rows, 1, n_cols).work(n_rows=100_000, aligned=n_cols % 8 == 0)
    program = work.result("lower")
    held = [c.schedule for c in candidates(program, work.problem, work.target)
            if c.schedule.in_warp and c.schedule.home.of_threads]
    assert held
    for schedule in held:
        report = nvrtc.compile_for(work.scheduled(schedule).source, "sm_90").reports[0]
        assert report.spill_bytes <= 64, (schedule.shape, report)


@pytest.mark.long
@pytest.mark.parametrize(("name", "dtype", "lies"), pairwise(
    ["softmax", "log_softmax", "rms_norm", "layer_norm", "absmax_quantize"],
    ["float32", "float16"], [{}, {"aligned": False}, {"aligned": False, "in_phase": False}]))
def test_rows_that_few_registers_hold_are_not_saved(
    name: str, dtype: str, lies: dict[str, bool]
) -> None:
    """The limits of schedule/registers.py, of every length of a thread's chunk."""
    work = library_case(name, 1, 6001 if lies else 6000, dtype).work(n_rows=4000, **lies)
    program = work.result("lower")
    held = [s for s in Menu(program, work.problem, work.target, None).fitting()
            if s.team == Block(s.threads) and s.home.threads_keep]
    few = [s for s in held if s.registers < 64]
    assert held
    assert few or name in ("layer_norm", "rms_norm"), "beside weights there are none"
    for schedule in few:
        _within_budget(cuda_source(program, schedule).text(), "sm_90", most_spill=32)


@fg.pipeline
def z_scores(x):  # type: ignore[no-untyped-def]
    return (x - fg.mean(x)) / fg.sqrt(fg.var(x))


@fg.pipeline
def kurtosis(x):  # type: ignore[no-untyped-def]
    d = x - fg.mean(x)
    return fg.mean(d**4) / fg.mean(d**2) ** 2


@fg.pipeline
def skewness_beside(x):  # type: ignore[no-untyped-def]
    d = x - fg.mean(x)
    v = fg.mean(d**2)
    return d * fg.rsqrt(v), fg.mean(d**3)


@fg.pipeline
def standard_share(x):  # type: ignore[no-untyped-def]
    y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + 1e-5)
    return y / fg.max(fg.abs(y))


@fg.pipeline
def extremes(x):  # type: ignore[no-untyped-def]
    return fg.max(x), fg.argmax(x), fg.min(x), fg.argmin(x)


@fg.pipeline
def correlation(x, y):  # type: ignore[no-untyped-def]
    a, b = x - fg.mean(x), y - fg.mean(y)
    return fg.sum(a * b) * fg.rsqrt(fg.sum(a * a) * fg.sum(b * b))


@pytest.mark.parametrize(("pipeline", "dtype", "shape"), pairwise(
    [z_scores, fg.library.layer_norm, kurtosis, skewness_beside, standard_share, extremes,
     correlation],
    ["bfloat16", "float16", "float32"],
    [(4000, 4096), (4000, 8191), (1000, 33_000), (16, 200_000)]))
def test_what_a_fold_unpacks_twice_is_not_saved(
    pipeline: fg.Pipeline, dtype: str, shape: tuple[int, int]
) -> None:
    """A mean and the sums about it unpack the same items: what the first loop makes of 16 bits
    takes twice the registers of the items, if compilers keep it for the second."""
    n_rows, n_cols = shape
    arrays = [a for a in pipeline.signature.arrays if a not in pipeline.signature.optional]
    x = np.ones((1, n_cols), dtype_of(dtype).numpy)
    work = Case(pipeline, dict.fromkeys(arrays, x), 1, n_cols).work(
        n_rows=n_rows, aligned=n_cols % 8 == 0)
    for found in candidates(work.program, work.problem, work.target)[:4]:
        source = work.scheduled(found.schedule).source
        _within_budget(source, "sm_90", most_spill=64, most_seconds=2 * nvrtc.MOST_SECONDS)


@fg.pipeline
def four(x):  # type: ignore[no-untyped-def]
    """A state of eight numbers."""
    total = fg.logsumexp(x)
    return total, total - fg.sum(fg.exp(x - total) * x), fg.var(x), fg.argmax(x)


@pytest.mark.parametrize(("n_cols", "dtype"), [
    (31, "bfloat16"), (35, "float16"), (38, "bfloat16"), (39, "float16"), (39, "float32"),
    (75, "bfloat16"), (152, "float16"), (305, "bfloat16")])
def test_short_rows_stay_in_registers(n_cols: int, dtype: str) -> None:
    """What lanes hold of a row is never an array in memory: that takes several times as long."""
    case = Case(four, library_case("softmax", 1, n_cols, dtype).inputs, 1, n_cols)
    work = case.work(n_rows=100_000, aligned=False)
    found = candidates(work.program, work.problem, work.target)
    for schedule in [c.schedule for c in found if c.schedule.in_warp][:2]:
        (report,) = nvrtc.compile_for(cuda_source(work.program, schedule).text(), "sm_90").reports
        assert report.stack_bytes == 0, (schedule.describe(), report)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["softmax", "softmax_topk", "layer_norm", "absmax_quantize"])
def test_other_types_compile(name: str, dtype: str) -> None:
    source = library_case(name, 1, 4096, dtype).work(n_rows=4000).source
    assert nvrtc.compile_for(source, "sm_90").quick


@pytest.mark.parametrize("k", [1, 4000])
def test_long_lists_compile_quickly(k: int) -> None:
    """Lists are loops, not unrolled networks: compile time does not grow with K, of which
    `test_lists_keep_to_registers` has those between."""
    source = library_case("softmax_topk", 1, 25_000, k=k).work(n_rows=4000).source
    assert nvrtc.compile_for(source, "sm_90").quick


@pytest.mark.long
@pytest.mark.parametrize(("k", "n_rows", "dtype"), [
    (5, 1, "float32"), (5, 256, "bfloat16"), (64, 64, "bfloat16"), (64, 4000, "float32"),
    (256, 1, "bfloat16"), (256, 256, "float32"), (1024, 64, "float32"), (1024, 4000, "bfloat16")])
def test_lists_keep_to_registers(k: int, n_rows: int, dtype: str) -> None:
    """However many rows there are: few registers are saved while a row goes by. Blocks of 512
    threads, two on a multiprocessor, leave 64 to a thread."""
    source = library_case("softmax_topk", 1, 129_024, dtype, k=k).work(n_rows=n_rows).source
    large = "kMostThreads = 512" in source and "(kMostThreads, 2)" in source
    _within_budget(source, "sm_90", 112 if large else 48)


@pytest.mark.long
def test_split_and_peeled_rows_compile() -> None:
    case = library_case("softmax_topk", 1, 1_000_003)
    many = {"n_rows": 4000}
    for choices in ({"n_rows": 1}, {**many, "aligned": False}, {**many, "chunk": 1}):
        assert nvrtc.valid_for(case.work(**choices).source, "sm_90").reports


@pytest.mark.parametrize("name", ["topk", "moe_gate"])
def test_gates_and_the_least_compile_within_budget(name: str) -> None:
    grouped = {"score": "sigmoid", "groups": 8, "groups_kept": 4, "group_score": "top2"}
    constants = {"k": 8, **({"largest": False} if name == "topk" else grouped)}
    source = library_case(name, 1, 256, **constants).work(n_rows=4000).source
    # Of groups nine lists: 3 seconds and more, by the machine.
    _within_budget(source, "sm_90", most_seconds=6.0 if name == "moe_gate" else nvrtc.MOST_SECONDS)


@pytest.mark.long
@pytest.mark.parametrize(("name", "n_cols", "k", "dtype"), [
    ("softmax_topk", 6003, 18, "float32"), ("topk", 6003, 300, "float32"),
    ("softmax_topk", 5000, 60, "float32"), ("topk", 4000, 200, "float32"),
    ("topk", 1475, 19, "float32"), ("softmax_topk", 2100, 700, "float32"),
    ("topk", 9564, 100, "float16"), ("softmax_topk", 2164, 178, "float16"),
    ("softmax_topk", 4000, 30, "bfloat16")])
def test_rows_whose_lists_are_collected_stay_in_registers(
    name: str, n_cols: int, k: int, dtype: str
) -> None:
    """A load for which there is no register waits for those before it: the row comes in pieces."""
    case = library_case(name, 1, n_cols, dtype, k=k)
    work = case.work(n_rows=4000, aligned=False)
    found = [c.schedule for c in candidates(work.program, work.problem, work.target)]
    held = [s for s in found if s.lists == "collected" and not s.in_warp and s.blocks == 1]
    assert held
    for schedule in held[:2]:
        (report,) = nvrtc.compile_for(cuda_source(work.program, schedule).text(), "sm_90").reports
        assert report.spill_bytes <= 96, (schedule.describe(), report)
        warps = schedule.per_sm * schedule.threads // 32
        # Every scheduler has a quarter of the registers, for whole warps.
        assert -(-warps // 4) * 32 * report.registers <= schedule.target.registers_per_sm // 4


@pytest.mark.long
@pytest.mark.parametrize(("n_cols", "dtype"), [(1024, "float32"), (2168, "bfloat16")])
def test_lists_beside_many_statistics_stay_in_registers(n_cols: int, dtype: str) -> None:
    """A gate of eight groups: a maximum of each, a softmax, a list."""
    case = library_case("moe_gate", 1, n_cols, dtype, k=6, groups=8, groups_kept=3)
    work = case.work(n_rows=4000)
    found = [c.schedule for c in candidates(work.program, work.problem, work.target)]
    held = [s for s in found if s.lists == "collected"][:2]
    assert held
    for schedule in held:
        (report,) = nvrtc.compile_for(cuda_source(work.program, schedule).text(), "sm_90").reports
        assert report.spill_bytes <= 192, (schedule.describe(), report)


@fg.pipeline
def list_and_statistics(x, *, k):  # type: ignore[no-untyped-def]
    m = fg.max(x)
    e = fg.exp(x - m)
    return fg.topk(x, k), m + fg.log(fg.sum(e)), fg.var(x), fg.argmin(x), fg.sum(e * x)


@pytest.mark.long
@pytest.mark.parametrize(("n_cols", "k", "rows"), [
    (8000, 60, 2000), (72_125, 1024, 132), (307_059, 109, 1), (193_896, 1024, 100)])
def test_lists_beside_statistics_of_16_bits_stay_in_registers(
    n_cols: int, k: int, rows: int
) -> None:
    """What is unpacked lies beside the row's words and the state's."""
    case = Case(list_and_statistics, {"x": np.zeros((1, n_cols), np.float16)}, 1, n_cols, {"k": k})
    work = case.work(n_rows=rows, aligned=False)
    found = [c.schedule for c in candidates(work.program, work.problem, work.target)]
    held = [s for s in found if s.lists == "collected"]
    assert held
    for schedule in held[:1] + [s for s in held if s.vectors >= 8][:2]:
        (report,) = nvrtc.compile_for(cuda_source(work.program, schedule).text(), "sm_90").reports
        assert report.spill_bytes <= 48, (schedule.describe(), report)


@pytest.mark.parametrize("n_cols", [1001, 2999, 6003])
def test_lists_beside_other_arrays_have_schedules(n_cols: int) -> None:
    """However many registers the items of two arrays would take."""
    @fg.pipeline
    def both(x, w: fg.PerColumn):  # type: ignore[no-untyped-def]
        p = fg.exp(x - fg.max(x))
        return fg.topk(x, 3), fg.sum(p * w) / fg.sum(p)

    for rows in (10, 4000):
        x, w = fg.Spec((rows, n_cols)), fg.Spec((n_cols,))
        assert both.compile(x, w, target="sm_90").schedule.registers <= 255
