"""Texts over vectors that have states, and pieces of their columns."""

from __future__ import annotations

import itertools
from typing import Any

import fusegen as fg
from support import vector_library as library

COLUMNS = {"k", "v", "y", "w", "b", "bias", "c", "mask", "valid"}
NUMBERS = {"bias", "c", "mask", "valid"}
"""Inputs of which a piece has a part, and those without vectors."""


def statistics(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, lengths: fg.PerRow):
    """Vectors that are sums, extremes, counts, of rows and columns; numbers beside them."""
    s = fg.ragged(fg.dot(q, k), lengths)
    m = fg.max(s)
    p = fg.exp(s - m)
    return {"mean": fg.mean(v), "most": fg.max(v), "far": fg.max(fg.abs(q - k)),
            "square": fg.sum(p * (v * v)) / fg.sum(p), "above": fg.count(v > 0),
            "leader": fg.argmax(s), "lse": fg.logsumexp(s), "n": fg.length(s),
            "last": fg.max(fg.index(s))}


def normalised(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    """A finish that sums over the index of what it reads."""
    s = fg.dot(q, k)
    p = fg.exp(s - fg.max(s))
    o = fg.sum(p * v) / fg.sum(p)
    return o / fg.sqrt(fg.inner(o * o)), fg.inner(o * fg.mean(v))


def cosines(q: fg.RowVector, k: fg.ColumnVector, label: fg.PerRow):
    """Numbers of the row's vector that elements and results are made of; others of results alone.
    """
    s = fg.dot(q, k) * fg.rsqrt(fg.inner(q * q)) * fg.rsqrt(fg.inner(k * k))
    size = fg.inner(fg.abs(q))
    return {"loss": fg.logsumexp(4 * s) - 4 * fg.take(s, label), "best": fg.max(s) * size,
            "first": fg.topk(s, 2)[0] / (1 + size), "size": fg.sqrt(size)}


def columns_alone(k: fg.ColumnVector, c: fg.PerColumn):
    """No row has a vector, or a number, of its own."""
    return fg.sum(k * c), fg.max(c), fg.max(fg.inner(k * k) - c)


def drawn(*shape: int, seed: int = 0) -> Any:
    return library.drawn(*shape, seed=seed)


def pieces(p: fg.Pipeline, arrays: Any, cuts: list[int], **constants: Any) -> list[fg.States]:
    def part(name: str, array: Any, i: int, j: int) -> Any:
        if name not in COLUMNS:
            return array
        return array[..., i:j] if array.ndim == 1 or name in NUMBERS else array[..., i:j, :]

    return [p.states(**{n: part(n, a, i, j) for n, a in arrays.items()}, at=i, **constants)
            for i, j in itertools.pairwise(cuts)]
