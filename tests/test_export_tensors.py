"""Exported libraries by tvm-ffi's ABI: tensors as they lie, what is refused, its own package."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import tensors
from support.exported import CLibrary, string
from support.tensors import called, of_array

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.own_files import template_root

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
K = 5
EXAMPLES = Path(__file__).parents[1] / "examples" / "exported"
PATHS = {"PATH": os.environ["PATH"]}  # and nothing that points to Python


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fg.library.softmax_topk.export(tmp_path_factory.mktemp("best"),
                                          dtypes=("float32", "bfloat16"), k=K)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return string.export(tmp_path_factory.mktemp("every"))


def function(path: Path, name: str) -> Any:
    return CLibrary(path, name).functions[f"__tvm_ffi_{name}"]


def test_tensors_as_they_lie(best: Path) -> None:
    f, rng = function(best, "softmax_topk"), np.random.default_rng(0)
    whole = rng.normal(size=(6, 4, 300)).astype(np.float32)
    for x in (whole, whole[:, 1:2, 5:200], whole[::2, 0], whole[0, 0], whole[:1, :1, ::1],
              whole[:, :0], whole[::-1, 2]):
        lead = x.shape[:-1]
        values, columns = np.zeros((*lead, K), np.float32), np.zeros((*lead, K), np.int64)
        for rest in ((), (2,)):
            assert called(f, of_array(x, offset=8), of_array(values), of_array(columns), *rest) == 0
            want, where = fg.library.softmax_topk.reference(x, k=K) if x.size else (values, columns)
            np.testing.assert_allclose(values, want, 2e-6)
            np.testing.assert_array_equal(columns, where)
    compact = of_array(whole)
    compact.strides = None
    values, columns = np.zeros((6, 4, K), np.float32), np.zeros((6, 4, K), np.int64)
    assert called(f, compact, of_array(values), of_array(columns)) == 0
    np.testing.assert_array_equal(columns, fg.library.softmax_topk.reference(whole, k=K)[1])


@pytest.mark.long
def test_every_shape_of_array(every: Path) -> None:
    f, rng = function(every, "string"), np.random.default_rng(1)
    x, w, t = (rng.uniform(0.5, 2, n).astype(np.float32) for n in ((2, 3, 40), 40, (2, 3)))
    y, total = np.zeros_like(x), np.zeros((2, 3), np.float32)
    values, columns = np.zeros((2, 3, 3), np.float32), np.zeros((2, 3, 3), np.int64)
    assert called(f, *map(of_array, (x, w, t, y, total, values, columns))) == 0
    want = string.reference(x, w, t)
    np.testing.assert_allclose(y, want["text_cpu"], 1e-5)
    np.testing.assert_allclose(total, want["linux"][0], 1e-5)
    # One row for all of them is the same row each time.
    assert called(f, *map(of_array, (x[0, 0], w, t, y, total, values, columns))) == 0
    np.testing.assert_allclose(y, string.reference(np.broadcast_to(x[0, 0], x.shape), w, t)[
        "text_cpu"], 1e-5)


def test_what_is_refused_is_said(best: Path) -> None:
    library = CLibrary(best, "softmax_topk")
    f = library.functions["__tvm_ffi_softmax_topk"]
    x, values = np.ones((4, 6, 30), np.float32), np.zeros((4, 6, K), np.float32)
    columns = np.zeros((4, 6, K), np.int64)
    there = of_array(x)
    there.device[0] = tensors.CUDA
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((x, values), "called with 2 arguments; it takes 3 tensors, results last"),
        ((x, values, columns, 1, 1), "called with 5 arguments"),
        ((x, values, columns, columns), "called with 4 arguments"),
        ((x, values, 3), "indices is no tensor"),
        ((x, values, columns.astype(np.int32)), "not exported for tensors of these types"),
        ((there, values, columns), "values is on another device than x"),
        ((x, values, columns[:3]), "indices has another number of rows"),
        ((x, values[..., :4], columns), "values does not have the K entries of its lists last"),
        ((x, values[:, ::2].repeat(2, 1)[:, ::2], columns), "another number of rows"),
        ((x.swapaxes(1, 2), values, columns), "columns that are not neighbours"),
        ((x[:, :4], values[:, :4], columns[:, :4].copy()), "x has rows that are not equally far"),
        ((x[..., :3], values, columns), "rows have 3 columns, but the text asks for at least 5"),
        ((x, values, columns, -3), "threads is -3"),
    ]
    for arguments, said in wrong:
        given = [of_array(a) if isinstance(a, np.ndarray) else a for a in arguments]
        assert called(f, *given) == -1, said
        assert said in library.error()


def test_tensors_of_gpus_find_their_own(best: Path) -> None:
    library = CLibrary(best, "softmax_topk")
    there = [tensors.tensor(1 << 40, (4, n), None, code, bits, (tensors.CUDA, 0))
             for n, code, bits in ((8, 2, 32), (K, 2, 32), (K, 0, 64))]
    assert called(library.functions["__tvm_ffi_softmax_topk"], *there) == -1
    assert library.error() == "softmax_topk: not exported for tensors on this kind of device"


# ---- with the package itself ----


@pytest.mark.long
def test_the_package_calls_it(best: Path) -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
    f = tvm_ffi.load_module(str(best)).softmax_topk
    x = np.random.default_rng(2).normal(size=(3, 50)).astype(np.float32)
    values, columns = np.zeros((3, K), np.float32), np.zeros((3, K), np.int64)
    f(*map(tvm_ffi.from_dlpack, (x, values, columns)))
    np.testing.assert_array_equal(columns, fg.library.softmax_topk.reference(x, k=K)[1])
    with pytest.raises(ValueError, match="softmax_topk: rows have 3 columns, but the text asks"):
        f(*map(tvm_ffi.from_dlpack, (x[:, :3], values, columns)))
    with pytest.raises(TypeError, match="not exported for tensors of these types"):
        f(*map(tvm_ffi.from_dlpack, (x.astype(np.float64), values, columns)))


@pytest.mark.long
def test_a_program_in_cpp_calls_it(best: Path, tmp_path: Path) -> None:
    """The example, by the package's own C++, run without Python."""
    pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
    from tvm_ffi import libinfo

    source, program = EXAMPLES / "by_tvm_ffi.cpp", tmp_path / "program"
    library = Path(libinfo.find_libtvm_ffi())
    headers = [f"-I{p}" for p in (libinfo.find_include_path(), libinfo.find_dlpack_include_path())]
    build = ["c++", "-std=c++17", *headers, str(source), str(library),
             f"-Wl,-rpath,{library.parent}", "-o", str(program)]
    for command in (build, [str(program), str(best)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=PATHS)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "64 rows, greatest relative error" in done.stdout
    assert "softmax_topk: rows have 3 columns, but the text asks for at least 5" in done.stdout


def test_torch_calls_it(best: Path) -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    f = tvm_ffi.load_module(str(best)).softmax_topk
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2)):
        x = torch.randn(2, 3, 100, generator=torch.Generator().manual_seed(0)).to(dtype)
        values, columns = torch.zeros(2, 3, K, dtype=dtype), torch.zeros(2, 3, K, dtype=torch.int64)
        f(x, values, columns)
        want = torch.softmax(x.double(), -1).topk(K)
        torch.testing.assert_close(values.double(), want.values, rtol=tolerance, atol=0)


def test_jax_calls_it(best: Path) -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
    jax_tvm_ffi = pytest.importorskip("jax_tvm_ffi", reason="jax-tvm-ffi is not installed")
    jax = pytest.importorskip("jax", reason="jax is not installed")
    f = tvm_ffi.load_module(str(best)).softmax_topk
    jax_tvm_ffi.register_ffi_target("fusegen_softmax_topk", f, platform="cpu")
    x = np.random.default_rng(4).normal(size=(3, 50)).astype(np.float32)
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        made = [jax.ShapeDtypeStruct((3, K), kind) for kind in ("float32", "int64")]
        values, columns = jax.jit(jax.ffi.ffi_call("fusegen_softmax_topk", made))(x)
    finally:
        jax.config.update("jax_enable_x64", before)
    want, where = fg.library.softmax_topk.reference(x, k=K)
    np.testing.assert_allclose(values, want, 2e-6)
    np.testing.assert_array_equal(columns, where)


_SAME = """
#include <cstddef>
#include <tvm/ffi/c_api.h>
#include "tvm_ffi.hpp"
using namespace fusegen::ffi;
#define SAME(ours, a, theirs, b) static_assert(offsetof(ours, a) == offsetof(theirs, b), #a)
static_assert(sizeof(Any) == sizeof(TVMFFIAny) && sizeof(Object) == sizeof(TVMFFIObject));
static_assert(sizeof(Tensor) == sizeof(DLTensor));
SAME(Any, kind, TVMFFIAny, type_index); SAME(Any, number, TVMFFIAny, v_int64);
SAME(Any, pointer, TVMFFIAny, v_ptr); SAME(Tensor, data, DLTensor, data);
SAME(Tensor, device, DLTensor, device); SAME(Tensor, n_axes, DLTensor, ndim);
SAME(Tensor, type, DLTensor, dtype); SAME(Tensor, shape, DLTensor, shape);
SAME(Tensor, strides, DLTensor, strides); SAME(Tensor, byte_offset, DLTensor, byte_offset);
static_assert(kNone == kTVMFFINone && kInt == kTVMFFIInt && kTensorPointer == kTVMFFIDLTensorPtr);
static_assert(kTensorObject == kTVMFFITensor && kCpu == kDLCPU && kCuda == kDLCUDA);
static_assert(kCudaHost == kDLCUDAHost && kCudaManaged == kDLCUDAManaged);
"""


def test_layouts_are_those_of_its_header(tmp_path: Path) -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
    home = Path(str(tvm_ffi.__file__)).parent / "include"
    (tmp_path / "same.cpp").write_text(_SAME)
    command = ["c++", "-std=c++17", "-fsyntax-only", f"-I{home}", f"-I{template_root() / 'export'}",
               str(tmp_path / "same.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
