"""Rows over vectors on the CPU, beside torch, scikit-learn and faiss.

    python benchmarks/vectors_bench.py [--threads N] [--output benchmarks/results/vectors.json]
    python benchmarks/vectors_bench.py --own-time    # on a machine that others use, too

Nearest neighbours (exact, float32), k-means' assignment, attention full and causal (float32). The
candidates take turns; a figure is the fastest of a few calls. Results are checked against float64
before anything is timed. scikit-learn and faiss take part where they are installed. Own time is a
processor's for one thread, whoever else waits for that processor.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from vector_texts import assigned, attention, causal, nearest

import fusegen as fg
from fusegen.backend.target import host_cpu

TURNS, SECONDS = 9, 20.0

Call = Callable[[], Any]
Cell = tuple[str, dict[str, Call]]


def neighbours(rows: int, columns: int, d: int, k: int) -> list[Cell]:
    """Cells of the two selections; raises AssertionError for a wrong column."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, d), np.float32) for n in (rows, columns))
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    some = x[:20].astype("f8")
    exact = ((some[:, None] - y) ** 2).sum(-1)
    want = np.argsort(exact, axis=-1, kind="stable")[:, :k]
    assert (nearest(x, y, k=k).indices[:20] == want).mean() > 0.99
    assert (assigned(x, y)[:20] == want[:, 0]).all()

    def by_torch(select: Callable[[torch.Tensor], Any]) -> Any:
        return [select(torch.cdist(part, ty)) for part in tx.split(500)]

    lists: dict[str, Call] = {
        "ours": lambda: nearest(x, y, k=k),
        "torch": lambda: by_torch(lambda d: d.topk(k, largest=False)), **packages(x, y, k)}
    one: dict[str, Call] = {"ours": lambda: assigned(x, y),
                            "torch": lambda: by_torch(lambda d: d.argmin(-1)), **packages(x, y, 1)}
    shape = f"{rows} x {columns}, d {d}"
    return [(f"{k} nearest, {shape}", lists), (f"nearest, {shape}", one)]


def packages(x: Any, y: Any, k: int) -> dict[str, Call]:
    """Other libraries' exact searches, where they are installed."""
    found: dict[str, Call] = {}
    try:
        from sklearn.neighbors import NearestNeighbors
        from threadpoolctl import threadpool_limits

        threadpool_limits(torch.get_num_threads())
        index = NearestNeighbors(n_neighbors=k, algorithm="brute", metric="sqeuclidean").fit(y)
        found["scikit-learn"] = lambda: index.kneighbors(x)
    except ImportError:
        pass
    try:
        import faiss

        faiss.omp_set_num_threads(torch.get_num_threads())
        flat = faiss.IndexFlatL2(y.shape[1])
        flat.add(y)
        found["faiss"] = lambda: flat.search(x, k)
    except ImportError:
        pass
    return found


def attentions(heads: int, length: int, d: int) -> list[Cell]:
    """Cells of attention; raises AssertionError for a wrong result."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, d) for _ in range(3))
    scale = d**-0.5
    whole = torch.nn.functional.scaled_dot_product_attention
    for ours, is_causal in ((attention, False), (causal, True)):
        want = whole(q.double(), k.double(), v.double(), is_causal=is_causal)
        torch.testing.assert_close(ours(q, k, v, scale=scale).double(), want, rtol=1e-4, atol=1e-5)
    shape = f"{heads} x {length}, d {d}"
    return [
        (f"attention, {shape}", {"ours": lambda: attention(q, k, v, scale=scale),
                                 "torch": lambda: whole(q, k, v)}),
        (f"causal attention, {shape}", {"ours": lambda: causal(q, k, v, scale=scale),
                                        "torch": lambda: whole(q, k, v, is_causal=True)}),
    ]


def backward(heads: int, length: int, d: int, tokens: int, words: int) -> list[Cell]:
    """Cells of gradients, each with its forward call; raises AssertionError for a wrong one."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, d, requires_grad=True) for _ in range(3))
    h, w = (torch.randn(n, d, requires_grad=True) for n in (tokens, words))
    labels = torch.randint(0, words, (tokens,))
    whole = torch.nn.functional.scaled_dot_product_attention
    loss = torch.nn.functional.cross_entropy

    def differentiated(text: Call, inputs: tuple[torch.Tensor, ...]) -> Call:
        return lambda: torch.autograd.grad(text().sum(), inputs)

    texts: dict[str, tuple[Call, Call, tuple[torch.Tensor, ...]]] = {
        f"attention, {heads} x {length}, d {d}": (
            lambda: attention(q, k, v, scale=d**-0.5), lambda: whole(q, k, v), (q, k, v)),
        f"causal attention, {heads} x {length}, d {d}": (
            lambda: causal(q, k, v, scale=d**-0.5), lambda: whole(q, k, v, is_causal=True),
            (q, k, v)),
        f"linear cross entropy, {tokens} x {words}, d {d}": (
            lambda: fg.library.linear_cross_entropy(h, w, labels),
            lambda: loss(h @ w.T, labels, reduction="none"), (h, w)),
    }
    cells: list[Cell] = []
    for name, (ours, theirs, inputs) in texts.items():
        calls = {"ours": differentiated(ours, inputs), "torch": differentiated(theirs, inputs)}
        torch.testing.assert_close(*(call() for call in calls.values()), rtol=1e-3, atol=1e-4)
        cells.append((f"{name}, forward and backward", calls))
    return cells


def fastest(calls: dict[str, Call], clock: Callable[[], float]) -> dict[str, float]:
    """Milliseconds of each; candidates take turns."""
    best, end = dict.fromkeys(calls, math.inf), time.perf_counter() + SECONDS
    for turn in range(TURNS):
        for name, call in calls.items():
            start = clock()
            call()
            best[name] = min(best[name], (clock() - start) * 1e3)
        if turn >= 2 and time.perf_counter() > end:
            break
    return best


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--own-time", action="store_true",
                        help="processor time of one thread, where others use the machine")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    if args.own_time:
        args.threads = 1
    clock = time.thread_time if args.own_time else time.perf_counter
    os.environ["FUSEGEN_THREADS"] = str(args.threads)
    torch.set_num_threads(args.threads)
    cells = {}
    for name, calls in (*neighbours(2000, 100_000, 64, 10), *attentions(4, 2048, 64),
                        *backward(4, 2048, 64, 2048, 8192)):
        cells[name] = found = fastest(calls, clock)
        ours = found["ours"]
        shown = ", ".join(f"{n} {ms:.1f} ({ms / ours:.2f} x)" for n, ms in found.items())
        print(f"{name}: {shown}", flush=True)
    of_own = " of the thread's processor time" if args.own_time else ""
    report = {
        "date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
        "cpu": host_cpu().name, "threads": args.threads, "python": platform.python_version(),
        "packages": {p: version(p) for p in ("torch", "scikit-learn", "faiss-cpu")},
        "method": f"the fastest of interleaved calls, in milliseconds{of_own}", "cells": cells,
    }
    if args.output:
        args.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
