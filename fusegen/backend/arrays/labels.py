"""Labels of pandas and xarray on results: kept for every axis that is still there."""

from __future__ import annotations

import sys
from typing import Any

from fusegen.backend.arrays.rows import Rows


def relabelled(array: Any, kind: str, rows: Rows, like: Any) -> Any:
    """A result as `like` is, where each of its entries belongs to labels of `like`: a list's K,
    and an axis that was only broadcast, have none, and stay NumPy's."""
    axes = list(range(len(rows.whole)))
    if kind == "row":
        axes = [i for i in axes if i not in rows.axes]
    if tuple(like.shape) != rows.whole or kind == "list" or array.ndim != len(axes) or not axes:
        return array
    if type(like).__module__.startswith("xarray"):
        gone = {like.dims[i]: 0 for i in range(like.ndim) if i not in axes}
        return like.isel(gone, drop=True).copy(data=array)
    labels = [like.axes[i] for i in axes]
    if len(axes) == 2:
        return type(like)(array, index=labels[0], columns=labels[1])
    return sys.modules["pandas"].Series(array, index=labels[0], name=getattr(like, "name", None))
