"""Arrays for results: made, or the user's own `out=`, and handed back as the kind that came in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fusegen.backend.arrays.adopt import adopt
from fusegen.backend.arrays.labels import relabelled
from fusegen.backend.arrays.rows import Rows, tail_of
from fusegen.backend.arrays.spans import overlap, overlaps_itself, within_reach
from fusegen.backend.arrays.strips import side_by_side
from fusegen.backend.arrays.views import columns_last, readable
from fusegen.backend.memory import Adopted, Shape
from fusegen.backend.words import address
from fusegen.ir.errors import ArgumentError, DTypeError, ShapeError
from fusegen.ir.kernel import Param


@dataclass(frozen=True, slots=True)
class Result:
    """An output: the array that the kernel writes, and the one that the user gets."""

    written: Any
    shaped: Any
    own: Any = None  # the same memory as the user's library has it: out=, or made by it
    given: bool = False  # own is the user's out= object
    copy: bool = False  # written is not the user's memory


def result_shape(param: Param, rows: Rows) -> Shape:
    """The user's shape: row values lose the axes, or keep them with 1; lists have K there."""
    if rows.last and not rows.keepdims:  # nearly every call's
        tails = {"row": (), "element": rows.cols, "list": (param.k,), "row_vector": (param.k,)}
        return rows.lead + tails[param.shape]
    return rows.placed(*_tail(param, rows))


def _tail(param: Param, rows: Rows) -> tuple[Shape, tuple[int, ...]]:
    return tail_of(rows, param.shape, param.k)


def _kernel_shape(param: Param, rows: Rows) -> Shape:
    if param.shape == "row":
        return (rows.n_rows,)
    return (rows.n_rows, rows.n_cols if param.shape == "element" else param.k)


def _shaped(written: Any, param: Param, rows: Rows) -> Any:
    if param.shape == "row" or rows.inner is not None or rows.last:
        return written.reshape(result_shape(param, rows))
    sizes, places = _tail(param, rows)
    whole = written.reshape(*rows.lead, *sizes)
    return np.moveaxis(whole, range(len(rows.lead), whole.ndim), places)


def new_result(param: Param, rows: Rows, like: Adopted) -> Result:
    """Fresh memory for an output, where the inputs lie."""
    own = maker(param, rows, like)()
    shaped = like.memory.view(own)
    if rows.last or param.shape == "row":  # nearly every call's: packed, in the kernels' order
        return Result(shaped.reshape(_kernel_shape(param, rows)), shaped, own)
    return Result(_kernel_view(shaped, param, rows), shaped, own)


def maker(param: Param, rows: Rows, like: Adopted) -> Callable[[], Any]:
    """What makes arrays for an output, of the user's library and shape, rows as kernels write
    them. To be called where the inputs lie."""
    shape, order = result_shape(param, rows), None
    if param.shape != "row" and not rows.last and rows.inner is None:
        sizes, places = _tail(param, rows)
        shape, n_lead = (*rows.lead, *sizes), len(rows.lead)
        order = replace(rows, lead=tuple(range(n_lead))).placed(
            tuple(range(n_lead, len(shape))), places
        )
    return like.memory.maker(shape, param.dtype, like, order)


def given_result(
    param: Param, rows: Rows, out: Any, inputs: Mapping[str, Adopted], n_outputs: int
) -> Result:
    """The user's out= array for an output. Raises ShapeError, DTypeError or ArgumentError."""
    name = "out" if n_outputs == 1 else f"out[{param.name!r}]"
    if isinstance(out, bool | int | float | list | tuple | np.generic):
        raise ArgumentError(f"{name} is {type(out).__name__}, no array that can be written to",
                            fix=f"numpy.empty({result_shape(param, rows)}, "
                            f"'{param.dtype}') makes one.")
    taken = adopt(name, out)
    like = next(iter(inputs.values()))
    _check_kind(name, taken, param, result_shape(param, rows), like)
    _check_writable(name, taken, out)
    for other, source in inputs.items():
        if found := overlap(taken.array, source.array):
            raise ArgumentError(
                f"{name} {found} the input {other}",
                why="Rows are read more than once and by many threads at a time.",
                fix="Give memory of its own, or leave out= away.",
            )
    return _write_through(taken.array, param, rows, out, like)


def _check_kind(name: str, taken: Adopted, param: Param, shape: Shape, like: Adopted) -> None:
    """Raises ArgumentError, ShapeError or DTypeError for a place, shape or type that does not
    fit."""
    given = tuple(taken.array.shape)
    fix = f"Give an array of shape {shape} and type {param.dtype}, or leave out= away: one is made."
    if taken.place != like.place:
        raise ArgumentError(f"{name} is on {taken.place}, the inputs on {like.place}",
                            why="Kernels run, and write, where the inputs are.",
                            fix=f"Give an array on {like.place}, or leave out= away: one is made.")
    if given != shape:
        raise ShapeError(f"{name} has shape {given}, the result {shape}", fix=fix,
                         why="Results are written as they are: nothing is reshaped or broadcast.")
    if taken.dtype != param.dtype:
        raise DTypeError(f"{name} has type {taken.dtype}, the result {param.dtype}", fix=fix,
                         why="Results are written as they are: nothing is converted.")


def _check_writable(name: str, taken: Adopted, out: Any) -> None:
    """Raises ArgumentError for memory that cannot be written to, or is there twice."""
    converted = isinstance(taken.array, np.ndarray) and taken.array is not out
    if not getattr(taken.array.flags, "writeable", True) or (
            converted and taken.family == "numpy"):
        raise ArgumentError(f"{name} cannot be written to", why="It is read-only or converted.",
                            fix="Give an array that can be, or leave out= away: one is made.")
    if overlaps_itself(taken.array):
        raise ArgumentError(f"{name} overlaps itself", fix="Give every element its own memory.",
                            why=f"Of shape {tuple(taken.array.shape)} with strides "
                            f"{taken.array.strides}, several elements share memory.")


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
    same = flat.size == 0 or (address(flat) == address(array) and within_reach(flat, array))
    return flat if packed and same and address(flat) % flat.itemsize == 0 else None


def _flat(array: Any, param: Param, rows: Rows) -> Any:
    """The user's shape in rows; a view wherever strides allow."""
    if param.shape != "row" and not rows.last:
        array = columns_last(array, _tail(param, rows)[1])
    return array.reshape(_kernel_shape(param, rows))


def check_distinct(results: Sequence[Result]) -> None:
    """Two outputs must not share memory."""
    given = [r for r in results if r.given]
    for i, one in enumerate(given):
        for other in given[i + 1 :]:
            if found := overlap(one.shaped, other.shaped):
                raise ArgumentError(f"one of the out= arrays {found} another",
                                    fix="Give each output memory of its own.")


def hand_back(result: Result, param: Param, rows: Rows, like: Adopted) -> Any:
    """The output as the kind of array that came in; the user's own object for out=."""
    if result.copy:
        result.shaped[...] = _shaped(result.written, param, rows)
    if result.given:
        return result.own
    if like.family == "labelled":
        return relabelled(result.shaped, param.shape, rows, like.given)
    return like.memory.handed_back(result.shaped, result.own, param.dtype, like)
