"""Row reductions of fusegen on one GPU: a table of times beside the memory limits and peers.

    python benchmarks/stream_bench.py [--output FILE.json] [--plots FOLDER] [--only PATTERN …]
                                      [--quick] [--peers torch,compile,liger,quack] [--counters]
    python benchmarks/stream_bench.py --merge A.json B.json --output FILE.json

Every result is checked whole against float64 in the same run. Exit status 1 if one is wrong or a
cell failed. benchmarks/README.md says what is measured and how.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from streams import summary
from streams.cells import Cell, cells, chosen
from streams.runs import described_run, save
from streams.supervise import Here, compile_ahead, records

PEERS = ("torch", "compile", "liger", "quack")
FULL, QUICK = 21, 7
"""Repetitions of a call."""


def _compile(cell: Cell) -> None:
    from streams.measure import compile_only

    compile_only(cell)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="save all figures as JSON")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw SVG and PNG there")
    parser.add_argument("--only", nargs="+", default=[], metavar="PATTERN",
                        help="cells whose key contains or matches one: 'full rows', '*bfloat16'")
    parser.add_argument("--quick", action="store_true", help="a few cells per group, 7 repetitions")
    parser.add_argument("--peers", default="torch", help=f"of {', '.join(PEERS)}; '' for none")
    parser.add_argument("--counters", action="store_true", help="then count accesses with ncu")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1),
                        help="processes that compile kernels ahead; 0: none")
    parser.add_argument("--seconds", type=float, default=90, help="longest wait for one cell")
    parser.add_argument("--seed", type=int, help="of the random inputs; default: a fresh one")
    parser.add_argument("--commit", help="what is measured, where git cannot say it")
    parser.add_argument("--list", action="store_true", help="show the cells' keys and stop")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="JSON",
                        help="measure nothing: print and save several results as one")
    found = parser.parse_args()
    found.peers = tuple(p for p in found.peers.split(",") if p)
    for peer in found.peers:
        if peer not in PEERS:
            parser.error(f"unknown peer {peer!r}; peers are {', '.join(PEERS)}")
    if found.plots and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plots needs matplotlib")
    return found


def _measured(args: argparse.Namespace, wanted: list[Cell]) -> dict[str, Any]:
    """The report of a run; its lines are printed as they come."""
    seed = secrets.randbelow(2**31) if args.seed is None else args.seed
    repetitions = QUICK if args.quick else FULL

    def make() -> Here:
        from streams.measure import Bench

        return Here(Bench(repetitions, args.peers, seed).measure)

    run = described_run(args.commit, peers=list(args.peers), repetitions=repetitions, seed=seed,
                        only=args.only)
    report: dict[str, Any] = {"runs": [run], "environment": {}, "cells": []}
    group = None
    for kind, found in records(wanted, make, args.seconds):
        if kind == "environment":
            report["environment"] = run["environment"] = found
            print(", ".join(v if k == "gpu" else f"{k} {v}" for k, v in found.items()))
            continue
        report["cells"].append(found)
        if found["group"] != group:
            group = found["group"]
            print(f"\n{group}\n{summary.HEAD}")
        print(summary.line(found), flush=True)
        save(args.output, report)  # after every cell: what was measured is not lost
    return report


def main() -> int:
    args = _arguments()
    if args.merge:
        report = summary.merged([json.loads(p.read_text(encoding="utf-8")) for p in args.merge])
        print(summary.table(report["cells"]))
    else:
        try:
            wanted = chosen(cells(), args.only, args.quick)
        except ValueError as error:
            print(f"stream_bench: {error}", file=sys.stderr)
            return 2
        if args.list:
            print("\n".join(c.key for c in wanted))
            return 0
        if args.jobs:
            for message in compile_ahead(wanted, _compile, min(args.jobs, len(wanted))):
                print(f"compiling ahead failed: {message}", file=sys.stderr)
        report = _measured(args, wanted)
    print(f"\n{summary.summary(report['cells'])}")
    save(args.output, report)
    if args.plots:
        from streams.plots import draw

        draw(report, args.plots)
    status = int(any(r["status"] != "ok" for r in report["cells"]))
    if args.counters:
        from streams.counters import run_and_print

        beside = args.output.with_suffix(".counters.json") if args.output else None
        status = max(status, run_and_print(beside))
    return status


if __name__ == "__main__":
    sys.exit(main())
