"""Labels of pandas, xarray and polars: on results for every axis that is still there, and the same
on all of a call's arrays, since kernels go by place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from fusegen.backend.arrays.rows import Rows
from fusegen.backend.memory import Adopted
from fusegen.ir.errors import ArgumentError, DTypeError


def relabelled(array: Any, kind: str, rows: Rows, like: Any) -> Any:
    """A result as `like` is, where each of its entries belongs to labels of `like`: a list's K,
    and an axis that was only broadcast, have none, and stay NumPy's. Raises DTypeError."""
    axes = list(range(len(rows.whole)))
    if kind == "row" and not rows.keepdims:
        axes = [i for i in axes if i not in rows.axes]
    if tuple(like.shape) != rows.whole or kind == "list" or array.ndim != len(axes) or not axes:
        return array
    match _library(like):
        case "xarray":
            return _in_xarray(array, like, rows if kind == "row" else None, axes)
        case _ if kind == "row" and rows.keepdims:
            return array
        case "polars":
            return _in_polars(array, like, axes)
        case _:
            labels = [like.axes[i] for i in axes]
            if len(axes) == 2:
                return type(like)(array, index=labels[0], columns=labels[1])
            name = getattr(like, "name", None)
            return sys.modules["pandas"].Series(array, index=labels[0], name=name)


def _library(given: Any) -> str:
    return type(given).__module__.partition(".")[0]


def _in_xarray(array: Any, like: Any, reduced: Rows | None, axes: list[int]) -> Any:
    """`reduced`: the rows whose axes are gone, or kept without a coordinate."""
    if reduced is None:
        return like.copy(data=array)
    one: Any = slice(0, 1) if reduced.keepdims else 0
    gone = {like.dims[i]: one for i in reduced.axes}
    left = like.isel(gone, drop=True)
    if reduced.keepdims:
        left = left.drop_vars([n for n, c in left.coords.items() if {*c.dims} & {*gone}])
    return left.copy(data=array)


def _in_polars(array: Any, like: Any, axes: list[int]) -> Any:
    """Sums over a frame's rows are a frame of one row, as polars' own."""
    polars = sys.modules["polars"]
    try:
        if axes == [0]:
            return polars.Series(getattr(like, "name", ""), array)
        return polars.DataFrame(np.atleast_2d(array), schema=like.columns, orient="row")
    except (TypeError, ValueError) as error:
        raise DTypeError(f"polars does not take a result of {array.dtype}: {error}",
                         fix="Pass x.to_numpy().") from None


def check_labels(adopted: Mapping[str, Adopted]) -> None:
    """Raises ArgumentError where two arrays have the same axes with other labels, or in another
    order."""
    labelled = [(n, a.given) for n, a in adopted.items() if a.family == "labelled"]
    for (one, a), (other, b) in combinations(labelled, 2):
        if _library(a) != _library(b):
            continue
        if _library(a) == "xarray":
            _check_dims(one, a, other, b)
        elif len(a.shape) == len(b.shape) and not _same(a, b):
            raise _unlike(one, other, "labels")


def _check_dims(one: str, a: Any, other: str, b: Any) -> None:
    shared = [d for d in a.dims if d in b.dims]
    if shared != [d for d in b.dims if d in a.dims] or (a.ndim == b.ndim and a.dims != b.dims):
        raise _unlike(one, other, f"dimensions {a.dims} and {b.dims}")
    for dim in shared:
        both = a.sizes[dim] == b.sizes[dim] and dim in a.indexes and dim in b.indexes
        if both and not a.indexes[dim].equals(b.indexes[dim]):
            raise _unlike(one, other, f"labels along {dim}")


def _same(a: Any, b: Any) -> bool:
    """The same labels on two frames, or two series, of pandas or polars."""
    if tuple(a.shape) != tuple(b.shape):
        return True  # they are broadcast, or refused for their shapes
    if _library(a) == "polars":
        return bool(len(a.shape) < 2 or a.columns == b.columns)
    return all(np.array_equal(x, y) for x, y in zip(a.axes, b.axes, strict=True))


def _unlike(one: str, other: str, what: str) -> ArgumentError:
    return ArgumentError(
        f"{one} and {other} have other {what}", why="Kernels go by place, not by label.",
        fix=f"Align them first, or pass {other}.to_numpy().")
