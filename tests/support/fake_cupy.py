"""As much of CuPy as fusegen asks; the memory and the driver are fake_gpu.py's."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import types
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import simt

from fusegen.backend.cuda import run as cuda
from fusegen.backend.cuda.run import chain, device, driver, executable, families, meets, seals
from support.fake_gpu import L2_BYTES, MULTIPROCESSORS, NAME, Gpu


class Array:
    """cupy.ndarray, as far as fusegen goes: NumPy's in memory of a device's."""

    gpu: Gpu
    __module__ = "cupy"

    def __init__(
        self, shape: Any, dtype: Any = float, host: Any = None, index: int = -1,
        memptr: Any = None, strides: Any = None,
    ) -> None:
        self.index = self.gpu.current if index < 0 else index
        if memptr is not None:
            self.index = memptr.device_id
            host = np.lib.stride_tricks.as_strided(memptr.first, shape, strides)
        elif host is None:
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            host = self.gpu.allocate(size, self.index).view(dtype).reshape(shape)
        self.host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(
            ptr=self.host.ctypes.data, device_id=self.index, first=self.host
        )

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.host.__array_interface__

    def _like(self, host: np.ndarray) -> Array:
        """A view, or memory of the device's own for a copy that NumPy made."""
        if host.size == 0 or np.may_share_memory(host, self.host):
            return Array(host.shape, host.dtype, host, self.index)
        found = Array(host.shape, host.dtype, index=self.index)
        found.host[...] = host
        return found

    def __array_function__(self, function: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        plain = [a.host if isinstance(a, Array) else a for a in args]
        found = function(*plain, **kwargs)
        return self._like(found) if isinstance(found, np.ndarray) else found

    def __getitem__(self, key: Any) -> Array:
        return self._like(self.host[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[key] = value.host if isinstance(value, Array) else value

    def reshape(self, *shape: Any) -> Array:
        return self._like(self.host.reshape(*shape))

    def transpose(self, *order: Any) -> Array:
        return self._like(self.host.transpose(*order))

    def view(self, kind: Any) -> Array:
        return self._like(self.host.view(kind))

    def astype(self, kind: Any) -> Array:
        return self._like(self.host.astype(kind))

    def copy(self, order: str = "C") -> Array:
        return self._like(self.host.copy(order=order))

    def get(self) -> np.ndarray:
        return self.host.copy()


def array(values: Any, index: int = 0, shift: int = 0) -> Any:
    """A CuPy array of these values on a GPU, `shift` elements off alignment."""
    host = np.asarray(values)
    whole = Array(host.size + shift, host.dtype, index=index)
    found = whole[shift:].reshape(host.shape)
    found[...] = host
    return found


class _Device:
    gpu: Gpu

    def __init__(self, index: int | None = None) -> None:
        self.id = self.gpu.current if index is None else index
        self.compute_capability = "90"
        self.attributes = {"MultiProcessorCount": MULTIPROCESSORS, "L2CacheSize": L2_BYTES}

    def __enter__(self) -> None:
        self.before = self.gpu.current
        self.gpu.current = self.id

    def __exit__(self, *_: Any) -> None:
        self.gpu.current = self.before

    def synchronize(self) -> None:
        """All work is done when it was queued."""


class _Event:
    """A point in the machine's time."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.time = gpu, 0.0

    def record(self) -> None:
        self.time = self.gpu.clock

    @property
    def done(self) -> bool:
        """Was the machine here before the host had queued what is timed?"""
        self.gpu.late -= 1
        return self.gpu.late >= 0

    def synchronize(self) -> None:
        """All work is done when it was queued."""


def _nvrtc() -> Any:
    """A compiler that leaves the source as it is."""
    return types.SimpleNamespace(
        getVersion=lambda: (0, 0), getSupportedArchs=lambda: (80, 90), NVRTCError=RuntimeError,
        createProgram=lambda source, *_: source, compileProgram=lambda program, options: None,
        getCUBIN=str.encode, destroyProgram=lambda program: None,
    )


def _at(address: int, kind: Any, *shape: int) -> Any:
    """Numbers there: rows of so many."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), kind).reshape(shape)


_FLOATS = {0: np.float32, 2: np.float16, 14: ml_dtypes.bfloat16}


def _gemm_ex(
    handle: int, across: int, straight: int, m: int, n: int, k: int, one: int, a: int, a_kind: int,
    a_apart: int, b: int, b_kind: int, b_apart: int, none: int, c: int, c_kind: int, c_apart: int,
    compute: int, algorithm: int,
) -> None:
    """cublasGemmEx in float32: c of n columns of m numbers, c_apart from one to the next, and
    likewise a and b, or, across, their transposes. What lies between stays as it was."""
    assert (handle, compute) == (1, 68)
    assert a_apart >= (k if across else m)
    assert b_apart >= (n if straight else k)
    left = _columns(a, a_kind, a_apart, m if across else k, k if across else m)
    right = _columns(b, b_kind, b_apart, k if straight else n, n if straight else k)
    found = _at(one, "f4", 1)[0] * ((right.T if straight else right) @ (left.T if across else left))
    kept = _at(none, "f4", 1)[0]
    for i in range(n):
        kind = np.dtype(_FLOATS[c_kind])
        to = _at(c + i * c_apart * kind.itemsize, kind, m)
        to[:] = (found[i] + to.astype("f4") if kept else found[i]).astype(kind)


def _columns(start: int, kind: int, apart: int, count: int, length: int) -> Any:
    return np.array([_vector(start, kind, i * apart, length) for i in range(count)])


def _vector(start: int, kind: int, number: int, length: int) -> Any:
    float_type = np.dtype(_FLOATS[kind])
    return _at(start + number * float_type.itemsize, float_type, length).astype("f4")


def _unowned(address: int, size: int, owner: Any) -> Any:
    return address


def _cupy(gpu: Gpu) -> Any:
    Array.gpu = _Device.gpu = gpu

    class Module:
        def load(self, code: bytes) -> None:
            text = code.decode()
            self.get_function = gpu.module_of(simt.compile_module(text, check=False), text)

    def from_external(stream: Any) -> Any:
        return gpu.on_stream(stream.__cuda_stream__()[1], "cupy", gpu.current)

    def asarray(given: Any) -> Any:
        if isinstance(given, np.ndarray) or given.index != gpu.current:  # as CuPy's: copied there
            return array(given if isinstance(given, np.ndarray) else given.host, gpu.current)
        return Array((), float, given.host, given.index)

    def bind() -> None:
        gpu.current = gpu.current

    streams = types.SimpleNamespace(from_external=from_external)
    return types.SimpleNamespace(
        __file__=__file__, ndarray=Array, asarray=asarray, asnumpy=lambda a: a.get(),
        cuda=types.SimpleNamespace(
            Device=_Device, Stream=streams, Event=lambda: _Event(gpu),
            get_elapsed_time=lambda start, end: (end.time - start.time) * 1e3,
            function=types.SimpleNamespace(Module=Module),
            driver=types.SimpleNamespace(ctxGetCurrent=lambda: gpu.context),
            get_cuda_path=lambda: None, nvrtc=_nvrtc(),
            device=types.SimpleNamespace(get_cublas_handle=lambda: 1),
            ExternalStream=lambda stream: contextlib.nullcontext(),
            using_allocator=lambda allocator: contextlib.nullcontext(),
            UnownedMemory=_unowned, MemoryPointer=lambda memory, offset: types.SimpleNamespace(
                device_id=gpu.current, first=_at(memory + offset, np.int16, 1)),
            get_current_stream=lambda i: types.SimpleNamespace(ptr=gpu.stream("cupy", i)),
            runtime=types.SimpleNamespace(getDevice=lambda: gpu.current, memGetInfo=bind,
                                          pointerGetAttributes=gpu.attributes_of,
                                          getDeviceProperties=lambda _: {"name": NAME},
                                          getDeviceCount=lambda: 2)),
    )


@contextlib.contextmanager
def installed(patch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """A fresh machine for one test."""
    gpu = Gpu()
    caches = (device.cupy_module, device.available, device.context_reader, device._target,
              families.cupy_family, families.torch_family, meets._loaded, seals._loaded)
    patch.setitem(sys.modules, "cupy", _cupy(gpu))
    cublas = types.SimpleNamespace(CUBLAS_OP_N=0, CUBLAS_OP_T=1, gemmEx=_gemm_ex)
    patch.setitem(sys.modules, "cupy_backends.cuda.libs", types.SimpleNamespace(cublas=cublas))
    for user in (executable, meets, seals, chain):
        patch.setattr(user, "driver", lambda: driver.Driver(gpu))
    for kept in caches:
        kept.cache_clear()
    assert cuda.available() is None
    yield gpu
    for kept in caches:
        kept.cache_clear()
