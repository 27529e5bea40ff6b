"""Facts about GPUs, and schedules that keep to them: on every target, on cut-down devices."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from support import nvrtc
from support.compilers import bare
from support.cuda_cases import LIBRARY, assert_close, library_case
from support.emulated import emulated
from support.pairs import pairwise

from fusegen.backend.cuda.run.device import bandwidth_of
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import Launch, launches
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.problem import Problem
from fusegen.backend.registry import target_named
from fusegen.backend.target import CUDA_TARGETS, CudaTarget, on_device
from fusegen.ir.errors import ArgumentError
from fusegen.ir.kernel import Program

SHAPES = ((None, None), (1, 70_000), (4000, 1000), (4000, 25_000), (16, 129_024))
CHOSEN = ((4000, 1000), (1, 70_000), (4000, 25_001), (16, 129_024))
_STATIC = 8192  # bytes of shared memory that a block may use beside its slices


def unknown() -> CudaTarget:
    found = target_named("sm_130")
    assert isinstance(found, CudaTarget)
    return found


TARGETS = {**CUDA_TARGETS, "unknown": unknown()}


@cache
def programs(name: str) -> tuple[Program, Program, Problem]:
    """(one kernel, a kernel per sweep, a problem)."""
    work = library_case(name, 1, 8192).work(n_rows=1)
    return work.typed.program("rows"), work.typed.program("sweeps"), work.problem


def offered(target: CudaTarget, name: str) -> list[tuple[CudaSchedule, tuple[Launch, ...]]]:
    found: dict[CudaSchedule, None] = {}
    whole, apart, asked = programs(name)
    for n_rows, n_cols in SHAPES:
        problem = replace(asked, n_rows=n_rows, n_cols=n_cols)
        for p in (problem, replace(problem, any_rows=True), replace(problem, aligned=False)):
            found |= {c.schedule: None for c in candidates(whole, p, target)}
    return [(s, launches(whole if s.grouping == "rows" else apart, s)) for s in found]


@pytest.mark.parametrize("count", [None, 1, 7, 30])
@pytest.mark.parametrize("arch", TARGETS)
def test_what_is_offered_fits(arch: str, count: int | None) -> None:
    """Also on a device with fewer multiprocessors: blocks that wait for one another above all."""
    target = TARGETS[arch]
    if count is not None:
        target = target.on("cut down", count, 1 << 22)
    for name in ("softmax", "layer_norm", "logsumexp", "topk"):
        for s, made in offered(target, name):
            assert s.target == target
            assert s.threads <= min(target.max_block_threads, target.threads_per_sm)
            for launch in made:
                _fits(s, launch, target)


def _fits(s: CudaSchedule, launch: Launch, target: CudaTarget) -> None:
    assert launch.shared_bytes + _STATIC <= max(target.shared_per_block, _STATIC)
    assert s.per_sm * (launch.shared_bytes + 1024) <= target.shared_per_sm
    assert s.per_sm * s.threads <= target.threads_per_sm
    assert launch.cluster <= target.largest_cluster
    if launch.cluster > 1:
        assert launch.cluster <= target.multiprocessors
    if launch.together:
        assert s.blocks <= s.per_sm * target.multiprocessors


@pytest.mark.parametrize("name", LIBRARY)
def test_an_unknown_gpu_gets_what_every_gpu_has(name: str) -> None:
    for s, made in offered(unknown(), name):
        assert not s.clustered
        assert not s.waits
        assert all(not n.together and n.shared_bytes <= 49152 for n in made)


def test_limits_are_those_of_the_architecture() -> None:
    for t in TARGETS.values():
        assert t.static_shared <= t.shared_per_block <= t.shared_per_sm
        assert t.shared_per_sm % 1024 == t.shared_per_block % 1024 == 0
        assert t.threads_per_sm in (1024, 1536, 2048)
        assert 32 * t.blocks_per_sm <= t.threads_per_sm
        assert t.clusters == (t.arch in ("sm_90", "sm_100", "sm_103", "sm_120"))
        assert 3e11 <= t.bandwidth <= 1e13
        assert unknown().shared_per_block <= t.shared_per_block
        assert unknown().blocks_per_sm <= t.blocks_per_sm
        assert unknown().multiprocessors <= t.multiprocessors


def test_a_device_has_its_own_counts() -> None:
    h200 = CUDA_TARGETS["sm_90"]
    slice_ = h200.on("a seventh", 16, 6 << 20)
    assert (slice_.multiprocessors, slice_.l2_bytes, slice_.arch) == (16, 6 << 20, "sm_90")
    assert slice_.bandwidth == pytest.approx(h200.bandwidth * 16 / 132)
    assert slice_.shared_per_block == h200.shared_per_block
    slower = h200.on("H100", 132, 50 << 20, 3.35e12)
    assert (slower.bandwidth, slower.multiprocessors) == (3.35e12, 132)
    assert h200.on("a seventh", 16, 6 << 20, 4.8e12).bandwidth == slice_.bandwidth
    older = on_device(CUDA_TARGETS["sm_80"], slice_)
    assert (older.arch, older.multiprocessors, older.largest_cluster) == ("sm_80", 16, 1)
    with pytest.raises(ArgumentError, match="compiled for sm_90, the device is sm_80"):
        on_device(h200, CUDA_TARGETS["sm_80"])


def test_bandwidth_is_that_of_clock_and_bus() -> None:
    h100 = {"MemoryClockRate": 2_619_000, "GlobalMemoryBusWidth": 5120}  # kHz, bits
    assert bandwidth_of(h100) == pytest.approx(3.352e12, rel=1e-3)
    for silent in ({}, {"MemoryClockRate": 0, "GlobalMemoryBusWidth": 5120}):
        assert bandwidth_of(silent) is None


def test_names() -> None:
    with pytest.raises(ArgumentError, match="too old"):
        target_named("sm_70")
    with pytest.raises(ArgumentError, match="sm_120"):
        target_named("sm_9x")


def known_to_nvrtc() -> list[str]:
    """The oldest first."""
    from cupy.cuda import nvrtc as compiler

    known = [a for a in CUDA_TARGETS if int(a[3:]) in compiler.getSupportedArchs()]
    return sorted(known, key=lambda arch: int(arch[3:]))


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_compiles(name: str) -> None:
    """The chosen schedules of several shapes: on the oldest GPU, which has the fewest instructions,
    two of every pipeline, in turn; on the others one of every second pipeline, shapes in turn, so
    that each pipeline has every shape on some GPU. Those of all pipelines on three of them are
    `test_cuda_compile`'s."""
    oldest, *others = known_to_nvrtc()
    at = LIBRARY.index(name)
    wanted = [(oldest, shape) for shape in CHOSEN[(at // 2 + 1) % 2 :: 2]]
    wanted += [(arch, CHOSEN[(at // 2 + n // 2) % len(CHOSEN)]) for n, arch in enumerate(others)
               if (at + n) % 2 == 0]
    assert {shape for _, shape in wanted} == {*CHOSEN}
    texts: dict[tuple[str, str], str] = {}
    for arch, (n_rows, n_cols) in wanted:
        case = library_case(name, 1, n_cols)
        source = case.work(arch=arch, n_rows=n_rows, aligned=n_cols % 4 == 0).source
        texts[bare(source), arch] = source
    for (_, arch), source in texts.items():
        compiled = nvrtc.valid_for(source, arch)
        assert compiled.reports
        for report in compiled.reports:
            assert report.shared_bytes <= _STATIC * 6, report


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("name", "shape", "arch"), pairwise(
    LIBRARY, [(2, 20_000, True), (100_000, 96, True), (100_000, 4001, False),
              (100_000, 6000, True)], ["sm_80", "unknown"]))
def test_the_library_runs(name: str, shape: tuple[int, int, bool], arch: str) -> None:
    n_rows, n_cols, aligned = shape
    case = library_case(name, 2, n_cols)
    work = case.work(n_rows=n_rows, aligned=aligned)
    (best, *_) = candidates(work.result("lower"), work.problem, TARGETS[arch])
    got = case.emulate(schedule=best.schedule, shift=0 if aligned else 1, n_rows=n_rows)
    assert_close(got, case.reference(), 3e-6)
