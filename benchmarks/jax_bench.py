"""Pipelines in JAX's programs, beside the same text in jnp: values and gradients, jitted.

    python benchmarks/jax_bench.py [--output benchmarks/results/jax.json]

Microseconds until the result is ready. Every round times a group of calls of both, one after the
other, so that whatever else the machine does meets both; a figure is the median over rounds.
Results are checked against jnp's in float64 before anything is timed.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

import fusegen as fg
from fusegen.backend.target import host_cpu

SHAPES = ((16, 256), (347, 2265), (4096, 1024), (64, 50_000))
GROUP_SECONDS, ROUNDS, WARM_UP = 2e-3, 61, 3
TOLERANCE = 1e-4
L = fg.library

Call = Callable[[], Any]


def layer_norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def softmax_topk(x: Any) -> Any:
    return jax.lax.top_k(jax.nn.softmax(x), 5)[0]


WORKS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (L.softmax, jax.nn.softmax),
    "logsumexp": (L.logsumexp, lambda x: jax.nn.logsumexp(x, axis=-1)),
    "layer_norm": (L.layer_norm, layer_norm),
    "entropy": (L.entropy, lambda x: -(jax.nn.softmax(x) * jax.nn.log_softmax(x)).sum(-1)),
    "softmax_topk": (lambda x: L.softmax_topk(x)[0], softmax_topk),
}


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.grad(lambda x: jnp.cos(3 * function(x)).sum())


def seconds(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        jax.block_until_ready(call())
    return time.perf_counter() - start


def medians(calls: dict[str, Call]) -> dict[str, float]:
    """Microseconds of each; they take turns."""
    counts, times = {}, {name: list[float]() for name in calls}
    for name, call in calls.items():
        counts[name] = max(1, int(GROUP_SECONDS / min(seconds(call, 1) for _ in range(5))))
    for turn in range(WARM_UP + ROUNDS):
        for name, call in calls.items():
            spent = seconds(call, counts[name]) / counts[name]
            if turn >= WARM_UP:
                times[name].append(spent)
    return {name: 1e6 * statistics.median(found) for name, found in times.items()}


def check(found: Any, peer: Callable[..., Any], x: np.ndarray) -> None:
    """Raises AssertionError for a wrong result."""
    with jax.enable_x64(True):
        want = np.asarray(peer(jnp.asarray(x, "float64")))
    scale = np.abs(want).max()
    np.testing.assert_allclose(np.asarray(found, "f8"), want, rtol=TOLERANCE,
                               atol=TOLERANCE * scale)


def measure() -> dict[str, dict[str, float]]:
    found = {}
    for shape in SHAPES:
        x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        given = jnp.asarray(x)
        for name, both in WORKS.items():
            for kind, made in (("", lambda f: f), (", gradient", gradient)):
                ours, peer = (jax.jit(made(f)) for f in both)
                check(ours(given), made(both[1]), x)
                key = f"{name}{kind} of {shape[0]} × {shape[1]}"
                found[key] = medians({"fusegen": lambda f=ours, x=given: f(x),
                                      "jnp": lambda f=peer, x=given: f(x)})
                print(key, *(f"{what} {us:.1f}" for what, us in found[key].items()), sep="; ",
                      flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    found = measure()
    ratios = sorted(m["jnp"] / m["fusegen"] for m in found.values())
    print(f"jnp takes {ratios[0]:.2f} … {ratios[-1]:.2f} × as long, median "
          f"{statistics.median(ratios):.2f}")
    report = {
        "date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
        "device": jax.devices()[0].device_kind, "cpu": host_cpu().name,
        "jax": importlib.metadata.version("jax"),
        "method": f"medians of {ROUNDS} rounds; both take turns of {1e3 * GROUP_SECONDS:g} ms",
        "microseconds": found,
    }
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
