"""Random shapes on the CPU, beside torch's own operations and others'.

    python benchmarks/cpu_scan.py [--threads N] [--shapes 20] [--seed 1] [--only NAME …]
        [--peers torch,compile,jax,numpy] [--seconds 1] [--output benchmarks/results/cpu_scan.json]

Rows of 16 to 2^19 columns, arrays of 4 KiB to 128 MiB, both drawn evenly on a logarithmic scale.
Every round times a group of calls of each candidate, one after the other, results included; a
figure is the fastest group. A ratio is a peer's time by ours: above 1, we are faster. Ours and
torch's are calls on tensors; `compile` is torch.compile with dynamic shapes, JAX's are compiled for
each shape, on arrays of its own. Results, the peers' too, are checked against float64 before
anything is timed. A peer that is not there, or cannot do a cell, is said and left out.

`--threads` is for us and for torch, and is what the process may run on unless it is given; JAX
takes all of that: `taskset -c 0-1 python benchmarks/cpu_scan.py` gives each two processors.
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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cpu_peers import PACKAGES, TORCHS, Call, Peers

import fusegen as fg
from fusegen.backend.cpu.helper import HELPER
from fusegen.backend.target import host_cpu

GROUP_SECONDS, ROUNDS, LEAST_ROUNDS = 2e-4, 60, 6
TOLERANCE = {"float32": 3e-5, "bfloat16": 2e-2}
PEER_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1}  # some round every step to bfloat16
CONSTANTS = {"topk": {"k": 5}, "softmax_topk": {"k": 5}}


# ---- what is measured ----


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
    one = found[0] if isinstance(found, (tuple, list)) else found
    return np.asarray(one.double() if isinstance(one, torch.Tensor) else one).astype(np.float64)


def check(name: str, t: torch.Tensor, found: Any, tolerance: Mapping[str, float]) -> None:
    """Raises AssertionError for a wrong result."""
    got = first(found)
    if name == "argmax":  # of equal values another may be named
        x = np.asarray(t.double())
        assert (x[np.arange(len(x)), got.astype(int)] == x.max(-1)).all()
        return
    allowed = tolerance[str(t.dtype)[6:]]
    np.testing.assert_allclose(got, first(TORCHS[name](t.double())), rtol=allowed, atol=allowed)


def fastest(calls: list[Call], limit: float) -> list[float]:
    """Seconds of each; candidates take turns."""
    counts = []
    for call in calls:
        one = min(seconds(call, 1) for _ in range(3))
        counts.append(max(1, int(GROUP_SECONDS / one)))
    best, end = [float("inf")] * len(calls), time.perf_counter() + limit * len(calls)
    for turn in range(ROUNDS):
        for i, call in enumerate(calls):
            best[i] = min(best[i], seconds(call, counts[i]) / counts[i])
        if turn + 1 >= LEAST_ROUNDS and time.perf_counter() > end:
            break
    return best


def seconds(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def cell(name: str, dtype: str, shape: tuple[int, int], peers: Peers, limit: float) -> Any:
    pipeline, constants = getattr(fg.library, name), CONSTANTS.get(name, {})
    t = torch.from_numpy(np.random.default_rng(0).standard_normal(shape).astype("f4"))
    t = t.to(getattr(torch, dtype))
    check(name, t, pipeline(t, **constants), TOLERANCE)
    calls: dict[str, Call] = {"": lambda: pipeline(t, **constants)}
    failed: dict[str, str] = {}
    for peer, maker in peers.makers.items():
        try:
            call = maker(name, t)
            check(name, t, call(), PEER_TOLERANCE)
            calls[peer] = call
        except Exception as error:  # it cannot, or is wrong: said in the results
            failed[peer] = (str(error).strip() or type(error).__name__).splitlines()[0]
    times = dict(zip(calls, fastest([*calls.values()], limit), strict=True))
    ours = times.pop("")
    return {"rows": shape[0], "cols": shape[1], "us": ours * 1e6,
            **{f"{peer}_us": found * 1e6 for peer, found in times.items()},
            **{f"{peer}_ratio": found / ours for peer, found in times.items()},
            **({"failed": failed} if failed else {})}


def summary(cells: list[Any], peers: Peers) -> dict[str, Any]:
    """Of each peer, the median and the least ratio, and where that is."""
    found = {}
    for peer in peers.makers:
        of = [c for c in cells if f"{peer}_ratio" in c]
        if of:
            least = min(of, key=lambda c: c[f"{peer}_ratio"])
            found[peer] = {
                "median": statistics.median(c[f"{peer}_ratio"] for c in of),
                "worst": least[f"{peer}_ratio"], "at": f"{least['rows']} x {least['cols']}",
                "under 0.9": sum(c[f"{peer}_ratio"] < 0.9 for c in of), "cells": len(of)}
    return found


def line(title: str, found: Mapping[str, Any], peers: Peers) -> str:
    """A line of the table."""
    parts = []
    for peer in peers.makers:
        one = found.get(peer)
        parts.append(f"{one['median']:7.2f}{one['worst']:7.2f} at {one['at']:>12s}" if one
                     else f"{'-':>7s}{'-':>7s}{'':>16s}")
    return f"{title:23s}" + "  |".join(parts)


# ---- the command ----


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    may_use = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0, 1}
    parser.add_argument("--threads", type=int, default=len(may_use))
    parser.add_argument("--shapes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[*TORCHS], choices=[*TORCHS])
    parser.add_argument("--peers", default="torch", help=f"of {','.join(PACKAGES)}")
    parser.add_argument("--seconds", type=float, default=1.0, help="a candidate and cell, at most")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    args.peers = [name for name in args.peers.split(",") if name]
    if unknown := set(args.peers) - set(PACKAGES):
        parser.error(f"no such peers: {', '.join(sorted(unknown))}; known: {', '.join(PACKAGES)}")
    return args


def main() -> None:
    args = asked()
    os.environ["FUSEGEN_THREADS"] = str(args.threads)
    torch.set_num_threads(args.threads)
    print(HELPER.finding())  # when it is there: who serves the calls
    peers = Peers(args.peers)
    for peer, why in peers.missing.items():
        print(f"without {peer}: {why.splitlines()[0]}")
    print(f"{'times by ours:':23s}" + "  |".join(
        f" median  worst {peer:>15s}" for peer in peers.makers))
    report = {
        "date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
        "cpu": host_cpu().name, "threads": args.threads, "python": platform.python_version(),
        "peers": {peer: importlib.metadata.version(PACKAGES[peer]) for peer in peers.makers},
        "missing": peers.missing, "shapes": args.shapes, "seed": args.seed,
        "method": "the fastest of interleaved groups of calls; a ratio is a peer's time by ours",
        "groups": {},
    }
    for name in args.only:
        for dtype in TOLERANCE:
            cells = [cell(name, dtype, s, peers, args.seconds)
                     for s in shapes(args.shapes, args.seed) if s[1] >= 5]
            found = summary(cells, peers)
            report["groups"][f"{name}, {dtype}"] = {**found, "cells": cells}
            print(line(f"{name}, {dtype}", found, peers), flush=True)
            for peer, why in {p: w for c in cells for p, w in c.get("failed", {}).items()}.items():
                print(f"    {peer} left out of some cells: {why}")
            if args.output:  # after every group: what is there stays, whatever comes
                args.output.parent.mkdir(parents=True, exist_ok=True)
                args.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
