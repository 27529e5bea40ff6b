"""python -m tests.fuzz.floats --count 3000 --output benchmarks/results/float_fuzz.json"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .float_campaign import report, run_campaign
from .float_judge import judge_text
from .float_page import page, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.floats", description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="how many different texts")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kept", type=Path, help="a file of lines to go on from, one a text")
    parser.add_argument("--compiled", type=int, default=40, help="how many are compiled as well")
    parser.add_argument("--output", type=Path, help="where the figures go, as JSON")
    parser.add_argument("--page", type=Path, help="where the figures go, as a page for people")
    parser.add_argument("--one", type=int, metavar="SEED", help="judge one text and show it")
    args = parser.parse_args()
    if args.one is not None:
        outcome = judge_text(args.one)
        print(outcome.text, *outcome.verdicts, outcome.failure, sep="\n")
        return
    found = report(run_campaign(args.seed, args.count, processes=args.processes, kept=args.kept,
                                compiled=args.compiled))
    print(table(found))
    if args.output:
        args.output.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if args.page:
        args.page.write_text(page(found, args.seed))


if __name__ == "__main__":
    main()
