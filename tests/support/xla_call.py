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
from simt import built

from support import fake_cupy
from support.c_driver import CDriver

_SOURCE = Path(__file__).parent / "host" / "xla_call.cpp"
_CALL = re.compile(r"custom_call @fusegen_cuda\((.*?)\).*?\bkey = \"(\w+)\".*? : "
                   r"\((.*?)\) -> \(?(.*?)\)?$", re.MULTILINE)
_TYPES = {"f32": "f4", "f64": "f8", "bf16": "u2", "f16": "f2", "i1": "?", "i8": "i1", "i32": "i4",
          "i64": "i8", "ui8": "u1", "ui32": "u4"}


class Machine(CDriver):
    """Programs of XLA's on its devices."""

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
