"""Definitions in float64 NumPy, from the books; they know nothing of fusegen.

Each gives, for every result, what it is and its size: what one rounding of its terms, in units of
the type computed in, may take it away by. Columns have no size: they are exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Want(NamedTuple):
    value: Any
    size: Any = None
    exact: bool = False  # a value that is only picked: an element of an input, or a whole number
    steps: bool = False  # a whole number that rounding may take to the next


def at_most(x: Any) -> Any:
    """The greatest finite |x| of each row."""
    return np.max(np.abs(x), -1, keepdims=True, initial=0.0, where=np.isfinite(x))


def _shares(x: Any) -> tuple[Any, Any, Any, Any]:
    """Of exp: the greatest, distances to it, the sum, and shares."""
    m = x.max(-1, keepdims=True)
    away = x - m
    e = np.exp(away)
    d = e.sum(-1, keepdims=True)
    return m, away, d, e / d


def _known(x: Any) -> Any:
    """Sizes are of what is finite."""
    return np.where(np.isfinite(x), np.abs(x), 0.0)


def softmax(x: Any) -> Want:
    _, away, _, p = _shares(x)
    return Want(p, np.nan_to_num(p, posinf=0.0) * (1 + _known(away)))


def log_softmax(x: Any) -> Want:
    _, away, d, _ = _shares(x)
    return Want(away - np.log(d), 1 + _known(away) + _known(np.log(d)))


def logsumexp(x: Any) -> Want:
    m, _, d, _ = _shares(x)
    value = np.where(np.isinf(m), m, m + np.log(d))
    return Want(value[..., 0], (1 + _known(m) + _known(np.log(d)))[..., 0])


def entropy(x: Any) -> Want:
    _, away, d, p = _shares(x)
    with np.errstate(all="ignore"):
        terms = np.where(p == 0, 0.0, p * (away - np.log(d)))
    value = -terms.sum(-1)
    size = np.sum(_known(p) * (1 + _known(away)) * (1 + _known(away - np.log(d))), -1)
    return Want(value, 1 + size)


def cross_entropy(x: Any, labels: Any) -> Want:
    m, _, d, _ = _shares(x)
    there = (labels >= 0) & (labels < x.shape[-1])
    at = np.take_along_axis(x, np.where(there, labels, 0)[..., None], -1)
    value = np.where(there, (np.log(d) - (at - m))[..., 0], np.nan)
    return Want(value, (1 + _known(np.log(d)) + _known(at - m))[..., 0])


def mean(x: Any) -> Want:
    return Want(x.mean(-1), at_most(x)[..., 0])


def var(x: Any) -> Want:
    u = x.mean(-1, keepdims=True)
    value = ((x - u) ** 2).mean(-1)
    most = at_most(x)[..., 0]
    return Want(value, _known(value) + np.sqrt(_known(value)) * most + 1e-5 * most**2)


def layer_norm(x: Any, w: Any, b: Any, eps: float) -> Want:
    u, v = x.mean(-1, keepdims=True), var(x)
    r = 1 / np.sqrt(v.value + eps)[..., None]
    most, off = at_most(x), v.size[..., None] / (v.value[..., None] + eps)
    size = abs(w) * r * (_known(x - u) * (1 + off) + most) + abs(b)
    return Want((x - u) * r * w + b, _known(size))


def rms_norm(x: Any, w: Any, eps: float) -> Want:
    value = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * w
    return Want(value, _known(value))


def norm2(x: Any) -> Want:
    a = np.abs(x).max(-1)
    over = np.where((a == 0) | ~np.isfinite(a), 1.0, a)
    value = np.where(np.isfinite(a), a * np.sqrt(((x / over[..., None]) ** 2).sum(-1)), a)
    return Want(value, _known(value))


def absmax_quantize(x: Any) -> tuple[Want, Want]:
    scale = np.abs(x).max(-1) / 127
    over = np.where(scale == 0, 1.0, scale)[..., None]
    whole = np.nan_to_num(np.clip(np.round(x / over), -128, 127))
    return Want(whole, steps=True), Want(scale, _known(scale))


def weighted(x: Any, y: Any, total: bool = False) -> Want:
    """Σ p y, and sizes of its terms."""
    _, away, _, p = _shares(x)
    return Want((p * y).sum(-1), (np.abs(p * y) * (1 + _known(away))).sum(-1))


def order(x: Any, *, largest: bool) -> Any:
    """Columns, best first: NaN as the greatest, ties by column."""
    nan = np.isnan(x)
    key = np.where(nan, 0.0, -x if largest else x)
    return np.lexsort((key, ~nan if largest else nan), axis=-1)


def topk(x: Any, k: int, *, largest: bool = True) -> tuple[Want, Want]:
    columns = order(x, largest=largest)[..., :k]
    return Want(np.take_along_axis(x, columns, -1), exact=True), Want(columns, exact=True)


def picked(of: Want, x: Any, k: int) -> tuple[Want, Want]:
    """The k best of what follows the order of x."""
    columns = order(x, largest=True)[..., :k]
    return (Want(*(np.take_along_axis(a, columns, -1) for a in of[:2])), Want(columns, exact=True))


def first(x: Any, *, largest: bool) -> Want:
    """The column of the greatest, or least: NaN before both."""
    best = x.argmax(-1) if largest else x.argmin(-1)
    return Want(np.where(np.isnan(x).any(-1), np.isnan(x).argmax(-1), best), exact=True)


def ends(x: Any) -> tuple[Want, Want]:
    return Want(x.max(-1), exact=True), Want(x.min(-1), exact=True)


def through(g: Any, p: Want) -> Want:
    """p (g − Σ g p), softmax's gradient."""
    s = (g * p.value).sum(-1, keepdims=True)
    size = p.size * (np.abs(g) + (np.abs(g) * _known(p.value)).sum(-1, keepdims=True))
    size += _known(p.value) * (np.abs(g) * p.size).sum(-1, keepdims=True)
    return Want(p.value * (g - s), size)


def log_through(g: Any, p: Want) -> Want:
    """g − p Σ g, log_softmax's."""
    size = np.abs(g) + p.size * np.abs(g).sum(-1, keepdims=True)
    return Want(g - p.value * g.sum(-1, keepdims=True), size)


def norm_through(g: Any, x: Any, w: Any, eps: float) -> Want:
    """RMS norm's with respect to x."""
    n = x.shape[-1]
    r = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    s = (g * w * x).sum(-1, keepdims=True)
    size = np.abs(g * w * r) + np.abs(x) * r**3 * np.abs(g * w * x).sum(-1, keepdims=True) / n
    return Want(g * w * r - x * r**3 * s / n, size)


def centred_through(g: Any, x: Any, w: Any, eps: float) -> Want:
    """Layer norm's with respect to x."""
    v = var(x)
    r = 1 / np.sqrt(v.value + eps)[..., None]
    h, y = g * w, (x - x.mean(-1, keepdims=True)) * r
    value = r * (h - h.mean(-1, keepdims=True) - y * (h * y).mean(-1, keepdims=True))
    off = v.size[..., None] / (v.value[..., None] + eps) + at_most(x) * r
    most = np.abs(h).max(-1, keepdims=True, initial=0)
    return Want(value, (1 + off) ** 2 * r * most * (2 + np.abs(y)) * (1 + at_most(y)))
