"""A machine with GPUs in host memory: devices, streams, graphs, and the driver's functions.

Kernels are the generated CUDA, run by the SIMT executor at launch, or at replay where a graph was
captured. Launches fail as the driver's would (a context that is not current), and memory that was
given back is no kernel's any more.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
import types
import weakref
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import numpy as np
import simt
from simt.arguments import number_of

from fusegen.backend.cuda.run import driver
from fusegen.backend.cuda.run.tensor_maps import MAP_BYTES

MULTIPROCESSORS, BLOCKS_PER_SM = 2, 4
L2_BYTES, NAME = 1 << 16, b"Fake 2"
_MAP_TYPES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 11: 4}  # bytes
_TFLOAT32 = (11,)
INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE = 201, 1, 400


class Gpu:
    """Devices 0 and 1, their memory, streams, and what was launched."""

    def __init__(self) -> None:
        self.mine = threading.local()
        self.live: dict[int, tuple[int, int]] = {}  # address → (bytes, device)
        self.functions: dict[int, tuple[Any, str, int]] = {}
        self.sources: dict[int, str] = {}  # by function
        self.graphs: dict[int, list[Any]] = {}  # by the stream that is captured
        self.stream_ids: dict[int, int] = {}
        self.launched: list[dict[str, Any]] = []
        self.attributes: dict[tuple[int, int], int] = {}  # (function, which) → value
        self.zeroed: list[tuple[int, int, int]] = []
        self.fits = MULTIPROCESSORS * BLOCKS_PER_SM
        self.pause, self.fails = 0.0, 0  # seconds within a launch; what a launch returns
        self.clock, self.takes = 0.0, lambda seen: 1e-6  # the machine's time; seconds of a launch
        self.late = 0  # timed launches that the machine waits for, as the host is busy

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

    def attributes_of(self, pointer: int) -> Any:
        """The device that a pointer's memory is on."""
        (index,) = [i for start, (size, i) in list(self.live.items())
                    if start <= pointer < start + max(size, 1)]
        return types.SimpleNamespace(device=index)

    def reach(self, pointer: int, index: int) -> int:
        """Bytes from the pointer to the end of its allocation."""
        for start, (size, place) in list(self.live.items()):
            if start <= pointer < start + size:
                assert place == index, f"memory of GPU {place} used on GPU {index}"
                return start + size - pointer
        raise AssertionError(f"{pointer:#x} is not allocated, or no more")

    def before(self, pointer: int) -> int:
        """Bytes from the beginning of its allocation to the pointer."""
        (found,) = {pointer - start for start, (size, _) in list(self.live.items())
                    if start <= pointer < start + size}
        return found

    def module_of(self, built: simt.SimtModule | None, source: str = "") -> Any:
        """A loaded module; without one, kernels do nothing."""

        def get_function(symbol: str) -> Any:
            handle = 0xF000 + len(self.functions)
            self.functions[handle] = (built, symbol, self.current)
            self.sources[handle] = source
            return types.SimpleNamespace(ptr=handle)

        return get_function

    # ---- the driver's functions ----

    def cuGetErrorName(self, code: Any, text: Any) -> int:
        text._obj.value = b"CUDA_ERROR_%d" % code.value
        return 0

    cuGetErrorString = cuGetErrorName

    def cuFuncSetAttribute(self, function: Any, attribute: Any, value: Any) -> int:
        self.attributes[function.value, attribute.value] = value.value
        return 0

    def cuFuncGetAttribute(self, found: Any, attribute: Any, function: Any) -> int:
        found._obj.value = {1: 400}[attribute.value]  # static shared bytes
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, found: Any, function: Any, *_: Any
    ) -> int:
        if self._elsewhere(function):
            return INVALID_HANDLE
        found._obj.value = self.fits // MULTIPROCESSORS
        return 0

    def _elsewhere(self, function: Any) -> bool:
        """Is the function one of another device than the current one?"""
        return self.context != 0xC000 + self.functions[function.value][2]

    def cuOccupancyMaxActiveClusters(self, found: Any, function: Any, config: Any) -> int:
        if self._elsewhere(function):
            return INVALID_HANDLE
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

    def cuTensorMapEncodeTiled(
        self, room: Any, kind: Any, rank: Any, at: Any, extents: Any, strides: Any, box: Any,
        steps: Any, interleave: Any, swizzle: Any, promotion: Any, outside: Any,
    ) -> int:
        """Into what the executor takes for a map: of the swizzle of 128 bytes, or of none."""
        if any(s >= 2**40 for s in strides):  # no driver takes them, negative ones among them
            return INVALID_VALUE
        size = _MAP_TYPES[kind.value]
        whole = (*list(strides)[::-1], size)
        span = sum((n - 1) * s for n, s in zip(list(extents)[::-1], whole, strict=True)) + size
        memory = (ctypes.c_char * span).from_address(at.value)
        name = np.float32 if kind.value in _TFLOAT32 else f"u{size}"
        array: Any = np.ndarray(list(extents)[::-1], name, memory, 0, whole)
        if swizzle.value not in (0, 3) or interleave.value or outside.value or {*steps} != {1}:
            return INVALID_VALUE
        try:
            made = simt.TensorMap(array, tuple(box)[::-1], swizzle.value == 3,
                                  kind.value in _TFLOAT32)
        except ValueError:
            return INVALID_VALUE
        ctypes.memmove(room.value, made.encoded(), MAP_BYTES)
        return 0

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
        self.clock += self.takes(seen)
        return self._queue(seen["stream"], lambda: self._run(seen))

    def _read(self, room: Any, function: int, params: Any) -> dict[str, Any]:
        config = driver._Config.from_address(ctypes.addressof(room))
        table = (driver._Attribute * config.count).from_address(config.attributes)
        module, symbol, index = self.functions[function]
        known = module._parameters[symbol] if module else ()
        maps = [not p.pointer and p.size == MAP_BYTES for p in known]
        words = [ctypes.string_at(p, MAP_BYTES) if is_map else ctypes.c_int64.from_address(p).value
                 for p, is_map in zip_longest(params, maps, fillvalue=False)]
        return {"module": module, "symbol": symbol, "source": self.sources.get(function, ""),
                "device": index, "words": words,
                "grid": config.grid[0], "threads": config.block[0], "shared": config.shared,
                "stream": config.stream or 0,
                "attributes": {a.id: tuple(a.value[:3]) for a in table}}

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
            args.append(self._argument(word, parameter, seen["device"]))
        arrays = {i for i, a in enumerate(args) if isinstance(a, np.ndarray)}
        module.launch(seen["symbol"], (seen["grid"],), (seen["threads"],), args, outputs=arrays,
                      initialised=arrays, shared_bytes=seen["shared"],
                      cluster=seen["attributes"].get(4, (1,))[0],
                      together=bool(seen["attributes"].get(2, (0,))[0]))

    def _argument(self, word: Any, parameter: Any, index: int) -> Any:
        if parameter.pointer:
            return self._array(word, parameter, index)
        if not isinstance(word, bytes):
            return number_of(word, parameter)
        found = simt.TensorMap.decoded(word)
        assert not found.span or self.reach(found.array.ctypes.data, index) >= found.span
        return found

    def _array(self, pointer: int, parameter: Any, index: int) -> np.ndarray:
        known = parameter.letter in "fiu"
        kind = np.dtype(f"{parameter.letter}{parameter.size}" if known else "u1")
        after, before = self.reach(pointer, index), self.before(pointer)
        memory = (ctypes.c_char * (before + after)).from_address(pointer - before)
        # Of rows that lie the other way round the pointer is to the last one in memory.
        return np.ndarray((2, after // kind.itemsize), kind, memory, before,
                          (-before, kind.itemsize))
