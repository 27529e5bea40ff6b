"""Libraries whose arrays live on GPUs: how each one's arrays are read and made.

Results, and scratch memory beside them, come from the allocator of the library that the arrays came
from: it knows the stream it works on, and torch's knows the graphs it captures.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from fusegen.dtypes import BFLOAT16, DType
from fusegen.runtime.cuda.device import cupy_module

Shape = tuple[int, ...]
Seen = tuple[tuple[Any, ...], int]
"""(all that the preparation of a call looks at, address of the first element)."""

# Alignment decides between kernels, in bytes up to 16 and in elements up to 16 of 8 bytes.
_PHASE = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One library. `read` gives None for an array that only a full look can judge."""

    types: tuple[type, ...]
    read: Callable[[Any], Seen | None]
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

    return Family(types=(cupy.ndarray,), read=_read_cupy, pointer=attrgetter("data.ptr"),
                  stream=stream, maker=_cupy_maker, keeps_captured=False)  # fmt: skip


def _read_cupy(array: Any) -> Seen:
    data = array.data
    pointer = data.ptr
    return (array.shape, array.strides, array.dtype, data.device_id, pointer & _PHASE), pointer


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

    return Family(types=(torch.Tensor, torch.nn.Parameter), read=_read_torch,
                  pointer=torch.Tensor.data_ptr, stream=raw or stream, maker=_torch_maker,
                  keeps_captured=True)  # fmt: skip


def _read_torch(tensor: Any) -> Seen | None:
    if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
        return None
    if not tensor.is_cuda or tensor.is_neg():
        return None
    pointer = tensor.data_ptr()
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(),
            pointer & _PHASE), pointer  # fmt: skip


def _torch_maker(
    shape: Shape, dtype: DType, device: int, order: Shape | None
) -> Callable[[], Any]:
    """Makes tensors on `device`, current or not; `order`: how to permute them."""
    torch = sys.modules["torch"]
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    places = range(len(shape)) if order is None else order
    # Of torch's ways to make a tensor, the one that costs the host least.
    return partial(torch.empty_strided, tuple(shape[i] for i in places),
                   tuple(steps[i] for i in places), dtype=getattr(torch, dtype.name),
                   device=torch.device("cuda", device))  # fmt: skip
