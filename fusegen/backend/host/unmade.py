"""Arrays that lie somehow in memory that they do not have: for what asks where things lie alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegen.backend.memory import Shape
from fusegen.ir.dtypes import DType

_BOUNDARY = 256  # bytes
_ROOM = np.zeros(2 * _BOUNDARY, np.uint8)
_START = _ROOM[-_ROOM.ctypes.data % _BOUNDARY :]  # an array that is alone in its allocation


def unmade(shape: Shape, dtype: DType, stays: tuple[bool, ...] = ()) -> Any:
    """An array of C order that begins on a boundary; nothing may be read from it. stays: the axes
    along which all elements are one."""
    kind = dtype.numpy
    strides, step = list[int](), kind.itemsize
    for n, one in zip(reversed(shape), reversed(stays or (False,) * len(shape)), strict=True):
        strides.append(0 if one else step)
        step *= 1 if one else n
    return np.lib.stride_tricks.as_strided(_START[: kind.itemsize].view(kind), shape, strides[::-1])
