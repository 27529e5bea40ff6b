"""One text: derived, every accepted merge executed in float32 on hard rows along every kind of
tree, and every merge that only the rule about floats refuses executed all the same.

The yardstick of a row: 4 × the worst error that a schedule of the safe text has there, and 16 units
in the last place of Σ|terms|; where terms of both signs meet, of what the text's own rounding is in
proportion to. Of sums about another pivot than the text's, Σ|terms| on that row or on one as far
beside it as a mean rounds.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

from fusegen import graph as g
from fusegen.algebra import derive as deriving
from fusegen.algebra import merge as merging
from fusegen.algebra.floats.judge import Verdict as FloatVerdict
from fusegen.bank import Bank, bank_of
from fusegen.derivation import Dependent, Derivation, Refused
from fusegen.dtypes import BFLOAT16, FLOAT32, DType
from fusegen.lower.online import online_kernel
from fusegen.repair.search import with_repairs
from fusegen.replay import RowsReplay, Split, balanced, chain
from fusegen.trials.first import tried

from .float_oracle import UNIT, Array, Reading, Shaken, magnitude, quantum, schedules
from .float_texts import random_text

SAFE, UNITS = 4.0, 16.0
TREES: dict[str, tuple[int, Split]] = {
    "one by one": (24, chain(1)), "one by one from the right": (11, chain(1, forward=False)),
    "pairs of pairs": (24, balanced(1)), "chunks of 7": (61, chain(7)),
    "chunks of 7 in pairs": (61, balanced(7)), "chunks of 256": (1300, chain(256)),
    "chunks of 256 in pairs": (1300, balanced(256)), "one element": (1, chain(1)),
    "two elements": (2, chain(1)), "three elements": (3, balanced(1)),
}  # fmt: skip
LONG: dict[str, tuple[int, Split]] = {
    "one by one, other draws": (25, chain(1)), "150 one by one": (150, chain(1)),
}  # fmt: skip
_ROWS = {11: 300, 24: 700, 25: 700, 61: 120, 150: 60, 1300: 30}  # at most, evenly out of the bank


@dataclass(frozen=True, slots=True)
class Worst:
    """The worst row of one sum: its error over what is allowed there."""

    excess: float = 0.0
    tree: str = ""
    row: str = ""
    merged: float = 0.0
    text: float = 0.0

    def __str__(self) -> str:
        return f"{self.excess:.3g} ({self.tree}; {self.row}): {self.merged:.6g} for {self.text:.6g}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one sum that depends on row values."""

    name: str
    judgement: str  # accepted | wrong | caught | refused | missed | unmerged
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
        text = deriving.derive(graph)
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
        judgement = "wrong" if worst[name].excess > 1 else "accepted"
        yield Verdict(name, judgement, "another pivot" if name in repaired else "", worst[name])
    for name in sorted(caught):
        yield Verdict(name, "caught", "", Worst())
    refused = [e for e in found.text if isinstance(e, Refused) and _is_sum(graph, e)
               and e.name not in {*sums, *caught}]  # fmt: skip
    if refused:
        yield from _refusals(graph, refused, seed, counted)


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
    worst |= execute(graph, bare, unseen, LONG, seed + 1, counted)
    for r in refused:
        kind = r.refusal.kind.value
        if r.name not in worst:
            yield Verdict(r.name, "unmerged", kind, Worst(), r.refusal.why)
        else:
            judgement = "refused" if worst[r.name].excess > 1 else "missed"
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


# ---- execution ----


def execute(
    graph: g.Graph, derivation: Derivation, sums: list[str],
    trees: Mapping[str, tuple[int, Split]], seed: int, counted: list[int],
) -> dict[str, Worst]:  # fmt: skip
    """The worst of every sum over rows and trees; `counted` adds up the rows executed."""
    found = dict.fromkeys(sums, Worst())
    if not sums:
        return found
    kernels = _kernels(graph, derivation)
    texts: dict[tuple[int, str], Text] = {}
    moved = {r.name for r in derivation.repairs}
    for label, (n_cols, tree) in trees.items():
        for type_name, (kernel, dtypes) in kernels.items():
            if type_name != "float32" and not label.startswith("one by one"):
                continue
            key = (n_cols, type_name)
            if key not in texts:
                texts[key] = Text(graph, sums, rows_for(graph, dtypes, n_cols, seed),
                                  _WRITTEN[type_name], moved)  # fmt: skip
            text = texts[key]
            replay = RowsReplay(kernel, text.bank.named(graph), n_cols)
            replay.run(tree)
            counted[0] += len(text.bank)
            for name in sums:
                worst = text.worst(name, replay.env[name], f"{label}, {type_name}")
                if worst.excess > found[name].excess:
                    found[name] = worst
    return found


def _kernels(
    graph: g.Graph, derivation: Derivation
) -> dict[str, tuple[Any, dict[str, DType]]]:
    """The kernel for float32, and the one for 16-bit rows where that keeps fewer sums."""
    kinds = {"float32": FLOAT32}
    if derivation.without_zeros != derivation:
        kinds["bfloat16"] = BFLOAT16
    found = {}
    for type_name, dtype in kinds.items():
        dtypes = dict.fromkeys((i.name for i in graph.inputs), dtype)
        found[type_name] = (online_kernel(graph, derivation, dtypes), dtypes)
    return found


def rows_for(graph: g.Graph, dtypes: Mapping[str, DType], n_cols: int, seed: int) -> Bank:
    """Draws of its own of the bank's patterns: not those that the product itself has met."""
    bank = bank_of(graph, dtypes, n_cols, seed=1_000_000 + seed % 50)
    step = max(1, -(-len(bank) // _ROWS.get(n_cols, 200)))
    every = slice(seed % step, None, step)
    return replace(bank, inputs={n: a[every] for n, a in bank.inputs.items()},
                   picks=bank.picks[every])  # fmt: skip


_WRITTEN = {"float32": 0.0, "bfloat16": 2.0**-8}
"""What writing a result costs of it."""


class Text:
    """What the text says on the rows of a bank, and how far off it may be."""

    def __init__(
        self, graph: g.Graph, sums: list[str], bank: Bank, result: float = 0.0,
        moved: Collection[str] = (),
    ) -> None:  # fmt: skip
        """`moved`: sums that are kept about another pivot than the text's."""
        self.bank = bank
        # There a merged sum may be NaN, as docs/special_values.md says.
        finite = [np.isfinite(a).all(axis=1) for a in bank.inputs.values()]
        self.infinite = ~np.all(np.broadcast_arrays(*finite), axis=0)
        right = Reading(graph, bank.inputs, bank.n_cols)
        shaken = Shaken(right, graph)
        others = list(schedules(graph, bank.inputs, bank.n_cols))
        self.known = {}
        for name in sums:
            node = graph[name]
            assert isinstance(node, g.Reduce)
            want = _column(right.values[node], bank)
            with np.errstate(all="ignore"):
                errors = [np.abs(_column(o[node], bank) - want) for o in others]
                first = errors[0]
                terms = right.whole(right.values[node.arg])
                whole = size = np.abs(terms).sum(axis=1)
                if name in moved:
                    near = np.abs(right.whole(shaken.values[node.arg])).sum(axis=1)
                    size = np.maximum(size, near)  # NaN where that leaves the range
                mixed = (terms.max(axis=1) > 0) & (terms.min(axis=1) < 0)
                if mixed.any():
                    own = right.whole(magnitude(right, node.arg)).sum(axis=1)
                    size = np.where(mixed, own, size)
                # Its row value is what is left of terms that cancel, and may as well be 0.
                noise = mixed & (UNITS * 2 * UNIT * size >= whole)
                size = size + right.whole(magnitude(right, node.arg, quantum)).sum(axis=1)
                if node.fold is g.Fold.MEAN:
                    size = size / bank.n_cols
                allowed = SAFE * np.fmax.reduce(errors) + UNITS * 2 * UNIT * size
                allowed += 8 * bank.n_cols * 2.0**-126 + result * np.abs(want)
                judged = np.isfinite(want) & (first <= size / 64 + 2.0**-120) & (size < 5e36)
                for row in g.reductions_of(node.arg):  # it leaves the range of float32
                    judged &= np.isfinite(_column(others[0][row], bank))
            self.known[name] = want, allowed, judged, noise

    def worst(self, name: str, merged: Array, tree: str) -> Worst:
        want, allowed, judged, noise = self.known[name]
        got = _column(merged, self.bank)
        with np.errstate(all="ignore"):
            error = np.where(np.isfinite(got), np.abs(got - want) / allowed, np.inf)
            error = np.where(self.infinite & np.isnan(got), 0, error)
            error = np.where(noise & ~np.isfinite(got), 0, error)
        excess = np.where(judged, error, 0)
        k = int(np.argmax(excess))
        return Worst(float(excess[k]), tree, self.bank.label(k), float(got[k]), float(want[k]))


def _column(values: Any, bank: Bank) -> Array:
    return np.broadcast_to(np.asarray(values, np.float64), (len(bank), 1))[:, 0]
