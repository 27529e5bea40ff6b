"""Scalars of a call, where kernels have arrays' addresses: 64-bit words that begin with the number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.dtypes import FLOAT64, DType
from fusegen.ir.kernel import Param
from fusegen.ir.varying import computed


def scalars_in(
    graph: g.Graph, params: tuple[Param, ...], constants: Mapping[str, Any]
) -> dict[str, Any]:
    """Every scalar of a call, by its parameter's name, in the type that kernels compute in."""
    types = {p.name: p.dtype for p in params if p.shape == "scalar"}
    numbers = {graph.names[s]: computed(s.formula, constants) for s in graph.scalars}
    return {name: dtype.numpy.type(numbers[name]) for name, dtype in types.items()}


def scalar_bits(number: Any) -> int:
    """The word of a NumPy scalar."""
    return int.from_bytes(number.tobytes(), "little", signed=True)


def bits_in(dtype: DType) -> Callable[[float], int]:
    """A function from Python's floats to words. It raises OverflowError for what has no bits."""
    pack, unpack = (struct.Struct("<d").pack, struct.Struct("<q").unpack) if dtype == FLOAT64 else (
        struct.Struct("<f").pack, struct.Struct("<i").unpack)
    return lambda value: int(unpack(pack(value))[0])
