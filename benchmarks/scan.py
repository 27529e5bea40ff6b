"""Row reductions of shapes drawn at random, beside what moving their bytes takes.

    python benchmarks/scan.py --seed 7 [--cells 26] [--only softmax topk …] [--output NAME.json]
        [--peers torch,compile] [--regret] [--warm]
    python benchmarks/scan.py --seed 7 --target cpu [--threads N] …

Columns, bytes, K, types and layouts come from the seed (scans/draws.py). A share is the time that
plain kernels take to read and write as many bytes, in the same run, by ours; beside it stands what
the GPU takes to issue the fewest instructions of elements, and the share of the larger limit.
The cache is flushed before each call, or with --warm all lies in it; ours and peers take turns.
Every result is checked against float64. Prints each work's distribution, its worst cells with the
schedule that was chosen, and what peers take; --regret measures other schedules of every cell, too:
by how much the fastest of them is faster.
On processors all take turns, results of ours beside the plain loops are written where others lay
before, and a figure is the fastest of several (scans/hosts.py); there is one schedule a cell.
Exit status 1 if a result is wrong or a cell fails.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

from scans.draws import WORKS, Cell, drawn, most_bytes
from streams.runs import described_run
from streams.supervise import Here, compile_ahead, compile_others, reports

REPETITIONS, WORST = 9, 10
PEERS = ("torch", "compile")


class Bench:
    """Measures cells on the current device."""

    def __init__(self, seed: int, peers: tuple[str, ...], regret: bool, warm: bool) -> None:
        import torch
        from scans.floor import measured
        from streams.limits import Limits
        from streams.timing import Timer

        torch.manual_seed(seed)
        torch.set_grad_enabled(False)
        self._timer, self._peers, self._regret = Timer(REPETITIONS, flush=not warm), peers, regret
        self._timer.warm_up()
        self._floor = measured(Limits(self._timer))

    def measure(self, cell: Cell) -> dict[str, Any]:
        """A record of the cell."""
        from scans.texts import OURS, TOLERANCE, error_of, inputs_of, named, peer_of

        from fusegen.backend.cuda.schedule.instructions import issue_seconds

        inputs, constants = inputs_of(cell, "cuda"), named(cell)
        ours = partial(OURS[cell.work], *inputs, **constants)
        error = error_of(cell, inputs, ours())
        found = {name: peer_of(name, cell, inputs) for name in self._peers}
        peers = {name: call for name, call in found.items() if call is not None}
        us, floor = self._timer.turns({"": ours, **peers}), self._floor.us(*cell.moved)
        made: Any = OURS[cell.work].prepare(inputs, constants).executable
        issue = issue_seconds(made.program, made.schedule, cell.rows * cell.cols)
        record = {
            "key": cell.key, "work": cell.work, "us": us[""], "floor_us": floor,
            "share": floor / us[""], "issue_us": None if issue is None else issue * 1e6,
            "error": error, "status": "ok" if error <= TOLERANCE[cell.dtype] else "WRONG",
            "schedule": made.schedule.describe(),
            "peers": {name: us.get(name) for name in self._peers},
        }
        if self._regret:
            tuned = OURS[cell.work].compile(*inputs, **constants, tune=True)
            both = self._timer.turns({"": ours, "best": partial(tuned, *inputs)})
            record |= {"regret": max(0.0, both[""] / both["best"] - 1),
                       "best": tuned.schedule.describe()}
        return record


def compile_one(cell: Cell, device: str, peers: tuple[str, ...], regret: bool) -> None:
    """Bring the cell's kernels, those of other schedules if they are measured, and torch.compile's
    of a peer on GPUs into caches on disk."""
    import torch
    from scans.texts import OURS, memory_of, named, peer_of

    inputs, constants = memory_of(cell, device), named(cell)
    call = OURS[cell.work].prepare(inputs, constants)
    assert call.executable is not None
    if regret:
        compile_others(call)
    if "compile" in peers and device == "cuda":
        torch._inductor.config.compile_threads = 1  # this process is one of many
        with torch.no_grad():
            peer_of("compile", cell, inputs)


# ---- what is printed ----


def summary(name: str, found: list[dict[str, Any]]) -> str:
    """A work's distribution: shares, regret, and where peers are faster."""
    shares = sorted(r["share"] for r in found)
    tenth = shares[len(shares) // 10]
    parts = [f"{name:17s}{len(found):4d} cells   median {100 * statistics.median(shares):5.1f} %"
             f"   a tenth under {100 * tenth:5.1f} %   worst {100 * shares[0]:5.1f} %"]
    held = [held_share(r) for r in found]
    if held != [r["share"] for r in found]:
        parts.append(f"of bytes and issue: median {100 * statistics.median(held):.1f} %, "
                     f"worst {100 * min(held):.1f} %")
    if "regret" in found[0]:
        regrets = [r["regret"] for r in found]
        parts.append(f"regret {100 * statistics.median(regrets):.1f} %, "
                     f"at most {100 * max(regrets):.1f} %")
    for peer in found[0]["peers"]:
        ratios = [r["peers"][peer] / r.get("call_us", r["us"]) for r in found
                  if r["peers"][peer] is not None]
        if ratios:
            parts.append(f"{peer} {statistics.median(ratios):.2f} x our time, faster in "
                         f"{sum(x < 1 / 1.03 for x in ratios)} (least {min(ratios):.2f})")
    return "   ".join(parts)


def held_share(record: dict[str, Any]) -> float:
    """Of the larger limit: moving the bytes, or issuing the instructions that elements take."""
    limit: float = max(record["floor_us"], record.get("issue_us") or 0.0)
    return limit / float(record["us"])


def worst_of(found: list[dict[str, Any]]) -> str:
    """The cells with the smallest shares."""
    lines = []
    for r in sorted(found, key=lambda r: r["share"])[:WORST]:
        better = f"   best: {r['best']}" if r.get("regret", 0) > 0.05 else ""
        issue = f" (issue {r['issue_us']:.1f})" if r.get("issue_us") else ""
        peers = ", ".join(f"{n} {us:.0f}" for n, us in r["peers"].items() if us is not None)
        lines.append(f"    {100 * r['share']:5.1f} %  {r['key']:55s}{r['us']:8.1f} us of "
                     f"{r['floor_us']:7.1f}{issue}   {peers}   {r['schedule']}{better}")
    return "\n".join(lines)


def report(records_of: list[dict[str, Any]]) -> str:
    done = [r for r in records_of if "share" in r]
    parts = []
    for name in WORKS:
        found = [r for r in done if r["work"] == name]
        if found:
            parts += [summary(name, found), worst_of(found)]
    bad = [f"{r['status']} {r['key']} {r.get('message', r.get('error'))}"
           for r in records_of if r["status"] != "ok"]
    return "\n".join([*parts, *bad])


# ---- the command ----


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--target", default="gpu", choices=["gpu", "cpu"])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="on processors")
    parser.add_argument("--cells", type=int, default=26, help="of each work")
    parser.add_argument("--only", nargs="*", default=[*WORKS], choices=[*WORKS])
    parser.add_argument("--peers", default="torch", help=f"of {','.join(PEERS)}")
    parser.add_argument("--regret", action="store_true", help="measure other schedules, too")
    parser.add_argument("--warm", action="store_true", help="arrays that lie in the cache")
    parser.add_argument("--jobs", type=int, default=min(14, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=60, help="longest wait for one cell")
    parser.add_argument("--list", action="store_true", help="show the cells and stop")
    parser.add_argument("--commit", help="what is measured, where git cannot say it")
    parser.add_argument("--output", type=Path)
    found = parser.parse_args()
    found.peers = tuple(p for p in found.peers.split(",") if p)
    if unknown := {*found.peers} - {*PEERS}:
        parser.error(f"no such peers: {', '.join(sorted(unknown))}; known: {', '.join(PEERS)}")
    if found.target == "cpu" and found.regret:
        parser.error("--regret: on processors there is one schedule a cell")
    return found


def cells_of(args: argparse.Namespace) -> list[Cell]:
    return drawn(args.seed, args.cells, args.only, most_bytes(args.target, args.warm))


def bench(args: argparse.Namespace) -> Any:
    """What measures in the process that is made for it."""
    if args.target == "gpu":
        return Here(Bench(args.seed, args.peers, args.regret, args.warm).measure)
    from scans.hosts import HostBench, settle

    settle(args.seed, args.threads)
    return HostBench(args.peers, args.warm, args.threads)


def main() -> int:
    args = asked()
    cells = cells_of(args)
    if args.list:
        print("\n".join(c.key for c in cells))
        return 0
    device = {"gpu": "cuda", "cpu": "cpu"}[args.target]
    making = partial(compile_one, device=device, peers=args.peers, regret=args.regret)
    for message in compile_ahead(cells, making, args.jobs):
        print(f"compiling ahead failed: {message}", file=sys.stderr)
    run = described_run(args.commit, seed=args.seed, cells=args.cells, peers=args.peers,
                        warm=args.warm, target=args.target, repetitions=REPETITIONS)
    found: list[dict[str, Any]] = []
    for now in reports(cells, lambda: bench(args), args.seconds, run, args.output):
        found = now["cells"]
        alike = [r for r in found if r["work"] == found[-1]["work"]]
        if len(alike) == args.cells:
            print(report(alike), flush=True)
    return int(any(r["status"] != "ok" for r in found))


if __name__ == "__main__":
    sys.exit(main())
