"""A kernel's struct Arrays: 64-bit addresses, scalars and strides in parameter order, then the
columns: how many, and what the first one's number is where they are a piece of a row; then, of
kernels that write rows, whether these go past the caches."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from fusegen.backend.cpu.past import column_bytes, outgrow_caches, writes_rows
from fusegen.backend.words import word
from fusegen.ir.errors import InternalError
from fusegen.ir.kernel import Kernel, Param

Array = np.ndarray[Any, Any]
Words = tuple[str | int, ...]
"""The struct; an array's name stands for its address, a scalar's for its bits."""

_CACHE_LINE = 64


def words_of(
    kernel: Kernel, arrays: Mapping[str, Array], n_rows: int, n_cols: int,
    first_column: int | None = None,
) -> Words:
    """The struct for arrays that lie like these. Raises InternalError where kernels could not
    read them."""
    found: list[str | int] = []
    for param in kernel.params:
        array = arrays[param.name]
        found.append(param.name)
        if param.shape == "scalar":
            continue
        _check(param, array, n_rows, n_cols)
        if param.shape == "column_vector":
            found.append(array.strides[1] // array.itemsize if n_cols > 1 else 0)
        if param.shape in ("column_vector", "columns"):
            batches = len(array)
            found += [array.strides[0] // array.itemsize if batches > 1 else 0,
                      n_rows // max(1, batches)]
        if param.shape in ("element", "row") or (
            param.shape == "row_vector" and not param.output
        ):
            found.append(array.strides[0] // array.itemsize if n_rows > 1 else 0)
        if param.shape == "states":
            found += array.strides[:2]
    found.append(n_cols)
    if first_column is not None:
        found.append(first_column)
    if writes_rows(kernel):
        found.append(int(outgrow_caches(n_rows * n_cols * column_bytes(kernel))))
    return tuple(found)


def filled(words: Words, arrays: Mapping[str, Array]) -> Any:
    """The struct of these arrays."""
    numbers = (w if isinstance(w, int) else word(arrays[w]) for w in words)
    return (ctypes.c_int64 * len(words))(*numbers)


def _check(param: Param, array: Array, n_rows: int, n_cols: int) -> None:
    """The face of the package has looked at the user's arrays: here only our own slips show."""
    shapes = {
        "element": (n_rows, n_cols), "per_column": (n_cols,), "row": (n_rows,),
        "list": (n_rows, param.k), "row_vector": (n_rows, param.k),
        "columns": (len(array), n_cols),
        "column_vector": (len(array), n_cols, param.k), "states": (n_cols, n_rows, param.k),
    }
    few = param.shape == "row" or array.size == 0 or array.shape[-1] < 2
    dense = few or array.strides[-1] == array.itemsize
    whole = array.size == 0 or array.strides[0] % array.itemsize == 0
    fits = array.shape == shapes[param.shape] and array.dtype == param.dtype.numpy
    if not (fits and dense and whole):
        raise InternalError(
            f"{param.name}: {array.dtype} {array.shape} with strides {array.strides} given for "
            f"{param.dtype} {shapes[param.shape]}"
        )
    packed = param.shape == "list" or (param.shape == "row_vector" and param.output)
    if packed and n_rows > 1 and array.strides[0] != param.step * array.itemsize:
        raise InternalError(f"{param.name}: rows must be {param.step} elements apart")


# ---- memory of a run's own ----


def workspace(param: Param, n_rows: int, n_cols: int) -> Array:
    return np.empty(shape_in_workspace(param, n_rows, n_cols), param.dtype.numpy)


def shape_in_workspace(param: Param, n_rows: int, n_cols: int) -> tuple[int, ...]:
    return {"element": (n_rows, n_cols), "row_vector": (n_rows, param.k)}.get(
        param.shape, (n_rows,))


def aligned(size: int) -> Any:
    """Memory that starts on a cache line, as vectors in a state must; nothing is in it."""
    room = np.empty(size + _CACHE_LINE, np.uint8)
    return (ctypes.c_char * size).from_buffer(room.data, -room.ctypes.data % _CACHE_LINE)
