"""The bytes that arrays occupy: where they begin, how far they reach, whether they share any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fusegen.backend.words import address

VECTOR = 16  # bytes of the widest load
_MOST_WORK: Any = 10_000  # candidates for a shared byte; NumPy's stubs allow no number
_NOWHERE = 1 << 62  # an address that stands for any: nothing is read there

Shared = Literal["", "overlaps", "may overlap"]
"""Whether two arrays share bytes, in a message's words; the last where that is hard to tell."""


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


@dataclass(frozen=True, slots=True)
class Lie:
    """How an array lies in memory but for its address, as NumPy takes it over."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    def at(self, place: int) -> Any:
        """An array that lies like this one there, only to be compared: it has no memory."""
        return np.asarray(_Placed({
            "version": 3, "data": (place, False), "shape": self.shape, "strides": self.strides,
            "typestr": f"|V{self.itemsize}",
        }))


@dataclass(frozen=True, slots=True)
class _Placed:
    __array_interface__: dict[str, Any]


def lie_of(array: Any) -> Lie:
    return Lie(tuple(array.shape), tuple(array.strides), int(array.itemsize))


def shared(one: Lie, other: Lie, apart: int) -> Shared:
    """Do arrays share bytes whose first elements are so many apart? Exact: rows that lie in turn,
    or columns side by side, share none."""
    try:
        found = np.shares_memory(one.at(_NOWHERE + apart), other.at(_NOWHERE), max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return "may overlap"
    return "overlaps" if found else ""


def within_reach(one: Any, other: Any) -> bool:
    """Do the spans from the lowest byte to the highest meet, of arrays in the same memory?"""
    (low, high), (lowest, highest) = reach(one), reach(other)
    apart = address(one) - address(other)
    return one.size > 0 < other.size and lowest - high < apart < highest - low


def overlap(one: Any, other: Any) -> Shared:
    """Do two arrays in the same memory share bytes?"""
    if not within_reach(one, other):
        return ""
    return shared(lie_of(one), lie_of(other), address(one) - address(other))


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
