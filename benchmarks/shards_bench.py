"""A vocabulary sharded over ranks: softmax and its top K, in every way there is, in one run.

    torchrun --nproc-per-node 4 benchmarks/shards_bench.py [--output benchmarks/results/NAME.json]
    python benchmarks/shards_bench.py --ranks 2 --columns 8192 --rows 1 64      # gloo, no GPU

Microseconds, the median over calls, of the slowest rank. On GPUs a call is what lies between two
events of its stream, the host's gaps included; in a CUDA graph it is a replay; "host" is what a
call takes of its host alone, the device left behind. The peers are what people do today: gather the
logits, then one kernel, or torch. Ways take turns; each one's results are held against float64, in
memory that was NaN before, and in graphs of other values than were there when they were recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import fusegen as fg
from fusegen.backend.cpu.helper import HELPER

Call = Callable[[], Any]
P = fg.library.softmax_topk
TARGETS = {  # rows: (eager, CUDA graph, symmetric memory), on 4 GPUs of one host
    1: (75, 55, 30), 64: (85, 60, 35), 256: (90, 65, 40), 4096: (180, 170, 140),
}
_TURNS = 4  # that ways take
_POISON = 64 << 20  # floats


class Bench:
    """One rank's side."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.gpu = dist.get_backend() == "nccl"
        self.device = torch.device("cuda", self.rank) if self.gpu else torch.device("cpu")
        self.asked, self.dtype = asked, getattr(torch, asked.dtype)
        self.width = asked.columns // self.ranks

    def logits(self, rows: int, rank: int, seed: int = 0) -> torch.Tensor:
        """A shard that every rank can make."""
        source = torch.Generator(self.device).manual_seed(1000 * rows + rank + 7919 * seed)
        return torch.randn(rows, self.width, generator=source, device=self.device).to(self.dtype)

    def cell(self, rows: int) -> dict[str, Any]:
        mine = self.logits(rows, self.rank)
        ways, steps = self.ways(mine)
        refused = self.check(ways, mine, rows, {})
        parts = self.parts(mine)
        graphs = {f"{n}, graph": self.recorded(c) for n, c in {**parts, **ways}.items()
                  if self.gpu and "torch" not in n}
        calls = {**parts, **ways, **{n: g.replay for n, (g, _) in graphs.items()}}
        refused |= self.check({}, mine, rows, {n: g for n, g in graphs.items()
                                               if n.removesuffix(", graph") in ways})
        found = self.slowest(calls)
        host = {f"{n}, host": self.host(c) for n, c in ways.items() if n in steps}
        for step in steps.values():
            step.verify()
        plan = next(iter(steps.values())).plan(rows, self.asked.columns, dtype=self.asked.dtype,
                                               k=self.asked.k)
        return {"rows": rows, "bytes exchanged": plan.exchanged_bytes,
                "bytes of rows": plan.gathered_bytes, "plan": str(plan),
                "us": {**found, **host}, "wrong": sorted(refused)}

    def ways(self, mine: torch.Tensor) -> tuple[dict[str, Call], dict[str, Any]]:
        """From a shard to the results of whole rows; those of them that are steps."""
        k, rows = self.asked.k, len(mine)
        logits = mine.new_empty(self.ranks * rows, self.width)

        def gathered() -> torch.Tensor:
            dist.all_gather_into_tensor(logits, mine)
            return logits.view(self.ranks, rows, -1).movedim(0, 1).reshape(rows, -1)

        def by_torch() -> Any:
            return torch.topk(torch.softmax(gathered().float(), -1), k)

        asked = self.asked.exchanges if self.gpu else ["collective"]
        checks = "once" if self.gpu else "auto"
        steps = {n: fg.distributed.sharded(P, checks=checks, exchange=n) for n in asked}
        ways: dict[str, Call] = {n: (lambda s=s: s(mine, k=k)) for n, s in steps.items()}
        for name, call in [*ways.items()]:
            try:
                call(), call()
            except fg.ArgumentError as error:  # on every rank
                print(f"{name}: {error}", file=sys.stderr)
                del ways[name], steps[name]
        return {**ways, "gather, then fusegen": lambda: P(gathered(), k=k),
                "gather, then torch": by_torch}, steps

    def parts(self, mine: torch.Tensor) -> dict[str, Call]:
        """What a collective step is made of, and what it takes to do nothing."""
        k, at = self.asked.k, self.rank * self.width
        state = P.states(mine, at=at, k=k)
        packet = torch.as_tensor(state.array).reshape(-1)
        table = packet.new_empty(self.ranks * packet.numel())
        spans = [(r * self.width, (r + 1) * self.width) for r in range(self.ranks)]
        dist.all_gather_into_tensor(table, packet)
        met = table.view(self.ranks, *state.array.shape)
        whole = fg.merge_gathered(P, state, met, spans)
        one = table[:1]
        return {"nothing": one.zero_, "fold": lambda: P.states(mine, at=at, k=k),
                "exchange": lambda: dist.all_gather_into_tensor(table, packet),
                "merge": lambda: fg.merge_gathered(P, state, met, spans),
                "finish": lambda: P.finish(whole)}

    # ---- results ----

    def check(
        self, ways: dict[str, Call], mine: torch.Tensor, rows: int, graphs: dict[str, Any]
    ) -> set[str]:
        """Which ways are wrong, on any rank: against float64, of the first rows and the last."""
        some = torch.cat([torch.arange(min(rows, 16)), torch.arange(max(0, rows - 16), rows)])
        wrong = set()
        for seed, (name, way) in enumerate({**ways, **graphs}.items(), 1):
            mine.copy_(self.logits(rows, self.rank, seed))
            whole = torch.cat([self.logits(rows, r, seed)[some] for r in range(self.ranks)], -1)
            if self.gpu:
                torch.full((_POISON,), float("nan"), device=self.device)
            if name in graphs:
                graph, found = way
                graph.replay()
            else:
                found = way()
            bad = torch.tensor(float(not self.right(whole.double(), found, some)),
                               device=self.device)
            dist.all_reduce(bad, dist.ReduceOp.MAX)
            wrong |= {name} if bad else set()
        return wrong

    def right(self, whole: torch.Tensor, found: Any, some: torch.Tensor) -> bool:
        some = some.to(self.device)
        values, at = found[0][some].double(), found[1][some]
        if not bool(((at >= 0) & (at < whole.shape[1])).all()):
            return False
        shares = torch.softmax(whole, -1)
        want = torch.topk(shares, self.asked.k).values
        near = torch.allclose(values, want, rtol=max(1e-5, torch.finfo(found[0].dtype).eps), atol=0)
        distinct = at.sort(-1).values.diff(dim=-1).gt(0).all()
        return bool(near and distinct and torch.equal(whole.gather(-1, at),
                                                      torch.topk(whole, self.asked.k).values))

    # ---- times ----

    def slowest(self, calls: dict[str, Call]) -> dict[str, float]:
        """Microseconds on the slowest rank, of calls that take turns."""
        times: dict[str, list[float]] = {n: [] for n in calls}
        for _ in range(_TURNS):
            for name, call in calls.items():
                times[name] += self.seconds(call)
        mine = torch.tensor([statistics.median(t) * 1e6 for t in times.values()],
                            device=self.device)
        dist.all_reduce(mine, dist.ReduceOp.MAX)
        return {n: round(us, 1) for n, us in zip(calls, mine.tolist(), strict=True)}

    def recorded(self, call: Call) -> tuple[Any, Any]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = call()
        return graph, found

    def seconds(self, call: Call) -> list[float]:
        for _ in range(self.asked.warm_up):
            call()
        dist.barrier()
        if self.gpu:
            torch.cuda.synchronize()
        times = [self.on_gpu(call) if self.gpu else self.on_host(call)
                 for _ in range(self.asked.calls // _TURNS)]
        if self.gpu:
            torch.cuda.synchronize()
            times = [begin.elapsed_time(end) / 1e3 for begin, end in times]
        return times

    def on_gpu(self, call: Call) -> Any:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        return begin, end

    def on_host(self, call: Call) -> float:
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    def host(self, call: Call) -> float:
        """Microseconds until a few calls are queued, the least of several tries."""
        found = []
        for _ in range(20):
            if self.gpu:
                torch.cuda.synchronize()
            dist.barrier()
            if self.gpu:
                torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(5):
                call()
            found.append((time.perf_counter() - began) / 5 * 1e6)
        return round(min(found), 1)


def shown(cell: dict[str, Any]) -> str:
    us = cell["us"]
    lines = [f"{cell['rows']} rows: {cell['bytes exchanged']:,} bytes exchanged, of the rows "
             f"{cell['bytes of rows']:,}"]
    lines += [f"  {name:32} {value:10.1f} µs" for name, value in us.items()]
    targets = TARGETS.get(cell["rows"])
    if targets and "collective, graph" in us:
        lines.append("  targets: {} µs, in a graph {}, by symmetric memory {}".format(*targets))
    if cell["wrong"]:
        lines.append(f"  WRONG: {', '.join(cell['wrong'])}")
    return "\n".join(lines)


def run(asked: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    local, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    gpus = torch.cuda.is_available() and torch.cuda.device_count() >= ranks
    if gpus:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if gpus else "gloo", timeout=timedelta(seconds=asked.timeout),
                            device_id=torch.device("cuda", local) if gpus else None)
    HELPER.make()  # at once, and not once calls are many
    bench, cells = Bench(asked), []
    for rows in asked.rows:
        cells.append(bench.cell(rows))
        if bench.rank == 0:
            print(shown(cells[-1]), flush=True)
    if bench.rank == 0 and asked.output:
        device = torch.cuda.get_device_name() if gpus else platform.processor() or "CPU"
        asked.output.write_text(json.dumps({
            "date": datetime.now().isoformat(timespec="seconds"), "device": device,
            "ranks": bench.ranks, "backend": dist.get_backend(), "torch": torch.__version__,
            "calls served by": f"compiled code, {HELPER.how}" if HELPER.module else HELPER.why,
            "columns": asked.columns, "k": asked.k, "dtype": asked.dtype, "cells": cells,
        }, indent=1) + "\n")
    dist.destroy_process_group()
    if any(cell["wrong"] for cell in cells):
        sys.exit("results are wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 64, 256, 4096])
    parser.add_argument("--columns", type=int, default=128_256)
    parser.add_argument("--k", type=int, default=64)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--exchanges", nargs="+", default=["collective", "symmetric"])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=120, help="seconds that the group waits")
    parser.add_argument("--ranks", type=int, default=4, help="without torchrun")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    if "RANK" in os.environ:
        run(asked)
    else:
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone",
                        "--nproc-per-node", str(asked.ranks), *sys.argv], check=True)


if __name__ == "__main__":
    main()
