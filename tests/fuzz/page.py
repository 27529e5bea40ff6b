"""The figures of a campaign for people: a short text, and a page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .campaign import SLOW

_PAGE = """# Fuzz of the algebra

    python -m tests.fuzz --count {pipelines} --seed {first_seed} \\
        --output benchmarks/results/fuzz.json --page benchmarks/fuzz.md

{pipelines} random pipelines ({distinct_pipelines} distinct; one to three row values, cascades of up
to three levels, one or two inputs, trigonometry included) are derived, and every verdict is judged
by an oracle that shares nothing with the derivation. {date}, fusegen {fusegen}, sympy {sympy},
{seconds:.0f} s; all figures and up to 20 examples a kind: [results/fuzz.json](results/fuzz.json).

| | |
|---|---|
{summary}

## How it is judged

* **Accepted**: each entry is taken at its word at 70 digits: pieces of rows (ties, zeros, single
  elements, clusters, far offsets) folded at their own pivots, moved, merged along random trees and
  read out, against the text. More than 1e-25 of the magnitudes added is a false accept. Orders are
  compared column by column, at 4000 digits where 70 show a difference.
* **Refused**: could it have been merged? The separation rank of f(x; p) over real rows says whether
  finitely many sums can carry it; a second reading of the text finds a form with pivots. That form
  is *safe* if no correction exceeds 1, nothing overflows where the text does not, and it meets at
  most 100 times the rounding of the text itself on near-constant, far and spread rows. Safe but
  refused is *missed*. *Undecided*: a finite rank on these rows, but no form found.

## Missed

| refused as | missed | an example |
|---|---|---|
{missed}

| reduction | could be merged | missed |
|---|---|---|
{folds}

## Rightly refused

| refused as: truth | reductions |
|---|---|
{right}
"""


def table(found: dict[str, Any]) -> str:
    """The figures as a short text."""
    lines = [f"  {value:<24} {name}" for name, value in _summary(found)]
    for judgement, kinds in found["refused"].items():
        lines += [f"  {judgement:<9} {n:>5}  {why}" for why, n in kinds.items()]
    return "\n".join((f"{found['pipelines']} random pipelines, {found['seconds']:.0f} s", *lines))


def page(found: dict[str, Any]) -> str:
    """The figures as a page of Markdown."""
    missed = found["refused"]["missed"]
    examples = ((why.split(": ")[0], n, f"`{found['missed'][why][0]['text']}`")
                for why, n in missed.items())
    folds = ((fold, row["mergeable"], f"{row['missed_share']:.1%}")
             for fold, row in found["by_fold"].items())
    return _PAGE.format(
        **{k: found[k] for k in ("pipelines", "first_seed", "distinct_pipelines", "date",
                                 "seconds")},
        fusegen=found["versions"]["fusegen"], sympy=found["versions"]["sympy"],
        summary=_rows(_summary(found)), missed=_rows(examples), folds=_rows(folds),
        right=_rows(found["refused"]["right"].items()),
    )


def _summary(found: dict[str, Any]) -> list[tuple[str, str]]:
    counts, times = found["reductions"], found["derive_seconds"]
    undecided = counts.get("undecided", 0)
    return [
        ("dependent reductions", str(sum(counts.values()))),
        ("accepted", str(counts.get("accepted", 0))),
        ("of these false", str(len(found["false_accepts"]))),
        ("exact replays", f"{found['comparisons']} ({found['undefined_rows']} rows undefined)"),
        ("refused rightly", str(counts.get("right", 0))),
        ("missed, of what could be merged", f"{counts.get('missed', 0)}, "
                                            f"{found['missed_share']:.1%}"),
        ("undecided", str(undecided)),
        ("exceptions", str(len(found["exceptions"]))),
        ("accepted, but loses digits", str(len(found["accepted_but_lossy"]))),
        ("time of derive, s", f"{times['median']} / {times['p95']} / {times['max']}"
                              " (median, p95, max)"),
        (f"slower than {SLOW:g} s", str(len(found["slow"]))),
    ]


def _rows(rows: Iterable[tuple[Any, ...]]) -> str:
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
                     for row in rows)
