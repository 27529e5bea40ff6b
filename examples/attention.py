"""Attention: rows that are never stored.

    python examples/attention.py

The text of attention is that of a softmax: scores are made where they are folded, and the sum of
vectors moves by the same factor as the sum of exponentials when the maximum grows.
"""

from __future__ import annotations

import math
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
def attention(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale=1.0):
    s = scale * fg.dot(q, k)
    s = fg.where(fg.index(s) <= fg.row(s), s, -math.inf)  # causal
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


def milliseconds(call: Callable[[], Any]) -> float:
    """The fastest of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


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
          f"{s.size * 4 / 1e6:.1f} MB of scores not stored")
    np.testing.assert_array_equal(fg.library.attention(q, k, v, scale=0.125, causal=True), found)
    print(f"  {milliseconds(lambda: attention(q, k, v, scale=0.125)):.1f} ms", end="")
    if torch is not None:
        a, b, c = (torch.from_numpy(x) for x in (q, k, v))
        sdpa = torch.nn.functional.scaled_dot_product_attention
        print(f", torch's {milliseconds(lambda: sdpa(a, b, c, is_causal=True)):.1f} ms", end="")
    print()

    # Eight heads of queries share keys and values; a window, a cap, and log Σ exp beside.
    capped, lse = fg.library.attention(
        q, k[:1], v[:1], scale=0.125, causal=True, window=128, softcap=30.0, with_lse=True)
    assert np.isfinite(capped).all()
    print(f"window of 128, scores capped at 30: {capped.shape}, log-sum-exp {lse.shape}")


if __name__ == "__main__":
    main()
