"""What libraries say of their arrays on GPUs: torch's methods, DLPack, the CUDA array interface."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from fusegen.backend.cuda.plain.context import gpu_of, wait
from fusegen.backend.cuda.plain.view import Place, View
from fusegen.backend.host.memory import is_tensor
from fusegen.ir.dtypes import BFLOAT16, DType, dtype_of
from fusegen.ir.errors import ArgumentError, DTypeError

LEGACY = 1  # CU_STREAM_LEGACY, and DLPack's and the interface's number of it
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}  # of DLPack; 6: bool


class _Tensor(ctypes.Structure):
    """DLTensor, with which a DLManagedTensor begins."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("n_axes", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def of_torch(tensor: Any) -> tuple[View, DType]:
    dtype = dtype_of(str(tensor.dtype).removeprefix("torch."))
    strides = tuple(s * dtype.itemsize for s in tensor.stride())
    place = Place(tensor.data_ptr(), tensor.get_device(), tensor)
    return View(tuple(tensor.shape), _kind(dtype), place, strides), dtype


def of_other(name: str, given: Any) -> tuple[View, DType]:
    """By DLPack, which orders the two libraries' work, else by the CUDA array interface. Raises
    ArgumentError or DTypeError."""
    if hasattr(given, "__dlpack__"):
        return _of_dlpack(name, given)
    told = given.__cuda_array_interface__
    if told.get("mask") is not None:
        raise ArgumentError(f"{name} is a masked array", why="Its mask would be ignored.")
    dtype = dtype_of(np.dtype(told["typestr"]))
    pointer, readonly = told["data"]
    place = Place(pointer, gpu_of(pointer), given, told.get("stream"), bool(readonly))
    return View(tuple(told["shape"]), _kind(dtype), place, told.get("strides")), dtype


def stream_of(given: Any) -> int:
    """On which work with this array is queued: the one that its library works on at present."""
    if is_tensor(given):
        raw = getattr(sys.modules["torch"]._C, "_cuda_getCurrentRawStream", None)
        index = given.get_device()
        return int(raw(index) if raw is not None else
                   sys.modules["torch"].cuda.current_stream(index).cuda_stream)
    told = None if hasattr(given, "__dlpack__") else given.__cuda_array_interface__.get("stream")
    return LEGACY if told is None else int(told)


def ready_on(stream: int, arrays: Iterable[Any]) -> None:
    """Wait for what another stream has still to do with the arrays."""
    for other in {a.data.stream for a in arrays if isinstance(a, View)}:
        if other not in (None, stream):
            wait(other)


def _of_dlpack(name: str, given: Any) -> tuple[View, DType]:
    try:
        capsule = given.__dlpack__(stream=LEGACY)
    except (BufferError, RuntimeError, TypeError) as error:
        raise DTypeError(f"{name} cannot be read through DLPack: {error}") from error
    asked = ctypes.pythonapi.PyCapsule_GetPointer
    asked.restype, asked.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    t = _Tensor.from_address(asked(capsule, b"dltensor"))
    dtype = _dtype(name, t)
    shape = tuple(t.shape[i] for i in range(t.n_axes))
    strides = tuple(dtype.itemsize * t.strides[i] for i in range(t.n_axes)) if t.strides else None
    # The capsule, which nobody consumes, keeps the memory, and frees it.
    place = Place((t.data or 0) + t.byte_offset, t.device[1], (given, capsule), LEGACY)
    return View(shape, _kind(dtype), place, strides), dtype


def _dtype(name: str, t: _Tensor) -> DType:
    if t.lanes == 1 and (t.code in _KINDS or (t.code, t.bits) == (6, 8)):
        return dtype_of("bool" if t.code == 6 else f"{_KINDS[t.code]}{t.bits}")
    raise DTypeError(f"{name} has a type of DLPack's that kernels do not know",
                     why=f"Code {t.code}, {t.bits} bits, {t.lanes} lanes.")


def _kind(dtype: DType) -> Any:
    """Of a view, which is about sizes alone: bfloat16 counts as 16-bit integers."""
    return np.dtype(np.int16) if dtype == BFLOAT16 else dtype.numpy
