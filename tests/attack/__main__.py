"""python -m tests.attack --seed 0 --seconds 60 --engine cpu|emulated|gpu --family rows …"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest has it

from .draws import FAMILIES, attack
from .engines import ENGINES, machine
from .report import Report, many, one


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--engine", choices=[*ENGINES], default="cpu")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="all by default")
    parser.add_argument("--first", type=int, default=0, help="the first attack's number")
    parser.add_argument("--one", type=int, metavar="NUMBER", help="that attack of the family alone")
    parser.add_argument("--checked", action="store_true", help="the emulator looks for races, too")
    args = parser.parse_args()
    families, report = tuple(args.family or FAMILIES), Report()
    with machine(args.engine, checked=args.checked) as engine:
        if args.one is not None:
            print(attack(args.seed, args.one, families[0], engine.most).words)
            print(one(report, engine, args.seed, args.one, families[0]) or "as it should be")
        else:
            many(report, engine, args.seed, itertools.count(args.first), families, args.seconds)
    print(report)
    return bool(report.findings)


if __name__ == "__main__":
    sys.exit(main())
