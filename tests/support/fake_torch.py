"""As much of torch as fusegen asks of tensors on GPUs; the memory is fake_gpu.py's."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from fusegen.backend.host.readers import TORCH_WATCHERS
from support import fake_cupy, fake_gpu

_NAMES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")


class _DType:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"torch.{self.name}"

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype("int16" if self.name == "bfloat16" else self.name)


class Tensor:
    """torch.Tensor; `host` is NumPy's view of the same memory."""

    __module__ = "torch"
    is_cuda = True

    is_meta = False
    layout = "strided"
    recording = True  # torch.is_grad_enabled()
    __torch_dispatch__ = None

    def __init__(self, host: np.ndarray, dtype: Any, index: int, requires_grad: bool = False,
                 negated: bool = False) -> None:
        self.host, self.dtype, self.index = host, dtype, index
        self.requires_grad, self.negated = requires_grad, negated
        self.device = types.SimpleNamespace(type="cuda", index=index)
        self.shape = host.shape

    def detach(self) -> Tensor:
        return type(self)(self.host, self.dtype, self.index)

    def is_neg(self) -> bool:
        return self.negated

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.host.itemsize for s in self.host.strides)

    def data_ptr(self) -> int:
        return int(self.host.ctypes.data)

    def get_device(self) -> int:
        return self.index

    def view(self, dtype: Any) -> Tensor:
        return Tensor(self.host.view(dtype.numpy), dtype, self.index)

    def permute(self, order: Any) -> Tensor:
        return Tensor(self.host.transpose(order), self.dtype, self.index)

    def storage_offset(self) -> int:
        return 0

    def as_strided(self, shape: Any, steps: Any, offset: int) -> Tensor:
        size = self.host.itemsize
        first = np.lib.stride_tricks.as_strided(self.host, (1,) * self.host.ndim).reshape(-1)
        place = np.lib.stride_tricks.as_strided(first, (offset + 1,), (size,))[offset:]
        host = np.lib.stride_tricks.as_strided(place, shape, [s * size for s in steps])
        return Tensor(host, self.dtype, self.index)

    def clone(self, memory_format: Any) -> Tensor:
        found = fake_cupy.array(self.host, self.index)
        return Tensor(found.host, self.dtype, self.index)

    def copy_(self, other: Tensor) -> None:
        self.host[...] = other.host

    def get(self) -> np.ndarray:
        return self.host.copy()


class Parameter(Tensor):
    __module__ = "torch.nn"


def module(gpu: fake_gpu.Gpu) -> Any:
    """What stands in sys.modules as torch."""
    kinds = {n: _DType(n) for n in _NAMES}

    def empty_strided(shape: Any, stride: Any, *, dtype: Any, device: Any) -> Tensor:
        kind = dtype.numpy
        flat = gpu.allocate(int(np.prod(shape)) * kind.itemsize, device.index).view(kind)
        steps = [s * kind.itemsize for s in stride]
        host = np.lib.stride_tricks.as_strided(flat, shape, steps)
        return Tensor(host, dtype, device.index)

    return types.SimpleNamespace(
        Tensor=Tensor, strided=Tensor.layout,
        nn=types.SimpleNamespace(Parameter=Parameter), empty_strided=empty_strided,
        device=lambda kind, index: types.SimpleNamespace(type=kind, index=index),
        is_grad_enabled=lambda: Tensor.recording, contiguous_format=None,
        _C=types.SimpleNamespace(
            _cuda_getCurrentRawStream=lambda i: gpu.stream("torch", i),
            **dict.fromkeys(TORCH_WATCHERS, lambda: False),
            _functorch=types.SimpleNamespace(is_functorch_wrapped_tensor=lambda _: False)),
        compiler=types.SimpleNamespace(is_dynamo_compiling=lambda: False),
        autograd=types.SimpleNamespace(forward_ad=types.SimpleNamespace(_current_level=-1)),
        **kinds)


def tensor(values: Any, index: int = 0, kind: type[Tensor] = Tensor, **flags: Any) -> Tensor:
    """A tensor of these values on a GPU."""
    import sys

    found = fake_cupy.array(values, index)
    return kind(found.host, getattr(sys.modules["torch"], str(found.dtype)), index, **flags)
