"""Draws saved results of scan.py, one point a cell: a panel for each work.

    python benchmarks/scan_plots.py FILE.json [FILE.json …] [--name scan] [--folder FOLDER]

Of a work that several commits were measured with, the cells of the latest are drawn.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from scans.plots import draw


def latest(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reports, each with those cells alone whose work no later commit was measured with."""
    by_date = sorted(reports, key=lambda r: str(r["runs"][-1]["date"]))
    commits = {c["work"]: r["runs"][-1]["commit"] for r in by_date for c in r["cells"]}
    return [{**r, "cells": [c for c in r["cells"] if commits[c["work"]] == r["runs"][-1]["commit"]]}
            for r in reports]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--name", default="scan", help="of the picture")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results" / "plots")
    args = parser.parse_args()
    reports = [json.loads(f.read_text(encoding="utf-8")) for f in args.files]
    for path in draw(latest(reports), args.name, args.folder):
        print(path)


if __name__ == "__main__":
    main()
