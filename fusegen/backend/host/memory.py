"""Arrays in host memory: NumPy's, torch's, and whatever can be read through a protocol.

What comes from a library with array API (JAX's) or with labels (pandas', xarray's, polars') is read
through its own protocol; what speaks __array__ alone, and lists, count as NumPy's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, is_dataclass, replace
from enum import Enum
from functools import cache, partial
from typing import Any

import numpy as np

from fusegen.backend.host.readers import NUMPY_READER, tensor_maker, torch_reader
from fusegen.backend.memory import Adopted, Family, Reader, Shape
from fusegen.ir.dtypes import BFLOAT16, DType, dtype_of
from fusegen.ir.errors import ArgumentError, DTypeError


@dataclass(frozen=True, slots=True)
class HostMemory:
    """See `Memory`; arrays are NumPy's."""

    name: str = "cpu"
    single: bool = True

    def place(self, index: int) -> str:
        return self.name

    def takes(self, given: Any) -> bool:
        return isinstance(given, np.ndarray)

    def adopt(self, name: str, given: Any) -> Adopted:
        if isinstance(given, np.ndarray):
            return _adopt_numpy(name, given)
        if is_tensor(given):
            return _adopt_torch(name, given)
        return _adopt_other(name, given)

    def working(self, like: Adopted) -> AbstractContextManager[Any]:
        return nullcontext()

    def maker(
        self, shape: Shape, dtype: DType, like: Adopted, order: Shape | None
    ) -> Callable[[], Any]:
        if like.family == "torch":
            return tensor_maker(shape, dtype, order, "cpu")
        if order is None:
            return partial(np.empty, shape, dtype.numpy)
        return lambda: np.empty(shape, dtype.numpy).transpose(order)

    def view(self, own: Any) -> Any:
        return own if isinstance(own, np.ndarray) else _seen_torch(own)

    def handed_back(self, shaped: Any, own: Any, dtype: DType, like: Adopted) -> Any:
        match like.family:
            case "torch":
                return own
            case "standard":
                return _standard(shaped, like.given)
            case _:
                return shaped

    def to_host(self, array: Any, dtype: DType) -> Any:
        return array

    def from_host(self, array: Any, dtype: DType) -> Any:
        return array

    def synchronize(self) -> None:
        """Nothing is queued."""

    def seconds(self, call: Callable[[], object], repetitions: int) -> list[float]:
        found = []
        for _ in range(repetitions):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
        return found

    def reader(self, like: Adopted) -> Reader | None:
        found = torch_reader() if like.family == "torch" else NUMPY_READER
        return found if type(like.given) in found.types else None


HOST = HostMemory()


# ---- taken in ----


def is_tensor(given: Any) -> bool:
    """Is it torch's? Of a subclass, also one defined elsewhere."""
    if type(given).__module__.partition(".")[0] == "torch" and hasattr(given, "is_neg"):
        return True
    return "torch" in sys.modules and isinstance(given, sys.modules["torch"].Tensor)


_known_dtype = cache(dtype_of)  # NumPy spells a dtype's name anew each time it is asked


def _dtype(name: str, dtype: Any) -> DType:
    try:
        return _known_dtype(dtype)
    except DTypeError as error:
        raise DTypeError(f"{name}: {error.what}", why=error.why,
                         fix=_instead(name, dtype)) from None


def _instead(name: str, dtype: Any) -> str:
    """What to do with an array of a type without kernels, so that nothing is lost unsaid."""
    def to(near: str) -> str:
        return f"{name}.to(torch.{near})" if isinstance(dtype, str) else f"{name}.astype('{near}')"

    kind = getattr(dtype, "kind", "")
    if "complex" in str(dtype):
        return f"Take what is real of it: {name}.real, {name}.imag or abs({name})."
    if kind == "u" or str(dtype) == "uint64":
        return f"{to('int64')} is right below 2**63; {to('float64')} keeps 53 bits."
    if kind == "O":
        return f"numpy.asarray({name}, 'float64') makes numbers of its objects, and NaN of None."
    if getattr(dtype, "names", None):
        return f"Take one of its fields: {name}['{dtype.names[0]}']."
    near = "int64" if kind in ("m", "M") else "float64" if kind in ("f", "U", "S") else "float32"
    return f"Convert it first, for example with {to(near)}."


def _adopt_numpy(name: str, given: Any) -> Adopted:
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())  # NumPy loads it when asked
    if isinstance(given, masked):
        raise ArgumentError(
            f"{name} is a masked array", why="Its mask would be ignored.",
            fix=f"{name}.filled(-numpy.inf), or another neutral value.",
        )
    dtype = _dtype(name, given.dtype)
    array = np.asarray(given)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return Adopted(array, dtype, HOST, "numpy", given)


def check_tensor(name: str, given: Any) -> None:
    """Raises ArgumentError for a tensor whose memory is not its values, has a gradient, or is
    recorded: what is computed past torch would be no part of the program. Raises DTypeError."""
    torch = sys.modules["torch"]
    if torch._C._is_tracing():  # not beneath an operator, which is what is recorded
        raise ArgumentError(f"{name} is recorded by torch.jit.trace",
                            why="It records torch's operators: pipelines and gradients are, "
                            "what they compile to, their states and references are not.",
                            fix="Call the pipeline itself, or do this outside.")
    if given.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(f"{name} requires a gradient", why="fusegen does not record one.",
                            fix=f"Pass {name}.detach(), or call under torch.no_grad().",
                            )
    if given.is_neg():
        raise ArgumentError(f"{name} is a view that negates what lies in memory",
                            fix=f"Pass {name}.resolve_neg().")
    if given.layout is not torch.strided:
        raise ArgumentError(f"{name} has no plain memory: its layout is {given.layout}",
                            fix=f"{name}.to_dense() makes a dense tensor.")
    _dtype(name, str(given.dtype).removeprefix("torch."))


def _adopt_torch(name: str, given: Any) -> Adopted:
    check_tensor(name, given)
    if given.device.type != "cpu":
        raise ArgumentError(f"{name} is on device {given.device}",
                            why="There are kernels for CPUs and CUDA.",
                            fix=f"{name}.cpu() moves it.")
    dtype = _known_dtype(str(given.dtype).removeprefix("torch."))
    try:
        return Adopted(_seen_torch(given), dtype, HOST, "torch", given)
    except (RuntimeError, TypeError) as error:  # freed, inside torch's transforms
        freed = str(error) == _FREED and not given._is_zerotensor()
        raise ArgumentError(f"{name} has no plain memory: {error}",
                            fix="It was freed, as sharding frees parameters: gather them first."
                            if freed else f"{name}.to_dense() makes a dense tensor.") from None


_FREED = "it has no storage"


class _Memory:
    """A tensor's memory by NumPy's protocol. Not `tensor.numpy()`, after which torch resizes the
    storage never again, as its sharding does with parameters."""

    def __init__(self, tensor: Any, kind: str, itemsize: int) -> None:
        self.tensor = tensor  # lives as long as the array
        pointer = tensor.data_ptr()
        if not pointer and tensor.numel():
            raise RuntimeError(_FREED)
        self.__array_interface__ = {
            "shape": tuple(tensor.shape), "strides": tuple(s * itemsize for s in tensor.stride()),
            "typestr": kind, "data": (pointer or _NOTHING, False), "version": 3}


_EMPTY = np.empty(1)
_NOTHING = _EMPTY.ctypes.data  # an address for arrays without elements


def _seen_torch(tensor: Any) -> Any:
    """A tensor's memory as NumPy sees it. Raises RuntimeError, TypeError."""
    dtype = _known_dtype(str(tensor.dtype).removeprefix("torch."))
    kind = np.dtype("int16") if dtype == BFLOAT16 else dtype.numpy
    array = np.asarray(_Memory(tensor.detach(), kind.str, kind.itemsize))
    return array.view(BFLOAT16.numpy) if dtype == BFLOAT16 else array


def _adopt_other(name: str, given: Any) -> Adopted:
    """Numbers, lists, and whatever speaks NumPy's protocols or DLPack on a CPU."""
    if not isinstance(given, str | bytes | bytearray | set | dict) and given is not None:
        _check_nulls(name, given)
        try:
            array = _read(given)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"{name} cannot be read as an array: {error}",
                fix="Pad rows of several lengths to one array; in the text "
                f"fg.ragged({name}, lengths) leaves the padding out." if _is_ragged(given) else "",
            ) from error
        if array is not None:
            labels = type(given).__module__.partition(".")[0] in ("pandas", "xarray", "polars")
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
        if hasattr(given, "toarray") else f"{name}.collect() makes one with values."
        if hasattr(given, "collect")
        else f"A constant is a keyword-only parameter: def …(x, *, {name})."
        if isinstance(given, Enum | dict | str) or is_dataclass(given)
        else f"numpy.asarray({name}) may make one.",
    )


def _check_nulls(name: str, given: Any) -> None:
    """Raises ArgumentError for a frame or series of polars that lacks values: NumPy has NaN there.
    """
    if type(given).__module__.partition(".")[0] == "polars" and hasattr(given, "to_numpy"):
        count = given.null_count()
        lacks = count if isinstance(count, int) else sum(count.row(0))
        if lacks:
            raise ArgumentError(f"{name} lacks {lacks} values", why="Kernels know no null.",
                                fix=f"{name}.fill_null(…), or {name}.drop_nulls().")


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


# ---- handed back ----


def _standard(array: Any, like: Any) -> Any:
    """By the array API standard. Raises DTypeError where the library would change numbers."""
    made = like.__array_namespace__().asarray(array)
    if str(made.dtype) != str(array.dtype) and not np.array_equal(np.asarray(made), array):
        name = type(like).__module__.partition(".")[0]
        raise DTypeError(f"{name} keeps {array.dtype} as {made.dtype}, which does not hold the "
                         "result", fix="Pass NumPy arrays.")
    return made

