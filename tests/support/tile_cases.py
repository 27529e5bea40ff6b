"""Calls over vectors that tests of GPU kernels share, and data that is hard to rank."""

from __future__ import annotations

from typing import Any

import numpy as np

import fusegen as fg
from support import vector_cases as vc
from support.cases import leaves


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype("f4")


@fg.pipeline
def head(h: fg.RowVector, w: fg.ColumnVector, *, k=5):
    s = fg.dot(h, w)
    p = fg.exp(s - fg.max(s))
    values, columns = fg.topk(p / fg.sum(p), k)
    return values, columns, fg.logsumexp(s), fg.sum(values)


Q, K, V = drawn(21, 17), drawn(70, 17, seed=1), drawn(70, 33, seed=2)
LENGTHS = np.random.default_rng(3).integers(0, 70, 21)
CASES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "attention": (vc.attention, (Q, K, V), {"scale": 0.3}),
    "bias": (vc.attention, (Q, K, V, drawn(21, 70)), {}),
    "causal": (vc.causal, (Q, K, V), {}),
    "assigned": (vc.assigned, (Q, K), {}),
    "linear_cross_entropy": (vc.linear_cross_entropy, (Q, K, LENGTHS), {}),
    "gaussian": (vc.gaussian, (Q[:, :3], K[:, :3], drawn(70)), {"s": 1.5}),
    "statistics": (vc.statistics, (Q, K, drawn(70, 17, seed=4), LENGTHS), {}),
    "differences": (vc.differences, (Q, K, drawn(70, 17, seed=4)), {}),
    "attended": (vc.attended, (Q, K), {}),
    "nearest": (vc.nearest, (Q, K), {"k": 3}),
    "nearest of all": (vc.nearest, (Q, K), {"k": 70}),
    "head": (head, (Q, K), {}),
}
BATCHED = {"batches": (drawn(2, 3, 9, 5), drawn(2, 1, 40, 5, seed=1), drawn(2, 3, 40, 9, seed=2)),
           "long vectors": (drawn(3, 200), drawn(20, 200, seed=1), drawn(20, 300, seed=2))}
CASES |= {name: (vc.attention, arrays, {"scale": 0.2}) for name, arrays in BATCHED.items()}
CASES |= {mask: (text, (Q, K, V, LENGTHS), {}) for mask, text in vc.MASKED.items()}


def close(found: Any, want: Any, tolerance: float = 3e-5) -> None:
    for f, w in zip(leaves(found), leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(f, "f8"), np.asarray(w, "f8"), rtol=tolerance,
                                   atol=4 * tolerance)


# ---- rankings ----


@fg.pipeline
def most_alike(x: fg.RowVector, y: fg.ColumnVector, *, k=3):
    return fg.topk(fg.dot(x, y), k)


@fg.pipeline
def assigned(x: fg.RowVector, y: fg.ColumnVector):
    return fg.argmin(fg.sqdist(x, y))


def unusual() -> tuple[Any, Any]:
    """No numbers, infinities, norms that overflow, in rows and in columns."""
    x, y = drawn(5, 16), drawn(600, 16)
    y[5], y[17, 3], y[100] = np.nan, np.inf, 1e25
    x[1], x[2] = np.inf, np.nan
    return x, y


DATA = {
    "usual": (drawn(5, 16), drawn(600, 16)),
    "many": (drawn(3, 9), drawn(2000, 9)),
    "equal": (drawn(3, 16), np.repeat(drawn(3, 16), 300, 0)),
    "in order": (drawn(3, 16), np.sort(drawn(1000, 1) * np.ones((1, 16), "f4"), 0)),
    "unusual": unusual(),
    "far from 0": (100 + drawn(3, 16) / 10_000, 100 + drawn(1000, 16) / 10_000),
    "tiny": (drawn(3, 16) * np.float32(1e-25), drawn(600, 16) * np.float32(1e-25)),
}
