"""Arrays whose rows lie side by side: the reduced axis is not the last one in memory.

Kernels see such an array as (outer, columns, inner) with neighbouring inner elements. Nothing is
copied: an array whose strides do not allow that view is for `arrays.as_rows`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegen.backend.arrays.spans import VECTOR
from fusegen.backend.words import address


def side_by_side(arrays: Sequence[Any], axis: int) -> tuple[Any, ...] | None:
    """Views (outer, n_cols, inner) of arrays of one shape along `axis`; None if one has none.

    NumPy or CuPy arrays, sharing memory with the views; none goes backwards. Axes before and after
    `axis` become one each, the last with neighbouring elements; row number = outer · inner rows +
    inner.
    """
    shape = arrays[0].shape
    if any(a.shape != shape for a in arrays) or not -len(shape) <= axis < len(shape):
        return None
    place = axis % len(shape)
    sizes = (math.prod(shape[:place]), shape[place], math.prod(shape[place + 1 :]))
    if place == len(shape) - 1 or 0 in sizes:
        return None
    views = [_view(a, place, sizes) for a in arrays]
    return None if any(v is None for v in views) else tuple(views)


def whole_vectors(views: Sequence[Any], n_bytes: int = VECTOR) -> bool:
    """Do all strides and addresses of such views fall on vectors of so many bytes?"""
    return all(
        address(v) % n_bytes == 0 and all(s % n_bytes == 0 for s in v.strides[:2]) for v in views
    )


def _view(array: Any, place: int, sizes: tuple[int, int, int]) -> Any | None:
    outer = _merged(array.shape[:place], array.strides[:place])
    inner = _merged(array.shape[place + 1 :], array.strides[place + 1 :])
    if outer is None or inner is None:
        return None
    if (sizes[2] > 1 and inner != array.itemsize) or address(array) % array.itemsize:
        return None
    strides = (outer, array.strides[place], array.itemsize)
    if any(s % array.itemsize or s < 0 for s in strides):
        return None
    return _strided(array, sizes, strides)


def _merged(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The one stride of axes that can be seen as one; 0 if they hold one element, None if none."""
    long = [(size, s) for size, s in zip(shape, strides, strict=True) if size != 1]
    for (_, slow), (size, fast) in itertools.pairwise(long):
        if slow != size * fast:
            return None
    return long[-1][1] if long else 0


def _strided(array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The array's memory from its first element on, as NumPy's or CuPy's `as_strided` gives it."""
    if isinstance(array, np.ndarray):
        return np.lib.stride_tricks.as_strided(array, shape, strides)
    return type(array)(shape, array.dtype, memptr=array.data, strides=strides)
