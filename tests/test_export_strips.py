"""Rows side by side in exported libraries: another axis than the last, reduced where it is."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import fake_gpu, fake_torch
from support.exported import CLibrary, fake_driver, named_images

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.cuda.export import strip_classes
from fusegen.backend.cuda.plain import context
from fusegen.backend.registry import target_named
from fusegen.backend.target import host_cpu, runnable
from fusegen.pipeline.variants import Choices

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
BAD_ARGUMENT, BAD_SHAPE, BAD_CONSTANT = 1, 2, 6


@fg.pipeline
def weighed(x, w: fg.PerColumn, g: fg.PerRow, *, t: fg.Positive = 1.0):
    """Every shape of array that such rows have."""
    e = fg.exp((x - fg.max(x)) / t)
    return e / fg.sum(e) * w * g, fg.sum(x)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For processors, too, which have no such functions."""
    with pytest.MonkeyPatch.context() as patch:
        named_images(patch)
        return weighed.export(tmp_path_factory.mktemp("strips"), row_lengths=(64,),
                              targets=("sm_90", runnable(host_cpu())[0].name), side_by_side=True)


_CALLS = """
import ctypes, json, sys
library, fake = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
fake.fake_noted.restype = library.weighed_error.restype = ctypes.c_char_p
found = []
for x, xo, xs, yo, ys, n_outer, n_cols, n_inner in json.loads(sys.argv[2]):
    fake.fake_forget()
    p, n = ctypes.c_void_p, ctypes.c_int64
    status = library.weighed_float32_cuda_side_by_side(
        p(x), n(xo), n(xs), p(1 << 50), p(1 << 51), p(1 << 52), n(yo), n(ys), p(1 << 53),
        ctypes.c_double(0.7), n(n_outer), n(n_cols), n(n_inner), p(77))
    found.append([status, library.weighed_error().decode(), fake.fake_noted().decode()])
print(json.dumps(found))
"""


def called(file: Path, *calls: tuple[int, ...]) -> list[Any]:
    """(status, error, notes) of each call, by a driver that only takes notes."""
    done = subprocess.run([sys.executable, "-S", "-c", _CALLS, str(file), json.dumps(calls)],
                          capture_output=True, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": str(fake_driver())})
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.long
def test_calls_get_the_kernel_of_their_rows(file: Path) -> None:
    x, n = 1 << 54, 1 << 12
    whole, odd, long, none = called(
        file, (x, 0, n, 0, n, 1, 200, n), (x + 4, 700, 7, 700, 7, 9, 100, 7),
        (x, 0, 64, 0, 64, 1, 1 << 22, 64), (x, 64, 8, 64, 8, 0, 8, 8))
    images = []
    for status, said, notes in (whole, odd, long):
        assert status == 0, said
        (line,) = [ln for ln in notes.splitlines() if ln.startswith("launch")]
        images.append(line.split()[1])
        assert "stream 77" in line
    assert len(set(images)) == 3, "aligned, unaligned and long rows have kernels of their own"
    assert none == [0, "", ""], "no rows, no launch"


def test_the_last_kernel_takes_rows_of_any_kind() -> None:
    target = target_named("sm_90")
    typed = weighed.of_types(*weighed.assumed("float64", (), {}), Choices()).typed
    last = list(strip_classes(target))[-1].schedule(typed, target)
    assert (last.width, last.blocks) == (1, 1)


@pytest.mark.long
def test_results_whose_elements_overlap_are_refused(file: Path) -> None:
    """Of random strides exactly those where two elements have one address, or are in turn."""
    rng, calls, wanted = np.random.default_rng(0), [], []
    for _ in range(300):
        n_outer, n_cols, n_inner = map(int, rng.integers(1, 4, 3))
        outer, stride = map(int, rng.integers(0, 14, 2))
        places = np.add.outer(np.add.outer(np.arange(n_outer) * outer, np.arange(n_cols) * stride),
                              np.arange(n_inner)).ravel()
        calls.append((1 << 54, n_cols * n_inner, n_inner, outer, stride, n_outer, n_cols, n_inner))
        wanted.append(len(set(places)) == places.size)
    served = 0
    for (status, said, _), call, apart in zip(called(file, *calls), calls, wanted, strict=True):
        assert status in (0, BAD_ARGUMENT), said
        assert apart or status == BAD_ARGUMENT, call
        served += status == 0
        if status:
            assert "elements of mul_2 overlap: its strides are" in said
    assert served > 0.8 * sum(wanted), "rows in turn alone are refused without need"


def test_what_is_refused_is_said(file: Path) -> None:
    library = CLibrary(file, "weighed")
    x, y = np.zeros((2, 6, 8), np.float32), np.zeros((2, 6, 8), np.float32)
    w, g, total = np.zeros(6, np.float32), np.zeros(16, np.float32), np.zeros(16, np.float32)
    usual: dict[str, Any] = {
        "x": x, "xo": 48, "xs": 8, "w": w, "g": g, "y": y, "yo": 48, "ys": 8, "total": total,
        "t": 1.0, "n_outer": 2, "n_cols": 6, "n_inner": 8, "stream": 0}
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({"x": None}, BAD_ARGUMENT, "x is null"), ({"total": None}, BAD_ARGUMENT, "sum_x is null"),
        ({"y": x}, BAD_ARGUMENT, "x and mul_2 share memory"),
        ({"y": x.reshape(-1)[8:]}, BAD_ARGUMENT, "x and mul_2 share memory"),
        ({"total": y}, BAD_ARGUMENT, "mul_2 and sum_x share memory"),
        ({"xs": -8}, BAD_ARGUMENT, "x goes backwards"), ({"ys": 7}, BAD_ARGUMENT, "mul_2 overlap"),
        ({"n_inner": -1}, BAD_SHAPE, "no number"), ({"n_outer": -1}, BAD_SHAPE, "no number"),
        ({"n_outer": 2**62, "n_inner": 2**62}, BAD_SHAPE, "no number of rows"),
        ({"n_outer": 2**40, "n_inner": 2**20}, BAD_SHAPE, "larger than memory"),
        ({"n_cols": 0}, BAD_SHAPE, "0 columns"), ({"n_cols": 2**60}, BAD_SHAPE, "than memory"),
        ({"xs": 2**62}, BAD_SHAPE, "x is larger than memory"),
        ({"xo": 2**63 - 1}, BAD_SHAPE, "x is larger than memory"),
        ({"t": -1.0}, BAD_CONSTANT, "t is -1"), ({"t": float("nan")}, BAD_CONSTANT, "t is nan"),
    ]
    for change, status, said in wrong:
        given = usual | change
        assert library.status("float32_cuda_side_by_side", *given.values()) == status, said
        assert said in library.error()
    for none in ({"n_outer": 0}, {"n_inner": 0}, {"n_outer": 0, "n_inner": 0}):
        assert library.status("float32_cuda_side_by_side", *(usual | none).values()) == 0


def test_what_has_no_such_kernels_is_said(tmp_path: Path) -> None:
    with pytest.raises(fg.ArgumentError, match=r"(?s)on GPUs alone.*transpose first"):
        weighed.export(tmp_path, side_by_side=True)
    with pytest.raises(fg.ArgumentError, match=r"(?s)no kernels for rows side by side\n.*Lists"):
        fg.library.topk.export(tmp_path, targets=("sm_90",), side_by_side=True)
    with pytest.raises(fg.ArgumentError, match="side_by_side must be True or False"):
        weighed.export(tmp_path, side_by_side=1)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


class Library:
    """The exported functions in NumPy; every call's sizes."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, ...]] = []

    def function(self, name: str, *types: Any, result: Any) -> Any:
        return self.strips if name.endswith("_side_by_side") else self.rows

    def rows(self, *words: Any) -> int:
        self.sizes.append(words[-3:-1])
        return 0

    def strips(self, x: int, xo: int, xs: int, w: int, g: int, y: int, yo: int, ys: int,
               total: int, t: float, n_outer: int, n_cols: int, n_inner: int, stream: int) -> int:
        def array(at: int, strides: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
            count = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
            flat = np.frombuffer((ctypes.c_float * count).from_address(at), np.float32)
            return np.lib.stride_tricks.as_strided(flat, shape, tuple(4 * s for s in strides))

        self.sizes.append((n_outer, n_cols, n_inner))
        shape, rows = (n_outer, n_cols, n_inner), (n_outer, n_inner)
        want = weighed.reference(array(x, (xo, xs, 1), shape), array(w, (1,), (n_cols,)),
                                 array(g, (n_inner, 1), rows), axis=1, t=t)
        array(y, (yo, ys, 1), shape)[...] = want[0]
        array(total, (n_inner, 1), rows)[...] = want[1]
        return 0


def test_a_loaded_library_reduces_them_where_they_are(
    file: Path, gpu: fake_gpu.Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module(gpu))
    monkeypatch.setattr(context, "_library", lambda: None)
    monkeypatch.setattr("fusegen.backend.cuda.plain.memory.on_gpu", lambda _: gpu.on_stream(0))
    p, library = fg.load(file), Library()
    for _, variant in p._variants:
        variant.library = library
    rng = np.random.default_rng(0)
    for shape, axis, sizes in (((6, 5), 0, (1, 6, 5)), ((3, 6, 5), 1, (3, 6, 5)),
                               ((3, 6, 5), -2, (3, 6, 5)), ((6, 3, 5), 0, (1, 6, 15))):
        x, w, g = (fake_torch.tensor(rng.uniform(0.5, 2, n).astype(np.float32))
                   for n in (shape, 6, np.delete(shape, axis)))
        y, total = p(x, w, g, axis=axis, t=0.7)
        assert library.sizes.pop() == sizes
        want = weighed.reference(x.host, w.host, g.host, axis=axis, t=0.7)
        np.testing.assert_allclose(y.host, want[0], 1e-6)
        np.testing.assert_allclose(total.host, want[1], 1e-5)
        assert y.stride() == x.stride()
    on_host = x.host.swapaxes(0, 1), w.host, g.host
    found = fg.load(file)(*on_host, axis=1, t=0.7)
    np.testing.assert_allclose(found[1], total.host, 1e-5)
    p(x, fake_torch.tensor(np.ones(5, np.float32)), g=fake_torch.tensor(np.ones((6, 3), "f4")))
    assert library.sizes == [(18, 5)]


# ---- on a GPU ----


@pytest.mark.gpu
def test_results_on_a_gpu(tmp_path: Path) -> None:
    """Every kernel of the table, constants, and rows as they lie."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    arch = f"sm_{cupy.cuda.Device().compute_capability}"
    weighed.export(tmp_path, targets=(arch,), row_lengths=(1024,), side_by_side=True)
    p, rng = fg.load(tmp_path), np.random.default_rng(0)
    for shape, axis in (((200, 4096), 0), ((3000, 4096), 0), ((9000, 64), 0), ((7, 100, 9), 1),
                        ((40, 300, 1024), 1), ((5, 1000), -1)):
        x, w, g = (rng.uniform(0.5, 2, n).astype(np.float32)
                   for n in (shape, shape[axis], np.delete(shape, axis)))
        for t in (0.3, 1.7):
            y, total = p(*map(cupy.asarray, (x, w, g)), axis=axis, t=t)
            want = weighed.reference(x, w, g, axis=axis, t=t)
            np.testing.assert_allclose(cupy.asnumpy(y), want[0], 2e-5)
            np.testing.assert_allclose(cupy.asnumpy(total), want[1], 2e-5)


_WITHOUT_CUPY = """
import sys
sys.modules["cupy"] = None
import torch, fusegen as fg
p = fg.load(sys.argv[1])
for n in range(torch.cuda.device_count()):
    for shape, axis in (((300, 4096), 0), ((40, 1000), 1), ((6, 70, 33), 1), ((9, 8, 7), (0, 2))):
        x = torch.rand(shape, device=f"cuda:{n}") + 0.5
        x = x[::2] if len(shape) == 3 else x
        axes = axis if isinstance(axis, tuple) else (axis,)
        rest = [k for i, k in enumerate(x.shape) if i not in axes]
        w = torch.rand([x.shape[i] for i in axes], device=x.device) + 0.5
        g = torch.rand(rest, device=x.device) + 0.5
        stream = torch.cuda.Stream(x.device)
        stream.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.device(x.device), torch.cuda.stream(stream):
            y, total = p(x, w, g, axis=axis, t=0.7)
        stream.synchronize()
        d = x.double()
        e = torch.exp((d - d.amax(axes, keepdim=True)) / 0.7)
        shaped = [k if i in axes else 1 for i, k in enumerate(x.shape)]
        want = e / e.sum(axes, keepdim=True) * w.double().reshape(shaped)
        for i in sorted(axes):
            g = g.unsqueeze(i)
        torch.testing.assert_close(y.double(), want * g.double(), rtol=2e-5, atol=0)
        torch.testing.assert_close(total.double(), d.sum(axes), rtol=2e-5, atol=0)
        assert y.device == x.device
print("served")
"""


@pytest.mark.gpu
def test_results_on_a_gpu_without_cupy(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}"
    weighed.export(tmp_path, targets=(arch,), row_lengths=(1024,), side_by_side=True)
    done = subprocess.run([sys.executable, "-c", _WITHOUT_CUPY, str(tmp_path)], text=True,
                          capture_output=True)
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr
