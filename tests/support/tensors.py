"""Tensors by DLPack's layout, as tvm-ffi's ABI takes them; needs ctypes alone."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

CPU, CUDA = 1, 2
NONE, INT, BOOL, FLOAT, TENSOR = 0, 1, 2, 3, 7


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("n_axes", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Any_(ctypes.Structure):
    """TVMFFIAny."""

    _fields_ = (("kind", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", ctypes.c_int64))


def tensor(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, code: int, bits: int,
    device: tuple[int, int] = (CPU, 0), offset: int = 0,
) -> Tensor:
    """strides: in elements; None: compact."""
    def numbers(n: tuple[int, ...] | None) -> Any:
        return None if n is None else (ctypes.c_int64 * len(n))(*n)

    return Tensor(address - offset, device, len(shape), code, bits, 1, numbers(shape),
                  numbers(strides), offset)


def of_array(array: Any, offset: int = 0) -> Tensor:
    """A NumPy array's."""
    code = {"i": 0, "u": 1, "f": 2, "b": 6}[array.dtype.kind]
    strides = tuple(s // array.itemsize for s in array.strides)
    return tensor(array.ctypes.data, array.shape, strides, code, 8 * array.itemsize, offset=offset)


def called(function: Any, *arguments: Any) -> int:
    """What the function returns for tensors and numbers."""
    anys = (Any_ * len(arguments))()
    for one, given in zip(anys, arguments, strict=True):
        match given:
            case bool():
                one.kind, one.value = BOOL, given
            case int():
                one.kind, one.value = INT, given
            case float():
                one.kind, one.value = FLOAT, *struct.unpack("<q", struct.pack("<d", given))
            case _:
                one.kind, one.value = TENSOR, ctypes.addressof(given)
    result = Any_(-1, 0, 7)
    status = int(function(None, anys, len(arguments), ctypes.byref(result)))
    assert status or (result.kind, result.padding, result.value) == (NONE, 0, 0)
    return status
