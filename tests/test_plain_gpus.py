"""Libraries on GPUs' arrays without CuPy: how arrays are seen, whose streams are used, what is
refused. Memory is this process's, kernels are the text in NumPy."""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import fake_gpu, fake_torch
from support.exported import named_images

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.cuda.plain import context
from fusegen.backend.cuda.plain import memory as plain
from fusegen.backend.cuda.plain.view import Place, View
from fusegen.backend.cuda.run import device

K = 3


# ---- views are NumPy's ----


def view_of(array: np.ndarray) -> View:
    return View(array.shape, array.dtype, Place(array.ctypes.data, 0, None), array.strides)


def same(view: Any, array: np.ndarray) -> None:
    assert view.shape == array.shape
    steps = zip(array.shape, view.strides, array.strides, strict=True)
    assert all(n == 1 or a == b for n, a, b in steps)
    assert view.data.ptr == array.ctypes.data or not array.size


def test_views_are_what_numpy_sees() -> None:
    """Of random arrays in random order; a shape that NumPy would copy for has no view."""
    rng, seen, copied = np.random.default_rng(0), 0, 0
    for _ in range(400):
        shape = tuple(rng.integers(1, 5, rng.integers(1, 5)))
        whole = np.zeros(shape, np.float32)
        step = tuple(slice(int(rng.integers(0, n)), None, int(rng.integers(1, 3))) for n in shape)
        order = tuple(rng.permutation(len(shape)))
        array, view = whole[step].transpose(order), view_of(whole)[step].transpose(order)
        same(view, array)
        assert view.flags.c_contiguous == array.flags.c_contiguous
        more = (2, *array.shape)
        same(np.broadcast_to(view, more), np.broadcast_to(array, more))
        ends = range(array.ndim - 1, array.ndim)
        same(np.moveaxis(view, (0,), ends), np.moveaxis(array, (0,), ends))
        for wanted in {(array.size,), (1, array.size, 1), array.shape[::-1],
                       (array.shape[0], array.size // array.shape[0])}:
            made = array.reshape(wanted)
            if np.may_share_memory(made, whole):
                same(view.reshape(wanted), made)
                seen += 1
            else:
                with pytest.raises(fg.ArgumentError, match="nothing here can copy"):
                    view.reshape(wanted)
                copied += 1
    assert min(seen, copied) > 100


# ---- calls ----


class Driver:
    """libcuda, as far as contexts and streams go: a context is a GPU's number, and one."""

    def __init__(self) -> None:
        self.current, self.waited = 0, list[int]()

    def cuCtxGetDevice(self, found: Any) -> int:
        found._obj.value = self.current - 1
        return 0 if self.current else 201

    def cuCtxGetCurrent(self, found: Any) -> int:
        found._obj.value = self.current or None
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.current = context.value or 0
        return 0

    def cuDevicePrimaryCtxRetain(self, found: Any, index: Any) -> int:
        found._obj.value = index.value + 1
        return 0

    def cuPointerGetAttribute(self, found: Any, which: Any, pointer: Any) -> int:
        found._obj.value = 1
        return 0

    def cuStreamSynchronize(self, stream: Any) -> int:
        self.waited.append(stream.value)
        return 0


@fg.pipeline
def softmax_best(x, w: fg.PerRow, *, t: fg.Positive = 1.0):
    """A full row, a value and a list a row; rows with a number each."""
    e = fg.exp((x - fg.max(x)) / t)
    return e / fg.sum(e) * w, fg.sum(x), fg.topk(x, 3)


class Library:
    """What was exported, in NumPy: arrays by their addresses, as the C ABI has them."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.calls = driver, list[tuple[int, int]]()

    def function(self, name: str, *types: Any, result: Any) -> Any:
        return self.run if name.endswith("_cuda") else lambda: b"as the test asked"

    def run(self, x: int, x_stride: int, w: int, y: int, y_stride: int, total: int, values: int,
            columns: int, t: float, n_rows: int, n_cols: int, stream: int) -> int:
        def array(at: int, step: int, width: int, kind: Any = np.float32) -> np.ndarray:
            size = np.dtype(kind).itemsize
            low = min(0, (n_rows - 1) * step)
            count = (abs((n_rows - 1) * step) + width) * size
            flat = np.frombuffer((ctypes.c_char * count).from_address(at + low * size), kind)
            return np.lib.stride_tricks.as_strided(
                flat[-low:], (n_rows, width), (step * size, size))

        self.calls.append((self.driver.current - 1, stream))
        want = softmax_best.reference(array(x, x_stride, n_cols), array(w, 1, 1)[:, 0], t=t)
        out = [array(y, y_stride, n_cols), array(total, 1, 1), array(values, K, K),
               array(columns, K, K, np.int64)]
        made = [want[0], want[1][:, None], *want[2]]
        for one, values_ in zip(out, made, strict=True):
            one[...] = values_
        return 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_compiler() is None:
        pytest.skip("no C++ compiler")
    made = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patch:
        named_images(patch)
        softmax_best.export(made, targets=("sm_90",), row_lengths=(64,))
    return made


@pytest.fixture
def served(
    folder: Path, gpu: fake_gpu.Gpu, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, Library]]:
    driver = Driver()
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module(gpu))
    monkeypatch.setattr(context, "_library", lambda: driver)
    context._context.cache_clear()
    p, library = fg.load(folder), Library(driver)
    for _, variant in p._variants:
        variant.library = library
    yield p, library
    context._context.cache_clear()
    assert driver.current == 0, "the thread's context is what it was"


def test_cupy_is_asked_for_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert not plain.has_cupy()
    monkeypatch.setitem(sys.modules, "cupy", sys)
    assert plain.has_cupy()


@pytest.mark.long
def test_tensors_as_they_lie(served: tuple[Any, Library], gpu: fake_gpu.Gpu) -> None:
    """Every axis, strides of all kinds: copied where rows cannot be read, by torch."""
    p, library = served
    rng = np.random.default_rng(0)
    base = rng.normal(size=(4, 6, 10)).astype(np.float32)
    for cut, axis in itertools.product(
            ((slice(None),) * 3, (slice(None, None, 2), slice(1, 5), slice(0, 10, 2)),
             (slice(2), slice(None), slice(3, 9)), (slice(0), slice(None), slice(None))),
            (-1, 0, 1, (0, 2))):
        x = fake_torch.tensor(base, index=1)
        x = fake_torch.Tensor(x.host[cut], x.dtype, 1)
        if np.take(x.shape, axis).prod() < K:
            continue
        rows = np.delete(np.array(x.shape), axis)
        w = fake_torch.tensor(rng.uniform(1, 2, rows).astype(np.float32), index=1)
        with gpu.on_stream(0x70, "torch", 1):
            y, total, (values, columns) = p(x, w, axis=axis, t=0.7)
        want = softmax_best.reference(x.host, w.host, axis=axis, t=0.7) if x.host.size else (
            y.host, total.host, (values.host, columns.host))
        assert y.dtype.name == "float32"
        assert (y.index, columns.dtype.name) == (1, "int64")
        np.testing.assert_allclose(y.host, want[0], 1e-6)
        np.testing.assert_allclose(total.host, want[1], 1e-4, 1e-5)
        np.testing.assert_array_equal(columns.host, want[2][1])
        np.testing.assert_array_equal(values.host, want[2][0])
    assert set(library.calls) == {(1, 0x70)}


def test_results_into_tensors(served: tuple[Any, Library]) -> None:
    p, _ = served
    x = fake_torch.tensor(np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32))
    w = fake_torch.tensor(np.ones(5, np.float32))
    wide = fake_torch.tensor(np.zeros((5, 16), np.float32))
    for y in (fake_torch.tensor(np.zeros((5, 8), np.float32)),
              fake_torch.Tensor(wide.host[:, 8:], wide.dtype, 0),
              fake_torch.Tensor(wide.host[:, ::2], wide.dtype, 0)):  # by a copy
        found = p(x, w, out=(y, None, (None, None)))
        assert found[0] is y
        np.testing.assert_allclose(y.host, softmax_best.reference(x.host, w.host)[0], 1e-6)
    with pytest.raises(fg.ArgumentError, match=r"out.* overlaps the input x"):
        p(x, w, out=(x, None, (None, None)))


class Interface:
    """An array of a library that has the CUDA array interface alone."""

    def __init__(self, host: np.ndarray, stream: int | None = None, **more: Any) -> None:
        self.host = host
        told = dict(host.__array_interface__)
        self.__cuda_array_interface__ = {**told, "version": 3, "stream": stream, **more}


def test_arrays_with_the_interface_alone(served: tuple[Any, Library]) -> None:
    p, library = served
    host = np.random.default_rng(2).normal(size=(5, 8)).astype(np.float32)
    x, w = Interface(host, 0x20), Interface(np.ones(5, np.float32), 0x30)
    y, total = Interface(np.zeros((5, 8), np.float32)), Interface(np.zeros(5, np.float32), 0x20)
    best = Interface(np.zeros((5, K), np.float32)), Interface(np.zeros((5, K), np.int64))
    found = p(x, w, out=(y, total, best))
    assert found[0] is y
    want = softmax_best.reference(host, w.host)
    np.testing.assert_allclose(y.host, want[0], 1e-6)
    np.testing.assert_array_equal(best[1].host, want[2][1])
    assert library.calls == [(1, 0x20)]
    assert library.driver.waited == [0x30], "what another stream still does is waited for"
    with pytest.raises(fg.ArgumentError, match=r"(?s)nothing here makes arrays like .*out=…"):
        p(x, w)
    with pytest.raises(fg.ArgumentError, match="nothing here can copy"):
        p(Interface(host[:, ::2]), w, out=(Interface(np.zeros((5, 4), np.float32)), total, best))
    fixed = Interface(y.host, data=(y.host.ctypes.data, True))
    with pytest.raises(fg.ArgumentError, match="cannot be written to"):
        p(x, w, out=(fixed, total, best))
    with pytest.raises(fg.ArgumentError, match="masked"):
        p(Interface(host, mask=host), w)
    with pytest.raises(fg.DTypeError, match="complex64"):
        p(Interface(host.view(np.complex64)), w)


class Dlpack:
    """An array that has DLPack alone; NumPy's capsule, which says another device."""

    def __init__(self, host: np.ndarray) -> None:
        self.host, self.streams = host, list[Any]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: Any = None) -> Any:
        self.streams.append(stream)
        return self.host.__dlpack__()


def test_arrays_with_dlpack_alone(served: tuple[Any, Library]) -> None:
    p, library = served
    host = np.random.default_rng(3).normal(size=(5, 8)).astype(np.float32)
    x, w = Dlpack(host[::-1]), Dlpack(np.ones(5, np.float32))
    out = tuple(Dlpack(np.zeros(n, np.float32)) for n in ((5, 8), 5, (5, K)))
    columns = Dlpack(np.zeros((5, K), np.int64))
    p(x, w, out=(*out[:2], (out[2], columns)))
    want = softmax_best.reference(host[::-1], w.host)
    np.testing.assert_allclose(out[0].host, want[0], 1e-6)
    np.testing.assert_array_equal(columns.host, want[2][1])
    assert library.calls == [(0, 1)], "the legacy stream, on which DLPack was asked for the values"
    assert x.streams == [1]
    with pytest.raises(fg.DTypeError, match=r"type of DLPack"):
        p(Dlpack(np.zeros((5, 8), np.complex64)), w)


def test_what_needs_a_compiler_needs_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(context, "_library", Driver)
    caches = device.cupy_module, device.available
    for one in caches:
        one.cache_clear()
    x = Interface(np.zeros((2, 8, 4), np.float32))
    for axis in (-1, 0, 1):
        out = Interface(np.zeros(np.delete(x.host.shape, axis), np.float32))
        with pytest.raises(fg.BackendError, match="CuPy cannot be imported"):
            fg.library.logsumexp(x, axis=axis, out=out)
        with pytest.raises(fg.ArgumentError, match="or install CuPy"):
            fg.library.logsumexp(x, axis=axis)
    for one in caches:
        one.cache_clear()
