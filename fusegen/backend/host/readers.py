"""Arrays in this process as calls remember them: all that a full look would see, in a tuple, and
where the first element lies.

torch's tensors, on whatever device, are read in one way: whoever meets the first of them.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from fusegen.backend.memory import Reader, Seen, Shape
from fusegen.ir.dtypes import BFLOAT16, DType, dtype_of

# Alignment decides between kernels of GPUs, in bytes up to 16 and in elements up to 16 of 8 bytes.
PHASE = 127
_HOST_PHASE = 15  # and here whether arrays are read where they lie


def _asked(array: Any) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


_word = ctypes.c_ssize_t.from_address
_DATA = object.__basicsize__


def _looked_up(array: Any) -> int:
    """The first field of NumPy's array, which its ABI fixes: an eighth of the time."""
    return _word(id(array) + _DATA).value


def _address_reader() -> Callable[[Any], int]:
    """`_looked_up` where it is right: in CPython, an object's id is its address."""
    if sys.implementation.name != "cpython":
        return _asked
    tried = [np.zeros(n) for n in range(3)]
    return _looked_up if all(_looked_up(a) == _asked(a) for a in tried) else _asked


address: Callable[[Any], int] = _address_reader()
"""Where an array of exactly NumPy's own type begins."""


def _read_numpy(array: Any) -> Seen:
    pointer = address(array)
    return (array.shape, array.strides, array.dtype, array.flags.writeable,
            pointer & _HOST_PHASE), pointer


def pointer_reader(like: Any) -> Callable[[Any], int]:
    """What tells the addresses of arrays of that library."""
    return address if isinstance(like, np.ndarray) else sys.modules["torch"].Tensor.data_ptr


NUMPY_READER = Reader((np.ndarray,), _read_numpy)


def torch_reader() -> Reader:
    """Once one of torch's tensors was met. Subclasses may have no memory to show."""
    return _torch_reader(sys.modules["torch"].Tensor)


@cache
def _torch_reader(tensor: type) -> Reader:
    torch = sys.modules["torch"]
    return Reader((tensor, torch.nn.Parameter),
                  partial(_read_torch, torch.is_grad_enabled, torch_watcher()))


TORCH_WATCHERS = ("_len_torch_dispatch_stack", "_is_any_autocast_enabled", "_is_tracing")
"""Functions of torch._C that say if torch has to see every operation of this thread."""


def torch_watcher() -> Callable[[], bool]:
    """What says if torch has to see every operation of this thread: modes that trace or count,
    autocast, torch.jit.trace, forward-mode derivatives."""
    return _torch_watcher(sys.modules["torch"].Tensor)


@cache
def _torch_watcher(_: type) -> Callable[[], bool]:
    torch = sys.modules["torch"]
    modes, autocast, traces = (getattr(torch._C, n) for n in TORCH_WATCHERS)
    forward = torch.autograd.forward_ad
    return lambda: modes() or autocast() or traces() or forward._current_level >= 0


def _read_torch(records: Callable[[], bool], watches: Callable[[], bool], tensor: Any
                ) -> Seen | None:
    if tensor.requires_grad and records():
        return None
    on_gpu = tensor.is_cuda
    if not (on_gpu or tensor.is_cpu) or tensor.is_neg() or watches():
        return None
    pointer = tensor.data_ptr()  # 0: without memory, as inside torch's transforms
    if not pointer:
        return None
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(),
            pointer & (PHASE if on_gpu else _HOST_PHASE)), pointer


def tensor_maker(
    shape: Shape, dtype: DType, order: Shape | None, *device: Any
) -> Callable[[], Any]:
    """Makes tensors on a device, current or not; `order`: how to permute them."""
    torch = sys.modules["torch"]
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    places = range(len(shape)) if order is None else order
    # Of torch's ways to make a tensor, the one that costs the host least.
    return partial(torch.empty_strided, tuple(shape[i] for i in places),
                   tuple(steps[i] for i in places), dtype=getattr(torch, dtype.name),
                   device=torch.device(*device))


_DLPACK = {"i": 0, "u": 1, "f": 2, "b": 6}  # codes of its types
_DLPACK_DEVICE = {"cpu": 1, "cuda": 2}


def allocation(maker: Callable[[], Any]) -> tuple[Any, ...] | None:
    """(shape, type) of what NumPy makes; (shape; DLPack's code of the type, its bits; of the
    device, its number) of what a `tensor_maker` makes with columns last; else None."""
    if isinstance(maker, partial) and maker.func is np.empty:
        return maker.args
    if not isinstance(maker, partial) or "device" not in maker.keywords:
        return None
    (shape, steps), dtype = maker.args, dtype_of(str(maker.keywords["dtype"]).partition(".")[2])
    if any(step != math.prod(shape[i + 1 :]) for i, step in enumerate(steps)):
        return None
    code = 4 if dtype == BFLOAT16 else _DLPACK[dtype.numpy.kind]
    device = maker.keywords["device"]
    return shape, code, 8 * dtype.itemsize, _DLPACK_DEVICE[device.type], device.index or 0
