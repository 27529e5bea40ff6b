"""Options that say how a pipeline is executed."""

from __future__ import annotations

import argparse

from fusegen.ir.forms import FORMS


def add_choices(parser: argparse.ArgumentParser) -> None:
    """--form, --chunk and --deterministic."""
    parser.add_argument("--form", choices=FORMS, default="auto", help="how it is executed")
    parser.add_argument(
        "--chunk",
        type=int,
        metavar="N",
        help="elements folded before two states merge; 1: one at a time",
    )
    parser.add_argument("--deterministic", action="store_true",
                        help="bits of a row that do not depend on the number of rows")
