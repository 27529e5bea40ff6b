"""GPUs in exported libraries: which kernel a call gets, with a driver that only takes notes;
machine code for every target; and, where there is a GPU, results."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import fake_gpu
from support.exported import FAKE, CLibrary, fake_driver, named_images
from support.fake_cupy import array

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.cuda.export import Class, classes
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.backend.export import images
from fusegen.backend.exported import Image
from fusegen.backend.own_files import template_root
from fusegen.backend.registry import backend_of, target_named
from fusegen.pipeline.variants import Choices

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
K, LENGTHS = 5, (1024, 1 << 20)
BAD_SHAPE, NOT_HERE, DRIVER = 2, 3, 5


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For two architectures; machine code is its name."""

    folder = tmp_path_factory.mktemp("gpu")
    with pytest.MonkeyPatch.context() as patch:
        named_images(patch)
        return fg.library.softmax_topk.export(folder, targets=("sm_90", "sm_100"),
                                              row_lengths=LENGTHS)


@pytest.fixture(scope="module")
def driver() -> Path:
    return fake_driver()


_CALLS = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
found = []
try:
    fake = ctypes.CDLL("libcuda.so.1")
    fake.fake_noted.restype = ctypes.c_char_p
except (OSError, AttributeError):
    fake = None
library.softmax_topk_error.restype = ctypes.c_char_p
for call in json.loads(sys.argv[2]):
    if fake: fake.fake_forget()
    x, stride, n_rows, n_cols = call
    words = [ctypes.c_void_p(x), ctypes.c_int64(stride), ctypes.c_void_p(1 << 58),
             ctypes.c_void_p(1 << 59), ctypes.c_int64(n_rows), ctypes.c_int64(n_cols),
             ctypes.c_void_p(77)]
    status = library.softmax_topk_float32_cuda(*words)
    said = library.softmax_topk_error().decode() if status else ""
    found.append([status, said, fake.fake_noted().decode() if fake else ""])
print(json.dumps(found))
"""


def called(library: Path, folder: Path | None, *calls: tuple[int, ...], **env: str) -> list[Any]:
    """(status, error, notes) of each call (x, stride, rows, columns), in a process of its own."""
    path = {} if folder is None else {"LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([sys.executable, "-S", "-c", _CALLS, str(library), json.dumps(calls)],
                          capture_output=True, text=True, env={**os.environ, **path, **env})
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def chosen(one: Class, arch: str = "sm_90") -> tuple[Any, Any]:
    """(schedule, its one launch) that fusegen has for such rows."""
    work = fg.library.softmax_topk.work(target=arch)
    schedule = one.schedule(work.typed, work.target)
    (launch,) = launches(work.typed.program(schedule.grouping), schedule)
    return schedule, launch


def launched(notes: str) -> dict[str, str]:
    (line,) = [ln for ln in notes.splitlines() if ln.startswith("launch")]
    _, image, symbol, *rest = line.split()
    return {"image": image, "symbol": symbol, **dict(zip(rest[::2], rest[1::2], strict=True))}


@pytest.mark.long
def test_calls_get_the_kernel_of_their_rows(exported: Path, driver: Path) -> None:
    x = 1 << 57
    many, odd, few, zero = called(
        exported, driver, (x, 1024, 4000, 1000), (x + 4, 1001, 4000, 1001),
        (x, 1 << 20, 4, 1 << 20), (x, 8, 0, 8))
    schedule, launch = chosen(Class(None, 1024))
    found = launched(many[2])
    assert many[0] == 0
    assert (found["block"], found["grid"]) == (str(launch.threads), str(launch.teams(4000, 1)))
    assert found["image"].startswith("softmax_topk_float32_sm_90_")
    assert (found["symbol"], found["stream"]) == (launch.symbol, "77")
    assert int(found["x"], 16) == x
    assert "retain 0" in many[2], "a thread without a context has the first GPU's"
    other = launched(odd[2])
    assert other["image"] != found["image"], "rows that begin anywhere have another kernel"
    schedule, launch = chosen(Class(16, 1 << 20))
    third = launched(few[2])
    assert third["block"] == str(launch.threads)
    assert int(third["grid"]) == 4 * launch.grid_rows
    assert schedule.blocks > 1, "few long rows are cut up"
    lines = [ln.split()[0] for ln in few[2].splitlines()]
    if schedule.split:
        assert lines.index("take") < lines.index("fill") < lines.index("launch")
        assert lines[-1] == "give", "memory goes back when the launch has it"
    assert zero == [0, "", ""], "no rows, no launch"


def test_a_loaded_library_is_given_arrays_as_they_lie(exported: Path, gpu: fake_gpu.Gpu) -> None:
    calls: list[tuple[Any, ...]] = []
    status = 0

    class Library:
        def function(self, name: str, *types: Any, result: Any) -> Any:
            assert name in ("softmax_topk_float32_cuda", "softmax_topk_error")
            if name.endswith("_error"):
                return lambda: b"softmax_topk: as the test asked"
            assert types == (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p,
                             ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
            return lambda *words: calls.append(words) or status

    p = fg.load(exported)
    (_, variant), = p._variants
    variant.library = Library()
    x = array(np.random.default_rng(0).normal(size=(9, 50)).astype(np.float32))[::2][:, :33]
    with gpu.on_stream(0x70):
        values, columns = p(x)
    assert calls == [(x.data.ptr, 100, values.data.ptr, columns.data.ptr, 5, 33, 0x70)]
    p(x[:0])
    assert len(calls) == 1, "no rows, no call"
    status = 5
    with pytest.raises(fg.BackendError, match="softmax_topk: as the test asked"):
        p(x)
    with pytest.raises(fg.ArgumentError, match=r"(?s)no code for arrays on cpu.*exported for cuda"):
        p(np.zeros((2, 8), np.float32))


_TENSORS = """
import ctypes, sys
sys.path.insert(0, sys.argv[2])
import tensors
library, fake = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
fake.fake_noted.restype = ctypes.c_char_p
place = (tensors.CUDA, 1)
given = [tensors.tensor(at << 40, (64, n), None, code, bits, place)
         for at, n, code, bits in ((1, 1024, 2, 32), (2, 5, 2, 32), (3, 5, 0, 64))]
assert tensors.called(library["__tvm_ffi_softmax_topk"], *given) == 0
print(fake.fake_noted().decode())
"""


def test_tensors_say_on_which_gpu(exported: Path, driver: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", _TENSORS, str(exported), str(FAKE.parents[1])],
        capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": str(driver)})
    assert done.returncode == 0, done.stderr
    notes = [ln for ln in done.stdout.splitlines() if ln.startswith(("current", "launch"))]
    assert [n.split()[0] for n in notes] == ["current", "current", "launch", "current"]
    # The thread's context is the first GPU's before, and after.
    assert [n.split()[1] for n in notes if n.startswith("current")] == ["0", "1", "0"]


def test_newer_gpus_run_the_newest_code_that_there_is(exported: Path, driver: Path) -> None:
    call = (1 << 57, 1024, 64, 1024)
    for arch, held in (("90", "sm_90"), ("100", "sm_100"), ("120", "sm_100")):
        ((status, _, notes),) = called(exported, driver, call, FAKE_ARCH=arch)
        assert status == 0
        assert f"_{held}_" in launched(notes)["image"]
    ((status, said, _),) = called(exported, driver, call, FAKE_ARCH="86")
    assert (status, said) == (
        NOT_HERE, "softmax_topk: exported for sm_90 and newer; this GPU is sm_86")


def test_what_a_gpu_refuses_is_said(exported: Path, driver: Path) -> None:
    call = (1 << 57, 1024, 64, 1024)
    ((status, said, notes),) = called(exported, driver, call, FAKE_LAUNCH="700")
    assert (status, "launching: CUDA_ERROR_FAKE (as the test asked)" in said) == (DRIVER, True)
    # A cluster that does not fit leaves its rows to another kernel.
    long = (1 << 57, 1 << 20, 4, 1 << 20)
    ((status, said, notes),) = called(exported, driver, long, FAKE_FITS="0")
    assert status == 0
    assert launched(notes)["cluster"] == "1"
    long = (1 << 31) + 4
    ((status, said, _),) = called(exported, driver, (1 << 40, long, 1, long))
    assert status == BAD_SHAPE
    assert "no kernel takes 1 rows of 2147483652 columns; the last asks for: 5 ≤ n_cols" in said


def test_without_a_driver_the_library_loads_and_says_so(exported: Path) -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("this machine has a driver")
    ((status, said, _),) = called(exported, None, (1 << 57, 1024, 64, 1024))
    assert status == NOT_HERE
    assert said.startswith("softmax_topk: there is no CUDA driver: libcuda.so.1")


_SAME = """
#include <cuda.h>
#include <type_traits>
#include "driver.hpp"
using fusegen::DriverConfig;
static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(cudaLaunchAttribute, val) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(DriverConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(DriverConfig, block) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(DriverConfig, shared) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(DriverConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(DriverConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(DriverConfig, count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(int(cudaLaunchAttributeCooperative) == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(int(cudaLaunchAttributeClusterDimension) == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(int(cudaDevAttrMultiProcessorCount) == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(int(cudaDevAttrComputeCapabilityMajor)
              == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(int(cudaDevAttrComputeCapabilityMinor)
              == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(int(cudaFuncAttributeMaxDynamicSharedMemorySize)
              == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(int(cudaFuncAttributeNonPortableClusterSizeAllowed)
              == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
static_assert(cudaErrorInvalidValue == CUDA_ERROR_INVALID_VALUE && CUDA_ERROR_OUT_OF_MEMORY == 2);
static_assert(cudaErrorLaunchOutOfResources == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
template <typename... A, typename... B>
constexpr bool as_many(int (*)(A...), CUresult (*)(B...))
{
    return sizeof...(A) == sizeof...(B) && ((sizeof(A) == sizeof(B)) && ...);
}
#define TAKES(ours, theirs) static_assert(as_many(decltype(fusegen::Driver::ours)(), &theirs))
TAKES(init, cuInit); TAKES(current, cuCtxGetCurrent); TAKES(retain, cuDevicePrimaryCtxRetain);
TAKES(make_current, cuCtxSetCurrent); TAKES(device, cuCtxGetDevice);
TAKES(attribute, cuDeviceGetAttribute); TAKES(load, cuLibraryLoadData);
TAKES(kernel, cuLibraryGetKernel); TAKES(function, cuKernelGetFunction);
TAKES(allow, cuFuncSetAttribute); TAKES(launch, cuLaunchKernelEx);
TAKES(blocks_at_once, cuOccupancyMaxActiveBlocksPerMultiprocessor);
TAKES(clusters_at_once, cuOccupancyMaxActiveClusters); TAKES(fill, cuMemsetD8Async);
TAKES(take, cuMemAllocAsync); TAKES(give, cuMemFreeAsync);
"""


def test_the_driver_is_called_as_its_header_says(tmp_path: Path) -> None:
    nvcc = images.find_nvcc()
    if nvcc is None:
        pytest.skip("cuda.h comes with nvcc, which is not here")
    (tmp_path / "same.cpp").write_text(_SAME)
    command = [nvcc, "-std=c++17", "-c", f"-I{template_root() / 'export'}", "-o",
               str(tmp_path / "same.o"), str(tmp_path / "same.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
def test_the_example_for_gpus_compiles_and_links(exported: Path, tmp_path: Path) -> None:
    nvcc = images.find_nvcc()
    if nvcc is None:
        pytest.skip("CUDA's runtime comes with nvcc, which is not here")
    source = Path(__file__).parents[1] / "examples" / "exported" / "gpu.cpp"
    folder = exported.parents[1]
    command = [nvcc, str(source), f"-I{folder / 'include'}", f"-L{folder / 'lib'}",
               "-lfusegen_softmax_topk", "-Werror", "all-warnings", "-o", str(tmp_path / "gpu")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_machine_code_for_every_target(arch: str) -> None:
    """A fat binary by nvcc, else a cubin and PTX by NVRTC."""
    source = fg.library.argmax.source(target=arch)
    if images.find_nvcc() is None:
        pytest.importorskip("cupy", reason="neither nvcc nor CuPy's NVRTC is here")
    found = images.files(Image("k", source, arch))
    assert found["k.code"][:4] in (b"\x50\xed\x55\xba", b"\x7fELF")  # a fat binary, a cubin
    held = found["k.code"] + found["k.ptx"]
    assert b"argmax_kernel" in held
    assert found["k.ptx"].endswith(b"\0")


def test_nvrtc_serves_where_nvcc_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cupy", reason="CuPy's NVRTC is not here")
    monkeypatch.setattr(images, "find_nvcc", lambda: None)
    found = images.files(Image("k", fg.library.argmax.source(target="sm_90"), "sm_90"))
    assert found["k.code"][:4] == b"\x7fELF"
    assert re.search(rb"\.target sm_90", found["k.ptx"])


def test_the_last_kernel_takes_rows_of_any_kind() -> None:
    every = list(classes(()))
    assert every[-1] == Class(None, None, aligned=False, in_phase=False)
    for name in ("softmax_topk", "softmax", "layer_norm", "var_mean"):
        p = getattr(fg.library, name)
        typed = p.of_types(*p.assumed("float32", (), {}), Choices()).typed
        target = target_named("sm_90")
        schedule = every[-1].schedule(typed, target)
        text = backend_of(target).launcher(typed.program(schedule.grouping), schedule)
        checks = re.findall(r'return "(.*)";', text)
        assert {c for c in checks if "n_cols" not in c} <= {
            "n_rows >= 0", "n_rows ≤ 2147483647",  # blocks of a grid
            "2^-126 ≤ eps ≤ 2^-13"}, name  # which the library has checked before
        assert any(c.endswith("n_cols ≤ 1073741824") for c in checks), name


@pytest.mark.gpu
def test_results_on_a_gpu(tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    arch = f"sm_{cupy.cuda.Device().compute_capability}"
    file = fg.library.softmax_topk.export(tmp_path, targets=(arch,), row_lengths=(1024, 1 << 20))
    library, p = CLibrary(file, "softmax_topk"), fg.load(tmp_path)
    for n_rows, n_cols in ((4000, 1000), (300, 1001), (3, 1 << 20), (5, 7)):
        x = cupy.random.standard_normal((n_rows, n_cols), dtype=cupy.float32)
        want, where = fg.library.softmax_topk.reference(cupy.asnumpy(x), k=K)
        values, columns = p(x)
        np.testing.assert_allclose(cupy.asnumpy(values), want, 2e-6)
        np.testing.assert_array_equal(cupy.asnumpy(columns), where)
    assert library.error() == ""


@pytest.mark.gpu
def test_the_example_runs_on_a_gpu(tmp_path: Path) -> None:
    """Memory by CUDA's runtime, a stream of its own, no Python in the process."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    nvcc = images.find_nvcc()
    if nvcc is None:
        pytest.skip("CUDA's runtime comes with nvcc, which is not here")
    arch = f"sm_{cupy.cuda.Device().compute_capability}"
    fg.library.softmax_topk.export(tmp_path, targets=(arch,), row_lengths=(25000,), k=K)
    source = Path(__file__).parents[1] / "examples" / "exported" / "gpu.cpp"
    subprocess.run([nvcc, str(source), f"-I{tmp_path / 'include'}", f"-L{tmp_path / 'lib'}",
                    "-lfusegen_softmax_topk", "-Xlinker", f"-rpath={tmp_path / 'lib'}", "-o",
                    str(tmp_path / "gpu")], check=True, capture_output=True)
    done = subprocess.run([str(tmp_path / "gpu")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "x is null" in done.stdout
