"""One text: derived, every accepted merge executed in float32 on hard rows along every kind of
tree, and every merge that only the rule about floats refuses executed all the same.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from fusegen.algebra import derive as deriving
from fusegen.algebra import merge as merging
from fusegen.algebra.floats.judge import Verdict as FloatVerdict
from fusegen.compile.trials.first import tried
from fusegen.ir import graph as g
from fusegen.ir.derivation import Dependent, Derivation, Refused
from fusegen.ir.dtypes import FLOAT32
from fusegen.rewrite.repair.search import with_repairs
from fusegen.rewrite.rounds import derived

from .float_rows import LONG, TREES, execute
from .float_texts import random_text
from .float_yardstick import Worst


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one sum that depends on row values."""

    name: str
    judgement: str  # accepted | wrong | caught | refused | missed | silent | unmerged
    why: str  # of a refusal: its kind
    worst: Worst
    said: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One text: its verdicts, its time, and the exception that stopped it, if any."""

    seed: int
    text: str
    verdicts: tuple[Verdict, ...] = ()
    derive_seconds: float = 0.0
    seconds: float = 0.0
    rows: int = 0
    failure: str = ""


def judge_text(seed: int) -> Outcome:
    """Everything about the text of this seed."""
    case = random_text(seed)
    start = time.process_time()
    try:
        graph = case.graph()
        found = accepted(graph)
        took = time.process_time() - start
        counted = [0]
        verdicts = tuple(_verdicts(graph, found, seed, counted))
        seconds = time.process_time() - start
        return Outcome(seed, str(case), verdicts, took, seconds, counted[0])
    except Exception as error:  # any exception is a finding
        seconds = time.process_time() - start
        return Outcome(seed, str(case), seconds=seconds, failure=f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Accepted:
    """What is made of a text: over its own pivots, with others where those do not serve, and with
    what the trial of new merges lets pass."""

    text: Derivation
    repaired: Derivation
    final: Derivation

    def sums(self, graph: g.Graph) -> list[str]:
        return merged_sums(graph, self.final)

    def caught(self, graph: g.Graph) -> set[str]:
        """Sums that only the trial stopped."""
        return {*merged_sums(graph, self.repaired)} - {*self.sums(graph)}


def accepted(graph: g.Graph) -> Accepted:
    """Derived, repaired and tried, as a pipeline of the text would be."""
    dtypes = dict.fromkeys((i.name for i in graph.inputs), FLOAT32)
    with _without_witnesses(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the trial stops; it is counted
        text = derived(graph)
        repaired = with_repairs(graph, text, dtypes)
        return Accepted(text, repaired, tried(graph, repaired, dtypes))


def merged_sums(graph: g.Graph, derivation: Derivation) -> list[str]:
    """Sums of the text that are merged, about its own pivot or another."""
    names = {e.name for e in derivation if isinstance(e, Dependent)}
    names |= {r.name for r in derivation.repairs}
    return [graph.names[n] for n in graph.reductions if graph.names[n] in names]


def _verdicts(
    graph: g.Graph, found: Accepted, seed: int, counted: list[int]
) -> Iterator[Verdict]:
    sums, caught = found.sums(graph), found.caught(graph)
    repaired = {r.name for r in found.final.repairs}
    worst = execute(graph, found.final, sums, TREES, seed, counted)
    for name in sums:
        judgement = _seen(worst[name], wrong="wrong", right="accepted")
        yield Verdict(name, judgement, "another pivot" if name in repaired else "", worst[name])
    for name in sorted(caught):
        yield Verdict(name, "caught", "", Worst())
    refused = [e for e in found.text if isinstance(e, Refused) and _is_sum(graph, e)
               and e.name not in {*sums, *caught}]
    if refused:
        yield from _refusals(graph, refused, seed, counted)


def _seen(worst: Worst, *, wrong: str, right: str) -> str:
    """What is said of a sum; nothing where no row says anything, as for 0 / 0 whatever the row."""
    if worst.excess > 1:
        return wrong
    return right if worst.rows else "silent"


def _is_sum(graph: g.Graph, e: Refused) -> bool:
    node = graph[e.name]
    return isinstance(node, g.Reduce) and node.fold in (g.Fold.SUM, g.Fold.MEAN)


def _refusals(
    graph: g.Graph, refused: list[Refused], seed: int, counted: list[int]
) -> Iterator[Verdict]:
    """Would the merge be equal to the text over the reals, and is it seen wrong on any row?"""
    with _without_witnesses(), _without_rule():
        bare = deriving.derive(graph)
    equal = [r.name for r in refused if isinstance(bare[r.name], Dependent)]
    worst = execute(graph, bare, equal, TREES, seed, counted)
    unseen = [name for name in equal if worst[name].excess <= 1]
    longer = execute(graph, bare, unseen, LONG, seed + 1, counted)
    worst |= {name: worst[name].beside(longer[name]) for name in unseen}
    for r in refused:
        kind = r.refusal.kind.value
        if r.name not in worst:
            yield Verdict(r.name, "unmerged", kind, Worst(), r.refusal.why)
        else:
            judgement = _seen(worst[r.name], wrong="refused", right="missed")
            yield Verdict(r.name, judgement, kind, worst[r.name], r.refusal.why)


@contextlib.contextmanager
def _without_witnesses() -> Iterator[None]:
    with mock.patch.object(deriving, "with_witness", lambda graph, node, entry, entries: entry):
        yield


@contextlib.contextmanager
def _without_rule() -> Iterator[None]:
    """The algebra over the reals alone: whatever the rule about floats says, nothing is wrong."""
    with (
        mock.patch.object(merging, "judge", return_value=FloatVerdict()),
        mock.patch.object(merging, "obligations_of", return_value=()),  # floats will tell
    ):
        yield
