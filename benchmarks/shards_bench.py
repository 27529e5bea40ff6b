"""A vocabulary sharded over ranks: softmax and its top K by one exchange of states, in parts.

    torchrun --nproc-per-node 4 benchmarks/shards_bench.py [--output benchmarks/results/NAME.json]
    python benchmarks/shards_bench.py --ranks 2 --columns 8192 --rows 1 64      # gloo, no GPU

Microseconds, the median over calls, of the slowest rank. On GPUs a call is what lies between two
events of its stream, the host's gaps included; in a CUDA graph it is a replay. The peers are what
people do today: gather the logits, then one kernel, or torch. Results are checked in the same run.
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

Call = Callable[[], Any]
P = fg.library.softmax_topk
TARGETS = {  # rows: (eager, CUDA graph), on 4 H200 of one host
    1: (75, 55), 64: (85, 60), 256: (90, 65), 4096: (180, 170),
}


class Bench:
    """One rank's side."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.gpu = dist.get_backend() == "nccl"
        self.device = torch.device("cuda", self.rank) if self.gpu else torch.device("cpu")
        self.asked, self.dtype = asked, getattr(torch, asked.dtype)
        self.width = asked.columns // self.ranks

    def logits(self, rows: int, rank: int) -> torch.Tensor:
        """A shard that every rank can make; no two values of a row are near one another."""
        source = torch.Generator().manual_seed(1000 * rows + rank)
        return torch.randn(rows, self.width, generator=source).to(self.dtype).to(self.device)

    def cell(self, rows: int) -> dict[str, Any]:
        mine, k = self.logits(rows, self.rank), self.asked.k
        at = self.rank * self.width
        step = fg.distributed.sharded(P, checks="once" if self.gpu else "auto")
        self.check(step(mine, k=k), rows)
        state = P.states(mine, at=at, k=k)
        packet = torch.as_tensor(state.array).reshape(-1)
        table = packet.new_empty(self.ranks * packet.numel())
        spans = [(r * self.width, (r + 1) * self.width) for r in range(self.ranks)]
        dist.all_gather_into_tensor(table, packet)
        met = table.view(self.ranks, *state.array.shape)
        whole = fg.merge_gathered(P, state, met, spans)
        logits = mine.new_empty(self.ranks * rows, self.width)

        def gathered() -> torch.Tensor:
            dist.all_gather_into_tensor(logits, mine)
            return logits.view(self.ranks, rows, -1).movedim(0, 1).reshape(rows, -1)

        def by_torch() -> Any:
            return torch.topk(torch.softmax(gathered().float(), -1), k)

        calls: dict[str, Call] = {
            "fold": lambda: P.states(mine, at=at, k=k),
            "exchange": lambda: dist.all_gather_into_tensor(table, packet),
            "merge": lambda: fg.merge_gathered(P, state, met, spans),
            "finish": lambda: P.finish(whole),
            "step": lambda: step(mine, k=k),
            "gather, then fusegen": lambda: P(gathered(), k=k),
            "gather, then torch": by_torch,
        }
        found: dict[str, Any] = {n: self.slowest(c, graph=False) for n, c in calls.items()}
        if self.gpu:
            for name in ("fold", "step", "gather, then fusegen"):
                found[f"{name}, graph"] = self.slowest(calls[name], graph=True)
        step.verify()
        plan = step.plan(rows, self.asked.columns, dtype=self.asked.dtype, k=k)
        return {"rows": rows, "bytes exchanged": plan.exchanged_bytes,
                "bytes of rows": plan.gathered_bytes, "us": found}

    def check(self, found: Any, rows: int) -> None:
        """Against float64, of the first rows."""
        some = min(rows, 16)
        whole = torch.cat([self.logits(rows, r)[:some] for r in range(self.ranks)], -1).double()
        values, at = found[0][:some].double(), found[1][:some]
        shares = torch.softmax(whole, -1)
        want = torch.topk(shares, self.asked.k).values
        torch.testing.assert_close(values, want, rtol=2e-2, atol=0)
        torch.testing.assert_close(shares.gather(-1, at), want, rtol=1e-6, atol=0)

    def slowest(self, call: Call, *, graph: bool) -> float:
        """Microseconds on the slowest rank."""
        mine = torch.tensor(self.microseconds(self.recorded(call) if graph else call),
                            device=self.device)
        dist.all_reduce(mine, dist.ReduceOp.MAX)
        return round(float(mine), 1)

    def recorded(self, call: Call) -> Call:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay

    def microseconds(self, call: Call) -> float:
        times = []
        for _ in range(self.asked.warm_up):
            call()
        dist.barrier()
        for _ in range(self.asked.calls):
            times.append(self.on_gpu(call) if self.gpu else self.on_host(call))
        if self.gpu:
            torch.cuda.synchronize()
            times = [begin.elapsed_time(end) / 1e3 for begin, end in times]
        return statistics.median(times) * 1e6

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


def shown(cell: dict[str, Any]) -> str:
    us = cell["us"]
    lines = [f"{cell['rows']} rows: {cell['bytes exchanged']:,} bytes exchanged, of the rows "
             f"{cell['bytes of rows']:,}"]
    lines += [f"  {name:28} {value:10.1f} µs" for name, value in us.items()]
    targets = TARGETS.get(cell["rows"])
    if targets and "step, graph" in us:
        lines.append(f"  targets: {targets[0]} µs, in a graph {targets[1]}")
    return "\n".join(lines)


def run(asked: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    local, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    gpus = torch.cuda.is_available() and torch.cuda.device_count() >= ranks
    if gpus:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if gpus else "gloo", timeout=timedelta(seconds=120))
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
            "columns": asked.columns, "k": asked.k, "dtype": asked.dtype, "cells": cells,
        }, indent=1) + "\n")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 64, 256, 4096])
    parser.add_argument("--columns", type=int, default=128_256)
    parser.add_argument("--k", type=int, default=64)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=20)
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
