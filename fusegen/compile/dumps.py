"""FUSEGEN_DUMP=<pass>|all: results of passes on stderr, every pass run afresh."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import Any

from fusegen.ir.derivation import Derivation
from fusegen.ir.errors import ArgumentError

DUMPED = os.environ.get("FUSEGEN_DUMP", "")


def check_wish(passes: Collection[str]) -> None:
    """Raises ArgumentError where the wish is none of the passes."""
    if DUMPED and DUMPED != "all" and DUMPED not in passes:
        raise ArgumentError(
            f"FUSEGEN_DUMP={DUMPED} names no pass",
            why=f"Passes are {', '.join(passes)}, or all.",
        )


def wants_dump(name: str) -> bool:
    """Is the pass to be shown?"""
    return DUMPED in (name, "all")


def dump(name: str, value: Any) -> None:
    from pprint import pformat

    shown = value if isinstance(value, str) else None
    if shown is None:
        shown = str(value) if isinstance(value, Derivation) else pformat(value, width=110)
    print(f"==== after {name} ====\n{shown}", file=sys.stderr)
