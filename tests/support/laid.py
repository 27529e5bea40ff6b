"""Arrays that lie as they like, among bytes that no result may know of: NaNs of every float."""

from __future__ import annotations

from typing import Any

import numpy as np


def laid(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same values from any element on, rows any number of elements apart."""
    first, pitch = rng.integers(0, 17, 2).tolist()
    return laid_at(values, first, pitch)


def laid_at(values: np.ndarray, first: int, pitch: int) -> np.ndarray:
    """Likewise, from element `first` behind a boundary on, `pitch` elements between rows."""
    there = room(values.reshape(-1, values.shape[-1]).shape, values.dtype, first, pitch)
    there[...] = values
    return there.reshape(values.shape)


def room(shape: tuple[int, ...], kind: np.dtype[Any], first: int, pitch: int) -> np.ndarray:
    """Rows of such values, not written."""
    (rows, cols), size = shape, kind.itemsize
    raw = np.full((rows * (cols + pitch) + first + 64) * size, 0xFF, np.uint8)
    return np.ndarray((rows, cols), kind, raw, -raw.ctypes.data % 64 + first * size,
                      ((cols + pitch) * size, size))
