"""A program's foreign function for GPUs, called as XLA would call it, on a machine in host memory.

What lowering put into the program's text says which buffers there are; the driver is the machine's.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simt import built

from fusegen.backend.cuda.run import driver
from support import fake_cupy
from support.fake_gpu import Gpu

_SOURCE = Path(__file__).parent / "host" / "xla_call.cpp"
_CALL = re.compile(r"custom_call @fusegen_cuda\((.*?)\).*?\bkey = \"(\w+)\".*? : "
                   r"\((.*?)\) -> \(?(.*?)\)?$", re.MULTILINE)
_TYPES = {"f32": "f4", "f64": "f8", "bf16": "u2", "f16": "f2", "i1": "?", "i8": "i1", "i32": "i4",
          "i64": "i8", "ui8": "u1"}
CONTEXT = 0xC000  # and the device's number
_Launch = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
_Fill = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t,
                         ctypes.c_void_p)
_ContextOf = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t))
_Push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)
_Pop = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_size_t))
_Name = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))


class Machine:
    """The driver's functions as C has them. A stream's number is that of its device, and 0x100."""

    def __init__(self, gpu: Gpu, patch: pytest.MonkeyPatch) -> None:
        self.gpu, self.failures, self.before = gpu, list[BaseException](), list[int]()
        self.functions = {
            "cuLaunchKernelEx": _Launch(self._guarded(self._launch)),
            "cuMemsetD8Async": _Fill(self._guarded(self._fill)),
            "cuStreamGetCtx": _ContextOf(self._guarded(self._context_of)),
            "cuCtxPushCurrent_v2": _Push(self._guarded(self._push)),
            "cuCtxPopCurrent_v2": _Pop(self._guarded(self._pop)),
            "cuGetErrorName": _Name(self._guarded(self._name)),
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

    def _launch(self, config: int, function: int, arguments: int, extra: Any) -> int:
        room = driver._Config.from_address(config)
        module, symbol, _ = self.gpu.functions[function]
        n = len(module._parameters[symbol])
        params = (ctypes.c_void_p * n).from_address(arguments)
        return self.gpu.cuLaunchKernelEx(room, ctypes.c_void_p(function), list(params), extra)

    def _fill(self, pointer: int, value: int, n_bytes: int, stream: int | None) -> int:
        return self.gpu.cuMemsetD8Async(ctypes.c_uint64(pointer), ctypes.c_ubyte(value),
                                        ctypes.c_size_t(n_bytes), ctypes.c_void_p(stream))

    def _context_of(self, stream: int, found: Any) -> None:
        found[0] = CONTEXT + stream - 0x100

    def _push(self, context: int) -> None:
        self.before.append(self.gpu.current)
        self.gpu.current = context - CONTEXT

    def _pop(self, found: Any) -> None:
        found[0] = self.gpu.context
        self.gpu.current = self.before.pop()

    def _name(self, code: int, text: Any) -> None:
        text[0] = b"CUDA_ERROR_%d" % code

    # ---- calls ----

    def call(self, text: str, run: Any, arrays: list[np.ndarray], device: int = 0,
             shift: int = 0) -> list[np.ndarray]:
        """Results, but for a workspace, of the one call in a program's text. shift: elements by
        which arguments are off alignment. Raises RuntimeError with what the handler says."""
        ((_, key, given, made),) = _CALL.findall(text)
        types = [_kind(t) for t in given.split(", ")]
        assert [(a.shape, a.dtype.itemsize) for a in arrays] == [
            (shape, kind.itemsize) for shape, kind in types]
        results = [_kind(t) for t in made.split(", ")]
        inputs = [fake_cupy.array(a, device, shift) for a in arrays]
        outputs = [self.gpu.allocate(int(np.prod(shape)) * kind.itemsize, device)
                   for shape, kind in results]
        addresses = [a.data.ptr for a in inputs] + [o.ctypes.data for o in outputs]
        said = ctypes.create_string_buffer(1000)
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        handler = ctypes.cast(run, ctypes.c_void_p)
        bad = _library().call(handler, ctypes.c_void_p(0x100 + device), len(inputs), len(outputs),
                              table, key.encode(), said, len(said))
        if self.failures:
            raise self.failures.pop()
        if bad:
            raise RuntimeError(said.value.decode())
        assert not self.before
        return [o.view(kind).reshape(shape)
                for o, (shape, kind) in zip(outputs, results, strict=True)]


def _kind(text: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Of `tensor<4x5xf32>`."""
    *sizes, kind = re.findall(r"tensor<(.*)>", text)[0].split("x")
    return tuple(map(int, sizes)), np.dtype(_TYPES[kind])


def _library() -> Any:
    import jax

    include = jax.ffi.include_dir()
    product = built.folder() / f"{built.digest(_SOURCE.read_text(), include)}.so"
    with built.building(product) as folder:
        if folder is not None:
            command = ["g++", "-std=c++17", "-O0", "-shared", "-fPIC", f"-I{include}", "-o",
                       str(folder / product.name), str(_SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(product))
