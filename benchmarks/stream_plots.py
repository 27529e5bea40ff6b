"""Draws the plots of a saved result of stream_bench.py again.

    python benchmarks/stream_plots.py FILE.json [--folder benchmarks/results/plots]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from streams.plots import draw


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results" / "plots")
    args = parser.parse_args()
    for path in draw(json.loads(args.file.read_text(encoding="utf-8")), args.folder):
        print(path)


if __name__ == "__main__":
    main()
