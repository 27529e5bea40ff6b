"""Many random texts, each judged in floats, kept line by line so that a campaign goes on where it
was stopped; and the figures of it all."""

from __future__ import annotations

import datetime
import json
import multiprocessing
import platform
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sympy

import fusegen as fg
from fusegen.backend.own_files import sources_digest

from .float_compiled import judge_compiled
from .float_judge import judge_text
from .float_texts import random_text

EXAMPLES = 12
Record = dict[str, Any]
_T = TypeVar("_T")


def seeds_of(first: int, count: int) -> list[int]:
    """The first `count` seeds whose texts are all different."""
    seen: set[str] = set()
    found, seed = [], first
    while len(found) < count:
        text = str(random_text(seed))
        if text not in seen:
            seen.add(text)
            found.append(seed)
        seed += 1
    return found


def run_campaign(
    first: int, count: int, *, processes: int = 1, kept: Path | None = None, compiled: int = 0
) -> list[Record]:
    """Judge `count` different texts, `compiled` accepted ones at most compiled as well.

    kept: lines that an earlier run of the same sources wrote are read, not judged again.
    """
    done = {} if kept is None else _read(kept)
    seeds = seeds_of(first, count)
    todo = [s for s in seeds if s not in done]
    for outcome in _mapped(judge_text, todo, processes, ordered=False):
        record = done[outcome.seed] = asdict(outcome)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"sources": sources_digest(), **record}) + "\n")
    records = [done[s] for s in seeds]
    accepted = [r for r in records if any(v["judgement"] == "accepted" for v in r["verdicts"])]
    sample = accepted[:: len(accepted) // compiled + 1] if compiled else []
    found = _mapped(judge_compiled, [r["seed"] for r in sample], processes)
    for record, worst in zip(sample, found, strict=True):
        record["compiled"] = {n: asdict(w) for n, w in worst.items()}
    return records


def _mapped(
    judge: Callable[[int], _T], seeds: list[int], processes: int, *, ordered: bool = True
) -> Iterator[_T]:
    """Each seed judged, by so many processes; most of a compiled one's time is the compiler's."""
    if processes == 1:
        yield from map(judge, seeds)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        each = pool.imap if ordered else pool.imap_unordered
        yield from each(judge, seeds, chunksize=1)


def _read(path: Path) -> dict[int, Record]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    return {r["seed"]: r for r in records if r.pop("sources") == sources_digest()}


def report(records: list[Record]) -> dict[str, Any]:
    """All figures, as plain data."""
    verdicts = [{**v, "seed": r["seed"], "text": r["text"]} for r in records for v in r["verdicts"]]
    counts = Counter(v["judgement"] for v in verdicts)
    accepted = [v for v in verdicts if v["judgement"] == "accepted"]
    mergeable = counts["accepted"] + counts["missed"]
    took = sorted(r["seconds"] for r in records)
    sample = [(r, n, w) for r in records for n, w in r.get("compiled", {}).items()]
    return {
        "date": datetime.date.today().isoformat(),
        "texts": len(records),
        "by_inputs": dict(Counter(r["text"].split(")")[0] + ")" for r in records).most_common()),
        "versions": {"fusegen": fg.__version__, "sympy": sympy.__version__,
                     "numpy": np.__version__, "python": platform.python_version()},
        "processor_seconds": round(sum(took)),
        "seconds_a_text": {"median": round(statistics.median(took), 3), "max": round(took[-1], 2)},
        "rows": sum(r["rows"] for r in records),
        "sums": dict(counts.most_common()),
        "missed_share": round(counts["missed"] / mergeable, 4) if mergeable else 0.0,
        "worst_accepted": _quantiles([v["worst"]["excess"] for v in accepted]),
        "repaired": sum(v["why"] != "" for v in accepted),
        "wrong": [_example(v) for v in verdicts if v["judgement"] == "wrong"],
        "caught": [_example(v) for v in verdicts if v["judgement"] == "caught"],
        "exceptions": [{"seed": r["seed"], "text": r["text"], "error": r["failure"]}
                       for r in records if r["failure"]],
        "refused": dict(Counter(v["why"] for v in verdicts if v["judgement"] == "refused")),
        "missed": dict(Counter(v["why"] for v in verdicts if v["judgement"] == "missed")),
        "missed_examples": _by_kind([v for v in verdicts if v["judgement"] == "missed"]),
        "compiled": {
            "sums": len(sample), "worst": max((w["excess"] for *_, w in sample), default=0),
            "wrong": [{"seed": r["seed"], "name": n, **w} for r, n, w in sample if w["excess"] > 1],
        },
    }


def _quantiles(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    places = {"median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: float(f"{np.quantile(values, q):.3g}") for name, q in places.items()}


def _example(v: Record) -> Record:
    w = v["worst"]
    shown = {k: float(f"{w[k]:.6g}") for k in ("excess", "merged", "text")}
    return {"seed": v["seed"], "sum": v["name"], "text": v["text"], "said": v["said"],
            "worst": {**shown, "tree": w["tree"], "row": w["row"]}}


def _by_kind(verdicts: list[Record]) -> dict[str, list[Record]]:
    """Up to EXAMPLES a kind of refusal, shortest text first."""
    groups: dict[str, list[Record]] = {}
    for v in sorted(verdicts, key=lambda v: len(v["text"])):
        groups.setdefault(v["why"], []).append(_example(v))
    return {why: found[:EXAMPLES] for why, found in sorted(groups.items())}
