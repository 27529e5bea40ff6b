"""Rows that try to break a merged operator: ties, zeros, clusters, wide spreads, far offsets."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import mpmath as mp

from .exact import Piece

Design = Callable[[random.Random, int], list[int]]

# In units of 1/256, so that sums are exact and ties are ties.
DESIGNS: dict[str, Design] = {
    "spread": lambda r, n: [r.randint(-900, 900) for _ in range(n)],
    "ties": lambda r, n: [r.choice((-256, 0, 128, 512)) for _ in range(n)],
    "constant": lambda r, n: [r.choice((-300, 0, 256))] * n,
    "wide": lambda r, n: [r.randint(-6000, 6000) for _ in range(n)],
    "cluster": lambda r, n: [2560 + r.randint(-9, 9) for _ in range(n)],
    "far cluster": lambda r, n: [262144 + r.randint(-9, 9) for _ in range(n)],
    "small": lambda r, n: [r.randint(-20, 20) for _ in range(n)],
    "two clusters": lambda r, n: [r.choice((-2000, 1500)) + r.randint(-5, 5) for _ in range(n)],
    "outlier": lambda r, n: [r.randint(-100, 100) for _ in range(n - 1)] + [4000],
    "rising": lambda r, n: sorted(r.randint(-1500, 1500) for _ in range(n)),
    "positive": lambda r, n: [r.randint(1, 1200) for _ in range(n)],
    "negative": lambda r, n: [-r.randint(1, 1200) for _ in range(n)],
    "maximum 0": lambda r, n: _placed(r, [0] + [-r.randint(0, 1500) for _ in range(n - 1)]),
    "minimum 0": lambda r, n: _placed(r, [0] + [r.randint(0, 1500) for _ in range(n - 1)]),
    "mean 0": lambda r, n: _placed(r, _opposite([r.randint(1, 900) for _ in range(n)])),
}


def _placed(rng: random.Random, values: list[int]) -> list[int]:
    return rng.sample(values, len(values))


def _opposite(values: list[int]) -> list[int]:
    """Pairs v, −v; 0 for the odd one."""
    half = len(values) // 2
    return values[:half] + [-v for v in values[:half]] + [0] * (len(values) % 2)


def random_row(
    rng: random.Random, inputs: tuple[str, ...], n_cols: int, design: str
) -> dict[str, list[Any]]:
    """A value per input and column; further inputs are of other designs."""
    row = {}
    for name in inputs:
        values = DESIGNS[design](rng, n_cols)
        row[name] = [mp.mpf(v) / 256 for v in values]
        design = rng.choice(tuple(DESIGNS))
    return row


LENGTHS = (2, 4, 6, 7)


def plain_row(
    rng: random.Random, inputs: tuple[str, ...], design: str, n_cols: int = 0, length: int = 0
) -> Piece:
    """A whole row of a few columns; `length` may say another number of them."""
    n_cols = n_cols or rng.choice(LENGTHS)
    row = random_row(rng, inputs, n_cols, design)
    return Piece(row, tuple(range(n_cols)), length or n_cols)


def random_pieces(rng: random.Random, n_cols: int) -> list[tuple[int, ...]]:
    """Columns cut into one to five pieces; sometimes all single, sometimes out of order."""
    columns = list(range(n_cols))
    if rng.random() < 0.3:
        rng.shuffle(columns)
    if rng.random() < 0.2:
        return [(c,) for c in columns]
    n_pieces = rng.randint(min(2, n_cols), min(5, n_cols))
    cuts = sorted(rng.sample(range(1, n_cols), n_pieces - 1))
    return [tuple(columns[a:b]) for a, b in zip([0, *cuts], [*cuts, n_cols], strict=True)]
