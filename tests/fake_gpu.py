"""A machine with GPUs in host memory: the driver, and as much of CuPy and torch as fusegen asks.

Kernels are the generated CUDA, run by the SIMT executor at launch, or at replay where a graph was
captured. Launches fail as the driver's would (a context that is not current), and memory that was
given back is no kernel's any more.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import simt

from fusegen.runtime import cuda, driver
from fusegen.runtime.cuda import device, executable, families

MULTIPROCESSORS, BLOCKS_PER_SM = 2, 4
INVALID_CONTEXT, INVALID_VALUE = 201, 1


class Gpu:
    """Devices 0 and 1, their memory, streams, and what was launched."""

    def __init__(self) -> None:
        self.mine = threading.local()
        self.live: dict[int, tuple[int, int]] = {}  # address → (bytes, device)
        self.functions: dict[int, tuple[Any, str, int]] = {}
        self.graphs: dict[int, list[Any]] = {}  # by the stream that is captured
        self.stream_ids: dict[int, int] = {}
        self.launched: list[dict[str, Any]] = []
        self.set_attributes: list[tuple[int, int, int]] = []
        self.zeroed: list[tuple[int, int, int]] = []
        self.fits = MULTIPROCESSORS * BLOCKS_PER_SM
        self.pause, self.fails = 0.0, 0  # seconds within a launch; what a launch returns

    # ---- threads ----

    @property
    def current(self) -> int:
        return getattr(self.mine, "device", 0)

    @current.setter
    def current(self, index: int) -> None:
        self.mine.device, self.mine.context = index, 0xC000 + index

    @property
    def context(self) -> int:
        return getattr(self.mine, "context", 0)

    def stream(self, library: str, index: int) -> int:
        return getattr(self.mine, "streams", {}).get((library, index), 0)

    @contextlib.contextmanager
    def on_stream(self, handle: int, library: str = "cupy", index: int = 0) -> Iterator[None]:
        before = dict(getattr(self.mine, "streams", {}))
        self.mine.streams = {**before, (library, index): handle}
        yield
        self.mine.streams = before

    @contextlib.contextmanager
    def capture(self, handle: int) -> Iterator[list[Any]]:
        self.graphs[handle] = graph = []
        yield graph
        del self.graphs[handle]

    def replay(self, graph: list[Any]) -> None:
        for node in graph:
            node()

    # ---- memory ----

    def allocate(self, n_bytes: int, index: int) -> np.ndarray:
        """Poisoned bytes that begin on a multiple of 512 bytes, as those of the real pools."""
        whole = np.full(max(n_bytes, 1) + 512, 0xCD, np.uint8)
        found = whole[-whole.ctypes.data % 512 :][:n_bytes]
        self.live[found.ctypes.data] = (n_bytes, index)
        weakref.finalize(whole, self.live.pop, found.ctypes.data, None)
        return found

    def reach(self, pointer: int, index: int) -> int:
        """Bytes from the pointer to the end of its allocation."""
        for start, (size, place) in list(self.live.items()):
            if start <= pointer < start + size:
                assert place == index, f"memory of GPU {place} used on GPU {index}"
                return start + size - pointer
        raise AssertionError(f"{pointer:#x} is not allocated, or no more")

    def module_of(self, built: simt.SimtModule | None) -> Any:
        """A loaded module; without one, kernels do nothing."""

        def get_function(symbol: str) -> Any:
            handle = 0xF000 + len(self.functions)
            self.functions[handle] = (built, symbol, self.current)
            return types.SimpleNamespace(kernel=types.SimpleNamespace(ptr=handle))

        return types.SimpleNamespace(get_function=get_function)

    # ---- the driver's functions ----

    def cuGetErrorName(self, code: Any, text: Any) -> int:
        text._obj.value = b"CUDA_ERROR_%d" % code.value
        return 0

    cuGetErrorString = cuGetErrorName

    def cuFuncSetAttribute(self, function: Any, attribute: Any, value: Any) -> int:
        self.set_attributes.append((function.value, attribute.value, value.value))
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, found: Any, *_: Any) -> int:
        found._obj.value = self.fits // MULTIPROCESSORS
        return 0

    def cuOccupancyMaxActiveClusters(self, found: Any, function: Any, config: Any) -> int:
        found._obj.value = self.fits // config._obj.grid[0]
        return 0

    def cuStreamIsCapturing(self, stream: Any, status: Any) -> int:
        status._obj.value = int((stream.value or 0) in self.graphs)
        return 0

    def cuStreamGetId(self, stream: Any, found: Any) -> int:
        found._obj.value = self.stream_ids.get(stream.value or 0, stream.value or 0)
        return 0

    def cuStreamSynchronize(self, stream: Any) -> int:
        return 900 if (stream.value or 0) in self.graphs else 0

    def cuMemsetD8Async(self, pointer: Any, value: Any, n_bytes: Any, stream: Any) -> int:
        where, size = pointer.value, n_bytes.value
        self.zeroed.append((where, size, stream.value or 0))
        return self._queue(stream.value or 0, lambda: self._fill(where, value.value, size))

    def cuLaunchKernelEx(self, room: Any, function: Any, params: Any, extra: Any) -> int:
        seen = self._read(room, function.value, params)
        if self.pause:
            time.sleep(self.pause)  # another thread may write meanwhile
        assert self._read(room, function.value, params) == seen
        if self.fails:
            return self.fails
        if self.context != 0xC000 + seen["device"]:
            return INVALID_CONTEXT
        if seen["grid"] % max(1, seen["attributes"].get(4, (1,))[0]):
            return INVALID_VALUE
        self.launched.append(seen)
        return self._queue(seen["stream"], lambda: self._run(seen))

    def _read(self, room: Any, function: int, params: Any) -> dict[str, Any]:
        config = driver._Config.from_address(ctypes.addressof(room))
        table = (driver._Attribute * config.count).from_address(config.attributes)
        module, symbol, index = self.functions[function]
        words = [ctypes.c_int64.from_address(p).value for p in params]
        return {"module": module, "symbol": symbol, "device": index, "words": words,
                "grid": config.grid[0], "threads": config.block[0], "shared": config.shared,
                "stream": config.stream or 0,
                "attributes": {a.id: tuple(a.value[:3]) for a in table}}  # fmt: skip

    def _queue(self, stream: int, work: Any) -> int:
        if stream in self.graphs:
            self.graphs[stream].append(work)
        else:
            work()
        return 0

    def _fill(self, pointer: int, value: int, size: int) -> None:
        assert self.reach(pointer, self.current) >= size
        ctypes.memset(pointer, value, size)

    def _run(self, seen: dict[str, Any]) -> None:
        module: simt.SimtModule | None = seen["module"]
        if module is None:
            return
        args: list[Any] = []
        for parameter, word in zip(module._parameters[seen["symbol"]], seen["words"], strict=True):
            args.append(self._array(word, parameter, seen["device"]) if parameter.pointer else word)
        arrays = {i for i, a in enumerate(args) if isinstance(a, np.ndarray)}
        module.launch(seen["symbol"], (seen["grid"],), (seen["threads"],), args, outputs=arrays,
                      initialised=arrays, shared_bytes=seen["shared"])  # fmt: skip

    def _array(self, pointer: int, parameter: Any, index: int) -> np.ndarray:
        known = parameter.letter in "fiu"
        kind = np.dtype(f"{parameter.letter}{parameter.size}" if known else "u1")
        count = self.reach(pointer, index) // kind.itemsize
        return np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(pointer), kind)


# ---- CuPy ----


class Array:
    """cupy.ndarray, as far as fusegen goes: NumPy's in memory of a device's."""

    gpu: Gpu
    __module__ = "cupy"

    def __init__(self, shape: Any, dtype: Any = float, host: Any = None, index: int = -1) -> None:
        self.index = self.gpu.current if index < 0 else index
        if host is None:
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            host = self.gpu.allocate(size, self.index).view(dtype).reshape(shape)
        self.host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self.host.ctypes.data, device_id=self.index)

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
        self.compute_capability, self.attributes = "90", {"MultiProcessorCount": MULTIPROCESSORS}

    def __enter__(self) -> None:
        self.before = self.gpu.current
        self.gpu.current = self.id

    def __exit__(self, *_: Any) -> None:
        self.gpu.current = self.before


def _cupy(gpu: Gpu) -> Any:
    Array.gpu = _Device.gpu = gpu

    def module(code: str, options: Any) -> Any:
        return gpu.module_of(simt.compile_module(code, check=False))

    def from_external(stream: Any) -> Any:
        return gpu.on_stream(stream.__cuda_stream__()[1], "cupy", gpu.current)

    def asarray(given: Any) -> Any:
        return Array((), float, given.host, given.index)

    def bind() -> None:
        gpu.current = gpu.current

    streams = types.SimpleNamespace(from_external=from_external)
    found = types.SimpleNamespace(
        ndarray=Array, asarray=asarray, asnumpy=lambda a: a.get(), RawModule=module,
        cuda=types.SimpleNamespace(
            Device=_Device, Stream=streams,
            driver=types.SimpleNamespace(ctxGetCurrent=lambda: gpu.context),
            compiler=types.SimpleNamespace(CompileException=simt.SimtError),
            get_current_stream=lambda i: types.SimpleNamespace(ptr=gpu.stream("cupy", i)),
            runtime=types.SimpleNamespace(getDevice=lambda: gpu.current, memGetInfo=bind,
                                          getDeviceCount=lambda: 2))  # fmt: skip
    )
    return found


@contextlib.contextmanager
def installed(patch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """A fresh machine for one test."""
    gpu = Gpu()
    caches = (device.cupy_module, device.available, device.context_reader, families.cupy_family,
              families.torch_family)  # fmt: skip
    patch.setitem(sys.modules, "cupy", _cupy(gpu))
    patch.setattr(executable, "driver", lambda: driver.Driver(gpu))
    for kept in caches:
        kept.cache_clear()
    assert cuda.available() is None
    yield gpu
    for kept in caches:
        kept.cache_clear()
