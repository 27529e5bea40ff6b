"""Tensor maps, made of arrays, as cuTensorMapEncodeTiled makes them for a GPU."""

from __future__ import annotations

import ctypes
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

BYTES = 128
_MARK = 0x70616D2D726F736E
_MAX_RANK = 5
_MAX_BOX = 256
_SWIZZLE_BYTES = 128
_FORM = struct.Struct("<12Q5H3B")


@dataclass(frozen=True, eq=False)
class TensorMap:
    """Boxes of an array of 1 to 5 dimensions, as an argument of a launch.

    ``box`` has an extent for each dimension, in the array's order: the innermost is the last. What
    a kernel copies of outside of the array is zero. ``swizzled`` is the 128-byte swizzle, of boxes
    of 128 bytes across; ``tfloat32`` rounds the elements, which are float32, on their way.

    Raises ValueError for what the driver refuses: boxes of more than 256 elements a dimension, or
    of bytes across that are no multiple of 16; arrays whose address or rows are no multiples of 16
    bytes apart; an innermost dimension with gaps.
    """

    array: npt.NDArray[Any]
    box: tuple[int, ...]
    swizzled: bool = True
    tfloat32: bool = False

    def __post_init__(self) -> None:
        array, size = self.array, self.array.itemsize
        if not 1 <= array.ndim <= _MAX_RANK or len(self.box) != array.ndim:
            raise ValueError(f"1 to {_MAX_RANK} dimensions, and a box of as many: not "
                             f"{array.shape} and {self.box}")
        if not all(1 <= extent <= _MAX_BOX for extent in self.box):
            raise ValueError(f"a box has 1 to {_MAX_BOX} elements a dimension, not {self.box}")
        across = self.box[-1] * size
        if across % 16 or (self.swizzled and across != _SWIZZLE_BYTES):
            raise ValueError(f"a box of {across} bytes across: a multiple of 16, and 128 where it "
                             "is swizzled")
        if array.strides[-1] != size and array.shape[-1] > 1 and array.size:
            raise ValueError(f"the innermost dimension has gaps: strides {array.strides}")
        if array.ctypes.data % 16 or any(s % 16 or not 0 <= s < 2**40 for s in self.strides[:-1]):
            raise ValueError(f"address and strides are multiples of 16 bytes, not "
                             f"{array.ctypes.data:#x} and {array.strides}")
        if self.tfloat32 and array.dtype != np.float32:
            raise ValueError(f"only float32 becomes tfloat32, not {array.dtype}")

    @property
    def strides(self) -> tuple[int, ...]:
        """The array's, in bytes; of a dimension of one element, what does for any."""
        pairs = zip(self.array.shape[:-1], self.array.strides, strict=False)
        return (*(s if n > 1 else 16 for n, s in pairs), self.array.itemsize)

    @property
    def span(self) -> int:
        """The bytes from the first element to the last, both included."""
        pairs = zip(self.array.shape, self.strides, strict=True)
        ends = sum((n - 1) * stride for n, stride in pairs) + self.array.itemsize
        return ends if self.array.size else 0

    @property
    def box_bytes(self) -> int:
        """What a copy brings, also where it leaves the array."""
        return math.prod(self.box) * self.array.itemsize

    def encoded(self) -> bytes:
        """As tensor_map.h has it; zeros, by which nothing is copied, if there are no elements."""
        if self.array.size == 0:
            return bytes(BYTES)
        rank, empty = self.array.ndim, (0,) * (_MAX_RANK - self.array.ndim)
        extents, strides = self.array.shape[::-1], self.strides[::-1]
        words = (_MARK, self.array.ctypes.data, *extents, *empty, *strides, *empty)
        flags = (rank, self.swizzled, self.tfloat32)
        return _FORM.pack(*words, *self.box[::-1], *empty, *flags).ljust(BYTES, b"\0")

    @staticmethod
    def decoded(data: bytes) -> TensorMap:
        """The map of the memory at the address in it, which must live as long as the map does."""
        mark, address, *words = _FORM.unpack_from(data)
        if mark != _MARK:
            return TensorMap(np.zeros((0, 64), np.uint16), (1, 64))
        rank, swizzled, tfloat32 = words[-3:]
        extents, strides, box = (
            tuple(words[i * _MAX_RANK : i * _MAX_RANK + rank][::-1]) for i in range(3))
        span = sum((n - 1) * s for n, s in zip(extents, strides, strict=True)) + strides[-1]
        memory = (ctypes.c_char * span).from_address(address)
        kind = np.dtype(np.float32 if tfloat32 else f"u{strides[-1]}")
        array: npt.NDArray[Any] = np.ndarray(extents, kind, memory, 0, strides)
        return TensorMap(array, box, bool(swizzled), bool(tfloat32))
