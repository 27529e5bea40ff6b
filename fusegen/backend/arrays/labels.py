"""Labels of pandas, xarray and polars: on results for every axis that is still there, and the same
on all of a call's arrays that share an axis, since kernels go by place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from fusegen.backend.arrays.rows import Rows
from fusegen.backend.memory import Adopted
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError, DTypeError
from fusegen.ir.vectors import groups_of


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
        case "pandas" if not hasattr(like, "axes"):
            return array  # an Index
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


def check_labels(graph: g.Graph, adopted: Mapping[str, Adopted], rows: Rows) -> None:
    """Raises ArgumentError where two arrays that share an axis of the rows, of the columns, or of
    vectors that meet have other labels along it, or in another order."""
    labelled = [i for i in graph.inputs
                if i.name in adopted and adopted[i.name].family == "labelled"]
    groups = groups_of(graph) if len(labelled) > 1 else {}
    for one, other in combinations(labelled, 2):
        a, b = adopted[one.name].given, adopted[other.name].given
        if _library(a) != _library(b):
            continue
        mine, others = _places(one, a, rows, groups), _places(other, b, rows, groups)
        for place in [p for p in mine if p in others]:
            unlike = _differ(a, mine[place], b, others[place])
            if unlike:
                raise ArgumentError(
                    f"{one.name} and {other.name} have other {unlike}",
                    why="Kernels go by place, not by label.",
                    fix=f"Align them first, or pass {other.name}.to_numpy().")


def _places(node: g.Input, given: Any, rows: Rows, groups: Mapping[str, int]
            ) -> dict[int | str, int]:
    """The array's axes by what each stands for: an axis of the elements by its number, the index
    of vectors by a name. Axes that are flattened, or kept of those that were reduced, are none."""
    n, count = len(given.shape), len(rows.whole)
    lead = [i for i in range(count) if i not in rows.axes]
    found: dict[int | str, int]
    match node.axis:
        case g.Axis.ELEMENT:
            return {count - n + i: i for i in range(n)}
        case g.Axis.PER_COLUMN if n == len(rows.axes):
            return dict(zip(rows.axes, range(n), strict=True))
        case g.Axis.PER_COLUMN:  # (…, n_cols) beside vectors, or columns that are flattened
            if n == 1 or rows.axes != (count - 1,):
                return {}
            return {**{count - n - 1 + i: i for i in range(n - 1)}, count - 1: n - 1}
        case g.Axis.PER_ROW if n > len(lead):
            return {i: i for i in lead}
        case g.Axis.PER_ROW:
            return {lead[len(lead) - n + i]: i for i in range(n)}
        case g.Axis.ROW_VECTOR:
            found = {count - n + i: i for i in range(n - 1)}
        case g.Axis.COLUMN_VECTOR:
            found = {count - n + i: i for i in range(n - 2)}
            found[count - 1] = n - 2
        case _:
            raise AssertionError(node.axis)
    return found | {f"vector {groups[node.name]}": n - 1} if groups else found


def _differ(a: Any, i: int, b: Any, j: int) -> str:
    """What is other along axes that are one to kernels; "" where nothing is."""
    sizes = a.shape[i] == b.shape[j]  # else it is broadcast, or refused for its shape
    match _library(a):
        case "xarray":
            dim, other = a.dims[i], b.dims[j]
            if dim != other:
                return f"dimensions {a.dims} and {b.dims}"
            one, two = getattr(a, "indexes", {}).get(dim), getattr(b, "indexes", {}).get(dim)
            same = one is None or two is None or one.equals(two)
            return "" if same or not sizes else f"labels along {dim}"
        case "polars":
            named = i == j == 1  # rows have no labels
            return "labels" if named and sizes and a.columns != b.columns else ""
        case _:
            if not hasattr(a, "axes") or not hasattr(b, "axes"):
                return ""  # an Index or an array of pandas'
            one, two = a.axes[i], b.axes[j]
            return "" if not sizes or one.equals(two) or np.array_equal(one, two) else "labels"
