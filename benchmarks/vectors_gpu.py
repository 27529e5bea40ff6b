"""Rows over vectors on a GPU, beside torch's attention (cuDNN's and FlashAttention-2) and torch.

    python benchmarks/vectors_gpu.py [--output benchmarks/results/vectors_gpu.json]

Candidates and peers of a cell take turns, since a GPU slows under load; a figure is the median of
a few rounds, in microseconds. Every candidate is checked against its peer, or float64, first.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import fusegen as fg

ROUNDS, EACH = 5, 6

Call = Callable[[], Any]
Cell = tuple[str, dict[str, Call], Callable[[Any], float]]


@fg.pipeline
def attention(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale):
    s = scale * fg.dot(q, k)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@fg.pipeline
def causal(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale):
    s = scale * fg.dot(q, k)
    s = fg.where(fg.index(s) <= fg.row(s), s, -math.inf)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@fg.pipeline
def with_entropy(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale):
    """Attention, with the entropy of its weights and the greatest score as further results."""
    s = scale * fg.dot(q, k)
    m = fg.max(s)
    p = fg.exp(s - m)
    z = fg.sum(p)
    return fg.sum(p * v) / z, m + fg.log(z) - fg.sum(p * s) / z, m


@fg.pipeline
def logsumexp(q: fg.RowVector, k: fg.ColumnVector):
    return fg.logsumexp(fg.dot(q, k))


@fg.pipeline
def most_alike(q: fg.RowVector, k: fg.ColumnVector):
    return fg.argmax(fg.dot(q, k))


@fg.pipeline
def nearest(x: fg.RowVector, y: fg.ColumnVector, *, k):
    return fg.topk(fg.sqdist(x, y), k, largest=False)


@fg.pipeline
def gaussian(x: fg.RowVector, y: fg.ColumnVector, b: fg.PerColumn, *, s: fg.Positive):
    return fg.sum(fg.exp(-fg.sqdist(x, y) / (2 * s * s)) * b)


def drawn(*shape: int, dtype: Any = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def by_torch(backend: SDPBackend, *arrays: torch.Tensor, **more: Any) -> Call:
    def run() -> torch.Tensor:
        with sdpa_kernel([backend]):
            return scaled_dot_product_attention(*arrays, **more)

    return run


def apart(found: Any, want: torch.Tensor) -> float:
    """The norm of the difference over that of what is wanted."""
    first = found[0] if isinstance(found, tuple) else found
    return float((first.double() - want.double()).norm() / want.double().norm())


def attentions() -> Iterator[Cell]:
    shapes = ((4, 16, 4096, 128), (4, 16, 4096, 64), (2, 16, 4096, 256), (1, 32, 16384, 128),
              (32, 16, 512, 64), (2, 16, 1000, 128))
    for batch, heads, n, d in shapes:
        q, k, v = (drawn(batch, heads, n, d) for _ in range(3))
        for text in (attention, causal, with_entropy):
            masked = text is causal
            peers = {name: by_torch(backend, q, k, v, is_causal=masked) for name, backend in (
                ("cuDNN", SDPBackend.CUDNN_ATTENTION),
                ("FlashAttention-2", SDPBackend.FLASH_ATTENTION))}
            want = peers["FlashAttention-2"]()
            calls = {"ours": lambda t=text, a=(q, k, v), s=d**-0.5: t(*a, scale=s), **peers}
            yield (f"{text.name}, {batch} x {heads} x {n}, d {d}", calls,
                   lambda found, want=want: apart(found, want))


def decoding() -> Iterator[Cell]:
    for batch, heads, n in ((64, 8, 8192), (16, 8, 8192), (1, 8, 131_072), (1, 8, 8192)):
        q, k, v = drawn(batch, heads, 4, 128), *(drawn(batch, heads, n, 128) for _ in range(2))
        peer = by_torch(SDPBackend.CUDNN_ATTENTION, q.view(batch, heads * 4, 1, 128), k, v,
                        enable_gqa=True)
        want = peer().view(batch, heads, 4, 128)
        calls = {"ours": lambda a=(q, k, v): attention(*a, scale=128**-0.5), "cuDNN": peer}
        yield (f"decoding, {batch} x {heads} heads of 4, {n} keys, d 128", calls,
               lambda found, want=want: apart(found, want))


def folds() -> Iterator[Cell]:
    for text, n, m, d in ((logsumexp, 10_000, 1_000_000, 128), (logsumexp, 10_000, 1_000_000, 64),
                          (most_alike, 10_000, 1_000_000, 128), (most_alike, 1_000_000, 4096, 128)):
        x, y = drawn(n, d), drawn(m, d)
        some = x[:50].double() @ y.double().T
        want = some.logsumexp(-1) if text is logsumexp else some.amax(-1)

        def off(found: Any, want: Any = want, some: Any = some, text: Any = text) -> float:
            first = found[:50].double()
            if text is most_alike:
                first = some.gather(-1, found[:50, None]).squeeze(-1)
            return float(((first - want) / want).abs().max())

        yield f"{text.name}, {n} x {m}, d {d}", {"ours": lambda t=text, a=(x, y): t(*a)}, off


def floats() -> Iterator[Cell]:
    """Texts in float32, exact as such."""
    x, y = (drawn(n, 128, dtype=torch.float32) for n in (10_000, 1_000_000))
    for k in (10, 64):
        exact = torch.cdist(x[::500].double(), y.double()).topk(k, -1, largest=False).indices

        def missed(found: Any, exact: Any = exact) -> float:
            same = found[1][::500].sort(-1).values == exact.sort(-1).values
            return float((~same).sum())

        def torch_in_parts(k: int = k) -> Any:
            half = y.square().sum(-1) / 2
            return [torch.topk(part @ y.T - half, k) for part in x.split(1000)]

        calls = {"ours": lambda k=k: nearest(x, y, k=k), "torch in parts of rows": torch_in_parts}
        yield f"{k} nearest, 10000 x 1000000, d 128, float32", calls, missed
    x, y, b = drawn(100_000, 3, dtype=torch.float32), drawn(100_000, 3, dtype=torch.float32), \
        drawn(100_000, dtype=torch.float32)
    want = torch.exp(-torch.cdist(x[:50].double(), y.double()).square() / 4.5) @ b.double()
    yield ("Gaussian sum, 100000 x 100000, d 3, float32",
           {"ours": lambda: gaussian(x, y, b, s=1.5)},
           lambda found: apart(found[:50], want))


def times(calls: dict[str, Call]) -> dict[str, float]:
    """Microseconds of each, the median of rounds in which they take turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call(), call()
    torch.cuda.synchronize()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            call()
            begin.record()
            for _ in range(EACH):
                call()
            end.record()
            end.synchronize()
            found[name].append(begin.elapsed_time(end) / EACH * 1e3)
    return {name: statistics.median(t) for name, t in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    cells: dict[str, Any] = {}
    for made in (attentions, decoding, folds, floats):
        for name, calls, off in made():
            wrong = off(calls["ours"]())
            assert wrong < 0.01, (name, wrong)
            cells[name] = {**times(calls), "off": wrong}
            print(name, {n: round(t, 1) for n, t in cells[name].items()}, flush=True)
            torch.cuda.empty_cache()
    found = {"date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
             "device": torch.cuda.get_device_name(), "torch": torch.__version__,
             "method": f"median of {ROUNDS} rounds of {EACH} calls in turns, in microseconds",
             "cells": cells}
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
