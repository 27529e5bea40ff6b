"""CUDA kernels over vectors on the emulator, against the texts in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import vector_cases as vc
from support.cases import leaves
from support.emulated import EMULATED
from support.tiles import emulate

import fusegen as fg

pytestmark = EMULATED


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


@pytest.mark.parametrize("name", CASES)
def test_in_one_sweep(name: str) -> None:
    text, arrays, constants = CASES[name]
    close(emulate(text, *arrays, **constants), text.reference(*arrays, **constants))


@pytest.mark.parametrize("name", ["attention", "statistics", "head", "long vectors"])
def test_reduction_by_reduction(name: str) -> None:
    text, arrays, constants = CASES[name]
    close(emulate(text, *arrays, form="unfused", **constants), text.reference(*arrays, **constants))


@pytest.mark.parametrize("name", ["attention", "nearest", "causal"])
def test_blocks_that_share_rows(name: str) -> None:
    """Few rows of many columns: the last block merges what all have found."""
    text = CASES[name][0]
    arrays = (drawn(5, 9), drawn(2000, 9, seed=1), drawn(2000, 12, seed=2))[: 2 + (
        name != "nearest")]
    close(emulate(text, *arrays, multiprocessors=3), text.reference(*arrays))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_types(dtype: str) -> None:
    numpy = fg.ir.dtypes.dtype_of(dtype).numpy
    arrays = tuple(a.astype(numpy) for a in (Q, K, V))
    tolerance = {"float64": 1e-12, "bfloat16": 2e-2, "float16": 3e-3}[dtype]
    close(emulate(vc.attention, *arrays, scale=0.3), vc.attention.reference(*arrays, scale=0.3),
          tolerance)


def test_masked_vectors_that_are_not_finite() -> None:
    keys, values = K.copy(), V.copy()
    values[30:] = np.inf
    keys[40:] = np.nan
    found = emulate(vc.causal, Q, keys, values)
    close(found, vc.causal.reference(Q, K[:21], V[:21]))
