"""Routers of mixtures of experts whose groups compete, beside torch.

    python benchmarks/gates_bench.py [--output benchmarks/results/gates.json]  # a GPU, CuPy, torch

`fg.library.moe_gate` as DeepSeek-V3 has it (sigmoid, bias, 8 of the experts of the 4 of 8 groups
whose two best add up to most) on TOKENS rows: microseconds of ours, of the fastest of its
schedules, of torch's own operators, eager and by torch.compile, in turns; the limit is a plain read
of the scores and a plain write of gates and experts. The cache is flushed before each call. Gates
of float32 are checked against torch's in float64, where both choose the same experts: all but what
a rounding decides (of 16 bits torch rounds what is compared).
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from scans.floor import measured
from streams.limits import Limits
from streams.runs import described_run, save
from streams.supervise import compile_ahead, compile_others
from streams.timing import Timer

import fusegen as fg

TOKENS, K, GROUPS, KEPT, SCALE = 16_384, 8, 8, 4, 2.5
OURS = {"k": K, "score": "sigmoid", "groups": GROUPS, "groups_kept": KEPT, "group_score": "top2",
        "scale": SCALE}
REPETITIONS = 9


class Cell(NamedTuple):
    experts: int
    dtype: str

    @property
    def key(self) -> str:
        return f"{TOKENS} x {self.experts} {self.dtype}"


CELLS = [Cell(n, dtype) for dtype in ("float32", "bfloat16") for n in (256, 512, 1024, 2048)]


def theirs(x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(gates, experts), as DeepSeek publishes it."""
    scores = torch.sigmoid(x)
    rated = scores + bias
    grouped = rated.view(len(x), GROUPS, -1)
    best = grouped.topk(2, -1)[0].sum(-1).topk(KEPT, -1)[1]
    lost = torch.ones_like(grouped[..., 0], dtype=torch.bool).scatter_(1, best, False)
    open_to_all = grouped.masked_fill(lost[..., None], -torch.inf).flatten(1)
    experts = open_to_all.topk(K, -1)[1]
    gates = scores.gather(1, experts)
    return gates / gates.sum(-1, keepdim=True) * SCALE, experts


def arrays(experts: int, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    x, bias = torch.randn(TOKENS, experts, device="cuda"), torch.randn(experts, device="cuda") / 10
    return x.to(getattr(torch, dtype)), bias.to(getattr(torch, dtype))


def compile_one(cell: Cell) -> None:
    compile_others(fg.library.moe_gate.prepare(arrays(*cell), OURS))


def measure(cell: Cell, timer: Timer, floor: Any) -> dict[str, Any]:
    experts, dtype = cell
    x, bias = arrays(*cell)
    ours = partial(fg.library.moe_gate, x, bias, **OURS)
    gates, found = ours()
    expected_gates, expected = theirs(x.double(), bias.double())
    if dtype == "float32":
        same = (found == expected).all(-1)
        assert (~same).sum() < TOKENS // 1000, f"{(~same).sum()} rows have other experts"
        torch.testing.assert_close(gates[same].double(), expected_gates[same], rtol=1e-5, atol=1e-6)
    tuned = fg.library.moe_gate.compile(x, bias, **OURS, tune=True)
    torch._dynamo.reset()
    compiled = torch.compile(theirs, dynamic=False)
    compiled(x, bias)
    written = TOKENS * K * (x.element_size() + found.element_size())
    return {
        "experts": experts, "dtype": dtype, "tokens": TOKENS, "best": tuned.schedule.describe(),
        "floor_us": floor.us(x.numel() * x.element_size(), written),
        **timer.turns({"ours_us": ours, "best_us": partial(tuned, x, bias),
                       "eager_us": partial(theirs, x, bias),
                       "compile_us": partial(compiled, x, bias)}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", help="what is measured, where git cannot say it")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    for message in compile_ahead(CELLS, compile_one, args.jobs):
        print(f"compiling ahead failed: {message}")
    torch.manual_seed(0)
    timer = Timer(REPETITIONS)
    timer.warm_up()
    floor = measured(Limits(timer))
    report: dict[str, Any] = {"runs": [described_run(args.commit, repetitions=REPETITIONS)],
                              "environment": torch.cuda.get_device_name(), "cells": []}
    for cell in CELLS:
        record = measure(cell, timer, floor)
        report["cells"].append(record)
        save(args.output, report)
        print("  ".join(f"{name} {value:.1f}" if isinstance(value, float) else f"{value}"
                        for name, value in record.items()), flush=True)


if __name__ == "__main__":
    main()
