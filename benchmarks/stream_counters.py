"""Counts the memory accesses of fusegen's kernels with ncu, and holds them to their plans.

    python benchmarks/stream_counters.py [--output FILE.json]

Needs a GPU, CuPy, and Nsight Compute's ncu with the right to read counters.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from streams.counters import CASES, launch_all, run_and_print


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument("--child", type=Path, metavar="PLANS", help="what ncu runs: the cases")
    args = parser.parse_args()
    if args.child is not None:
        launch_all(CASES, args.child)
        return 0
    return run_and_print(args.output)


if __name__ == "__main__":
    sys.exit(main())
