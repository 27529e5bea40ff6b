"""Rows over vectors on a GPU, beside torch's attention (cuDNN's and FlashAttention-2) and products.

    python benchmarks/vectors_gpu.py [--output benchmarks/results/vectors_gpu.json]

Candidates and peers of a cell take turns, since a GPU slows under load; a figure is the median of
a few rounds, in microseconds. Every candidate is checked against its peer, or float64, first. The
GPU sleeps while a round's calls are queued: the host's time is not in the figures. A round repeats
calls, so what they read lies in the L2 cache where it fits; such cells are timed a second time,
"cold": call by call, the cache overwritten before each. Cells and their targets: vector_cells.py.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from vector_cells import GROUPS, Call, Cell

import fusegen as fg

ROUNDS, ROUND_US, SLEEP_CYCLES = 5, 10_000, 4_000_000
COLD_CALLS, FLUSHED_BYTES = 8, 256 << 20


def once(call: Call) -> float:
    """Microseconds of one call, roughly."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def times(calls: dict[str, Call]) -> dict[str, float]:
    """Microseconds of each, the median of rounds in which they take turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    each = {name: max(1, min(8, int(ROUND_US / once(call)))) for name, call in calls.items()}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(SLEEP_CYCLES)
            call()
            begin.record()
            for _ in range(each[name]):
                call()
            end.record()
            end.synchronize()
            found[name].append(begin.elapsed_time(end) / each[name] * 1e3)
    return {name: statistics.median(t) for name, t in found.items()}


def cold_times(calls: dict[str, Call]) -> dict[str, float]:
    """Likewise, the median of single calls that find nothing of theirs in the L2 cache."""
    other = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)]
                     for _ in range(COLD_CALLS)]
            torch.cuda._sleep(SLEEP_CYCLES)
            for begin, end in pairs:
                other.zero_()
                begin.record()
                call()
                end.record()
            torch.cuda.synchronize()
            found[name] += [begin.elapsed_time(end) * 1e3 for begin, end in pairs]
    return {name: statistics.median(t) for name, t in found.items()}


def fits_cache(cell: Cell) -> bool:
    """Would a second call find some of what the first one read?"""
    return 0 < cell.n_bytes < 2 * torch.cuda.get_device_properties().L2_cache_size


def measured(cell: Cell) -> dict[str, Any]:
    """A cell's figures, or how far our result is off where it is wrong."""
    try:
        off = cell.off(cell.calls["ours"]())
    except Exception as error:  # the other cells are measured all the same
        print(f"{cell.name}: FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
        return {"failed": str(error)[:300], "met": False, "wrong": True}
    if not off <= cell.at_most:
        print(f"{cell.name}: WRONG by {off}", flush=True)
        return {"off": off, "met": False, "wrong": True}
    taken = times(cell.calls)
    cold = cold_times(cell.calls) if fits_cache(cell) else {}
    reached = cell.reached(taken) and (not cold or cell.reached(cold))
    met = "" if not cell.target else (" met: " if reached else " SHORT: ") + cell.target
    print(f"{cell.name}: {shown(taken)}{'; cold: ' * bool(cold)}{shown(cold)}{met}", flush=True)
    target = {"target": cell.target, "met": reached} if cell.target else {}
    return {**rounded(taken), **({"cold": rounded(cold)} if cold else {}), "off": off, **target}


def shown(taken: dict[str, float]) -> str:
    return ", ".join(f"{name} {us:,.1f}" for name, us in taken.items())


def rounded(taken: dict[str, float]) -> dict[str, float]:
    return {name: round(us, 1) for name, us in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    cells: dict[str, Any] = {}
    for group in GROUPS:
        for cell in group():
            cells[cell.name] = measured(cell)
            torch.cuda.empty_cache()
    found = {"date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
             "device": torch.cuda.get_device_name(), "torch": torch.__version__,
             "method": f"median of {ROUNDS} rounds in turns, in microseconds", "cells": cells}
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(any("wrong" in cell for cell in cells.values()))


if __name__ == "__main__":
    main()
