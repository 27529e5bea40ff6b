"""Texts whose own pivot would not do in floats, with their terms straight from the definition.

A case gives its row values and its terms in NumPy, for arrays of either float type: an oracle that
shares nothing with fusegen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusegen as fg

Array = np.ndarray[Any, Any]
INF = np.inf


@dataclass(frozen=True)
class Case:
    """`row(x, y)`: the row value P; `terms(x, y, P)`; `sums`: is P made of sums, so that it is off
    itself? `exponent`: what the text takes exp of, whose rounding is the terms'."""

    row: Callable[[Array, Array], Array]
    terms: Callable[[Array, Array, Array], Array]
    sums: bool = False
    exponent: Callable[[Array, Array, Array], Array] | None = None
    weight: Callable[[Array], Array] | None = None  # of y; subnormal ones lose digits when merged


def greatest(a):
    return a.max(1, keepdims=True)


def least(a):
    return a.min(1, keepdims=True)


def total(a):
    return a.sum(1, keepdims=True)


def average(a):
    return a.mean(1, keepdims=True, dtype=a.dtype)


def chosen(x, y):
    return np.where(y > 0, x, -INF)


@fg.pipeline
def exponentials(x, y):
    """exp about a maximum of other data, a mean, a least element, and under masks and weights."""
    top, low, mean = fg.max(y), fg.min(y), fg.mean(x)
    own = fg.max(fg.where(y > 0, x, float("-inf")))
    return {
        "foreign": fg.sum(fg.exp(x - top)), "mean": fg.sum(fg.exp(x - mean)),
        "falling": fg.mean(fg.exp(low - x)), "masked": fg.sum(fg.where(y > 0, fg.exp(x - top), 0)),
        "own_mask": fg.sum(fg.where(y > 0, fg.exp(x - own), 0)),
        "weighted": fg.sum(fg.abs(y) * fg.exp(x - top)),
        "half": fg.sum(fg.exp(x - 0.5 * fg.max(x))),
    }


def _weighed(e, x, y):
    return abs(y) * e


def _exp(row, weight=None, sign=1, sums=False):
    def terms(x, y, p):
        e = np.exp(sign * (x - p))
        return e if weight is None else weight(e, x, y)

    own = abs if weight is _weighed else None
    return Case(row, terms, sums, lambda x, y, p: sign * (x - p), own)


EXPONENTIALS = {
    "foreign": _exp(lambda x, y: greatest(y)),
    "mean": _exp(lambda x, y: average(x), sums=True),
    "falling": _exp(lambda x, y: least(y), lambda e, x, y: e / x.dtype.type(x.shape[1]), -1),
    "masked": _exp(lambda x, y: greatest(y), lambda e, x, y: np.where(y > 0, e, 0)),
    "own_mask": _exp(lambda x, y: greatest(chosen(x, y)), lambda e, x, y: np.where(y > 0, e, 0)),
    "weighted": _exp(lambda x, y: greatest(y), _weighed),
    "half": _exp(lambda x, y: greatest(x) / 2),
}


@fg.pipeline
def quotients(x, y):
    """Powers of x over a scale of other data, and plain sums over any row value."""
    a, b = fg.max(fg.abs(y)), fg.mean(fg.abs(y))
    return {
        "square": fg.sum((x / a) ** 2), "cube": fg.mean((x / b) ** 3),
        "weighted": fg.sum(fg.where(y > 0, y * (x / a) ** 2, 0)),
        "root": fg.sum((fg.abs(x) / b) ** 2.5),
        "range": fg.sum(x / (fg.max(x) - fg.min(x))), "plain": fg.sum(y * x / a),
    }


def _weighed_square(u, x, y):
    return np.where(y > 0, y * u**2, 0)


def _cubed(u, x, y):
    return u**3 / u.dtype.type(u.shape[1])


def _over(row, terms, sums=False):
    own = abs if terms is _weighed_square else None
    return Case(row, lambda x, y, p: terms(x / p, x, y), sums, weight=own)


QUOTIENTS = {
    "square": _over(lambda x, y: greatest(abs(y)), lambda u, x, y: u**2),
    "cube": _over(lambda x, y: average(abs(y)), _cubed, True),
    "weighted": _over(lambda x, y: greatest(abs(y)), _weighed_square),
    "root": _over(lambda x, y: average(abs(y)), lambda u, x, y: abs(u) ** 2.5, True),
    "range": _over(lambda x, y: greatest(x) - least(x), lambda u, x, y: u),
    "plain": Case(lambda x, y: greatest(abs(y)), lambda x, y, p: y * x / p),
}


@fg.pipeline
def moments(x, y):
    """Powers about other data's mean and extremes, other weights' mean, a sum, under a mask."""
    mean, top, w = fg.mean(y), fg.max(y), fg.abs(y)
    return {
        "mean": fg.sum((x - mean) ** 2), "top": fg.sum((x - top) ** 2),
        "cube": fg.mean((x - mean) ** 3),
        "other": fg.mean((x - fg.sum(w * x) / fg.sum(w)) ** 2),
        "weighted": fg.sum(w * (x - top) ** 2), "signed": fg.sum(y * (x - mean) ** 2),
        "masked": fg.sum(fg.where(y > 0, (x - top) ** 2, 0)),
    }


def _power(row, k, weight=None, sums=False):
    def terms(x, y, p):
        t = (x - p) ** k
        return t if weight is None else weight(t, x, y)

    return Case(row, terms, sums)


def _of(t, x, y):
    return t / t.dtype.type(t.shape[1])


MOMENTS = {
    "mean": _power(lambda x, y: average(y), 2, sums=True),
    "top": _power(lambda x, y: greatest(y), 2),
    "cube": _power(lambda x, y: average(y), 3, _of, True),
    "other": _power(lambda x, y: total(abs(y) * x) / total(abs(y)), 2, _of, True),
    "weighted": _power(lambda x, y: greatest(y), 2, lambda t, x, y: abs(y) * t),
    "signed": _power(lambda x, y: average(y), 2, lambda t, x, y: y * t, True),
    "masked": _power(lambda x, y: greatest(y), 2, lambda t, x, y: np.where(y > 0, t, 0)),
}

ALL = {"exponentials": (exponentials, EXPONENTIALS), "quotients": (quotients, QUOTIENTS),
       "moments": (moments, MOMENTS)}


def patterns(n: int, seed: int) -> Array:
    """Hard rows of n elements, float32."""
    rng = np.random.default_rng(seed)
    z, half, at = rng.standard_normal(n), np.arange(n) >= n // 2, np.arange(n)
    rows = [
        z, z + 100, z - 100, z + 1e4, z - 1e4, z * 1e25, z * 1e-25, np.sort(z) * 20,
        -np.sort(z) * 20, np.where(half, z, 0), np.where(half, 0, 1), np.where(at == n - 1, 110, 0),
        np.where(at == n // 3, 0, -20), abs(z) * 1e-40, z + np.where(half, -1e5, 1e5),
        np.where(half, 1, 1e-25), np.linspace(-200, 120, n), np.full(n, 2.5), 1e4 + z / 100,
    ]
    return np.array(rows, np.float32)


def pairs(n: int) -> tuple[Array, Array]:
    """Every pattern of x beside every pattern of y."""
    x, y = patterns(n, 1), patterns(n, 2)
    return np.repeat(x, len(y), axis=0), np.tile(y, (len(x), 1))


@fg.pipeline
def products(x, y):
    """Exponents that are small differences of great numbers, several to a term."""
    middle, low, top = (fg.max(x) + fg.min(x)) / 2, fg.min(x), fg.max(y)
    return {
        "apart": fg.sum(fg.exp(x - middle) * fg.exp(x * -3 - fg.max(x * -3))),
        "twice": fg.sum(fg.exp(x - middle) * fg.exp(x - low)),
        "over": fg.sum(fg.exp(x - middle) / fg.exp(low - x)),
        "later": fg.sum(fg.exp(x - middle - top)), "part": fg.sum(fg.exp((x - low) * 0.7)),
    }


def products_due(x, y):
    """The sums of `products`, in the floats of x and y."""
    low, top = least(x), greatest(y)
    u, v = x - (greatest(x) + low) / 2, x - low
    terms = np.exp(u - 3 * v), np.exp(u + v), np.exp(u + v), np.exp(u - top), np.exp(0.7 * v)
    return np.array([t.sum(1) for t in terms])


@fg.pipeline
def narrow(x, y):
    """Powers about what the elements' own mean is far from, with nothing rounded in the text."""
    off = fg.max(x) + fg.min(y)
    return {
        "square": fg.sum((y - off) ** 2), "cube": fg.sum((y - off) ** 3),
        "weighted": fg.sum(fg.exp(x - fg.max(x)) * (y - off) ** 2),
        "middle": fg.mean(fg.abs(x) * (y - (fg.max(y) + fg.min(y)) / 2) ** 2),
    }
