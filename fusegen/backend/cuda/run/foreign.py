"""Arrays of other libraries: the same memory as CuPy's arrays, on the caller's stream."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from fusegen.backend.cuda.run.device import cupy_module
from fusegen.backend.cuda.run.families import is_torch, torch_family
from fusegen.ir.dtypes import BFLOAT16, UINT8, DType, dtype_of
from fusegen.ir.errors import DTypeError


def from_foreign(given: Any) -> tuple[Any, DType]:
    """The same memory as a CuPy array; bfloat16 appears as 16-bit integers."""
    cupy = cupy_module()
    if is_torch(given):
        torch = sys.modules["torch"]
        with cupy.cuda.Device(given.get_device()):  # from another one CuPy would copy
            if given.dtype is torch.bfloat16:
                return cupy.asarray(given.view(torch.int16)), BFLOAT16
            return cupy.asarray(given), dtype_of(str(given.dtype).removeprefix("torch."))
    array = given if isinstance(given, cupy.ndarray) else _from_interface(given)
    if array.dtype.name == "bfloat16":
        return array.view(np.int16), BFLOAT16
    return array, dtype_of(array.dtype)


def _from_interface(given: Any) -> Any:
    """Another library's array: by DLPack, which also orders the two libraries' streams."""
    cupy = cupy_module()
    if not hasattr(given, "__dlpack__"):
        pointer = given.__cuda_array_interface__["data"][0]
        place = cupy.cuda.runtime.pointerGetAttributes(pointer).device if pointer else -1
        with cupy.cuda.Device(None if place < 0 else place):
            return cupy.asarray(given)
    try:
        return cupy.from_dlpack(given)
    except (BufferError, RuntimeError, TypeError) as error:
        name = type(given).__name__
        raise DTypeError(f"{name} cannot be read through DLPack: {error}") from error


def to_foreign(array: Any, like: Any) -> Any:
    """A CuPy array as the kind of object that `like` is, sharing memory, if that is known."""
    if not hasattr(like, "__array_namespace__"):
        return array
    return like.__array_namespace__().from_dlpack(array)  # the array API standard


def to_host(array: Any, dtype: DType) -> Any:
    """A NumPy copy; bfloat16 as ml_dtypes has it."""
    host = cupy_module().asnumpy(array)
    return host.view(BFLOAT16.numpy) if dtype == BFLOAT16 else host


def to_device(array: Any, dtype: DType) -> Any:
    """A CuPy copy of a NumPy array, of the same element type."""
    cupy = cupy_module()
    if dtype != BFLOAT16:
        return cupy.asarray(array)
    return cupy.asarray(np.ascontiguousarray(array).view(np.int16)).view(BFLOAT16.numpy)


@contextlib.contextmanager
def caller_stream(given: Any, device: int) -> Iterator[None]:
    """Work on the stream that the array's own library uses at present, on the array's device, and
    copy to memory of that library's: that of a graph, while torch captures one."""
    cupy = cupy_module()
    with cupy.cuda.Device(device):
        if is_torch(given):
            with external_stream(cupy, torch_family().stream(device)), \
                    cupy.cuda.using_allocator(partial(_torch_memory, device)):
                yield
        else:
            yield


def _torch_memory(device: int, size: int) -> Any:
    """Memory of torch's as CuPy's."""
    cuda, family = cupy_module().cuda, torch_family()
    held = family.maker((max(size, 1),), UINT8, device, None)()
    memory = cuda.UnownedMemory(family.pointer(held), size, held, device)
    return cuda.MemoryPointer(memory, 0)


def external_stream(cupy: ModuleType, handle: int) -> Any:
    """Another library's stream as CuPy's; by the newer of its two ways where there is one."""
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(_StreamHandle(handle))
    return cupy.cuda.ExternalStream(handle)


class _StreamHandle:
    """The CUDA stream protocol: version 0 and the handle."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle
