"""Attention, nearest neighbours and a loss without logits: rows that are never stored.

    python examples/attention.py

The text of attention is that of a softmax: scores are made where they are folded, and the sum of
vectors moves by the same factor as the sum of exponentials when the maximum grows.
"""

from __future__ import annotations

import math

import numpy as np

import fusegen as fg


@fg.pipeline
def attention(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale=1.0):
    s = scale * fg.dot(q, k)
    s = fg.where(fg.index(s) <= fg.row(s), s, -math.inf)  # causal
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@fg.pipeline
def nearest(x: fg.RowVector, y: fg.ColumnVector, *, k=10):
    return fg.topk(fg.sqdist(x, y), k, largest=False)


@fg.pipeline
def linear_cross_entropy(h: fg.RowVector, w: fg.ColumnVector, label: fg.PerRow):
    return fg.logsumexp(fg.dot(h, w)) - fg.dot(h, fg.take(w, label))


def main() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((8, 512, 64), np.float32) for _ in range(3))  # heads, rows, d
    print(attention.plan(target="cpu"))
    found = attention(q, k, v, scale=0.125)
    s = np.where(np.tri(512, dtype=bool), 0.125 * q.astype("f8") @ np.swapaxes(k, 1, 2), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    want = p / p.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    print(f"attention of {q.shape}: greatest error {np.abs(found - want).max():.1e}; "
          f"{s.size * 4 >> 20} MiB of scores are never stored")

    x, y = rng.standard_normal((100, 32), np.float32), rng.standard_normal((5000, 32), np.float32)
    distance, column = nearest(x, y)
    exact = ((x[:, None].astype("f8") - y) ** 2).sum(-1)
    same = (column == np.argsort(exact, kind="stable")[:, :10]).mean()
    assert same > 0.99
    print(f"10 nearest of {len(y)}: {same:.1%} as in float64, the nearest at {distance[0, 0]:.3f}")

    h, w = rng.standard_normal((64, 32), np.float32), rng.standard_normal((3000, 32), np.float32)
    label = rng.integers(0, len(w), len(h))
    logits = h.astype("f8") @ w.T
    loss = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    loss -= logits[np.arange(len(h)), label]
    error = np.abs(linear_cross_entropy(h, w, label) - loss).max()
    assert error < 1e-4
    print(f"cross entropy of {len(w)} logits that are never stored: greatest error {error:.1e}")


if __name__ == "__main__":
    main()
