"""Long lists as serving asks for them: K of 512 to 2048 of long, often ragged rows, on one GPU.

    python benchmarks/topk_serving.py [--output FILE.json] [--only PATTERN …] [--repetitions N]
                                      [--jobs N] [--seconds S] [--list]

Rows of sparse attention's indexer (8K to 1M scores, every row of its own length) and vocabularies,
normal values and such as are hard: clustered, constant, ties at the K-th, sorted. Beside torch.topk
of whole rows, FlashInfer's where it is installed, and a plain read of the bytes that count. The
cache is flushed before each call. Every list is checked against a stable sort of some rows, ties
included. Exit status 1 if a list is wrong or a cell failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from streams.runs import described_run
from streams.supervise import Here, compile_ahead, reports

import fusegen as fg

HARD = ("clustered", "constant", "ties", "ascending", "descending")
_CHECKED = 1 << 22  # elements
_LEAST_SHARE = 0.5  # of a ragged row that is there


@fg.pipeline
def indexer(x, lengths: fg.PerRow, *, k=2048):  # type: ignore[no-untyped-def]
    return fg.topk(fg.ragged(x, lengths), k, index_dtype="int32")


@dataclass(frozen=True, slots=True)
class Served:
    """K of so many rows."""

    rows: int
    cols: int
    k: int
    dtype: str = "float32"
    ragged: bool = False
    values: str = "normal"

    @property
    def key(self) -> str:
        kind = f"{'ragged ' if self.ragged else ''}{self.values}"
        return f"{self.rows}x{self.cols} K {self.k} {self.dtype} {kind}"


def cells() -> list[Served]:
    indexed = [Served(rows, cols, k, "float32", ragged)
               for k in (2048, 1024, 512) for cols in (8192, 32_768, 131_072, 1_048_576)
               for rows in (1, 8, 64, 256) for ragged in (False, True)
               if rows * cols <= 1 << 26 and (k == 2048 or rows in (8, 64))]
    narrow = [Served(rows, cols, 2048, "bfloat16") for cols in (65_536, 131_072)
              for rows in (8, 64, 256)]
    vocabularies = [Served(rows, cols, k, dtype) for rows in (1, 64, 256) for cols, k, dtype in
                    ((151_936, 64, "bfloat16"), (129_280, 1024, "float32"))]
    hard = [Served(64, 131_072, 2048, values=v) for v in HARD]
    return [*indexed, *narrow, *vocabularies, *hard]


# ---- on the device ----


def inputs_of(cell: Served, device: str) -> tuple[Any, ...]:
    import torch

    x = torch.randn(cell.rows, cell.cols, device=device)
    steps = torch.arange(cell.cols, device=device, dtype=torch.float32)
    made: dict[str, Callable[[], Any]] = {
        "normal": lambda: x, "clustered": lambda: 1 + torch.rand_like(x) * 2**-10,
        "constant": lambda: torch.full_like(x, 1.5), "ties": lambda: torch.round(x * 2) / 2,
        "ascending": lambda: (steps / cell.cols).expand(cell.rows, -1).contiguous(),
        "descending": lambda: (-steps / cell.cols).expand(cell.rows, -1).contiguous(),
    }
    found = made[cell.values]().to(getattr(torch, cell.dtype))
    if not cell.ragged:
        return (found,)
    least = max(cell.k, int(cell.cols * _LEAST_SHARE))
    return found, torch.randint(least, cell.cols + 1, (cell.rows,), device=device).float()


def ours_of(cell: Served) -> tuple[fg.Pipeline, dict[str, Any]]:
    if cell.ragged:
        return indexer, {"k": cell.k}
    return fg.library.topk, {"k": cell.k, "index_dtype": "int32"}


def peers() -> dict[str, Callable[[Any, int], Any]]:
    """What takes whole rows."""
    import torch

    found: dict[str, Callable[[Any, int], Any]] = {"torch": torch.topk}
    if importlib.util.find_spec("flashinfer"):
        import flashinfer

        found["flashinfer"] = flashinfer.top_k
    return found


def is_right(cell: Served, inputs: tuple[Any, ...], got: Any) -> bool:
    """Are the columns of some rows those of a stable sort, and the values theirs?"""
    import torch

    step = max(1, cell.rows * cell.cols // _CHECKED)
    some = inputs[0][::step].float()
    if cell.ragged:
        columns = torch.arange(cell.cols, device=some.device)
        some = some.masked_fill(columns >= inputs[1][::step, None], -torch.inf)
    values, order = torch.sort(some, dim=-1, descending=True, stable=True)
    mine = [part[::step] for part in got]
    return bool((mine[1] == order[:, : cell.k]).all() and (mine[0] == values[:, : cell.k]).all())


class Bench:
    """Measures cells on the current device."""

    def __init__(self, repetitions: int) -> None:
        from streams.limits import Limits
        from streams.timing import Timer

        self._timer = Timer(repetitions)
        self._timer.warm_up()
        self._limits, self._peers = Limits(self._timer), peers()

    def measure(self, cell: Served) -> dict[str, Any]:
        """A record of the cell."""
        inputs = inputs_of(cell, "cuda")
        text, constants = ours_of(cell)
        ours = partial(text, *inputs, **constants)
        right = is_right(cell, inputs, ours())
        n_bytes = inputs[0].numel() * inputs[0].element_size()
        if cell.ragged:
            n_bytes = int(inputs[1].sum()) * inputs[0].element_size()
        us = self._timer.microseconds([ours])
        made: Any = text.prepare(inputs, constants).executable
        return {
            "key": cell.key, "us": us, "read_us": self._limits.read(max(n_bytes, 1 << 14)).us,
            "status": "ok" if right else "WRONG", "schedule": made.schedule.describe(),
            "peers": {name: self._timer.microseconds([partial(peer, inputs[0], cell.k)])
                      for name, peer in self._peers.items()},
        }


def compile_one(cell: Served) -> None:
    text, constants = ours_of(cell)
    assert text.prepare(inputs_of(cell, "cuda"), constants).executable is not None


# ---- the command ----


def line(r: dict[str, Any]) -> str:
    others = "  ".join(f"{n} {us:.1f}" for n, us in r["peers"].items())
    return (f"{r['key']:52s}{r['us']:8.1f} us  read {r['read_us']:6.1f}  {others}  "
            f"{'' if r['status'] == 'ok' else r['status'] + ' '}{r['schedule']}")


def summary(found: list[dict[str, Any]]) -> str:
    done = [r for r in found if "us" in r]
    over = [r["us"] / r["read_us"] for r in done]
    ratios = [r["peers"]["torch"] / r["us"] for r in done]
    by_key = {r["key"]: r["us"] for r in done}
    hard = [by_key[c.key] / by_key[plain] for c in cells() if c.values != "normal"
            and c.key in by_key and (plain := Served(c.rows, c.cols, c.k, c.dtype).key) in by_key]
    return (f"{len(done)} cells: {statistics.median(over):.2f} x a read in the median, torch.topk "
            f"{statistics.median(ratios):.1f} x our time ({min(ratios):.1f} at least)"
            + (f", hard values {max(hard):.2f} x normal ones at worst" if hard else ""))


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="PATTERN")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=60, help="longest wait for one cell")
    parser.add_argument("--list", action="store_true", help="show the cells and stop")
    parser.add_argument("--commit", help="what is measured, where git cannot say it")
    return parser.parse_args()


def main() -> int:
    args = asked()
    wanted = [c for c in cells()
              if not args.only or any(p in c.key or fnmatch(c.key, p) for p in args.only)]
    if args.list:
        print("\n".join(c.key for c in wanted))
        return 0
    if args.jobs:
        for message in compile_ahead(wanted, compile_one, args.jobs):
            print(f"compiling ahead failed: {message}", file=sys.stderr)
    run = described_run(args.commit, repetitions=args.repetitions)
    found: list[dict[str, Any]] = []
    for now in reports(wanted, lambda: Here(Bench(args.repetitions).measure), args.seconds, run,
                       args.output):
        found = now["cells"]
        last = found[-1]
        print(line(last) if "us" in last else f"{last['key']} {last['message']}", flush=True)
    print(summary(found))
    return int(any(r["status"] != "ok" for r in found))


if __name__ == "__main__":
    sys.exit(main())
