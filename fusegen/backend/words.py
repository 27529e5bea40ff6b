"""The 64-bit words that kernels are called with: addresses of arrays, bits of scalars.

Arrays are NumPy's, or those of a library whose `data.ptr` is the address of the first element.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegen.ir.dtypes import FLOAT64, DType

Place = tuple[int, int]
"""(which of the addresses that a run is given, bytes behind it); place -1: the word itself."""


def address(array: Any) -> int:
    """Where the first element lies."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def scalar_bits(number: Any) -> int:
    """The word of a NumPy scalar: it begins with the number."""
    return int.from_bytes(number.tobytes(), "little", signed=True)


def word(argument: Any) -> int:
    """The word of a kernel's argument."""
    return scalar_bits(argument) if argument.ndim == 0 else address(argument)


def float_of(bits: int) -> float:
    """The float32 that a word begins with."""
    return float(struct.unpack_from("<f", struct.pack("<q", bits))[0])


def bits_in(dtype: DType) -> Callable[[float], int]:
    """A function from Python's floats to words. It raises OverflowError for what has no bits."""
    pack, unpack = (struct.Struct("<d").pack, struct.Struct("<q").unpack) if dtype == FLOAT64 else (
        struct.Struct("<f").pack, struct.Struct("<i").unpack)
    return lambda value: int(unpack(pack(value))[0])
