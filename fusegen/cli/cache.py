"""fusegen cache: what is kept on disk, checked and made less."""

from __future__ import annotations

import argparse
import time

from fusegen.backend.cache.folder import Folder, opened
from fusegen.backend.cache.upkeep import entries, prune
from fusegen.backend.settings import cache_bytes, number_in
from fusegen.ir.errors import ArgumentError

_ACTIONS = ("list", "prune", "verify")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=_ACTIONS, metavar="ACTION",
                        help="list: what is kept.  prune: remove damaged and stale files, and what "
                             "exceeds the limit.  verify: read and check every entry")
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument("--mb", type=_megabytes, metavar="N",
                        help="prune: the limit; default $FUSEGEN_CACHE_MB, or 1024")
    limits.add_argument("--all", action="store_true", help="prune: remove every entry")


def _megabytes(text: str) -> float:
    try:
        return number_in(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number ≥ 0") from None


def run(args: argparse.Namespace) -> int:
    """The exit status: 1 where `verify` found damage. Raises ArgumentError, BackendError,
    OSError."""
    if args.action != "prune" and (args.all or args.mb is not None):
        raise ArgumentError(f"cache {args.action} has no limit", fix="--mb and --all are prune's.")
    with opened() as folder:
        match args.action:
            case "list":
                return _list(folder)
            case "verify":
                return _verify(folder)
            case _:
                return _prune(folder, args)


def _list(folder: Folder) -> int:
    found = entries(folder)
    for e in found:
        print(f"{e.held.n_bytes / 1e3:9.1f} kB  {_age(e.held.used):>9}  {e.label or 'damaged'}")
    total = sum(e.held.n_bytes for e in found)
    print(f"{folder.path}: {len(found)} entries, {total / 1e6:.1f} MB of {cache_bytes() / 1e6:g}")
    return 0


def _age(used: float) -> str:
    seconds = max(0.0, time.time() - used)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now"


def _verify(folder: Folder) -> int:
    found = entries(folder)
    damaged = [e for e in found if not e.label]
    for e in damaged:
        print(f"damaged, or of an earlier version: {folder.path / e.held.name}")
    print(f"{len(found) - len(damaged)} of {len(found)} entries are sound")
    if damaged:
        print("What is damaged is never used, but made again; fusegen cache prune removes it.")
    return 1 if damaged else 0


def _prune(folder: Folder, args: argparse.Namespace) -> int:
    limit = 0.0 if args.all else cache_bytes() if args.mb is None else args.mb * 1e6
    gone = [e.held for e in entries(folder) if not e.label and folder.remove(e.held.name)]
    gone += prune(folder, limit)
    print(f"{len(gone)} files removed, {sum(g.n_bytes for g in gone) / 1e6:.1f} MB")
    return 0
