"""What people write beside the works of the scan: does any shape fall off a cliff?

    python benchmarks/everyday.py [--only PATTERN …] [--output NAME.json] [--list]

Every text of scans/everyday.py on many rows of several lengths, on a few, and along axis 0. A share
is the time that plain kernels take to read and write as many bytes, in the same run, by ours; the
cache is flushed before each call, and every result is checked against float64. Prints a line a
text, a share a shape. Needs a GPU, CuPy and torch. Exit status 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

from streams.runs import described_run
from streams.supervise import Here, compile_ahead, reports

REPETITIONS = 9
TOLERANCE = {"float32": 1e-3, "bfloat16": 2e-2}  # beside 1 or the result


class Bench:
    """Measures cells on the current device."""

    def __init__(self) -> None:
        import torch
        from scans.floor import measured
        from streams.limits import Limits
        from streams.timing import Timer

        torch.manual_seed(1)
        torch.set_grad_enabled(False)
        self._timer = Timer(REPETITIONS)
        self._timer.warm_up()
        self._floor = measured(Limits(self._timer))

    def measure(self, cell: Any) -> dict[str, Any]:
        """A record of the cell."""
        from scans.everyday import OURS, error_of, inputs_of

        inputs = inputs_of(cell, "cuda")
        ours = partial(OURS[cell.work], *inputs, axis=cell.axis)
        found = ours()
        error = error_of(cell, inputs, found)
        read, written = _bytes(inputs), _bytes(found if isinstance(found, tuple) else (found,))
        us, floor = self._timer.turns({"": ours})[""], self._floor.us(read, written)
        made: Any = OURS[cell.work].prepare(inputs, {}, axis=cell.axis).executable
        return {"key": cell.key, "work": cell.work, "us": us, "floor_us": floor,
                "share": floor / us, "error": error, "schedule": made.schedule.describe(),
                "status": "ok" if error <= TOLERANCE[cell.dtype] else "WRONG"}


def _bytes(arrays: Any) -> int:
    return sum(a.numel() * a.element_size() for a in arrays)


def compile_one(cell: Any) -> None:
    """Bring the cell's kernel into the cache on disk."""
    from scans.everyday import OURS, inputs_of

    call = OURS[cell.work].prepare(inputs_of(cell, "cuda"), {}, axis=cell.axis)
    assert call.executable is not None


def report(found: list[dict[str, Any]]) -> str:
    """A line a text, a share a shape; under it what the shapes are, and what went wrong."""
    lines: dict[str, list[str]] = defaultdict(list)
    for r in found:
        share = f"{100 * r['share']:4.0f}" if "share" in r else " ERR"
        lines[r["work"]].append(share)
    shapes = dict.fromkeys(r["key"].split(": ")[1] for r in found)
    bad = [f"{r['status']} {r['key']} {r.get('message', r.get('error'))}"
           for r in found if r["status"] != "ok"]
    return "\n".join([*(f"{name:22s}{' '.join(shares)}" for name, shares in lines.items()),
                      "shapes: " + "; ".join(shapes), *bad])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="cells whose key contains one of these")
    parser.add_argument("--jobs", type=int, default=min(14, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=60, help="longest wait for one cell")
    parser.add_argument("--list", action="store_true", help="show the cells and stop")
    parser.add_argument("--commit", help="what is measured, where git cannot say it")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    from scans.everyday import cells

    asked = [c for c in cells() if not args.only or any(p in c.key for p in args.only)]
    if args.list:
        print("\n".join(c.key for c in asked))
        return 0
    for message in compile_ahead(asked, compile_one, args.jobs):
        print(f"compiling ahead failed: {message}", file=sys.stderr)
    run = described_run(args.commit, repetitions=REPETITIONS)
    found: list[dict[str, Any]] = []
    for now in reports(asked, lambda: Here(Bench().measure), args.seconds, run, args.output):
        found = now["cells"]
    print(report(found))
    return int(any(r["status"] != "ok" for r in found))


if __name__ == "__main__":
    sys.exit(main())
