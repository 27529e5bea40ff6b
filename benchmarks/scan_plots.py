"""Draws saved results of scan.py, one point a cell: a panel for each work.

    python benchmarks/scan_plots.py FILE.json [FILE.json …] [--name scan] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from scans.plots import draw


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--name", default="scan", help="of the picture")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results" / "plots")
    args = parser.parse_args()
    reports = [json.loads(f.read_text(encoding="utf-8")) for f in args.files]
    for path in draw(reports, args.name, args.folder):
        print(path)


if __name__ == "__main__":
    main()
