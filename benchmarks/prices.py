"""Do prices put schedules in order? Times every candidate on a GPU, and fits the figures again.

    python benchmarks/prices.py --measure benchmarks/results/prices.json     a GPU, CuPy; minutes
    python benchmarks/prices.py --fit benchmarks/results/prices.json         anywhere; no GPU

Regret of a cell: time of the candidate that the prices choose ÷ time of the fastest. `--fit` prints
the mean regret with the figures as they are and with better ones, and the lines that change in
fusegen/backend/cuda/schedule/figures.py. Figures that no cell depends on stay.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import fusegen as fg
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.cuda.schedule.strips import strip_candidates

WORKS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("softmax", {}), ("logsumexp", {}), ("entropy", {}), ("layer_norm", {}), ("rms_norm", {}),
    ("var_mean", {}), ("log_softmax", {}), ("topk", {"k": 8}), ("softmax_topk", {"k": 5}),
    ("softmax_topk", {"k": 64}), ("softmax_topk", {"k": 300}),
)
STEPS = (0.5, 0.7, 0.85, 1.15, 1.4, 2.0)  # by which a figure is moved
WORTH = 1e-4  # of mean log regret: a figure is moved for no less


@dataclass(frozen=True)
class Cell:
    """A pipeline on rows of one shape, and the seconds of each candidate by its description."""

    work: str
    constants: Mapping[str, Any]
    dtype: str
    rows: int
    cols: int
    target: str
    seconds: Mapping[str, float]

    @cached_property
    def compiled(self) -> fg.Compiled:
        pipeline = getattr(fg.library, self.work)
        specs = [fg.Spec((self.rows, self.cols), self.dtype)]
        specs += [fg.Spec((self.cols,), self.dtype) for _ in sides(self.work)]
        return pipeline.compile(*specs, target=self.target, **self.constants)

    def order(self, figures: Figures) -> list[str]:
        """Candidates, cheapest first."""
        work = self.compiled.work
        offer = candidates if work.problem.inner is None else strip_candidates
        found = offer(work.result("lower"), work.problem, work.target, None, figures)
        return [c.schedule.describe() for c in found]

    def regret(self, figures: Figures) -> float:
        """1: the fastest is chosen."""
        chosen = next((n for n in self.order(figures) if n in self.seconds), None)
        return 1.0 if chosen is None else self.seconds[chosen] / min(self.seconds.values())


def sides(work: str) -> tuple[str, ...]:
    """Inputs per column that a text takes here."""
    return {"layer_norm": ("weight", "bias"), "rms_norm": ("weight",)}.get(work, ())


def shapes(count: int, seed: int) -> Iterator[tuple[str, Mapping[str, Any], str, int, int]]:
    """Cells to measure: 1 to 256 MiB, 32 to 10⁶ columns."""
    rng = random.Random(seed)
    for i in range(count):
        work, constants = WORKS[i % len(WORKS)]
        dtype = rng.choice(("float32", "bfloat16"))
        cols = round(2 ** rng.uniform(5, 20))
        if rng.random() < 0.7:
            cols = -(-cols // 64) * 64
        size = 2 ** rng.uniform(20, 28) / (4 if dtype == "float32" else 2)
        if constants.get("k", 1) <= cols:
            yield work, constants, dtype, max(1, round(size / cols)), cols


def measure(count: int, seed: int) -> Iterator[Cell]:
    """Times of every candidate: `tune=True`, told to leave none out."""
    import cupy as cp

    from fusegen.compile import tuning

    tuning.BEST = 99
    for work, constants, dtype, rows, cols in shapes(count, seed):
        x = cp.random.standard_normal((rows, cols), dtype=cp.float32)
        side = [cp.ones(cols, cp.float32) for _ in sides(work)]
        arrays = [_as(a, dtype) for a in (x, *side)]
        pipeline = getattr(fg.library, work)
        try:
            found = pipeline.compile(*arrays, tune=True, **constants)
        except fg.FusegenError as error:
            print(f"{work} {rows} × {cols} {dtype}: {error}", flush=True)
            continue
        assert found.tuned is not None
        seconds = {t.schedule.describe(): t.seconds for t in found.tuned.timings if t.seconds}
        cell = Cell(work, constants, dtype, rows, cols, found.work.target.name, seconds)
        print(f"{work} {rows} × {cols} {dtype}: {len(seconds)} candidates, "
              f"regret {cell.regret(FIGURES):.3f}", flush=True)
        yield cell


def _as(array: Any, dtype: str) -> Any:
    if dtype == "float32":
        return array
    import torch

    return torch.as_tensor(array, device="cuda").to(torch.bfloat16)


def mean_log_regret(cells: Iterable[Cell], figures: Figures) -> float:
    logs = [math.log(c.regret(figures)) for c in cells]
    return sum(logs) / len(logs)


def fit(cells: list[Cell], rounds: int) -> Figures:
    """Figures with less regret: each is moved alone, for as long as that helps."""
    best, least = FIGURES, mean_log_regret(cells, FIGURES)
    for _ in range(rounds):
        before = least
        for name, value, _, _ in list(best.named()):
            for step in STEPS:
                tried = best.changed({name: value * step})
                regret = mean_log_regret(cells, tried)
                if regret < least - WORTH:
                    best, least = tried, regret
        if least == before:
            break
    return best


def report(cells: list[Cell], better: Figures) -> None:
    for name, figures in (("as they are", FIGURES), ("fitted", better)):
        regrets = sorted(c.regret(figures) for c in cells)
        print(f"figures {name}: mean regret {math.exp(mean_log_regret(cells, figures)):.4f}, "
              f"median {regrets[len(regrets) // 2]:.3f}, worst {regrets[-1]:.2f}")
    for (name, old, unit, meaning), (_, new, _, _) in zip(
        FIGURES.named(), better.named(), strict=True
    ):
        if new != old:
            print(f"{name:<28}{old:>12.6g} → {new:<12.6g}{unit:<12}{meaning}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", type=Path, metavar="FILE")
    parser.add_argument("--fit", type=Path, metavar="FILE")
    parser.add_argument("--count", type=int, default=100, help="cells to measure")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.measure:
        saved = [vars(c) | {"seconds": dict(c.seconds)} for c in measure(given.count, given.seed)]
        kept = [{k: v for k, v in cell.items() if k != "compiled"} for cell in saved]
        given.measure.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if given.fit:
        cells = [Cell(**c) for c in json.loads(given.fit.read_text(encoding="utf-8"))]
        report(cells, fit(cells, given.rounds))


if __name__ == "__main__":
    main()
