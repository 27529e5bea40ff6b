"""Library calls as JAX meets them: arguments, and the same text in jnp."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusegen as fg
from support.compilers import XLA_LIGHTLY

jax = pytest.importorskip("jax", reason="JAX is not installed")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others use the GPU as well
jnp = jax.numpy
L, TESTS = fg.library, Path(__file__).parents[1]
EVERY = sorted(L.PIPELINES)
DIFFERENTIABLE = sorted({*L.PIPELINES} - {"argmax"})


def _normed(x: Any, eps: float = 1e-5) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + eps)


def _quantized(x: Any) -> Any:
    scale = jnp.abs(x).max(-1) / 127
    return jnp.round(x / scale[..., None]).astype(jnp.int8), scale


def _top(x: Any, k: int = 5) -> Any:
    return tuple(jax.lax.top_k(x, k))


def _gate(x: Any, bias: Any) -> Any:
    scores = jax.nn.softmax(x)
    experts = jax.lax.top_k(scores + bias, 2)[1]
    gates = jnp.take_along_axis(scores, experts, -1)
    return gates / gates.sum(-1, keepdims=True), experts


PEERS: dict[str, Callable[..., Any]] = {
    "softmax": jax.nn.softmax, "naive_softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax,
    "logsumexp": lambda x: jax.nn.logsumexp(x, -1), "topk": _top,
    "argmax": lambda x: jnp.argmax(x, -1), "softmax_topk": lambda x: _top(jax.nn.softmax(x)),
    "entropy": lambda x: -(jax.nn.softmax(x) * jax.nn.log_softmax(x)).sum(-1),
    "cross_entropy": lambda x, labels: -jnp.take_along_axis(
        jax.nn.log_softmax(x), labels[..., None], -1)[..., 0],
    "var_mean": lambda x: (x.var(-1), x.mean(-1)), "layer_norm": lambda x, w, b: _normed(x) * w + b,
    "rms_norm": lambda x, w: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w,
    "norm2": lambda x: jnp.sqrt((x * x).sum(-1)), "absmax_quantize": _quantized,
    "moe_gate": _gate, "weighted_mean": lambda s, v: (jax.nn.softmax(s) * v).sum(-1),
}


def arguments(name: str, shape: tuple[int, ...] = (5, 33), dtype: Any = np.float32,
              seed: int = 0) -> tuple[Any, ...]:
    """NumPy arrays for a library pipeline, optional ones among them."""
    source = np.random.default_rng(seed)

    def normal(*size: int) -> Any:
        return source.standard_normal(size).astype(dtype)

    x = normal(*shape)
    match name:
        case "cross_entropy":
            return x, source.integers(0, shape[-1], shape[:-1]).astype(np.int32)
        case "weighted_mean":
            return x, normal(*shape)
        case "layer_norm":
            return x, normal(shape[-1]), normal(shape[-1])
        case "rms_norm" | "moe_gate":
            return x, normal(shape[-1])
        case _:
            return (x,)


def loss(function: Callable[..., Any]) -> Callable[..., Any]:
    """A number that all float results take part in, each its own way."""

    def total(*arrays: Any) -> Any:
        found = [r for r in jax.tree.leaves(function(*arrays)) if is_float(r)]
        return sum((r * r * (i + jnp.cos(r))).sum() for i, r in enumerate(found))

    return total


def is_float(array: Any) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.floating))


def close(found: Any, wanted: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Two nests of arrays, leaf by leaf."""
    left, right = jax.tree.leaves(found), jax.tree.leaves(wanted)
    for f, w in zip(left, right, strict=True):
        assert f.shape == w.shape
        np.testing.assert_allclose(np.asarray(f, np.float64), np.asarray(w, np.float64),
                                   rtol=rtol, atol=atol)


def run(text: str, **settings: str) -> None:
    """A process with two devices."""
    more = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": f"{TESTS}:{TESTS.parent}",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count=2 {XLA_LIGHTLY}"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], text=True,
                          capture_output=True, env={**os.environ, **more, **settings})
    assert done.returncode == 0, done.stderr
