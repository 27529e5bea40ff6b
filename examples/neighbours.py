"""Nearest neighbours and k-means: distances that are never stored, results that are exact.

    python examples/neighbours.py

A distance is made of a row's and a column's vector where it is folded: the K nearest are a top-K,
the nearest centre is an argmin. fg.library.nearest and kmeans_assign are texts of one line each.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fusegen as fg

try:
    import torch
except ImportError:
    torch = None


@fg.pipeline
def nearest_within(x: fg.RowVector, y: fg.ColumnVector, *, k=10, radius: fg.Positive = 1.0):
    """The K nearest, and how many lie within a radius, in one sweep."""
    distance = fg.sqdist(x, y)
    values, columns = fg.topk(distance, k, largest=False)
    return values, columns, fg.count(distance <= radius * radius)


def milliseconds(call: Callable[[], Any]) -> float:
    """The fastest of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def neighbours(rng: np.random.Generator) -> None:
    x, y = (rng.standard_normal((n, 32), np.float32) for n in (500, 20_000))
    distance, column, within = nearest_within(x, y, radius=6.0)
    exact = np.stack([((row - y.astype("f8")) ** 2).sum(-1) for row in x])
    order = np.argsort(exact, kind="stable")[:, :10]
    np.testing.assert_allclose(distance, np.take_along_axis(exact, order, 1), rtol=1e-5)
    assert (column == order).mean() > 0.99
    assert np.abs(within - (exact <= 36).sum(-1)).max() <= 1
    print(f"10 nearest of {len(y)}: {(column == order).mean():.1%} as in float64, "
          f"{exact.size * 4 / 1e6:.0f} MB of distances not stored")
    print(f"  {milliseconds(lambda: fg.library.nearest(x, y)):.1f} ms", end="")
    if torch is not None:
        a, b = torch.from_numpy(x), torch.from_numpy(y)
        theirs = milliseconds(lambda: torch.cdist(a, b).topk(10, largest=False))
        print(f", torch.cdist and topk {theirs:.1f} ms", end="")
    print()


def k_means(rng: np.random.Generator) -> None:
    """Lloyd's algorithm."""
    true = 8 * rng.standard_normal((20, 16), np.float32)
    x = true[rng.integers(0, len(true), 5000)] + rng.standard_normal((5000, 16), np.float32)
    centres, spread = x[rng.choice(len(x), len(true), replace=False)].copy(), []
    for _ in range(8):
        of = fg.library.kmeans_assign(x, centres)
        spread.append(float(((x - centres[of]) ** 2).sum(-1).mean()))
        for i in np.unique(of):
            centres[i] = x[of == i].mean(0)
    assert all(b <= a * 1.0001 for a, b in itertools.pairwise(spread))
    print(f"k-means of {len(x)} points: mean |x − centre|² {spread[0]:.1f}, then {spread[-1]:.1f}")


if __name__ == "__main__":
    neighbours(np.random.default_rng(0))
    k_means(np.random.default_rng(1))
