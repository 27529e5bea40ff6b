"""python -m tests.fuzz.vectors --count 200: random texts over vectors, in every form and as states
of pieces in any order, against the text in float64. Says what differs, and exits with 1 if
anything does."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusegen as fg

FORMS = ("auto", "safe", "unfused", "numpy", "states")
Parts = Mapping[str, Any]
"""What results are made of: inputs, scores, weights and their sum, sums."""

SCORES: tuple[Callable[[Any, Any], Any], ...] = (
    fg.dot, lambda q, k: -fg.sqdist(q, k), lambda q, k: fg.inner(fg.abs(q - k)),
    lambda q, k: fg.inner(fg.maximum(q, k) * 0.3),
)
CHANGES: tuple[Callable[[Any, Parts], Any], ...] = (
    lambda s, p: p["a"] * s, lambda s, p: s + p["c"], lambda s, p: s * p["t"],
    lambda s, p: 3 * fg.sin(s), lambda s, p: s * fg.rsqrt(fg.inner(p["k"] * p["k"]) + 1),
)
MASKS: tuple[Callable[[Any, Parts], Any], ...] = (
    lambda s, p: s, lambda s, p: s,
    lambda s, p: fg.where(fg.index(s) <= fg.row(s) + 3, s, -math.inf),
    lambda s, p: fg.ragged(s, p["lengths"]),
    lambda s, p: fg.where((fg.index(s) < 5) | (fg.index(s) > fg.row(s) - 9), s, -math.inf),
)
VECTORS: tuple[Callable[[Parts], Any], ...] = (
    lambda p: p["v"], lambda p: p["v"] * p["v"], lambda p: fg.abs(p["v"]) - 1,
    lambda p: p["v"] * p["c"],
)
RESULTS: tuple[Callable[[Parts], Any], ...] = (
    lambda p: p["o"], lambda p: p["m"] + fg.log(p["z"]),
    lambda p: fg.sum(fg.xlogy(p["p"] / p["z"], p["p"] / p["z"])),
    lambda p: fg.topk(p["s"], 3).values, lambda p: fg.topk(p["s"], 2).indices,
    lambda p: fg.argmax(p["s"]), lambda p: fg.mean(p["v"]) - p["o"],
    lambda p: fg.sum(p["p"] * (p["v"] - p["o"]) ** 2) / p["z"], lambda p: fg.var(p["k"]),
    lambda p: p["o"] / fg.sqrt(fg.inner(p["o"] * p["o"]) + 1),
    lambda p: fg.max(fg.abs(p["q"] - p["k"])), lambda p: fg.take(p["k"], p["lengths"]),
    lambda p: fg.take(p["s"], p["lengths"]), lambda p: p["q"] * p["t"] + fg.inner(p["q"] * p["q"]),
    lambda p: fg.sum(fg.dot(fg.sum(p["p"] * p["k"]) / p["z"], p["k"]) * p["v"]) / 100,
    lambda p: fg.count(p["s"] > 0), lambda p: fg.min(p["v"]) + fg.length(p["s"]),
    lambda p: fg.sum(fg.where(p["s"] > fg.mean(p["e"]), 1.0, 0.0) * p["v"]),
    lambda p: fg.argmin(fg.sqdist(p["k"], fg.mean(p["k"]))),
    lambda p: fg.prod(1 + 0.01 * fg.sin(p["v"])),
    lambda p: fg.take(p["v"], fg.argmin(p["e"])) * 2,
)


@dataclass(frozen=True)
class Case:
    """A text, and arrays for it."""

    seed: int
    text: fg.Pipeline
    arrays: Mapping[str, Any]

    def differs(self, how: str) -> str:
        """What is wrong with this form, or nothing. A text without states has none."""
        wanted = [np.asarray(w, np.float64) for w in self.text.reference(**self.arrays)]
        try:
            found = self.run(how)
        except fg.PipelineError:
            if how == "states":
                return ""
            raise
        for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
            got = np.asarray(f).astype(np.float64)
            size = np.max(np.abs(w), initial=1e-3, where=np.isfinite(w))
            with np.errstate(invalid="ignore"):
                same = (got == w) | (np.isnan(got) & np.isnan(w)) | (abs(got - w) <= 1e-9 * size)
            if got.shape != w.shape or not same.all():
                return f"result {i}: {got[~same][:3]}, not {w[~same][:3]}"
        return ""

    def run(self, how: str) -> Any:
        if how == "states":
            return self.in_pieces()
        target, form = ("numpy", "auto") if how == "numpy" else ("cpu", how)
        return self.text.compile(**self.arrays, form=form, target=target)(**self.arrays)

    def in_pieces(self) -> Any:
        n = len(self.arrays["c"])
        middle = np.random.default_rng(self.seed).integers(0, n + 1, 2)
        parts = [self.text.states(**self.piece(i, j), at=i)
                 for i, j in itertools.pairwise(sorted([0, n, *map(int, middle)]))]
        return self.text.finish(fg.merge(self.text, *reversed(parts)))

    def piece(self, i: int, j: int) -> dict[str, Any]:
        cut = {n: a[..., i:j, :] if n in "kv" else a[i:j] for n, a in self.arrays.items()
               if n in "kvc"}
        return {**self.arrays, **cut}


def case_of(seed: int) -> Case:
    """The case of this seed."""
    rng = np.random.default_rng(seed)
    score, mask, vector = (rng.integers(len(t)) for t in (SCORES, MASKS, VECTORS))
    changes = [c for c in CHANGES if rng.random() < 0.3]
    results = rng.choice(len(RESULTS), int(rng.integers(1, 4)), replace=False)

    def text(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, lengths: fg.PerRow,
             t: fg.PerRow, c: fg.PerColumn, *, a: float = 0.7) -> Any:
        parts = {"q": q, "k": k, "v": v, "lengths": lengths, "t": t, "c": c, "a": a}
        s = e = SCORES[score](q, k)
        for change in changes:
            s = change(s, parts)
        s = MASKS[mask](s, parts)
        m = fg.max(s)
        p = fg.exp(s - m)
        z = fg.sum(p)
        parts |= {"s": s, "e": e, "m": m, "p": p, "z": z}
        parts["o"] = fg.sum(p * VECTORS[vector](parts)) / z
        return tuple(RESULTS[i](parts) for i in results)

    d, width = int(rng.choice([1, 2, 5, 17])), int(rng.choice([1, 3, 20]))
    rows, columns = int(rng.choice([1, 7, 30])), int(rng.choice([6, 40, 260, 300]))
    lead = ((), (2,))[rng.integers(2)]
    arrays = {"q": rng.standard_normal((*lead, rows, d)),
              "k": rng.standard_normal((*lead, columns, d)),
              "v": rng.standard_normal((*lead, columns, width)),
              "lengths": rng.integers(0, columns + 2, (*lead, rows)),
              "t": rng.uniform(0.5, 1.5, (*lead, rows)), "c": rng.standard_normal(columns)}
    return Case(seed, fg.Pipeline(text), arrays)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.vectors", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many texts")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    args = parser.parse_args()
    wrong = 0
    for seed in range(args.seed, args.seed + args.count):
        case = case_of(seed)
        for how in FORMS:
            found = case.differs(how)
            wrong += bool(found)
            if found:
                print(f"seed {seed}, {how}: {found}")
    print(f"{args.count} texts, {len(FORMS)} forms of each: {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
