"""softmax_topk and topk alone on one GPU: times beside a plain read of the same bytes, and torch.

    python benchmarks/topk_bench.py [--output FILE.json] [--plots FOLDER] [--only PATTERN …]
                                    [--peers] [--variants N] [--repetitions N] [--jobs N]
                                    [--seconds S] [--list]

Every result is checked in the same run: the elements of all rows against torch.topk, columns and
values of some rows against a stable sort in float64. At the end stand, for each group, the worst
ratio to torch and that of hard rows to random ones. Exit status 1 if a result is wrong or a cell
failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from streams import list_summary
from streams.lists import ListCell, chosen_lists
from streams.runs import described_run, save
from streams.supervise import Here, compile_ahead, records


def _compile(variants: int, cell: ListCell) -> None:
    from streams.measure_lists import compile_only

    compile_only(cell, variants)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="save all figures as JSON")
    parser.add_argument("--plots", type=Path, metavar="FOLDER",
                        help="draw the paper's figures 3 and 4 and the sweep over K there")
    parser.add_argument("--commit", help="what is measured, where git cannot say it")
    parser.add_argument("--only", nargs="+", default=[], metavar="PATTERN",
                        help="cells whose key contains or matches one: 'alone*', '*k=5'")
    parser.add_argument("--peers", action="store_true", help="time torch as well")
    parser.add_argument("--variants", type=int, default=0, metavar="N",
                        help="time the N schedules of each cell that are cheapest by price")
    parser.add_argument("--repetitions", type=int, default=15, help="of a call")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1),
                        help="processes that compile kernels ahead; 0: none")
    parser.add_argument("--seconds", type=float, default=90, help="longest wait for one cell")
    parser.add_argument("--seed", type=int, help="of the random inputs; default: a fresh one")
    parser.add_argument("--list", action="store_true", help="show the cells' keys and stop")
    found = parser.parse_args()
    if found.plots and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plots needs matplotlib")
    return found


def _measured(args: argparse.Namespace, wanted: list[ListCell]) -> dict[str, Any]:
    """The report of a run; its lines are printed as they come."""
    seed = secrets.randbelow(2**31) if args.seed is None else args.seed
    run = described_run(args.commit, repetitions=args.repetitions, seed=seed, only=args.only)
    report: dict[str, Any] = {"runs": [run], "environment": {}, "cells": []}

    def make() -> Here:
        from streams.measure_lists import ListBench

        return Here(ListBench(args.repetitions, args.peers, args.variants, seed).measure)

    for kind, found in records(wanted, make, args.seconds):
        if kind == "environment":
            report["environment"] = found
            print(", ".join(v if k == "gpu" else f"{k} {v}" for k, v in found.items()))
            continue
        report["cells"].append(found)
        print(list_summary.line(found), flush=True)
        save(args.output, report)  # after every cell: what was measured is not lost
    return report


def main() -> int:
    args = _arguments()
    try:
        wanted = chosen_lists(args.only)
    except ValueError as error:
        print(f"topk_bench: {error}", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(c.key for c in wanted))
        return 0
    if args.jobs:
        kernels = list({replace(c, group="", data="random"): c for c in wanted}.values())
        compiling = partial(_compile, args.variants)
        for message in compile_ahead(kernels, compiling, min(args.jobs, len(kernels))):
            print(f"compiling ahead failed: {message}", file=sys.stderr)
    report = _measured(args, wanted)
    cells = report["cells"]
    print("\n".join(["", *list_summary.ratios(cells), "", *list_summary.summary(cells)]))
    if args.plots:
        from streams.list_plots import draw

        draw(report, args.plots)
    return int(any(r["status"] != "ok" for r in cells))


if __name__ == "__main__":
    sys.exit(main())
