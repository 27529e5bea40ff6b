"""Texts over vectors that the benchmarks of CPUs and of GPUs measure."""

from __future__ import annotations

import math

import fusegen as fg


@fg.pipeline
def attention(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale):
    s = scale * fg.dot(q, k)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@fg.pipeline
def causal(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale):
    s = scale * fg.dot(q, k)
    s = fg.where(fg.index(s) <= fg.row(s), s, -math.inf)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@fg.pipeline
def with_entropy(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale):
    """Attention, with the entropy of its weights and the greatest score as further results."""
    s = scale * fg.dot(q, k)
    m = fg.max(s)
    p = fg.exp(s - m)
    z = fg.sum(p)
    return fg.sum(p * v) / z, m + fg.log(z) - fg.sum(p * s) / z, m


@fg.pipeline
def softcap(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale, cap):
    s = cap * fg.tanh(scale * fg.dot(q, k) / cap)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@fg.pipeline
def logsumexp(q: fg.RowVector, k: fg.ColumnVector):
    return fg.logsumexp(fg.dot(q, k))


@fg.pipeline
def most_alike(q: fg.RowVector, k: fg.ColumnVector):
    return fg.argmax(fg.dot(q, k))


@fg.pipeline
def nearest(x: fg.RowVector, y: fg.ColumnVector, *, k):
    return fg.topk(fg.sqdist(x, y), k, largest=False)


@fg.pipeline
def assigned(x: fg.RowVector, y: fg.ColumnVector):
    return fg.argmin(fg.sqdist(x, y))


@fg.pipeline
def gaussian(x: fg.RowVector, y: fg.ColumnVector, b: fg.PerColumn, *, s: fg.Positive):
    return fg.sum(fg.exp(-fg.sqdist(x, y) / (2 * s * s)) * b)
