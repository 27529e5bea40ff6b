"""Arrays for results: made, or the user's own `out=`, and handed back as the kind that came in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.dtypes import BFLOAT16, DType
from fusegen.errors import ArgumentError, DTypeError, ShapeError
from fusegen.kernel import Param
from fusegen.runtime.arrays import Adopted, Rows, Shape, address, adopt, cuda_runtime, readable


@dataclass(frozen=True, slots=True)
class Result:
    """An output: the array that the kernel writes, and the one that the user gets."""

    written: Any
    shaped: Any
    given: Any = None  # the user's out= object
    copy: bool = False  # written is not the user's memory


def result_shape(param: Param, rows: Rows) -> Shape:
    """The user's shape: row values lose the axis, lists have K there."""
    if param.shape == "row":
        return rows.lead
    cols = param.k if param.shape == "list" else rows.n_cols
    return (*rows.lead[: rows.axis], cols, *rows.lead[rows.axis :])


def _kernel_shape(param: Param, rows: Rows) -> Shape:
    if param.shape == "row":
        return (rows.n_rows,)
    return (rows.n_rows, param.k if param.shape == "list" else rows.n_cols)


def _shaped(written: Any, param: Param, rows: Rows) -> Any:
    if param.shape == "row":
        return written.reshape(rows.lead)
    whole = written.reshape(*rows.lead, written.shape[1])
    return whole if rows.axis == len(rows.lead) else np.moveaxis(whole, -1, rows.axis)


def new_result(param: Param, rows: Rows, like: Adopted) -> Result:
    """Fresh memory for an output, on the device of the inputs."""
    shape = _kernel_shape(param, rows)
    if like.device == "cuda":
        written = cuda_runtime().empty(shape, param.dtype)
    else:
        written = np.empty(shape, param.dtype.numpy)
    return Result(written, _shaped(written, param, rows))


def given_result(
    param: Param, rows: Rows, out: Any, inputs: Mapping[str, Adopted], n_outputs: int
) -> Result:
    """The user's out= array for an output. Raises ShapeError, DTypeError or ArgumentError."""
    name = "out" if n_outputs == 1 else f"out[{param.name!r}]"
    taken = adopt(name, out)
    like = next(iter(inputs.values()))
    shape = result_shape(param, rows)
    if taken.device != like.device:
        raise ArgumentError(f"{name} is on {taken.device}, the inputs on {like.device}")
    if tuple(taken.array.shape) != shape:
        raise ShapeError(f"{name} has shape {tuple(taken.array.shape)}, the result {shape}")
    if taken.dtype != param.dtype:
        raise DTypeError(f"{name} has type {taken.dtype}, the result {param.dtype}")
    if isinstance(taken.array, np.ndarray) and (
        not taken.array.flags.writeable or (taken.array is not out and taken.family == "numpy")
    ):
        raise ArgumentError(f"{name} cannot be written to", why="It is read-only or converted.")
    for other, source in inputs.items():
        if np.may_share_memory(taken.array, source.array):
            raise ArgumentError(
                f"{name} overlaps the input {other}",
                why="Rows are read more than once and by many threads at a time.",
                fix="Give memory of its own, or leave out= away.",
            )
    return _write_through(taken.array, param, rows, out, like)


def _write_through(array: Any, param: Param, rows: Rows, out: Any, like: Adopted) -> Result:
    moved = array
    if param.shape != "row" and rows.axis != len(rows.lead):
        moved = np.moveaxis(array, rows.axis, -1)
    flat = moved.reshape(_kernel_shape(param, rows))
    packed = flat.flags.c_contiguous or (param.shape == "element" and readable(flat))
    # reshape copies where it must; then the result is written elsewhere and moved at the end.
    same = flat.size == 0 or (address(flat) == address(array) and np.may_share_memory(flat, array))
    if packed and same and address(flat) % flat.itemsize == 0:
        return Result(flat, array, out)
    fresh = new_result(param, rows, like)
    return Result(fresh.written, array, out, copy=True)


def check_distinct(results: list[Result]) -> None:
    """Two outputs must not share memory."""
    given = [r for r in results if r.given is not None]
    for i, one in enumerate(given):
        for other in given[i + 1 :]:
            if np.may_share_memory(one.shaped, other.shaped):
                raise ArgumentError("two of the out= arrays overlap",
                                    fix="Give each output memory of its own.")  # fmt: skip


def hand_back(result: Result, param: Param, rows: Rows, like: Adopted) -> Any:
    """The output as the kind of array that came in; the user's own object for out=."""
    if result.given is not None:
        if result.copy:
            result.shaped[...] = _shaped(result.written, param, rows)
        return result.given
    match like.family:
        case "numpy":
            return result.shaped
        case "torch":
            return _to_torch(result.shaped, param.dtype)
        case "cupy" | "foreign":
            return cuda_runtime().to_foreign(result.shaped, param.dtype, like.given)


def _to_torch(array: Any, dtype: DType) -> Any:
    torch = sys.modules["torch"]
    if dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
