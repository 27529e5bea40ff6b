"""The bytes that arrays occupy: where they begin, how far they reach, whether they share any."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegen.backend.words import address

VECTOR = 16  # bytes of the widest load


def begin_on_vectors(array: Any) -> bool:
    """Does every line of the last axis begin at a multiple of 16 bytes, and none lie before the one
    in front of it? Tensor maps know no way back."""
    steps = [s for n, s in zip(array.shape[:-1], array.strides[:-1], strict=True) if n > 1]
    return not any(s % VECTOR or s < 0 for s in steps) and address(array) % VECTOR == 0


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
    """May two arrays in the same memory share bytes?"""
    (low, high), (lowest, highest) = reach(one), reach(other)
    apart = address(one) - address(other)
    return one.size > 0 < other.size and lowest - high < apart < highest - low


def overlaps_itself(array: Any) -> bool:
    """Do two elements of an array share bytes?"""
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
