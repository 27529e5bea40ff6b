"""Rows side by side: the emitted CUDA on the emulator, compile budgets, and the views of arrays."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from support import fake_cupy, fake_gpu, golden, nvrtc, own_cases
from support.cuda_cases import Case, assert_close
from support.emulated import emulated
from support.pairs import pairwise
from support.strip_cases import StripCase, strip_case
from support.unused import unused
from test_golden import _functions

import fusegen as fg
from fusegen.backend.arrays.strips import side_by_side, whole_vectors
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.strip_prices import row_threads
from fusegen.backend.cuda.schedule.strips import takes_strips
from fusegen.compile.passes import Work
from fusegen.compile.tuning import considered

compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))

NAMES = ("softmax", "log_softmax", "logsumexp", "var_mean", "layer_norm", "rms_norm", "entropy",
         "norm2", "argmax", "cross_entropy", "weighted_mean", "absmax_quantize")
SHAPES = ((4096, 4096, "float32"), (32768, 1024, "float32"), (4096, 4096, "bfloat16"),
          (2000, 4096, "float64"), (5000, 999, "float32"))
TOLERANCE = {"float32": 3e-6, "float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-12}
MEMORY, REGISTERS, CHIP = "from memory", "in registers", "in registers and shared memory"
KINDS = {(team, home) for team in ("a block", "a cluster", "blocks all over the grid")
         for home in (MEMORY, REGISTERS, CHIP)}


def _small(one: CudaSchedule) -> bool:
    """Can the emulator run it? Three teams run together where blocks wait for one another."""
    return one.blocks <= 16 and one.blocks * one.threads <= 8192


@emulated
@pytest.mark.parametrize(("name", "form", "shape"), pairwise(
    NAMES, ["online", "safe", "unfused"], [(2, 300, 40, 0), (1, 70, 33, 1)]))
def test_library_in_every_form(name: str, form: str, shape: tuple[int, ...]) -> None:
    outer, n_cols, inner, shift = shape
    case = strip_case(name, outer, n_cols, inner)
    got = case.emulate(shift=shift, form=form, pick=lambda all_of: next(filter(_small, all_of)))
    assert_close(got, case.case.reference(), 3e-6)


@emulated
@pytest.mark.parametrize(("team", "home"), sorted(KINDS))
def test_every_kind_of_schedule(team: str, home: str) -> None:
    """Several outer indices, strips that end inside a piece, threads without rows."""
    def pick(found: list[CudaSchedule]) -> CudaSchedule:
        fitting = [s for s in found if s.kind == (team, home) and _small(s)]
        return fitting[len(fitting) // 2]

    for name in ("softmax", "layer_norm" if home != MEMORY else "var_mean"):
        case = strip_case(name, 3, 1300 if home == CHIP else 200, 36)
        for seed in (0, 5):
            got = case.emulate(seed=seed, pick=pick)
            assert_close(got, case.case.reference(), 1e-5)


@emulated
@pytest.mark.parametrize(("name", "n_cols", "inner"), pairwise(
    ["softmax", "var_mean"], [1, 7, 300, 5000], [1, 3, 33, 100, 129]))
def test_any_size(name: str, n_cols: int, inner: int) -> None:
    case = strip_case(name, 1 if n_cols == 5000 else 2, n_cols, inner)
    got = case.emulate(pick=lambda found: next(filter(_small, found)))
    assert_close(got, case.case.reference(), 1e-5)


@emulated
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_element_types(name: str, dtype: str) -> None:
    case = strip_case(name, 2, 333, 24, dtype)
    got = case.emulate(pick=lambda found: next(filter(_small, found)))
    want = case.case.reference()
    if name == "absmax_quantize" and dtype != "float64":
        got, want = got[1:], want[1:]  # a half-step at a rounding boundary is a whole integer
    assert_close(got, want, TOLERANCE[dtype])


@emulated
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers(dtype: str) -> None:
    @fg.pipeline
    def numbers(x):  # type: ignore[no-untyped-def]
        return fg.max(x), fg.min(x), fg.sum(x), fg.argmax(x), fg.argmin(x)

    rng = np.random.default_rng(1)
    low, high = (0, 200) if dtype == "uint8" else (-100, 100)
    rows = rng.integers(low, high, (48, 777)).astype(dtype)
    case = StripCase(Case(numbers, {"x": rows}, 48, 777), 2)
    assert_close(case.emulate(), case.case.reference(), 0)


@emulated
def test_monoids_of_ones_own() -> None:
    """Those that do not keep row order; one element at a time, too."""
    rows = np.random.default_rng(0).integers(-3, 4, (40, 500)).astype(np.float32)
    case = StripCase(Case(own_cases.statistics, {"x": rows}, 40, 500), 2)
    want = tuple(own_cases.statistics.reference(rows).values())
    program = case.case.work().result("lower")
    assert takes_strips(program)
    assert any(s.monoid.own for s in program.sweeps)
    for chunk in (None, 1):
        got = case.emulate(chunk=chunk, pick=lambda found: next(filter(_small, found)))
        assert_close(got, want, 3e-6)


@emulated
def test_padded_and_shifted_slices() -> None:
    """Strides are the caller's own; what does not start on a vector is read by element."""
    for padding, shift in ((4, 0), (3, 0), (0, 1), (8, 2)):
        case = strip_case("softmax", 2, 90, 32, padding=padding)
        got = case.emulate(shift=shift, pick=lambda found: next(filter(_small, found)))
        assert_close(got, case.case.reference(), 3e-6)


@emulated
def test_what_does_not_fit_is_read_again() -> None:
    def partly(found: list[CudaSchedule]) -> CudaSchedule:
        one = next(s for s in found if s.kind == ("a cluster", CHIP) and _small(s))
        home = replace(one.tiers, held=4, stashed=4, rest=True)
        return one.having(home=home, wide_columns=True)

    for name in ("softmax", "layer_norm"):
        case = strip_case(name, 1, 3000, 36)
        assert_close(case.emulate(pick=partly), case.case.reference(), 1e-5)


@emulated
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("home", "n_cols"), [(MEMORY, 50), (REGISTERS, 3), (CHIP, 43)])
def test_rows_that_are_a_threads_own(home: str, n_cols: int, dtype: str) -> None:
    """Short ones: a chunk that is not whole, threads without rows, no state to merge."""
    def pick(found: list[CudaSchedule]) -> CudaSchedule:
        return next(s for s in found if s.kind[1] == home and row_threads(s) == 1)

    for name in ("softmax", "layer_norm" if home != MEMORY else "var_mean"):
        case = strip_case(name, 3, n_cols, 304, dtype)
        got = case.emulate(pick=pick)
        assert_close(got, case.case.reference(), 1e-5 if dtype == "float32" else 1.6e-2)


@emulated
@pytest.mark.parametrize("width", [4, 8])
def test_vectors_of_8_bytes_and_of_16(width: int) -> None:
    """Copies to shared memory have either size."""
    def pick(found: list[CudaSchedule]) -> CudaSchedule:
        return next(s for s in found if s.tiers.stashed and s.width == width and _small(s))

    case = strip_case("layer_norm", 2, 700, 64, "bfloat16")
    assert_close(case.emulate(pick=pick), case.case.reference(), 1.6e-2)


@emulated
@pytest.mark.parametrize(("dtype", "inner", "width"), [
    ("bfloat16", 300, 4), ("float32", 302, 2), ("float64", 301, 1), ("bfloat16", 302, 1),
])
def test_rows_on_halves_of_vectors(dtype: str, inner: int, width: int) -> None:
    """Whose strides are multiples of 8 bytes, not of 16, come in vectors of 8."""
    chosen: list[CudaSchedule] = []

    def pick(found: list[CudaSchedule]) -> CudaSchedule:
        chosen.append(next(filter(_small, found)))
        return chosen[-1]

    case = strip_case("softmax", 3, 77, inner, dtype)
    got = case.emulate(pick=pick)
    assert_close(got, case.case.reference(), TOLERANCE[dtype])
    assert chosen[0].width == width
    if width > 1:
        work = case.work([case.laid_out(case.case.inputs["x"])])
        assert "begin on 8 bytes" in work.source


def test_all_that_is_considered_reads_rows_where_they_lie() -> None:
    """tune=True measures these."""
    _, work = _work("layer_norm", 1024, 4096, "bfloat16", "sm_90")
    found = considered(work)
    assert found[0].schedule == work.schedule
    assert all(c.schedule.strip is not None for c in found)
    assert len({c.short for c in found}) > 10
    assert [c.price.total for c in found] == sorted(c.price.total for c in found)


@emulated
def test_special_rows() -> None:
    x = np.zeros((8, 120), np.float32)
    x[0], x[1, 5], x[2, 7], x[3] = -np.inf, np.inf, np.nan, np.inf
    x[4, :60] = -np.inf
    for name in ("softmax", "logsumexp", "var_mean", "argmax", "norm2"):
        case = StripCase(Case(getattr(fg.library, name), {"x": x}, 8, 120), 1)
        with np.errstate(all="ignore"):
            want = case.case.reference()
        got = case.emulate(pick=lambda found: next(filter(_small, found)))
        assert_close(got, want, 3e-6)


@emulated
def test_results_do_not_depend_on_scheduling() -> None:
    case = strip_case("logsumexp", 1, 4000, 40)
    def split(found: list[CudaSchedule]) -> CudaSchedule:
        return next(s for s in found if s.split and _small(s))

    first = case.emulate(pick=split)
    for seed in range(1, 4):
        np.testing.assert_array_equal(first[0], case.emulate(seed=seed, pick=split)[0])


@emulated
def test_calls_run_blocks_together_that_wait_for_one_another(gpu: fake_gpu.Gpu) -> None:
    x = np.random.default_rng(5).standard_normal((6000, 8), dtype=np.float32)
    found = fg.library.softmax(fake_cupy.array(x), axis=0)
    assert [seen["attributes"].get(2) for seen in gpu.launched] == [(1, 0, 0)]
    np.testing.assert_allclose(found.get(), fg.library.softmax.reference(x, axis=0), rtol=1e-5)


# ---- the source ----


def test_source_is_as_kept(request: pytest.FixtureRequest) -> None:
    """`pytest tests/test_strips.py --update-golden`, after looking at the diff."""
    case, work = _work("softmax", 4096, 4096, "float32", "sm_90")
    work = work.scheduled(next(
        s for s in case.schedules(work)
        if (*s.kind, s.blocks, s.threads) == ("a cluster", CHIP, 4, 256)
    ))
    golden.check("softmax.strips.sm_90.cu", work.emitted.text(include=True), request.config)


@pytest.mark.parametrize("name", NAMES)
def test_source_reads_well(name: str) -> None:
    """No trailing blanks, no runs of blank lines, no unused function."""
    case, work = _work(name, 4096, 4096, "float32", "sm_90")
    for one in {s.kind: s for s in case.schedules(work)}.values():
        emitted = work.scheduled(one).emitted
        text, every = emitted.text(include=True), emitted.text()
        assert not re.search(r"[ \t]\n|\n\n\n", text)
        assert not unused(text)
        for function in _functions(text):  # headers call some of them
            assert len(re.findall(rf"\b{function}\b", every)) > 1, f"{function} is never called"


# ---- the real compiler ----


def _work(name: str, n_cols: int, inner: int, dtype: str, arch: str) -> tuple[StripCase, Work]:
    case = strip_case(name, 1, 1, 1, dtype)
    case.case.n_rows, case.case.n_cols = inner, n_cols
    work = case.case.work(arch=arch)
    return case, replace(work, problem=replace(work.problem, inner=inner))


@compiled
@pytest.mark.parametrize("name", NAMES)
def test_the_first_choice_compiles_within_budget(name: str) -> None:
    """Every name on every GPU, every shape on every GPU; the shapes take turns, and so do the GPUs
    on which a name is held against budgets, in whose place the others' compilers take it."""
    for at, arch in enumerate(ARCHS := ("sm_80", "sm_90", "sm_100")):
        shape = SHAPES[(NAMES.index(name) + 2 * at) % len(SHAPES)]
        source = _work(name, *shape, arch)[1].source
        if NAMES.index(name) % len(ARCHS) == at:
            _within_budget(source, arch)
        else:
            assert nvrtc.valid_for(source, arch).reports


@pytest.mark.long
@compiled
@pytest.mark.parametrize(("team", "home"), sorted(KINDS))
def test_every_kind_compiles_within_budget(team: str, home: str) -> None:
    """Of columns as long as such schedules are offered for."""
    for n_cols in (4096, 256):
        case, work = _work("softmax", n_cols, 4096, "float32", "sm_90")
        found = [s for s in case.schedules(work) if s.kind == (team, home)]
        if found:
            return _within_budget(work.scheduled(found[0]).source, "sm_90")
    raise AssertionError("no such schedule is offered")


def _within_budget(source: str, arch: str) -> None:
    found = nvrtc.compile_for(source, arch)
    assert found.reports, "ptxas reported no kernel"
    assert found.quick, found.seconds
    for report in found.reports:
        assert report.spill_bytes <= 128, report
        assert report.shared_bytes <= 48 * 1024, report


# ---- arrays ----


def test_views_share_memory() -> None:
    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    for axis, shape in ((0, (1, 2, 60)), (1, (2, 3, 20)), (2, (6, 4, 5)), (-3, (2, 3, 20))):
        (view,) = side_by_side([x], axis) or (None,)
        assert view is not None
        assert view.shape == shape
        assert np.shares_memory(view, x)
        np.testing.assert_array_equal(view, x.reshape(shape))


def test_views_of_slices() -> None:
    x = np.zeros((6, 8, 16), np.float32)
    assert side_by_side([x[:, ::2]], 1) is not None  # any stride along the reduced axis
    assert side_by_side([x[::2]], 1) is not None
    assert side_by_side([x[:, :, :12]], 1) is not None
    assert side_by_side([x[:, :, :12]], 0) is None  # the other axes are not one
    assert side_by_side([x[:, :, ::2]], 1) is None  # rows are not neighbours
    assert side_by_side([x], 2) is None  # the last axis: columns are neighbours
    assert side_by_side([x[:, ::-1]], 1) is None  # backwards
    assert side_by_side([x, x[:3]], 1) is None
    assert side_by_side([np.zeros((3, 0), np.float32)], 0) is None


def test_whole_vectors() -> None:
    x = np.zeros((4, 8, 16), np.float32)
    views = side_by_side([x], 1)
    assert views is not None
    assert whole_vectors(views) == (x.ctypes.data % 16 == 0)
    assert whole_vectors(views, 8) == (x.ctypes.data % 8 == 0)
    assert not whole_vectors([views[0][:, :, 1:]])
    assert not whole_vectors([np.zeros((4, 8, 15), np.float32)])


def test_what_needs_neighbouring_columns() -> None:
    for name, takes in (("softmax", True), ("topk", False), ("softmax_topk", False)):
        assert takes_strips(strip_case(name, 1, 50, 4).case.work().result("lower")) is takes
