"""Texts over vectors: attention, neighbours, losses, kernel sums."""

from __future__ import annotations

import math
from typing import Any

import fusegen as fg
from fusegen.pipeline.pipeline import Pipeline


@fg.pipeline
def attention(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, bias=None, *, scale=1.0):
    s = scale * fg.dot(q, k)
    if bias is not None:
        s = s + bias
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@fg.pipeline
def about_stored(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, bias):
    """Elements that are made of stored ones, too."""
    s = fg.dot(q, k) + bias
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@fg.pipeline
def with_entropy(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    s = fg.dot(q, k)
    m = fg.max(s)
    p = fg.exp(s - m)
    z = fg.sum(p)
    return fg.sum(p * v) / z, m + fg.log(z) - fg.sum(p * s) / z, m


@fg.pipeline
def causal(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    s = fg.dot(q, k)
    s = fg.where(fg.index(s) <= fg.row(s), s, -math.inf)
    m = fg.max(s)
    p = fg.exp(s - m)
    return fg.sum(p * v) / fg.sum(p), m + fg.log(fg.sum(p))


@fg.pipeline
def best(q: fg.RowVector, k: fg.ColumnVector):
    s = fg.dot(q, k)
    return fg.argmax(s), fg.max(s), fg.logsumexp(s)


@fg.pipeline
def averaged(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    """Weights without a pivot: the sums stay where they are."""
    s = fg.dot(q, k)
    return fg.sum(fg.where(s > 0, s, 0.0) * v), fg.sum(s)


@fg.pipeline
def nearest(x: fg.RowVector, y: fg.ColumnVector, *, k=3):
    return fg.topk(fg.sqdist(x, y), k, largest=False)


@fg.pipeline
def assigned(x: fg.RowVector, y: fg.ColumnVector):
    return fg.argmin(fg.inner(fg.abs(x - y)))


@fg.pipeline
def linear_cross_entropy(h: fg.RowVector, w: fg.ColumnVector, label: fg.PerRow):
    return fg.logsumexp(fg.dot(h, w)) - fg.dot(h, fg.take(w, label))


@fg.pipeline
def gaussian(x: fg.RowVector, y: fg.ColumnVector, b: fg.PerColumn, *, s: fg.Positive = 1.0):
    return fg.sum(fg.exp(-fg.sqdist(x, y) / (2 * s * s)) * b)


@fg.pipeline
def statistics(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, lengths: fg.PerRow):
    """Several folds of vectors and of numbers, some of them no products."""
    s = fg.ragged(fg.dot(q, k), lengths)
    m = fg.max(s)
    p = fg.exp(s - m)
    z = fg.sum(p)
    return {"mean": fg.mean(v), "most": fg.max(v), "drift": fg.sum(p * (q - k)) / z,
            "entropy": m + fg.log(z) - fg.sum(fg.xlogy(p, p) + p * m) / z,
            "leader": fg.argmax(s), "norm": fg.inner(q * q)}


@fg.pipeline
def differences(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    """Vectors for every row and column that have names."""
    s = fg.dot(q, k)
    p = fg.exp(s - fg.max(s))
    weighted, apart = p * v, q - k
    return fg.sum(weighted) / fg.sum(p), fg.sum(p * apart) / fg.sum(p)


@fg.pipeline
def attended(q: fg.RowVector, k: fg.ColumnVector):
    s = fg.dot(q, k)
    p = fg.exp(s - fg.max(s))
    return p / fg.sum(p)


def _masked(name: str, holds: Any) -> Pipeline:
    """Attention and its log-sum-exp where a condition on (column, row, length) holds."""

    def masked(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, lengths: fg.PerRow):
        s = fg.dot(q, k)
        s = fg.where(holds(fg.index(s), fg.row(s), lengths), s, -math.inf)
        m = fg.max(s)
        p = fg.exp(s - m)
        return fg.sum(p * v) / fg.sum(p), fg.logsumexp(s)

    masked.__name__ = name
    return fg.pipeline(masked)


MASKS = {
    "window": lambda column, row, length: (column <= row) & (row - column < 40),
    "from_the_right": lambda column, row, length: -column < 3 - row,
    "ragged": lambda column, row, length: column < length,
    "sink": lambda column, row, length: (column < 4) | ((column <= row) & (column > row - 30)),
    "exactly": lambda column, row, length: column == row,
    "everything": lambda column, row, length: column >= 0,
    "moved": lambda column, row, length: (column + 5 > row) & (2 + column - length <= 0),
}
MASKED = {name: _masked(f"masked_{name}", holds) for name, holds in MASKS.items()}
TEXTS = {n: p for n, p in list(globals().items()) if isinstance(p, Pipeline)}
