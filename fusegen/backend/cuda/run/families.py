"""Libraries whose arrays live on GPUs: how each one's arrays are read and made.

Results, and scratch memory beside them, come from the allocator of the library that the arrays came
from: it knows the stream it works on, and torch's knows the graphs it captures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from fusegen.backend.cuda.run.device import cupy_module
from fusegen.backend.host.readers import PHASE, tensor_maker, torch_reader
from fusegen.backend.memory import Reader, Seen, Shape
from fusegen.ir.dtypes import BFLOAT16, DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One library."""

    reader: Reader
    pointer: Callable[[Any], int]
    stream: Callable[[int], int]  # the handle of a device's current stream
    maker: Callable[[Shape, DType, int, Shape | None], Callable[[], Any]]
    keeps_captured: bool  # memory freed during a capture stays with the graph


def family_of(given: Any) -> Family:
    """torch's for tensors, CuPy's for all other arrays."""
    return torch_family() if is_torch(given) else cupy_family()


def is_torch(given: Any) -> bool:
    return type(given).__module__.partition(".")[0] == "torch"


# ---- CuPy ----


@cache
def cupy_family() -> Family:
    cupy = cupy_module()
    current = cupy.cuda.get_current_stream

    def stream(device: int) -> int:
        return current(device).ptr  # type: ignore[no-any-return]

    return Family(reader=Reader((cupy.ndarray,), _read_cupy), pointer=attrgetter("data.ptr"),
                  stream=stream, maker=_cupy_maker, keeps_captured=False)


def _read_cupy(array: Any) -> Seen:
    data = array.data
    pointer = data.ptr
    return (array.shape, array.strides, array.dtype, data.device_id, pointer & PHASE), pointer


def _cupy_maker(
    shape: Shape, dtype: DType, device: int, order: Shape | None
) -> Callable[[], Any]:
    """Makes arrays on `device`, which must be current; `order`: how to transpose them."""
    ndarray, kind = cupy_module().ndarray, dtype.numpy
    if dtype == BFLOAT16:
        return lambda: _ordered(ndarray(shape, np.int16).view(kind), order)
    if order is not None:
        return lambda: ndarray(shape, kind).transpose(order)
    return partial(ndarray, shape, kind)


def _ordered(array: Any, order: Shape | None) -> Any:
    return array if order is None else array.transpose(order)


# ---- torch, which is there if one of its tensors is ----


@cache
def torch_family() -> Family:
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def stream(device: int) -> int:
        return torch.cuda.current_stream(device).cuda_stream  # type: ignore[no-any-return]

    def maker(
        shape: Shape, dtype: DType, index: int, order: Shape | None
    ) -> Callable[[], Any]:
        return tensor_maker(shape, dtype, order, "cuda", index)

    return Family(reader=torch_reader(), pointer=torch.Tensor.data_ptr, stream=raw or stream,
                  maker=maker, keeps_captured=True)
