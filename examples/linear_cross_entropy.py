"""A language model's loss without its logits, and the head's best tokens.

    python examples/linear_cross_entropy.py

The cross entropy of h·w over a vocabulary needs each logit once, where it is folded. What is stored
is a loss per token. fg.library.linear_cross_entropy and head_topk are such texts; this one
has the z-loss and the entropy of the prediction beside it, in the same sweep.
"""

from __future__ import annotations

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
def loss_of(h: fg.RowVector, w: fg.ColumnVector, label: fg.PerRow, *, z_loss=1e-4):
    logits = fg.dot(h, w)
    z = fg.logsumexp(logits)
    p = fg.exp(logits - z)
    return {"loss": z - fg.dot(h, fg.take(w, label)) + z_loss * z * z,
            "entropy": z - fg.sum(p * logits)}


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
    h = rng.standard_normal((256, 64), np.float32) / 8
    w = rng.standard_normal((16_000, 64), np.float32)
    label = rng.integers(0, len(w), len(h))
    found = loss_of(h, w, label)
    s = h.astype("f8") @ w.T
    z = np.log(np.exp(s - s.max(-1, keepdims=True)).sum(-1)) + s.max(-1)
    want = z - s[np.arange(len(h)), label] + 1e-4 * z * z
    np.testing.assert_allclose(found["loss"], want, rtol=1e-5)
    p = np.exp(s - z[:, None])
    np.testing.assert_allclose(found["entropy"], z - (p * s).sum(-1), rtol=1e-4)
    print(f"loss of {len(h)} tokens, {len(w)} words: greatest error "
          f"{np.abs(found['loss'] - want).max():.1e}; "
          f"{s.size * 4 / 1e6:.1f} MB of logits not stored")
    values, tokens = fg.library.head_topk(h, w, k=5)
    np.testing.assert_allclose(values, -np.sort(-p, -1)[:, :5], rtol=1e-4)
    print(f"the best token of the first: {tokens[0, 0]}, p = {values[0, 0]:.4f}")
    ours = milliseconds(lambda: fg.library.linear_cross_entropy(h, w, label))
    print(f"  {ours:.1f} ms", end="")
    if torch is not None:
        a, b, c = (torch.from_numpy(x) for x in (h, w, label))
        loss = torch.nn.functional.cross_entropy
        theirs = milliseconds(lambda: loss(a @ b.T, c, reduction="none"))
        print(f", torch's product and cross_entropy {theirs:.1f} ms", end="")
    print()


if __name__ == "__main__":
    main()
