"""Whose arrays these are, and where: NumPy's, CuPy's, torch's and others', without a copy.

What comes from a library with array API (JAX's) or with labels (pandas', xarray's) is read through
its own protocol; what speaks __array__ alone, and lists, count as NumPy's.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any, Literal

import numpy as np

from fusegen.dtypes import BFLOAT16, DType, dtype_of
from fusegen.errors import ArgumentError, BackendError, DTypeError
from fusegen.schedule.target import CudaTarget

Device = Literal["cpu", "cuda"]
Family = Literal["numpy", "torch", "cupy", "foreign", "standard", "labelled"]
Shape = tuple[int, ...]

VECTOR = 16  # bytes of the widest load


@dataclass(frozen=True, slots=True)
class Adopted:
    """The user's array as NumPy's or CuPy's, sharing its memory.

    bfloat16 on the GPU arrives as 16-bit integers: `dtype` says what they are.
    """

    array: Any
    dtype: DType
    device: Device
    family: Family
    given: Any  # the user's own object
    index: int = 0  # of the GPU

    @property
    def place(self) -> str:
        return self.device if self.device == "cpu" else f"GPU {self.index}"


def cuda_runtime() -> ModuleType:
    """fusegen.runtime.cuda, loaded when the first GPU array is met."""
    from fusegen.runtime import cuda

    return cuda


def adopt(name: str, given: Any) -> Adopted:
    """Take an array as it is. Raises ArgumentError or DTypeError naming it."""
    library = type(given).__module__.partition(".")[0]
    if isinstance(given, np.ndarray):
        return _adopt_numpy(name, given)
    if library == "torch" and hasattr(given, "is_neg"):
        return _adopt_torch(name, given)
    if library == "cupy" or _is_on_gpu(given):
        return _adopt_gpu(given, "cupy" if library == "cupy" else "foreign")
    if "torch" in sys.modules and isinstance(given, sys.modules["torch"].Tensor):
        return _adopt_torch(name, given)  # a subclass
    return _adopt_other(name, given)


def _is_on_gpu(given: Any) -> bool:
    if hasattr(given, "__cuda_array_interface__"):
        return True
    device = getattr(given, "__dlpack_device__", None)
    return device is not None and int(device()[0]) in (2, 13)  # kDLCUDA, kDLCUDAManaged


_known_dtype = cache(dtype_of)  # NumPy spells a dtype's name anew each time it is asked


def _dtype(name: str, dtype: Any) -> DType:
    try:
        return _known_dtype(dtype)
    except DTypeError as error:
        near = "int64" if _is_whole(dtype) else "float32"
        raise DTypeError(f"{name}: {error.what}", why=error.why,
                         fix=f"Convert it first, for example with {name}.astype('{near}').",
                         ) from None  # fmt: skip


def _is_whole(dtype: Any) -> bool:
    """Of a type without kernels: integers of 64 bits without a sign, dates and durations."""
    return getattr(dtype, "kind", "") in ("m", "M", "u") or str(dtype) == "uint64"


def _adopt_numpy(name: str, given: Any) -> Adopted:
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())  # NumPy loads it when asked
    if isinstance(given, masked):
        raise ArgumentError(
            f"{name} is a masked array", why="Its mask would be ignored.",
            fix=f"{name}.filled(-numpy.inf), or another neutral value.",
        )  # fmt: skip
    dtype = _dtype(name, given.dtype)
    array = np.asarray(given)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return Adopted(array, dtype, "cpu", "numpy", given)


def _adopt_torch(name: str, given: Any) -> Adopted:
    torch = sys.modules["torch"]
    if given.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(f"{name} requires a gradient", why="fusegen does not record one.",
                            fix=f"Pass {name}.detach(), or call under torch.no_grad().",
                            )  # fmt: skip
    if given.is_neg():
        raise ArgumentError(f"{name} is a view that negates what lies in memory",
                            fix=f"Pass {name}.resolve_neg().")  # fmt: skip
    if given.device.type == "cuda":
        return _adopt_gpu(given.detach() if given.requires_grad else given, "torch")
    if given.device.type != "cpu":
        raise ArgumentError(f"{name} is on device {given.device}",
                            why="There are kernels for CPUs and CUDA.",
                            fix=f"{name}.cpu() moves it.")  # fmt: skip
    plain = given.detach()
    try:
        if given.dtype is torch.bfloat16:
            array = plain.view(torch.int16).numpy().view(BFLOAT16.numpy)
            return Adopted(array, BFLOAT16, "cpu", "torch", given)
        dtype = _dtype(name, str(given.dtype).removeprefix("torch."))
        return Adopted(plain.numpy(), dtype, "cpu", "torch", given)
    except (RuntimeError, TypeError) as error:  # sparse, quantized, inside torch's transforms
        raise ArgumentError(f"{name} has no plain memory: {error}",
                            fix=f"{name}.to_dense() makes a dense tensor.") from None  # fmt: skip


def _adopt_other(name: str, given: Any) -> Adopted:
    """Numbers, lists, and whatever speaks NumPy's protocols or DLPack on a CPU."""
    if not isinstance(given, str | bytes | bytearray | set | dict) and given is not None:
        try:
            array = _read(given)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"{name} cannot be read as an array: {error}",
                fix="Pad rows of several lengths to one array; in the text "
                f"fg.ragged({name}, lengths) leaves the padding out." if _is_ragged(given) else "",
            ) from error
        if array is not None:
            labels = type(given).__module__.partition(".")[0] in ("pandas", "xarray")
            standard = hasattr(given, "__array_namespace__")
            family: Family = "labelled" if labels else "standard" if standard else "numpy"
            return replace(_adopt_numpy(name, array), family=family, given=given)
    kind = type(given)
    raise ArgumentError(
        f"{name} is {kind.__name__ if kind.__module__ == 'builtins' else _full(kind)}, no array",
        why="Pipelines take NumPy and CuPy arrays, torch tensors, lists of numbers, and whatever "
        "speaks __array__ or DLPack.",
        fix=f"A method is called of an instance, without {name} among the arrays."
        if name in ("self", "cls") else f"{name}.toarray() makes an array."
        if hasattr(given, "toarray")
        else f"numpy.asarray({name}) may make one.",
    )  # fmt: skip


def _is_ragged(given: Any) -> bool:
    """Does a list hold lists of several lengths?"""
    if not isinstance(given, list | tuple):
        return False
    lengths = {len(one) if hasattr(one, "__len__") else 0 for one in given}
    return len(lengths) > 1 or any(map(_is_ragged, given))


def _full(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _read(given: Any) -> Any | None:
    """The values as a NumPy array, sharing memory where the other library does."""
    if isinstance(given, np.generic | int | float | list | tuple | memoryview) or hasattr(
        given, "__array__"
    ):
        return np.asarray(given)
    if hasattr(given, "__dlpack__"):
        return np.from_dlpack(given)
    if hasattr(given, "__array_interface__") or hasattr(given, "__array_struct__"):
        return np.asarray(given)
    try:
        return np.asarray(memoryview(given))
    except TypeError:
        return None


def _adopt_gpu(given: Any, family: Family) -> Adopted:
    array, dtype = cuda_runtime().from_foreign(given)
    return Adopted(array, dtype, "cuda", family, given, array.data.device_id)


def one_device(adopted: Mapping[str, Adopted], wanted: str) -> Device:
    """Where all the arrays live. Raises ArgumentError if that is two places or not `wanted`."""
    if len({a.place for a in adopted.values()}) > 1:
        where = ", ".join(f"{n} on {a.place}" for n, a in adopted.items())
        raise ArgumentError(
            "the arrays live on different devices", why=where + ".",
            fix="Move them to one: nothing is copied between devices silently.",
        )  # fmt: skip
    place = next(iter(adopted.values())).device
    if wanted not in ("auto", place):
        if wanted not in ("cpu", "cuda"):
            raise ArgumentError(f"unknown device {wanted!r}", why="Devices: auto, cpu, cuda.")
        raise ArgumentError(
            f"device={wanted!r}, but the arrays live on {place}",
            why="Kernels run where the data is.",
            fix="Move the arrays first: cupy.asarray(x) or x.cuda(), cupy.asnumpy(x) or x.cpu().",
        )
    return place


# ---- memory ----


def address(array: Any) -> int:
    """Where the first element lies: a NumPy array's or a CuPy array's."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def phase(arrays: list[Any]) -> tuple[bool, bool]:
    """(aligned, in_phase) of 2-D element arrays, as schedule.problem.Problem has them."""
    if all(a.strides[0] % VECTOR == 0 and address(a) % VECTOR == 0 for a in arrays):
        return True, True
    offsets = {(address(a) // a.itemsize % VECTOR, a.strides[0] // a.itemsize % VECTOR)
               for a in arrays}  # fmt: skip
    return False, len(offsets) == 1


# ---- the GPU ----


def need_cuda() -> None:
    """Raises BackendError if no GPU can run here."""
    reason = cuda_runtime().available()
    if reason is not None:
        raise BackendError(f"no GPU can be used here: {reason}")


def cuda_target() -> CudaTarget:
    """The current device's facts."""
    return cuda_runtime().current_target()  # type: ignore[no-any-return]


def caller_stream(adopted: Mapping[str, Adopted]) -> AbstractContextManager[Any]:
    """The arrays' device, and the stream that the caller's own library works on there."""
    like = next(iter(adopted.values()))
    if like.device == "cpu":
        return nullcontext()
    return cuda_runtime().caller_stream(like.given, like.index)  # type: ignore[no-any-return]


def on_host(adopted: Adopted) -> Adopted:
    """The same values in host memory, for the reference."""
    if adopted.device == "cpu":
        return Adopted(adopted.array, adopted.dtype, "cpu", "numpy", adopted.array)
    array = cuda_runtime().to_host(adopted.array, adopted.dtype)
    return Adopted(array, adopted.dtype, "cpu", "numpy", array)
