"""Many random pipelines, each verdict judged; and the figures of it all."""

from __future__ import annotations

import datetime
import multiprocessing
import platform
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import mpmath
import sympy

import fusegen as fg
from fusegen.algebra.derive import derive
from fusegen.ir import graph as g
from fusegen.ir.derivation import Base, Commuted, Dependent, Derivation, Refused

from .generator import random_case
from .oracle import Tally, check_entries
from .terms import Case
from .truth import truth_of

SLOW = 2.0  # seconds for one derivation; slower ones are listed
LOSSY = 1e3  # an accepted sum that meets this many times the rounding of the text is listed
EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one reduction that depends on others, and whether that was right."""

    seed: int
    entry: str
    fold: str
    family: str  # kinds of the row values of the pipeline
    judgement: str  # accepted | false accept | right | missed | undecided
    why: str  # kind of the refusal and of the truth
    text: str
    said: str = ""  # by the refusal
    lost: float = 1.0

    @property
    def mergeable(self) -> bool:
        return self.judgement in ("accepted", "missed")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One pipeline: its verdicts, time, and the exception that stopped it, if any."""

    seed: int
    text: str
    verdicts: tuple[Verdict, ...] = ()
    seconds: float = 0.0
    compared: int = 0
    undefined: int = 0
    failure: str = ""


def judge_case(seed: int, n_rows: int = 16) -> Outcome:
    """Derive one random pipeline and judge every entry."""
    case = random_case(seed)
    try:
        return _judged(case, n_rows)
    except Exception as error:  # any exception is a finding
        return Outcome(seed, str(case), failure=f"{type(error).__name__}: {error}")


def _judged(case: Case, n_rows: int) -> Outcome:
    graph, seed = case.graph(), case.seed
    start = time.perf_counter()
    derivation = derive(graph)
    seconds = time.perf_counter() - start
    rng, tally = random.Random(seed), Tally()
    wrong = {w.entry: w for w in check_entries(graph, derivation, rng, n_rows, tally)}
    verdicts = []
    for entry in derivation:
        if isinstance(entry, Base) and entry.name not in wrong:
            continue
        if entry.name in wrong:
            judgement, why = "false accept", f"{wrong[entry.name].why} ({wrong[entry.name].row})"
        elif isinstance(entry, Dependent | Commuted):
            judgement, why = "accepted", type(entry).__name__
        else:
            judgement, why = judge_refusal(graph, derivation, entry, seed)
        verdicts.append(Verdict(
            seed, entry.name, _fold(graph[entry.name]), case.family, judgement, why,
            str(case.about(entry.name)),
            said=entry.refusal.why if isinstance(entry, Refused) else "",
            lost=tally.lost.get(entry.name, 1.0),
        ))
    return Outcome(seed, str(case), tuple(verdicts), seconds, tally.compared, tally.undefined)


def _fold(node: g.Node) -> str:
    return node.fold.value if isinstance(node, g.Reduce) else "topk"


def judge_refusal(
    graph: g.Graph, derivation: Derivation, entry: Refused, seed: int
) -> tuple[str, str]:
    """("right" | "missed" | "undecided", refusal kind: truth)."""
    node = graph[entry.name]
    assert isinstance(node, g.Reduce | g.TopK)
    known = frozenset(e.name for e in derivation if isinstance(e, Base | Dependent))
    truth = truth_of(graph, node, known, seed)
    judgement = {True: "missed", False: "right", None: "undecided"}[truth.mergeable]
    return judgement, f"{entry.refusal.kind.value}: {truth.why}"


# ---- campaigns ----


@dataclass(frozen=True)
class Campaign:
    """The outcomes of seeds first … first + count − 1."""

    first: int
    outcomes: tuple[Outcome, ...]
    seconds: float
    verdicts: tuple[Verdict, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = tuple(v for o in self.outcomes for v in o.verdicts)
        object.__setattr__(self, "verdicts", found)

    def of(self, judgement: str) -> list[Verdict]:
        return [v for v in self.verdicts if v.judgement == judgement]

    @property
    def missed_share(self) -> float:
        """Missed / (missed + accepted): of what could be merged, how much is not."""
        mergeable = sum(v.mergeable for v in self.verdicts)
        return len(self.of("missed")) / mergeable if mergeable else 0.0


def run_campaign(first: int, count: int, processes: int = 1, n_rows: int = 16) -> Campaign:
    """Judge `count` pipelines."""
    start = time.perf_counter()
    seeds = [(seed, n_rows) for seed in range(first, first + count)]
    if processes == 1:
        outcomes = [judge_case(*s) for s in seeds]
    else:
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            outcomes = pool.starmap(judge_case, seeds, chunksize=8)
    return Campaign(first, tuple(outcomes), time.perf_counter() - start)


def report(campaign: Campaign) -> dict[str, Any]:
    """All figures, as plain data."""
    times = sorted(o.seconds for o in campaign.outcomes if not o.failure)
    slow = [o for o in campaign.outcomes if o.seconds > SLOW]
    lossy = sorted((v for v in campaign.of("accepted") if v.lost > LOSSY), key=lambda v: -v.lost)
    return {
        "date": datetime.date.today().isoformat(),
        "pipelines": len(campaign.outcomes),
        "first_seed": campaign.first,
        "distinct_pipelines": len({o.text for o in campaign.outcomes}),
        "versions": {"fusegen": fg.__version__, "sympy": sympy.__version__,
                     "mpmath": mpmath.__version__, "python": platform.python_version()},
        "seconds": round(campaign.seconds, 1),
        "exceptions": [{"seed": o.seed, "error": o.failure, "text": o.text}
                       for o in campaign.outcomes if o.failure],
        "reductions": dict(Counter(v.judgement for v in campaign.verdicts).most_common()),
        "mergeable": sum(v.mergeable for v in campaign.verdicts),
        "missed_share": round(campaign.missed_share, 4),
        "comparisons": sum(o.compared for o in campaign.outcomes),
        "undefined_rows": sum(o.undefined for o in campaign.outcomes),
        "false_accepts": [_example(v) for v in campaign.of("false accept")],
        "accepted_but_lossy": [{**_example(v), "times_text": float(f"{v.lost:.3g}")}
                               for v in lossy],
        "derive_seconds": _times(times),
        "slow": [{"seed": o.seed, "seconds": round(o.seconds, 2), "text": o.text} for o in slow],
        "refused": _groups(campaign.verdicts, ("right", "missed", "undecided"), lambda v: v.why),
        "by_fold": _shares(campaign.verdicts, lambda v: v.fold),
        "by_parents": _shares(campaign.verdicts, lambda v: v.family),
        "missed": _examples(campaign.of("missed")),
        "undecided": _examples(campaign.of("undecided")),
    }


def _example(v: Verdict) -> dict[str, Any]:
    said = {"said": v.said} if v.said else {}
    return {"seed": v.seed, "entry": v.entry, "text": v.text, "why": v.why, **said}


def _times(times: list[float]) -> dict[str, float]:
    if not times:
        return {}
    return {"median": round(statistics.median(times), 4),
            "p95": round(times[int(0.95 * (len(times) - 1))], 4),
            "max": round(times[-1], 4)}


def _groups(
    verdicts: Iterable[Verdict], judgements: tuple[str, ...], key: Callable[[Verdict], str]
) -> dict[str, dict[str, int]]:
    return {j: dict(Counter(key(v) for v in verdicts if v.judgement == j).most_common())
            for j in judgements}


def _shares(
    verdicts: Iterable[Verdict], key: Callable[[Verdict], str]
) -> dict[str, dict[str, float]]:
    """Per group: mergeable reductions and the share of them that was missed; largest first."""
    groups: dict[str, list[Verdict]] = {}
    for v in verdicts:
        if v.mergeable:
            groups.setdefault(key(v), []).append(v)
    rows = sorted(groups.items(), key=lambda item: -len(item[1]))
    return {
        name: {"mergeable": len(vs),
               "missed_share": round(sum(v.judgement == "missed" for v in vs) / len(vs), 3)}
        for name, vs in rows
    }


def _examples(verdicts: Iterable[Verdict]) -> dict[str, list[dict[str, Any]]]:
    """Up to EXAMPLES a kind, shortest text first."""
    groups: dict[str, list[Verdict]] = {}
    for v in sorted(verdicts, key=lambda v: len(v.text)):
        groups.setdefault(v.why, []).append(v)
    return {why: [_example(v) for v in vs[:EXAMPLES]] for why, vs in sorted(groups.items())}
