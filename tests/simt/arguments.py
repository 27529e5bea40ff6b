"""Kernel arguments: Python values on one side, the C types of parameters on the other."""

from __future__ import annotations

import ctypes
import enum
import re
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from simt.tensor_maps import BYTES, TensorMap

Argument: TypeAlias = "npt.NDArray[Any] | np.generic | int | float | TensorMap | None"
"""What a launch accepts: an array or None for a pointer, a tensor map for a struct of 128 bytes, a
scalar for anything else."""


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter's type, as shim/kernel_export.h describes it."""

    pointer: bool
    letter: str  # f: floating, i: signed, u: unsigned, v: void, x: anything else
    size: int  # of the value, or of what the pointer points to

    @staticmethod
    def parse(text: str) -> Parameter:
        match = re.fullmatch(r"(\*c?)?([a-z])(\d+)", text)
        assert match is not None, text
        return Parameter(match[1] is not None, match[2], int(match[3]))


def number_of(word: int, parameter: Parameter) -> int | float:
    """The argument that a 64-bit word begins with."""
    if parameter.letter != "f":
        return word
    data = (word % 2**64).to_bytes(8, "little")[: parameter.size]
    return float(struct.unpack({4: "<f", 8: "<d"}[parameter.size], data)[0])


class Kind(enum.IntEnum):
    """Mirrors ArgumentKind in arguments.h."""

    VALUE = 0
    INPUT = 1
    OUTPUT = 2
    INITIALISED_OUTPUT = 3
    TENSOR_MAP = 4


class PackedArgument(ctypes.Structure):
    """Mirrors Argument in arguments.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("kind", ctypes.c_uint32),
        ("before", ctypes.c_size_t),
    )


def pack_arguments(
    parameters: Sequence[Parameter],
    args: Sequence[Argument],
    outputs: Collection[int],
    initialised: Collection[int],
) -> list[PackedArgument]:
    """Convert all arguments of a launch; see SimtModule.launch for what they may be."""
    if len(args) != len(parameters):
        raise TypeError(f"the kernel has {len(parameters)} parameters, not {len(args)}")
    if not set(outputs) <= set(range(len(args))) or not set(initialised) <= set(outputs):
        raise ValueError("outputs must be argument indices, and initialised a subset of them")
    packed = []
    for index, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
        kind = Kind.OUTPUT if index in outputs else Kind.INPUT
        if index in initialised:
            kind = Kind.INITIALISED_OUTPUT
        packed.append(_pack(parameter, value, kind, f"argument {index}"))
    return packed


def _pack(parameter: Parameter, value: Argument, kind: Kind, name: str) -> PackedArgument:
    if isinstance(value, TensorMap):
        if parameter.pointer or parameter.size != BYTES:
            raise TypeError(f"{name} is a tensor map, but the parameter is none")
        return _pack_value(value.encoded(), value.span, Kind.TENSOR_MAP)
    if not parameter.pointer:
        return _pack_value(_value_bytes(parameter, value, name))
    if value is None:
        return _pack_value(bytes(8))
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be an array or None, not {type(value).__name__}")
    _check_element_type(parameter, value.dtype, name)
    if kind is not Kind.INPUT and not value.flags.writeable:
        raise ValueError(f"{name} is an output, but the array is not writeable")
    before, span = _reach(value)
    return PackedArgument(value.ctypes.data, span, kind, before)


def _pack_value(
    data: bytes, size: int | None = None, kind: Kind = Kind.VALUE
) -> PackedArgument:
    buffer = ctypes.create_string_buffer(data, len(data))
    packed = PackedArgument(ctypes.addressof(buffer), len(data) if size is None else size, kind)
    packed.keep_alive = buffer  # as long as the argument itself
    return packed


def _value_bytes(
    parameter: Parameter, value: npt.NDArray[Any] | np.generic | int | float | None, name: str
) -> bytes:
    """Convert a scalar to the parameter's C type; what does not fit is an error."""
    if isinstance(value, np.ndarray) or value is None:
        raise TypeError(f"{name} must be a scalar: the parameter is no pointer")
    if parameter.letter == "f":
        return struct.pack({4: "<f", 8: "<d"}[parameter.size], value)
    if parameter.letter in "iu":
        if not isinstance(value, int | np.integer | np.bool_):
            raise TypeError(f"{name} must be an integer, not {value!r}")
        return int(value).to_bytes(parameter.size, "little", signed=parameter.letter == "i")
    if not isinstance(value, np.generic) or value.nbytes != parameter.size:
        raise TypeError(f"{name} must be a numpy scalar of {parameter.size} bytes")
    return value.tobytes()


def _check_element_type(parameter: Parameter, dtype: np.dtype[Any], name: str) -> None:
    """Refuse arrays that the kernel would misread; structs and vectors may be made of elements."""
    compatible = {"f": "f", "i": "iub", "u": "iub"}.get(parameter.letter)
    if parameter.size == 1 or compatible is None:
        matches = parameter.size % dtype.itemsize == 0 or parameter.size == 1
    else:
        matches = dtype.kind in compatible and dtype.itemsize == parameter.size
    if not matches:
        expected = f"{parameter.letter}{parameter.size}"
        raise TypeError(f"{name} has dtype {dtype}, but the kernel expects {expected}")


def _reach(array: npt.NDArray[Any]) -> tuple[int, int]:
    """Bytes in front of the first element, as strides may be negative, and from it on."""
    if array.size == 0:
        return 0, 0
    steps = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    return -sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + array.itemsize
