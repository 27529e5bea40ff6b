"""python -m tests.fuzz --count 2000 --seed 0 --output benchmarks/results/fuzz.json"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .campaign import judge_case, report, run_campaign
from .page import page, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many pipelines")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--output", type=Path, help="where the figures go, as JSON")
    parser.add_argument("--page", type=Path, help="where the figures go, as a page for people")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--one", type=int, metavar="SEED", help="judge one pipeline and show it")
    args = parser.parse_args()
    if args.one is not None:
        outcome = judge_case(args.one)
        print(outcome.text, *outcome.verdicts, outcome.failure, sep="\n")
        return
    found = report(run_campaign(args.seed, args.count, args.processes))
    print(table(found))
    if args.output:
        args.output.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if args.page:
        args.page.write_text(page(found))


if __name__ == "__main__":
    main()
