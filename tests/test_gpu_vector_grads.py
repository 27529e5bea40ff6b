"""Gradients over vectors on a GPU, against those of the same texts on CPUs in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import vector_cases as texts

import fusegen as fg

pytestmark = pytest.mark.gpu
library = fg.library


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype("f4")


def close(found: Any, want: Any, tolerance: float) -> None:
    want = np.asarray(want, "f8")
    np.testing.assert_allclose(np.asarray(found, "f8"), want, rtol=tolerance,
                               atol=tolerance * np.abs(want).max())


CASES = {
    "attention": (library.attention, ("q", "k", "v"), (
        drawn(2, 4, 333, 100), drawn(2, 4, 333, 72), drawn(2, 1, 777, 72), drawn(2, 1, 777, 100)),
        {"scale": 0.1}),
    "causal": (library.attention, ("q", "k", "v"), (
        drawn(3, 700, 128), drawn(3, 700, 128, seed=1), drawn(3, 700, 128, seed=2),
        drawn(3, 700, 128, seed=3)), {"scale": 0.09, "causal": True, "softcap": 20.0}),
    "loss": (library.linear_cross_entropy, ("h", "w"), (
        drawn(500), drawn(500, 64), drawn(3000, 64) / 4, np.arange(500) % 97), {}),
    "contrastive": (library.contrastive, ("x", "y"), (
        drawn(300), drawn(300, 32), drawn(300, 32, seed=1)), {"temperature": 0.5}),
    "gaussian": (texts.gaussian, ("x", "y", "b"), (
        drawn(900), drawn(900, 3), drawn(1500, 3), drawn(1500)), {"s": 1.5}),
    "one row": (texts.attention, ("q", "k", "v"), (
        drawn(1, 8), drawn(1, 64), drawn(20_001, 64), drawn(20_001, 8)), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_float32(name: str) -> None:
    import cupy

    pipeline, wrt, arrays, constants = CASES[name]
    gradient = fg.grad(pipeline, wrt=wrt, **constants)
    found = gradient(*map(cupy.asarray, arrays), **constants)
    wide = [a.astype("f8") if a.dtype.kind == "f" else a for a in arrays]
    for mine, want in zip(found, gradient(*wide, **constants), strict=True):
        assert isinstance(mine, cupy.ndarray)
        close(cupy.asnumpy(mine), want, 2e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["attention", "causal", "loss", "contrastive"])
def test_tensors_that_require_gradients(name: str, dtype: str) -> None:
    """By autograd; the weights of sums are rounded as the vectors are."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pipeline, wrt, arrays, constants = CASES[name]
    given = [torch.from_numpy(a).cuda() for a in arrays]
    given = [t.to(getattr(torch, dtype)) if t.is_floating_point() else t for t in given]
    inputs = [t.requires_grad_() if t.is_floating_point() else t for t in given[1:]]
    found = torch.autograd.grad(pipeline(*inputs, **constants), inputs[: len(wrt)], given[0])
    wide = [t.detach().cpu().double().numpy() if t.is_floating_point() else t.cpu().numpy()
            for t in given]
    gradient = fg.grad(pipeline, wrt=wrt, **constants)
    for mine, want in zip(found, gradient(*wide, **constants), strict=True):
        assert mine.dtype == getattr(torch, dtype)
        close(mine.float().cpu().numpy(), want, {"bfloat16": 4e-2, "float16": 8e-3}[dtype])
