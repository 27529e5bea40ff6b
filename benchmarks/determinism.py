"""What deterministic=True costs: few rows and many, each beside the default in the same run.

    python benchmarks/determinism.py [--output benchmarks/results/NAME.json] [--quick]

Times are medians with the L2 cache flushed and inputs rotated. Every cell also checks that its rows
have the same bits alone as among the others: with deterministic=True a difference is a failure
(status 1), without it a fact that is reported.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fusegen as fg

if TYPE_CHECKING:
    from streams.timing import Timer

WORKS = ("logsumexp", "softmax", "layer_norm")
COLUMNS = (1024, 4096, 25_000, 129_024, 1 << 20)  # whole vectors: rows are aligned
FEW = (1, 4, 16, 66)
MANY_BYTES = 1 << 29  # of the input
DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class Cell:
    work: str
    rows: int
    cols: int
    dtype: str
    few: bool


def cells(quick: bool) -> Iterator[Cell]:
    """Every combination; --quick: one column count, float32, two kinds of work."""
    for work in WORKS[:2] if quick else WORKS:
        for dtype in DTYPES[:1] if quick else DTYPES:
            for cols in COLUMNS[2:3] if quick else COLUMNS:
                size = 4 if dtype == "float32" else 2
                for rows in FEW:
                    yield Cell(work, rows, cols, dtype, True)
                yield Cell(work, MANY_BYTES // (cols * size), cols, dtype, False)


def summary(found: list[dict[str, Any]]) -> str:
    """Geometric mean and worst ratio, for few rows and for many."""
    lines = []
    for name, few in (("few rows", True), ("many rows", False)):
        here = [r for r in found if r["few"] == few]
        if not here:
            continue
        mean = math.exp(sum(math.log(r["ratio"]) for r in here) / len(here))
        worst = max(here, key=lambda r: r["ratio"])
        lines.append(f"{name}: {mean:.3f} times the default's time, at worst "
                     f"{worst['ratio']:.2f} ({worst['work']} {worst['rows']}x{worst['cols']} "
                     f"{worst['dtype']})")
    return "\n".join(lines)


def measure(timer: Timer, cell: Cell) -> dict[str, Any]:
    """Both choices on the same inputs."""
    import torch

    dtype = getattr(torch, cell.dtype)
    size = cell.rows * cell.cols * dtype.itemsize
    copies = max(2, min(4, (256 << 20) // size))
    inputs = [(torch.randn(cell.rows, cell.cols, device="cuda") * 3).to(dtype)
              for _ in range(copies)]
    pipeline = getattr(fg.library, cell.work)
    found: dict[str, Any] = {**vars(cell)}
    for name, deterministic in (("default", False), ("deterministic", True)):
        compiled = pipeline.compile(inputs[0], deterministic=deterministic)
        out = compiled(inputs[0])
        found[f"{name}_us"] = timer.microseconds([partial(compiled, x, out=out) for x in inputs])
        found[f"{name}_bits"] = same_bits(compiled, inputs[0])
        found[f"{name}_schedule"] = compiled.schedule.describe()
    found["ratio"] = found["deterministic_us"] / found["default_us"]
    return found


def same_bits(compiled: Any, x: Any) -> bool:
    """Have the first, the last and a middle row the same bits alone, and in a group of three?"""
    import torch

    every, n = compiled(x), x.shape[0]
    parts = {(i, i + 1) for i in (0, n // 2, n - 1)} | {(0, min(3, n)), (max(0, n - 3), n)}
    bits = {4: torch.int32, 2: torch.int16}[every.dtype.itemsize]
    return all(
        torch.equal(compiled(x[i:j].clone()).view(bits), every[i:j].view(bits)) for i, j in parts
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--quick", action="store_true", help="25,000 columns of float32 only")
    args = parser.parse_args()
    import cupy
    import torch
    from streams.timing import Timer

    torch.manual_seed(0)
    timer = Timer(11 if args.quick else 21)
    timer.warm_up()
    found = []
    for cell in cells(args.quick):
        r = measure(timer, cell)
        found.append(r)
        print(f"{cell.work:11s}{cell.rows:8d}x{cell.cols:<9d}{cell.dtype:9s}"
              f"{r['default_us']:9.1f} us  deterministic {r['deterministic_us']:9.1f} us "
              f"({r['ratio']:.2f}x)  bits {'same' if r['deterministic_bits'] else 'DIFFER'}"
              f"{'' if r['default_bits'] else ' (differ by default)'}", flush=True)
    print(summary(found))
    report = {
        "date": datetime.date.today().isoformat(), "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__, "cupy": cupy.__version__, "fusegen": fg.__version__,
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "method": "median, L2 flushed, inputs rotated; ratio = deterministic / default",
        "results": found,
    }
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(r["deterministic_bits"] for r in found) else 1


if __name__ == "__main__":
    sys.exit(main())
