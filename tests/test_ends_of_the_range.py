"""Row values at the ends of a type's range, whose multiples and sums lie beyond it, and float64
where float32 has no numbers. The oracle is NumPy's, in the widest type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegen as fg

LEAST = {dtype: float(np.finfo(dtype).min) for dtype in ("float32", "float64")}
PADS = {"float32": (-2e38, LEAST["float32"]), "float64": (-1e39, LEAST["float64"])}
CELLS = [(dtype, pad) for dtype, pads in PADS.items() for pad in pads]


@fg.pipeline
def squared_shares(x, f):  # type: ignore[no-untyped-def]
    """The variance of an estimate under normalised weights."""
    w = fg.exp(x - fg.max(x))
    w = w / fg.sum(w)
    return fg.sum(w * w * f * f)


@fg.pipeline
def effective_size(x, m):  # type: ignore[no-untyped-def]
    s = fg.where(m, x, -np.inf)
    top = fg.max(s)
    top = fg.where(top > -np.inf, top, 0.0)
    e = fg.where(m, fg.exp(s - top), 0.0)
    return fg.sum(e) ** 2 / fg.sum(e * e)


@fg.pipeline
def guarded(x, m):  # type: ignore[no-untyped-def]
    s = fg.where(m, x, -np.inf)
    top = fg.max(s)
    top = fg.where(top == -np.inf, 0.0, top)
    e = fg.where(m, fg.exp(s - top), 0.0)
    total = fg.sum(e)
    return fg.where(total > 0, e / fg.where(total > 0, total, 1.0), 0.0)


@fg.pipeline
def masked_norm(x, m):  # type: ignore[no-untyped-def]
    top = fg.max(fg.where(m, fg.abs(x), 0.0))
    unit = fg.where(top > 0, top, 1.0)
    return top * fg.sqrt(fg.sum(fg.where(m, (x / unit) ** 2, 0.0)))


def rows(dtype: str, pad: float) -> tuple[np.ndarray, np.ndarray]:
    """Padding alone, padding first, its opposite first; masks that leave the last element out."""
    x = np.array([[pad] * 5, [pad, pad, 1, 2, 0.5], [-pad, -pad, 1, 2, 3]], dtype)
    m = np.ones((3, 5), bool)
    m[:, -1] = False
    return x, m


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "pad"), CELLS)
def test_twice_a_pivot_is_beyond_the_range(dtype: str, pad: float) -> None:
    x, _ = rows(dtype, pad)
    f = np.arange(1, 6).astype(dtype) + np.zeros_like(x)
    w = np.exp(x.astype(np.longdouble) - x.max(1, keepdims=True))
    w /= w.sum(1, keepdims=True)
    np.testing.assert_allclose(squared_shares(x, f), (w * w * f * f).sum(1).astype("f8"), rtol=1e-5)


def chosen(x: Any, m: Any) -> Any:
    s = np.where(m, x.astype(np.longdouble), -np.inf)
    return np.exp(s - s.max(1, keepdims=True))


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "pad"), CELLS)
def test_pivots_of_what_a_mask_takes(dtype: str, pad: float) -> None:
    x, m = rows(dtype, pad)
    e = chosen(x, m)
    size = e.sum(1) ** 2 / (e * e).sum(1)
    np.testing.assert_allclose(effective_size(x, m), size.astype("f8"), rtol=1e-5)
    shares = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(guarded(x, m), shares.astype("f8"), rtol=1e-5)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-40, 1.0, 1e200])
def test_scales_that_float32_does_not_have(size: float) -> None:
    x = np.array([[1.0, 2, 3, 1e5]]) * size
    m = np.array([[True, True, True, False]])
    np.testing.assert_allclose(masked_norm(x, m) / size, [np.sqrt(14)], rtol=1e-12)
