"""Sources that C++ can use as they stand: the launcher checks what they assume and picks the grids;
what it queues gives the text's results."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simt
from support import cuda_cases, strip_cases
from support.cuda_cases import Case, assert_close, library_case
from support.launcher import LaunchedExecutable
from support.pairs import pairwise
from support.schedules import kinds_of
from support.strip_cases import strip_case

import fusegen as fg
from fusegen.backend.cuda.emit.host import host_source
from fusegen.backend.cuda.run.extent import Extent
from fusegen.backend.cuda.run.geometry import Device, geometry_of
from fusegen.backend.cuda.schedule.assumptions import Between, assumptions
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.cli import main

NVCC = shutil.which("nvcc")
emulates = pytest.mark.skipif(simt.available() is not None, reason=str(simt.available()))


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulated cases are launched by their C++."""
    monkeypatch.setattr(cuda_cases, "EmulatedExecutable", LaunchedExecutable)
    monkeypatch.setattr(strip_cases, "EmulatedExecutable", LaunchedExecutable)


def lengths(case: Case, schedule: Any) -> list[int]:
    """Row lengths that the source may be launched with: its own, the least and the greatest."""
    program = case.work().scheduled(schedule).program
    between = next(a for a in assumptions(program, schedule) if isinstance(a, Between))
    step = schedule.width if schedule.load == "aligned" else 1
    most = min(between.most, 3 * case.n_cols) // step * step
    least = max(step, -(-between.least // step) * step)
    return sorted({least, (least + most) // 2 // step * step, most})


def test_more_rows_than_a_grid_has_blocks_for_are_refused() -> None:
    """By both launchers: kernels whose teams take one row each would leave out the others."""
    work = fg.library.logsumexp.work(target="sm_90", n_cols=25_000, n_rows=4000)
    (launch,) = launches(work.program, work.schedule)
    fits, more = (Extent(n, 25_000, None, ()) for n in (2**31 - 1, 2**31))
    driver: Any = None
    assert geometry_of(launch, fits, driver, 0, Device(0, 132)).grid == 2**31 - 1
    with pytest.raises(fg.BackendError, match="some of them at a time"):
        geometry_of(launch, more, driver, 0, Device(0, 132))
    assert 'return "n_rows ≤ 2147483647";' in work.launcher


@pytest.mark.long
@emulates
@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize(("name", "n_cols", "rows"), pairwise(
    ["softmax", "layer_norm", "logsumexp", "softmax_topk"], [96, 4096], [100_000, 3]))
def test_what_the_launcher_queues_is_the_text(name: str, n_cols: int, rows: int) -> None:
    for schedule in kinds_of(library_case(name, 3, n_cols), True, rows).values():
        for length in lengths(library_case(name, 3, n_cols), schedule):
            case = library_case(name, 3, length)
            got = case.emulate(schedule=schedule, seed=1)
            assert_close(got, case.reference(), 3e-6)


@pytest.mark.long
@emulates
@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize("name", ["softmax", "logsumexp"])
def test_rows_off_alignment(name: str) -> None:
    for schedule in kinds_of(library_case(name, 3, 1601), False, 100_000).values():
        for length in lengths(library_case(name, 3, 1601), schedule):
            case = library_case(name, 3, length)
            got = case.emulate(schedule=schedule, shift=1, aligned=False)
            assert_close(got, case.reference(), 3e-6)


@emulates
@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize("form", ["unfused", "safe"])
def test_several_kernels_take_turns_in_a_workspace(form: str) -> None:
    for name in ("softmax_topk", "layer_norm"):
        case = library_case(name, 5, 777)
        assert_close(case.emulate(form=form, aligned=False), case.reference(), 3e-6)


@pytest.mark.long
@emulates
@pytest.mark.usefixtures("launched")
def test_lists_over_several_blocks() -> None:
    case = library_case("softmax_topk", 2, 40_000, k=40)
    assert_close(case.emulate(n_rows=2), case.reference(), 3e-6)
    assert_close(case.emulate(n_rows=2, arch="sm_80"), case.reference(), 3e-6)


@emulates
@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize("name", ["softmax", "var_mean"])
def test_rows_side_by_side(name: str) -> None:
    case = strip_case(name, 2, 300, 16)
    assert_close(case.emulate(), case.case.reference(), 3e-6)


def refused(case: Case, n_cols: int | None = None, shift: int = 0, **more: Any) -> bool:
    """Is a call refused, with nothing queued?"""
    work = case.work()
    run = LaunchedExecutable(work.program, work.schedule, work.source)
    other = case if n_cols is None else library_case("softmax", case.n_rows, n_cols)
    x, y = (cuda_cases.strided(np.ones_like(other.inputs["x"]), shift) for _ in range(2))
    arrays = dict(zip((p.name for p in (*work.program.inputs, *work.program.outputs)), (x, y),
                      strict=True))
    status = run.status(arrays, more.get("n_rows", other.n_rows), other.n_cols)
    queued = run.records()
    return status == 1 and not queued


@emulates
def test_what_does_not_hold_is_refused() -> None:
    case = library_case("softmax", 4, 1000)
    assert not refused(case)
    assert refused(case, shift=1), "rows begin off 16 bytes"
    assert refused(case, 1001), "4 does not divide n_cols"
    assert refused(case, 30_000), "rows do not fit where they stay"
    assert refused(case, n_rows=-1)


@pytest.mark.long
@pytest.mark.skipif(NVCC is None, reason="nvcc is not here; g++ compiles the launchers elsewhere")
@pytest.mark.parametrize(("name", "rows", "cols"), [
    ("softmax_topk", 4000, 25_000), ("layer_norm", 16, 100_000), ("logsumexp", 3, 2_000_003),
])
def test_nvcc_compiles_a_file_with_its_launcher(
    name: str, rows: int, cols: int, tmp_path: Path
) -> None:
    work = library_case(name, 1, cols).work(n_rows=rows)
    (tmp_path / "k.cu").write_text(work.source + host_source(work.program, work.schedule), "utf-8")
    command = [str(NVCC), "-c", "-arch=sm_90", "-Xcompiler", "-Wall", "-o", "k.o", "k.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_banner_says_how_a_source_is_launched() -> None:
    text = fg.library.softmax.source(n_cols=2000)
    assert "// Launch     softmax_kernel<<<n_rows, threads>>>; threads % 32 = 0, ≤ 576" in text
    assert "// Assumes    4 divides n_cols" in text
    assert "//            n_cols ≤ threads · 32" in text
    assert "// Bytes      reads each element once, writes once" in text, "the row stays on chip"
    assert "reads each element 3 times" in fg.library.softmax.source(n_cols=2000, form="unfused")
    lanes = fg.library.softmax.source(n_cols=1000)
    assert "// Launch     softmax_kernel<<<⌈n_rows / 4⌉, 128>>>" in lanes
    assert "//            n_cols ≤ 32 · 32" in lanes


def test_the_public_source_ends_with_its_launcher() -> None:
    text = fg.library.softmax.source(n_cols=1000, host=True)
    assert text.startswith(fg.library.softmax.source(n_cols=1000))
    assert 'extern "C" cudaError_t softmax_launch(' in text
    with pytest.raises(fg.ArgumentError, match="no launcher"):
        fg.library.softmax.source("cpu", host=True)


def test_the_command_line_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["source", "softmax", "--n-cols", "1000", "--host"]) == 0
    assert "softmax_workspace(long long n_rows" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.skipif(NVCC is None, reason="nvcc is not here")
@pytest.mark.parametrize(("name", "rows", "cols"), [
    ("softmax", 300, 129_024), ("softmax_topk", 4000, 25_000), ("logsumexp", 3, 2_000_003),
    ("softmax", 4, 1_000_000), ("layer_norm", 500, 4096),
])
def test_a_shared_library_of_the_file_gives_the_results(
    name: str, rows: int, cols: int, tmp_path: Path
) -> None:
    """What C++ gets, beside what Python gets, on the same arrays."""
    import ctypes

    import cupy as cp

    case = library_case(name, rows, cols)
    work = case.work(n_rows=rows, arch=fg_target())
    (tmp_path / "k.cu").write_text(f"{work.source}\n{work.launcher}", "utf-8")
    command = [str(NVCC), "-shared", "-Xcompiler", "-fPIC", "-arch=native", "-o", "k.so", "k.cu"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    library = ctypes.CDLL(str(tmp_path / "k.so"))
    inputs = [cp.asarray(a) for a in case.inputs.values()]
    want = getattr(fg.library, name)(*inputs, **case.constants)
    want = want if isinstance(want, tuple) else (want,)
    outputs = [cp.full_like(w, -7) for w in want]
    every = (*work.program.inputs, *work.program.outputs)
    strides = [cols for p in every if p.shape == "element"]
    size = ctypes.c_size_t()
    numbers = [ctypes.c_longlong(n) for n in (*strides, rows, cols)]
    ask = library[f"{work.program.name}_workspace"]
    assert ask(*numbers[-2:], ctypes.byref(size)) == 0
    room = cp.full(size.value + 256, 255, cp.uint8)
    pointers = [ctypes.c_void_p(a.data.ptr) for a in (*inputs, *outputs)]
    for _ in range(2):  # counters of the first launch are in the second one's way
        status = library[f"{work.program.name}_launch"](
            *pointers, *numbers, ctypes.c_void_p(room.data.ptr), ctypes.c_void_p(None))
        assert status == 0
    cp.cuda.Device().synchronize()
    for got, wanted in zip(outputs, want, strict=True):
        cp.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-6)


def fg_target() -> str:
    import cupy as cp

    return f"sm_{cp.cuda.Device().compute_capability}"
