"""Random shapes on the CPU, beside torch's own operations.

    python benchmarks/cpu_scan.py [--threads N] [--shapes 20] [--seed 1] [--only NAME …]
        [--output benchmarks/results/cpu_scan.json]

Rows of 16 to 2^19 columns, arrays of 4 KiB to 128 MiB, both drawn evenly on a logarithmic scale.
Every round times a group of calls of each candidate, one after the other, on tensors, results
included; a figure is the fastest group. A ratio is torch's time by ours: above 1, we are faster.
Results are checked against float64 before anything is timed.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fusegen as fg
from fusegen.backend.cpu.helper import HELPER
from fusegen.backend.target import host_cpu

GROUP_SECONDS, ROUNDS, CELL_SECONDS = 2e-4, 60, 2.0
TOLERANCE = {"float32": 3e-5, "bfloat16": 2e-2}

F = torch.nn.functional
Call = Callable[[], Any]


def entropy(t: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(t, -1)
    return -(p * torch.log(p)).sum(-1)


TORCHS: dict[str, Callable[[torch.Tensor], Any]] = {
    "softmax": lambda t: torch.softmax(t, -1), "log_softmax": lambda t: torch.log_softmax(t, -1),
    "layer_norm": lambda t: F.layer_norm(t, t.shape[-1:]),
    "rms_norm": lambda t: F.rms_norm(t, t.shape[-1:]), "entropy": entropy,
    "logsumexp": lambda t: torch.logsumexp(t, -1),
    "var_mean": lambda t: torch.var_mean(t, -1, correction=0),
    "argmax": lambda t: t.argmax(-1), "topk": lambda t: torch.topk(t, 5),
    "softmax_topk": lambda t: torch.topk(torch.softmax(t, -1), 5),
}
CONSTANTS = {"topk": {"k": 5}, "softmax_topk": {"k": 5}}


def shapes(count: int, seed: int) -> list[tuple[int, int]]:
    """(rows, columns), small arrays first."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        columns = int(2 ** rng.uniform(4, 19))
        n_bytes = 2 ** rng.uniform(12, 27)
        found.append((max(1, int(n_bytes / 4 / columns)), columns))
    return sorted(found, key=lambda s: s[0] * s[1])


def first(found: Any) -> np.ndarray:
    """The first result, in float64."""
    one = found[0] if isinstance(found, tuple) else found
    return np.asarray(one.double())


def check(name: str, t: torch.Tensor, found: Any) -> None:
    """Raises AssertionError for a wrong result."""
    want = TORCHS[name](t.double())
    ours = first(found)
    if name == "argmax":  # of equal values torch may name another
        x = np.asarray(t.double())
        assert (x[np.arange(len(x)), ours.astype(int)] == x.max(-1)).all()
        return
    tolerance = TOLERANCE[str(t.dtype)[6:]]
    np.testing.assert_allclose(ours, first(want), rtol=tolerance, atol=tolerance)


def fastest(calls: list[Call]) -> list[float]:
    """Seconds of each; candidates take turns."""
    counts = []
    for call in calls:
        one = min(seconds(call, 1) for _ in range(3))
        counts.append(max(1, int(GROUP_SECONDS / one)))
    best, end = [float("inf")] * len(calls), time.perf_counter() + CELL_SECONDS
    for turn in range(ROUNDS):
        for i, call in enumerate(calls):
            best[i] = min(best[i], seconds(call, counts[i]) / counts[i])
        if turn >= 5 and time.perf_counter() > end:
            break
    return best


def seconds(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def cell(name: str, dtype: str, shape: tuple[int, int]) -> dict[str, Any]:
    pipeline, constants = getattr(fg.library, name), CONSTANTS.get(name, {})
    t = torch.from_numpy(np.random.default_rng(0).standard_normal(shape).astype("f4"))
    t = t.to(getattr(torch, dtype))
    check(name, t, pipeline(t, **constants))
    ours, peer = fastest([lambda: pipeline(t, **constants), lambda: TORCHS[name](t)])
    return {"rows": shape[0], "cols": shape[1], "us": ours * 1e6, "torch_us": peer * 1e6,
            "ratio": peer / ours}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--shapes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[*TORCHS])
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    os.environ["FUSEGEN_THREADS"] = str(args.threads)
    torch.set_num_threads(args.threads)
    print(HELPER.finding())  # when it is there: who serves the calls
    groups = {}
    for name in args.only:
        for dtype in TOLERANCE:
            cells = [cell(name, dtype, s) for s in shapes(args.shapes, args.seed) if s[1] >= 5]
            ratios = [c["ratio"] for c in cells]
            groups[f"{name}, {dtype}"] = {
                "median": statistics.median(ratios), "worst": min(ratios), "cells": cells}
            worst = min(cells, key=lambda c: c["ratio"])
            print(f"{name:14s}{dtype:10s}median {statistics.median(ratios):5.2f}   worst "
                  f"{worst['ratio']:5.2f} at {worst['rows']} x {worst['cols']} "
                  f"({worst['us']:.0f} us)", flush=True)
    report = {
        "date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
        "cpu": host_cpu().name, "threads": args.threads, "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "method": "the fastest of interleaved groups of calls; a ratio is torch's time by ours",
        "groups": groups,
    }
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
