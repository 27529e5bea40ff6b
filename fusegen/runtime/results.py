"""Arrays for results: made, or the user's own `out=`, and handed back as the kind that came in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.dtypes import BFLOAT16, DType
from fusegen.errors import ArgumentError, DTypeError, ShapeError
from fusegen.kernel import Param
from fusegen.runtime.arrays import Adopted, Rows, Shape, address, adopt, cuda_runtime, readable
from fusegen.runtime.strips import side_by_side


@dataclass(frozen=True, slots=True)
class Result:
    """An output: the array that the kernel writes, and the one that the user gets."""

    written: Any
    shaped: Any
    own: Any = None  # the same memory as the user's library has it: out=, or made by it
    given: bool = False  # own is the user's out= object
    copy: bool = False  # written is not the user's memory


def reach(array: Any) -> tuple[int, int]:
    """Bytes from the first element to the lowest, and to behind the highest."""
    ends = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    return sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends) + int(array.itemsize)


def overlap(one: Any, other: Any) -> bool:
    """May two arrays of the same kind, NumPy's or CuPy's, share memory?"""
    (low, high), (lowest, highest) = reach(one), reach(other)
    apart = address(one) - address(other)
    return one.size > 0 < other.size and lowest - high < apart < highest - low


def result_shape(param: Param, rows: Rows) -> Shape:
    """The user's shape: row values lose the axis, lists have K there."""
    if param.shape == "row":
        return rows.lead
    if param.shape == "element":
        return rows.whole
    return (*rows.lead[: rows.axis], param.k, *rows.lead[rows.axis :])


def _kernel_shape(param: Param, rows: Rows) -> Shape:
    if param.shape == "row":
        return (rows.n_rows,)
    return (rows.n_rows, param.k if param.shape == "list" else rows.n_cols)


def _shaped(written: Any, param: Param, rows: Rows) -> Any:
    if param.shape == "row" or rows.inner is not None:
        return written.reshape(result_shape(param, rows))
    whole = written.reshape(*rows.lead, written.shape[1])
    return whole if rows.axis == len(rows.lead) else np.moveaxis(whole, -1, rows.axis)


def new_result(param: Param, rows: Rows, like: Adopted) -> Result:
    """Fresh memory for an output, on the device of the inputs."""
    if like.device == "cuda":
        own = maker(param, rows, like)()
        shaped, _ = cuda_runtime().from_foreign(own)
        return Result(_kernel_view(shaped, param, rows), shaped, own)
    written = np.empty(_kernel_shape(param, rows), param.dtype.numpy)
    return Result(written, _shaped(written, param, rows))


def maker(param: Param, rows: Rows, like: Adopted) -> Callable[[], Any]:
    """What makes arrays for an output on a GPU, of the user's library and shape: rows lie as
    kernels write them. The device must be current."""
    shape, order = result_shape(param, rows), None
    if param.shape != "row" and rows.axis != len(rows.lead) and rows.inner is None:
        shape = (*rows.lead, shape[rows.axis])
        lead = iter(range(len(rows.lead)))
        order = tuple(len(rows.lead) if i == rows.axis else next(lead) for i in range(len(shape)))
    family = cuda_runtime().family_of(like.given)
    made: Callable[[], Any] = family.maker(shape, param.dtype, like.index, order)
    return made


def given_result(
    param: Param, rows: Rows, out: Any, inputs: Mapping[str, Adopted], n_outputs: int
) -> Result:
    """The user's out= array for an output. Raises ShapeError, DTypeError or ArgumentError."""
    name = "out" if n_outputs == 1 else f"out[{param.name!r}]"
    taken = adopt(name, out)
    like = next(iter(inputs.values()))
    shape = result_shape(param, rows)
    if taken.place != like.place:
        raise ArgumentError(f"{name} is on {taken.place}, the inputs on {like.place}")
    if tuple(taken.array.shape) != shape:
        raise ShapeError(f"{name} has shape {tuple(taken.array.shape)}, the result {shape}")
    if taken.dtype != param.dtype:
        raise DTypeError(f"{name} has type {taken.dtype}, the result {param.dtype}")
    if isinstance(taken.array, np.ndarray) and (
        not taken.array.flags.writeable or (taken.array is not out and taken.family == "numpy")
    ):
        raise ArgumentError(f"{name} cannot be written to", why="It is read-only or converted.")
    for other, source in inputs.items():
        if overlap(taken.array, source.array):
            raise ArgumentError(
                f"{name} overlaps the input {other}",
                why="Rows are read more than once and by many threads at a time.",
                fix="Give memory of its own, or leave out= away.",
            )
    return _write_through(taken.array, param, rows, out, like)


def _write_through(array: Any, param: Param, rows: Rows, out: Any, like: Adopted) -> Result:
    view = _kernel_view(array, param, rows)
    if view is not None:
        return Result(view, array, out, given=True)
    fresh = new_result(param, rows, like)  # written there, and moved at the end
    return Result(fresh.written, array, out, given=True, copy=True)


def _kernel_view(array: Any, param: Param, rows: Rows) -> Any | None:
    """Memory of the user's shape as kernels write it, None where its strides do not allow that."""
    if rows.inner is not None and param.shape == "element":
        views = side_by_side([array], rows.axis)
        return views[0] if views else None
    flat = _flat(array, param, rows)
    packed = flat.flags.c_contiguous or (param.shape == "element" and readable(flat))
    # reshape copies where it must
    same = flat.size == 0 or (address(flat) == address(array) and overlap(flat, array))
    return flat if packed and same and address(flat) % flat.itemsize == 0 else None


def _flat(array: Any, param: Param, rows: Rows) -> Any:
    """The user's shape in rows; a view wherever strides allow."""
    if param.shape != "row" and rows.axis != len(rows.lead):
        array = np.moveaxis(array, rows.axis, -1)
    return array.reshape(_kernel_shape(param, rows))


def check_distinct(results: list[Result]) -> None:
    """Two outputs must not share memory."""
    given = [r for r in results if r.given]
    for i, one in enumerate(given):
        for other in given[i + 1 :]:
            if overlap(one.shaped, other.shaped):
                raise ArgumentError("two of the out= arrays overlap",
                                    fix="Give each output memory of its own.")  # fmt: skip


def hand_back(result: Result, param: Param, rows: Rows, like: Adopted) -> Any:
    """The output as the kind of array that came in; the user's own object for out=."""
    if result.copy:
        result.shaped[...] = _shaped(result.written, param, rows)
    match like.family:
        case _ if result.given:
            return result.own
        case "numpy":
            return result.shaped
        case "torch" if like.device == "cpu":
            return _to_torch(result.shaped, param.dtype)
        case "torch" | "cupy":
            return result.own
        case "foreign":
            return cuda_runtime().to_foreign(result.own, like.given)


def _to_torch(array: Any, dtype: DType) -> Any:
    torch = sys.modules["torch"]
    if dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
