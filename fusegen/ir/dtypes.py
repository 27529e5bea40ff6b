"""Element types of arrays, and the types that kernels compute in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from fusegen.ir.errors import DTypeError
from fusegen.ir.nearest import nearest

Kind = Literal["float", "int", "bool"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type as it lies in memory; with a length, a vector of so many of them."""

    name: str
    kind: Kind
    itemsize: int  # bytes, of one number
    length: int = 0  # 0: a number

    @property
    def number(self) -> DType:
        """The type of one number of the vector; of a number, itself."""
        return self if self.length == 0 else _BY_NAME[self.name]

    def vector(self, length: int) -> DType:
        """A vector of so many of these."""
        return DType(self.name, self.kind, self.itemsize, length)

    @property
    def numpy(self) -> np.dtype[Any]:
        if self.name == "bfloat16":
            return _bfloat16()
        return np.dtype(self.name)

    def __str__(self) -> str:
        return f"{self.name}[{self.length}]" if self.length else self.name


@cache
def _bfloat16() -> np.dtype[Any]:
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


FLOAT16 = DType("float16", "float", 2)
BFLOAT16 = DType("bfloat16", "float", 2)
FLOAT32 = DType("float32", "float", 4)
FLOAT64 = DType("float64", "float", 8)
INT8 = DType("int8", "int", 1)
INT16 = DType("int16", "int", 2)
INT32 = DType("int32", "int", 4)
INT64 = DType("int64", "int", 8)
UINT8 = DType("uint8", "int", 1)
UINT16 = DType("uint16", "int", 2)
UINT32 = DType("uint32", "int", 4)
BOOL = DType("bool", "bool", 1)

ALL = (
    FLOAT16, BFLOAT16, FLOAT32, FLOAT64,
    INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, BOOL,
)
_BY_NAME = {d.name: d for d in ALL}


def dtype_of(name: object) -> DType:
    """The DType called `name` (a string, a NumPy dtype or anything `str` names one by), also
    "float32[64]", a vector of 64.

    Raises DTypeError for a type fusegen has no kernels for.
    """
    if isinstance(name, DType):
        return name
    text = name if isinstance(name, str) else _name_of(name)
    number, _, length = text.removesuffix("]").partition("[")
    try:
        if length.isdecimal() and text.endswith("]") and int(length) > 0:
            return _BY_NAME[number].vector(int(length))
        return _BY_NAME[text]
    except KeyError:
        raise DTypeError(
            f"element type {text!r} is not supported",
            why="Kernels exist for " + ", ".join(_BY_NAME) + ".",
            fix=nearest(text, _BY_NAME) or "Choose one of them.",
        ) from None


def _name_of(name: object) -> str:
    if name is int:  # also where NumPy's has 32 bits
        return "int64"
    if name is None:  # to NumPy that is float64, as float is
        return "None"
    try:
        return np.dtype(name).name  # type: ignore[call-overload, no-any-return]
    except TypeError:
        return str(name)
