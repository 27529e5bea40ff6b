"""The driver's functions of a machine in host memory, as C has them."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from fusegen.backend.cuda.run import driver
from support.fake_gpu import Gpu

CONTEXT = 0xC000  # and the device's number
_Launch = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
_Fill = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t,
                         ctypes.c_void_p)
_ContextOf = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t))
_Push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)
_Pop = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_size_t))
_Capturing = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
_Encode = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p,
    *[ctypes.POINTER(ctypes.c_uint64)] * 2, *[ctypes.POINTER(ctypes.c_uint32)] * 2,
    *[ctypes.c_int] * 4)
_Name = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))


class CDriver:
    """Those that compiled code is told of; what they raise is kept in `failures`. Streams of XLA's
    have the number of their device, and 0x100."""

    def __init__(self, gpu: Gpu, patch: pytest.MonkeyPatch) -> None:
        self.gpu, self.failures, self.before = gpu, list[BaseException](), list[int]()
        self.encoded = 0  # tensor maps
        self.functions = {
            "cuLaunchKernelEx": _Launch(self._guarded(self._launch)),
            "cuMemsetD8Async": _Fill(self._guarded(self._fill)),
            "cuStreamGetCtx": _ContextOf(self._guarded(self._context_of)),
            "cuCtxPushCurrent_v2": _Push(self._guarded(self._push)),
            "cuCtxPopCurrent_v2": _Pop(self._guarded(self._pop)),
            "cuGetErrorName": _Name(self._guarded(self._name)),
            "cuCtxGetCurrent": _Pop(self._guarded(self._current)),
            "cuStreamIsCapturing": _Capturing(self._guarded(self._capturing)),
            "cuTensorMapEncodeTiled": _Encode(self._guarded(self._encode)),
        }
        patch.setattr(driver.Driver, "address", lambda _, name: ctypes.cast(
            self.functions[name], ctypes.c_void_p).value)

    def _guarded(self, function: Any) -> Any:
        def guarded(*args: Any) -> int:
            try:
                return int(function(*args) or 0)
            except BaseException as error:
                self.failures.append(error)
                return 1

        return guarded

    def _capturing(self, stream: int | None, status: Any) -> int:
        status[0] = int((stream or 0) in self.gpu.graphs)
        return 0

    def _launch(self, config: int, function: int, arguments: int, extra: Any) -> int:
        room = driver._Config.from_address(config)
        module, symbol, _ = self.gpu.functions[function]
        n = len(module._parameters[symbol])
        params = (ctypes.c_void_p * n).from_address(arguments)
        return self.gpu.cuLaunchKernelEx(room, ctypes.c_void_p(function), list(params), extra)

    def _encode(self, room: int, kind: int, rank: int, at: int, *rest: Any) -> int:
        shape, apart, box, steps, *modes = rest
        self.encoded += 1
        return self.gpu.cuTensorMapEncodeTiled(
            ctypes.c_void_p(room), ctypes.c_int(kind), ctypes.c_uint(rank), ctypes.c_void_p(at),
            shape[:rank], apart[: rank - 1], box[:rank], steps[:rank],
            *(ctypes.c_int(m) for m in modes))

    def _fill(self, pointer: int, value: int, n_bytes: int, stream: int | None) -> int:
        return self.gpu.cuMemsetD8Async(ctypes.c_uint64(pointer), ctypes.c_ubyte(value),
                                        ctypes.c_size_t(n_bytes), ctypes.c_void_p(stream))

    def _context_of(self, stream: int, found: Any) -> None:
        found[0] = CONTEXT + stream - 0x100

    def _current(self, found: Any) -> None:
        found[0] = self.gpu.context

    def _push(self, context: int) -> None:
        self.before.append(self.gpu.current)
        self.gpu.current = context - CONTEXT

    def _pop(self, found: Any) -> None:
        found[0] = self.gpu.context
        self.gpu.current = self.before.pop()

    def _name(self, code: int, text: Any) -> None:
        text[0] = b"CUDA_ERROR_%d" % code
