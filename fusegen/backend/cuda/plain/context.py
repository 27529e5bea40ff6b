"""The CUDA driver as far as calls on arrays of other libraries need it: contexts and streams."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any

from fusegen.ir.errors import BackendError

_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


@cache
def _library() -> Any:
    try:
        found = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BackendError(f"the CUDA driver cannot be loaded: {error}") from error
    _check(found.cuInit(0), "starting CUDA")
    return found


@cache
def _context(index: int) -> int:
    """The GPU's own, which CUDA's runtime and all libraries on it use."""
    found = ctypes.c_void_p()
    _check(_library().cuDevicePrimaryCtxRetain(ctypes.byref(found), ctypes.c_int(index)),
           f"asking for GPU {index}")
    return found.value or 0


@contextlib.contextmanager
def on_gpu(index: int) -> Iterator[None]:
    """A context of that GPU is current: this thread's, where it is one, else the GPU's own."""
    device, before = ctypes.c_int(-1), ctypes.c_void_p()
    library = _library()
    if library.cuCtxGetDevice(ctypes.byref(device)) == 0 and device.value == index:
        yield
        return
    library.cuCtxGetCurrent(ctypes.byref(before))
    _check(library.cuCtxSetCurrent(ctypes.c_void_p(_context(index))), f"working on GPU {index}")
    try:
        yield
    finally:
        library.cuCtxSetCurrent(before)


def gpu_of(pointer: int) -> int:
    """The number of the GPU whose memory that is."""
    if not pointer:
        return 0  # of an array without elements
    found = ctypes.c_int()
    _check(_library().cuPointerGetAttribute(ctypes.byref(found), ctypes.c_int(_ORDINAL),
                                            ctypes.c_uint64(pointer)), "asking for a GPU")
    return found.value


def wait(stream: int) -> None:
    """Until the stream has done all that was queued."""
    _check(_library().cuStreamSynchronize(ctypes.c_void_p(stream)), "waiting for a stream")


def _check(code: int, what: str) -> None:
    if code:
        raise BackendError(f"{what}: the CUDA driver answers {code}")
