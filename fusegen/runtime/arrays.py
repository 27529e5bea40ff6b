"""Arrays in and out: whatever the user has becomes (rows, columns) views, and comes back in kind.

Kernels see a 2-D array with neighbouring columns and one row stride. Where strides allow (also
stride 0 of a broadcast array) that is a view of the user's memory, else a copy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Literal

import numpy as np

from fusegen import graph as g
from fusegen.dtypes import BFLOAT16, DType, dtype_of
from fusegen.errors import ArgumentError, BackendError, DTypeError, ShapeError
from fusegen.schedule.target import CudaTarget

Device = Literal["cpu", "cuda"]
Family = Literal["numpy", "torch", "cupy", "foreign"]
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
    """Take an array as it is. Raises ArgumentError, DTypeError or ShapeError naming it."""
    library = type(given).__module__.partition(".")[0]
    if isinstance(given, np.ndarray):
        found = _adopt_numpy(name, given)
    elif library == "torch":
        found = _adopt_torch(name, given)
    elif library == "cupy" or _is_on_gpu(given):
        found = _adopt_gpu(given, "cupy" if library == "cupy" else "foreign")
    elif hasattr(given, "__dlpack__") and not isinstance(given, np.generic):
        array = np.from_dlpack(given)
        found = Adopted(array, _dtype(name, array.dtype), "cpu", "numpy", given)
    else:
        raise ArgumentError(
            f"{name} is {type(given).__name__}, not an array",
            why="Pipelines take NumPy and CuPy arrays, torch tensors, and whatever speaks DLPack.",
            fix=f"numpy.asarray({name}) makes one.",
        )
    if found.array.ndim == 0:
        raise ShapeError(f"{name} has no axes", why="A row needs at least one axis.",
                         fix=f"{name}.reshape(1) is a row of one column.")  # fmt: skip
    return found


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
        raise DTypeError(f"{name}: {error.what}", why=error.why, fix=error.fix) from None


def _adopt_numpy(name: str, given: Any) -> Adopted:
    if isinstance(given, np.ma.MaskedArray):
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
    if given.requires_grad:
        raise ArgumentError(f"{name} requires a gradient", why="fusegen does not record one.",
                            fix=f"Pass {name}.detach().")  # fmt: skip
    if given.is_neg():
        raise ArgumentError(f"{name} is a view that negates what lies in memory",
                            fix=f"Pass {name}.resolve_neg().")  # fmt: skip
    if given.device.type == "cuda":
        return _adopt_gpu(given, "torch")
    if given.device.type != "cpu":
        raise ArgumentError(f"{name} is on device {given.device}",
                            why="There are kernels for CPUs and CUDA.",
                            fix=f"{name}.cpu() moves it.")  # fmt: skip
    torch = sys.modules["torch"]
    if given.dtype is torch.bfloat16:
        array = given.view(torch.int16).numpy().view(BFLOAT16.numpy)
        return Adopted(array, BFLOAT16, "cpu", "torch", given)
    dtype = _dtype(name, str(given.dtype).removeprefix("torch."))
    return Adopted(given.numpy(), dtype, "cpu", "torch", given)


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


# ---- rows ----


@dataclass(frozen=True, slots=True)
class Rows:
    """How the user's axes become rows and columns."""

    lead: Shape  # the other axes, in order
    n_cols: int
    axis: int  # where the columns stood, from the front
    inner: int | None = None  # rows side by side that kernels read as they are (runtime.strips)

    @property
    def n_rows(self) -> int:
        return math.prod(self.lead)

    @property
    def whole(self) -> Shape:
        """The user's shape of element arrays."""
        return (*self.lead[: self.axis], self.n_cols, *self.lead[self.axis :])


def rows_of(inputs: tuple[g.Input, ...], shapes: Mapping[str, Shape], axis: int) -> Rows:
    """Rows and columns that the inputs' shapes agree on. Raises ShapeError."""
    elements = [i.name for i in inputs if i.axis is g.Axis.ELEMENT]
    shown = ", ".join(f"{n} {shapes[n]}" for n in shapes)
    try:
        whole = np.broadcast_shapes(*(shapes[n] for n in elements))
    except ValueError:
        raise ShapeError("the element inputs do not broadcast against one another",
                         why=f"Shapes: {shown}.") from None  # fmt: skip
    if not -len(whole) <= axis < len(whole):
        raise ShapeError(f"axis {axis} does not exist", why=f"Shapes: {shown}.",
                         fix=f"Axes are {-len(whole)} … {len(whole) - 1}.")  # fmt: skip
    place = axis % len(whole)
    lead = whole[:place] + whole[place + 1 :]
    if whole[place] == 0:
        raise ShapeError("the rows are empty: zero columns", why=f"Shapes: {shown}, axis {axis}.",
                         fix="A reduction needs at least one element.")  # fmt: skip
    rows = Rows(lead, whole[place], place)
    for i in inputs:
        _check_side_input(i, shapes[i.name], rows)
    return rows


def _check_side_input(node: g.Input, shape: Shape, rows: Rows) -> None:
    match node.axis:
        case g.Axis.ELEMENT:
            return
        case g.Axis.PER_COLUMN:
            if shape != (rows.n_cols,):
                raise ShapeError(
                    f"{node.name} has shape {shape}, not ({rows.n_cols},)", where=node.loc,
                    why="It is per column: one value for each.",
                )  # fmt: skip
        case g.Axis.PER_ROW:
            try:
                fits = np.broadcast_shapes(shape, rows.lead) == rows.lead
            except ValueError:
                fits = False
            if not fits:
                raise ShapeError(
                    f"{node.name} has shape {shape}, the rows have {rows.lead}", where=node.loc,
                    why="It is per row: one value for each.",
                )  # fmt: skip


def as_rows(array: Any, axis: g.Axis, rows: Rows) -> Any:
    """The array as a kernel reads it; a view of the same memory wherever strides allow."""
    match axis:
        case g.Axis.PER_COLUMN:
            # Aligned rows read it in whole vectors, so it must be aligned as they are.
            return _packed(array, VECTOR)
        case g.Axis.PER_ROW:
            return _packed(np.broadcast_to(array, rows.lead).reshape(rows.n_rows), array.itemsize)
        case g.Axis.ELEMENT:
            if array.shape != rows.whole:
                array = np.broadcast_to(array, rows.whole)
            if rows.axis != len(rows.lead):
                array = np.moveaxis(array, rows.axis, -1)
            if array.ndim != 2:
                array = array.reshape(rows.n_rows, rows.n_cols)
            return array if readable(array) else array.copy(order="C")


def readable(array: Any) -> bool:
    """Neighbouring columns, a row stride of whole elements, aligned."""
    size = array.itemsize
    row, col = array.strides
    return bool(col == size and row % size == 0 and address(array) % size == 0)


def _packed(array: Any, boundary: int) -> Any:
    """Neighbouring elements from a multiple of `boundary` bytes on; a copy where they are not."""
    straight = array.strides == (array.itemsize,) and address(array) % boundary == 0
    return array if straight else array.copy(order="C")


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
