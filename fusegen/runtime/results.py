"""Arrays for results: made, or the user's own `out=`, and handed back as the kind that came in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fusegen.dtypes import BFLOAT16, DType
from fusegen.errors import ArgumentError, DTypeError, ShapeError
from fusegen.kernel import Param
from fusegen.runtime.arrays import Adopted, Shape, address, adopt, cuda_runtime
from fusegen.runtime.labels import relabelled
from fusegen.runtime.rows import Rows, columns_last, readable, tail_of
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
    low, high = 0, int(array.itemsize)
    for n, step in zip(array.shape, array.strides, strict=True):
        if step < 0:
            low += (n - 1) * step
        else:
            high += (n - 1) * step
    return low, high


def overlap(one: Any, other: Any) -> bool:
    """May two arrays of the same kind, NumPy's or CuPy's, share memory?"""
    (low, high), (lowest, highest) = reach(one), reach(other)
    apart = address(one) - address(other)
    return one.size > 0 < other.size and lowest - high < apart < highest - low


def overlaps_itself(array: Any) -> bool:
    """Do two elements of a NumPy or CuPy array share bytes?"""
    if array.size == 0 or array.flags.c_contiguous:
        return False
    steps = sorted((abs(s), n) for n, s in zip(array.shape, array.strides, strict=True) if n > 1)
    room = int(array.itemsize)  # from the first element to behind the last, of the axes so far
    for step, n in steps:
        if step < room:  # interleaved at best: look at every element, where one could be apart
            return step == 0 or _meet(steps, int(array.itemsize))
        room += (n - 1) * step
    return False


def _meet(steps: list[tuple[int, int]], itemsize: int) -> bool:
    places = np.zeros(1, np.int64)
    for step, n in steps:
        places = np.add.outer(places, np.arange(n, dtype=np.int64) * step).ravel()
    return bool((np.diff(np.sort(places)) < itemsize).any())


def result_shape(param: Param, rows: Rows) -> Shape:
    """The user's shape: row values lose the axes, or keep them with 1; lists have K there."""
    if rows.last and not rows.keepdims:  # nearly every call's
        return rows.lead + {"row": (), "element": rows.cols, "list": (param.k,)}[param.shape]
    return rows.placed(*_tail(param, rows))


def _tail(param: Param, rows: Rows) -> tuple[Shape, tuple[int, ...]]:
    return tail_of(rows, param.shape, param.k)


def _kernel_shape(param: Param, rows: Rows) -> Shape:
    if param.shape == "row":
        return (rows.n_rows,)
    return (rows.n_rows, param.k if param.shape == "list" else rows.n_cols)


def _shaped(written: Any, param: Param, rows: Rows) -> Any:
    if param.shape == "row" or rows.inner is not None or rows.last:
        return written.reshape(result_shape(param, rows))
    sizes, places = _tail(param, rows)
    whole = written.reshape(*rows.lead, *sizes)
    return np.moveaxis(whole, range(len(rows.lead), whole.ndim), places)


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
    if param.shape != "row" and not rows.last and rows.inner is None:
        sizes, places = _tail(param, rows)
        shape, n_lead = (*rows.lead, *sizes), len(rows.lead)
        order = replace(rows, lead=tuple(range(n_lead))).placed(
            tuple(range(n_lead, len(shape))), places
        )
    family = cuda_runtime().family_of(like.given)
    made: Callable[[], Any] = family.maker(shape, param.dtype, like.index, order)
    return made


def given_result(
    param: Param, rows: Rows, out: Any, inputs: Mapping[str, Adopted], n_outputs: int
) -> Result:
    """The user's out= array for an output. Raises ShapeError, DTypeError or ArgumentError."""
    name = "out" if n_outputs == 1 else f"out[{param.name!r}]"
    if isinstance(out, bool | int | float | list | tuple | np.generic):
        raise ArgumentError(f"{name} is {type(out).__name__}, no array that can be written to",
                            fix=f"numpy.empty({result_shape(param, rows)}, "
                            f"'{param.dtype}') makes one.")  # fmt: skip
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
    if overlaps_itself(taken.array):
        raise ArgumentError(f"{name} overlaps itself", fix="Give every element its own memory.",
                            why=f"Of shape {tuple(taken.array.shape)} with strides "
                            f"{taken.array.strides}, several elements share memory.")  # fmt: skip
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
        views = side_by_side([array], rows.axes[0])
        return views[0] if views else None
    flat = _flat(array, param, rows)
    packed = flat.flags.c_contiguous or (param.shape == "element" and readable(flat))
    # reshape copies where it must
    same = flat.size == 0 or (address(flat) == address(array) and overlap(flat, array))
    return flat if packed and same and address(flat) % flat.itemsize == 0 else None


def _flat(array: Any, param: Param, rows: Rows) -> Any:
    """The user's shape in rows; a view wherever strides allow."""
    if param.shape != "row" and not rows.last:
        array = columns_last(array, _tail(param, rows)[1])
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
        case "labelled":
            return relabelled(result.shaped, param.shape, rows, like.given)
        case "standard":
            return _standard(result.shaped, like.given)
        case "torch" if like.device == "cpu":
            return _to_torch(result.shaped, param.dtype)
        case "torch" | "cupy":
            return result.own
        case "foreign":
            return cuda_runtime().to_foreign(result.own, like.given)


def _standard(array: Any, like: Any) -> Any:
    """By the array API standard. Raises DTypeError where the library would change numbers."""
    made = like.__array_namespace__().asarray(array)
    if str(made.dtype) != str(array.dtype) and not np.array_equal(np.asarray(made), array):
        name = type(like).__module__.partition(".")[0]
        raise DTypeError(f"{name} keeps {array.dtype} as {made.dtype}, which does not hold the "
                         "result", fix="Pass NumPy arrays.")  # fmt: skip
    return made


def _to_torch(array: Any, dtype: DType) -> Any:
    torch = sys.modules["torch"]
    if dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
