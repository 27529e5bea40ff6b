"""Arrays anywhere in memory: off alignment, apart, the other way round, broadcast.

Every byte that is no element's is FILL before and has to be so after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

FILL = 0xFF  # of floats no number, of whole numbers −1: what is not written is seen
_BOUNDARY = 512


@dataclass(frozen=True)
class Plan:
    """Axes from the outermost in memory, numbers left out behind all of an axis, directions, and
    elements before the first."""

    order: tuple[int, ...]
    gaps: tuple[int, ...]
    back: tuple[bool, ...]
    repeats: tuple[bool, ...]  # axes along which all is the same memory
    off: int
    spread: int = 1  # from an element to the next

    def strides(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int, int]:
        """Strides, the first element and the size, in elements."""
        found, step, first = [0] * len(shape), self.spread, self.off
        for axis in reversed(self.order):
            if self.repeats[axis]:
                continue
            n = shape[axis]
            found[axis] = -step if self.back[axis] else step
            first += step * (n - 1) if self.back[axis] and n else 0
            step = step * max(n, 1) + self.gaps[axis]
        return tuple(found), first, step + self.off + 16


@dataclass(frozen=True, eq=False)
class Laid:
    """The bytes of an array with all around it, as a host has them."""

    raw: np.ndarray
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]  # in elements
    first: int

    def view(self, raw: np.ndarray | None = None) -> np.ndarray:
        size = self.dtype.itemsize
        return np.ndarray(self.shape, self.dtype, self.raw if raw is None else raw,
                          self.first * size, tuple(s * size for s in self.strides))

    def strayed(self, raw: np.ndarray) -> int:
        """How many bytes beside the elements are no longer what they were."""
        own = np.zeros(self.raw.shape, bool)
        size = self.dtype.itemsize
        for byte in range(size):
            np.ndarray(self.shape, bool, own, self.first * size + byte,
                       tuple(s * size for s in self.strides))[...] = True
        return int(np.count_nonzero(~own & (raw != FILL)))


def lay(plan: Plan, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Laid:
    """An array of this shape, of nothing."""
    strides, first, size = plan.strides(shape)
    return Laid(aligned(size * dtype.itemsize), shape, dtype, strides, first)


def aligned(size: int) -> np.ndarray:
    whole = np.full(size + _BOUNDARY, FILL, np.uint8)
    return whole[-whole.ctypes.data % _BOUNDARY :][:size]


def drawn_plan(rng: Any, shape: tuple[int, ...], *, written: bool, plain: float) -> Plan:
    """Mostly rows one behind the other; `plain` is the share of those."""
    n = len(shape)
    kind = "plain" if rng.random() < plain else rng.choice(
        ["off", "apart", "apart", "off apart", "turned", "back", "spread", "repeated"])
    order, off = list(range(n)), 0
    gaps, back, repeats = [0] * n, [False] * n, [False] * n
    if "off" in kind:
        off = int(rng.integers(1, 16))
    if "apart" in kind:
        gaps[-1] = int(rng.choice([1, 2, 3, 4, 8, 16, 29]))
    if kind == "turned":
        order = [int(i) for i in rng.permutation(n)]
    if kind == "back":
        back[int(rng.integers(n))] = True
    if kind == "repeated" and not written and n > 1:
        repeats[int(rng.integers(n - 1))] = True
    return Plan(tuple(order), tuple(gaps), tuple(back), tuple(repeats), off,
                2 if kind == "spread" else 1)
