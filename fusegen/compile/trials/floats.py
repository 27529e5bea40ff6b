"""Merged sums tried in the kernels' own floats, on hard rows, beside the text as written.

The proofs are about real numbers and a lemma about floats (docs/proofs.md); this knows neither.
Replays cost by the merge, not by the row, so all rows go along one tree: single elements, one
after another, from the empty state, where empty states, weights of 0 and scales of 0 each meet a
merge alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fusegen.algebra.facts.questions import ASKED, is_mask, leads
from fusegen.compile.trials.edge import beside, lost_at_edge
from fusegen.ir import graph as g
from fusegen.ir.derivation import Dependent, Derivation
from fusegen.ir.dtypes import FLOAT64, DType, dtype_of
from fusegen.ir.kernel import Kernel
from fusegen.oracle.bank import Bank
from fusegen.oracle.reference import evaluate, every_value
from fusegen.oracle.replay import RowsReplay, Split
from fusegen.oracle.rounding import rounding_of
from fusegen.rewrite.finished import behind

Array = np.ndarray[Any, Any]

SAFE, UNITS = 4.0, 64.0  # of the safe text's error, and units in the last place of Σ|terms|
BEYOND = 3.0  # times as far is no rounding any more


@dataclass(frozen=True)
class Alarm:
    """A merged sum that is beyond what rounding explains, or not finite where the text is."""

    name: str  # of the sum, in the graph
    bank: Bank  # the row, alone
    merged: float
    text: float
    error: float
    allowed: float
    floats: str  # that the kernel computes in


@dataclass(frozen=True)
class _Text:
    """One sum by the text as written: exact enough, and in the kernel's type. Columns of rows."""

    node: g.Reduce
    right: Array
    safe: Array
    terms: Array  # Σ|terms|, of a mean their mean
    excepted: Array  # rows that may be NaN: docs/special_values.md
    moved: bool  # kept about another pivot than the text's


def try_floats(
    graph: g.Graph, kernel: Kernel, derivation: Derivation, dtypes: Mapping[str, DType],
    bank: Bank, tree: Split,
) -> list[Alarm]:
    """Replay the kernel on the bank along a tree; one alarm per sum of the text `graph` at most,
    its worst row.

    `dtypes` of the inputs are those that the kernel was lowered for. Where the user accepts
    cancellation, only results that are not finite count.
    """
    if not _sums(graph, derivation):
        return []
    replay = RowsReplay(kernel, bank.named(graph), bank.n_cols)
    replay.run(tree)
    # What only chooses columns of a list that commutes is no part of a result, and is not read out.
    merged = [n for n in _sums(graph, derivation) if graph.names[n] in replay.env]
    wide = kernel.compute == FLOAT64
    found = []
    moved = {r.name for r in derivation.repairs}
    for part in _by_sweep(graph, derivation, merged, dtypes, bank, replay.env):
        for text in _texts(part, moved, wide=wide):
            name = part.graph.names[text.node]
            got = _column(replay.env[name], len(bank))
            excess = _excess(part, text, got, wide=wide)
            if np.max(excess) > 1:
                found.append(_alarm(name, text, got, excess, bank, kernel.compute.name))
    return found


@dataclass(frozen=True)
class _Part:
    """Merged sums of one sweep, and the text that they are judged by, with its types and rows."""

    graph: g.Graph
    sums: list[g.Reduce]
    dtypes: Mapping[str, DType]
    bank: Bank


def _by_sweep(
    graph: g.Graph, derivation: Derivation, sums: list[g.Reduce], dtypes: Mapping[str, DType],
    bank: Bank, known: Mapping[str, Any],
) -> Iterator[_Part]:
    """Behind a cut the text is that of the numbers which earlier sweeps have finished, and these
    are `known` by name: what hangs on their last digits hangs on the same ones."""
    after = {r.name: r.after for r in derivation.repairs}
    by_sweep: dict[frozenset[g.Node], list[g.Reduce]] = {}
    for node in sums:
        name = graph.names[node]
        if name not in after:
            entry = derivation[name]
            assert isinstance(entry, Dependent)
            after[name] = entry.after
        # What a repair brought is no part of the text, and is computed as its sum is.
        done = frozenset(graph[n] for n in after[name] if n in graph.by_name)
        by_sweep.setdefault(done, []).append(node)
    for done, roots in by_sweep.items():
        cut = behind(graph, roots, done)
        if not done or not known.keys() >= cut.given.keys():
            yield _Part(graph, roots, dtypes, bank)
            continue
        values = {n: _column(known[n], len(bank))[:, None] for n in cut.given}
        types = {n: dtype_of(v.dtype) for n, v in values.items()}
        inputs = {i.name: {**bank.inputs, **values}[i.name] for i in cut.graph.read}
        nodes = [cut.graph[graph.names[n]] for n in roots]
        yield _Part(cut.graph, [n for n in nodes if isinstance(n, g.Reduce)], {**dtypes, **types},
                    replace(bank, inputs=inputs))


def _sums(graph: g.Graph, derivation: Derivation) -> list[g.Reduce]:
    """The sums of the text that are merged; with a repair, what stands for the sum is judged, not
    the sums that it is read out of."""
    names = {e.name for e in derivation if isinstance(e, Dependent)}
    names |= {r.name for r in derivation.repairs}
    return [n for n in graph.reductions if isinstance(n, g.Reduce) and graph.names[n] in names]


def _texts(part: _Part, moved: Collection[str], *, wide: bool) -> Iterator[_Text]:
    graph, sums, dtypes, bank = part.graph, part.sums, part.dtypes, part.bank
    needed = [[r for r in g.reductions_of(n.arg) if isinstance(r, g.Reduce)] for n in sums]
    held = tuple(r for rows in needed for r in rows)
    asked = replace(graph, outputs=(*sums, *held, *(n.arg for n in sums)))
    only = replace(graph, outputs=(*sums, *held))
    exact = evaluate(asked, bank.inputs, dtypes, bank.n_cols, np.longdouble if wide else np.float64)
    safe = evaluate(only, bank.inputs, dtypes, bank.n_cols, np.float64 if wide else np.float32)
    rows, n = len(bank), bank.n_cols
    # Where a row value leaves the range of floats, no sum about it is the text's.
    left = {r: np.isfinite(_column(exact[i], rows)) & ~np.isfinite(_column(safe[i], rows))
            for i, r in enumerate(held, len(sums))}
    for k, node in enumerate(sums):
        fits = ~np.any([left[r] for r in needed[k]], axis=0)
        terms = np.abs(np.broadcast_to(exact[len(sums) + len(held) + k], (rows, n))).sum(axis=1)
        mean = node.fold is g.Fold.MEAN
        known = {r: _column(exact[i], rows) for i, r in enumerate(held, len(sums))
                 if r in needed[k]}
        unusable = np.any([~np.isfinite(v) for v in known.values()], axis=0)
        unusable |= np.any([known[r] == 0 for r in _divisors(node.arg) if r in known], axis=0)
        yield _Text(node, _column(exact[k], rows), np.where(fits, _column(safe[k], rows), np.nan),
                    terms / n if mean else terms, unusable & _chooses(node.arg),
                    graph.names[node] in moved)


def _chooses(term: g.Node) -> bool:
    """May a condition, or a bound, leave out what is NaN where a row value is not usable? One that
    asks just what makes it so must not."""
    maps = [n for n in g.topological((term,)) if isinstance(n, g.Map)]
    rows = g.reductions_of(term)
    asks = any(n.op in ASKED and not (is_mask(n) and not any(leads(n, r) for r in rows))
               for n in maps)
    return not asks and any(n.op in ("where", "maximum", "minimum") for n in maps)


def _divisors(term: g.Node) -> set[g.Reduce]:
    """Row values that are 0 where the term may be 0 / 0."""
    under = [n.args[1] for n in g.topological((term,)) if isinstance(n, g.Map) and n.op == "div"]
    return {r for n in under for r in g.reductions_of(n) if isinstance(r, g.Reduce)}


def _excess(part: _Part, text: _Text, got: Array, *, wide: bool) -> Array:
    """Errors over what is allowed, 0 for rows on which the text itself is not finite."""
    graph, dtypes, bank = part.graph, part.dtypes, part.bank
    info = np.finfo(np.float64 if wide else np.float32)
    unit = float(info.eps)
    tiny = 8 * bank.n_cols * float(info.tiny)
    with np.errstate(all="ignore"):
        off = np.abs(text.safe - text.right)
        judged = (text.terms < info.max / 64) & (off <= np.abs(text.terms) / 64)  # not where NaN
        error = np.where(np.isfinite(got), np.abs(got - text.right), np.inf)
        if graph.allow_cancellation:
            error = np.where(np.isfinite(got), 0, error)
        allowed = SAFE * off + UNITS * unit * text.terms + tiny
        judged &= ~(text.excepted & np.isnan(got))
        excess = np.where(judged, error / (BEYOND * allowed), 0)
        suspects = np.flatnonzero(excess > 1)
        if len(suspects):  # seldom: then it is worth asking what the text's own rounding may do
            inputs = {n: a[suspects] for n, a in bank.inputs.items()}
            kind = np.longdouble if wide else np.float64
            values = every_value(graph, inputs, dtypes, bank.n_cols, kind)
            bound = rounding_of(text.node, values, bank.n_cols, unit, float(info.tiny))
            own = SAFE * _column(bound, len(suspects))
            lost = _column(lost_at_edge(text.node, values, bank.n_cols, info), len(suspects))
            # An infinity is no rounding, unless a divisor is all rounding and may as well be 0.
            noise = np.isinf(error[suspects]) & (own >= SAFE * text.terms[suspects])
            noise &= np.all([np.isfinite(a).all(axis=1) for a in inputs.values()], axis=0)
            own = np.where(np.isfinite(error[suspects]), own, 0) + lost
            if text.moved:
                near = beside(text.node, values, bank.n_cols, unit)
                own = own + UNITS * unit * _column(near, len(suspects))
            again = error[suspects] / (BEYOND * (allowed[suspects] + own))
            known = ~noise & (lost <= text.terms[suspects] / 64)
            excess[suspects] = np.where(known, again, 0)
    return excess


def _alarm(
    name: str, text: _Text, got: Array, excess: Array, bank: Bank, floats: str
) -> Alarm:
    """For the worst row; of several where the merged sum is not finite, that of the greatest."""
    worst = int(np.argmax(np.where(excess == np.max(excess), np.abs(text.right), -1)))
    merged, right = float(got[worst]), float(text.right[worst])
    error = abs(merged - right) if np.isfinite(merged) else float("inf")
    allowed = error / float(excess[worst])
    return Alarm(name, bank.only(worst), merged, right, error, allowed, floats)


def shortest(
    graph: g.Graph, kernel: Kernel, derivation: Derivation, dtypes: Mapping[str, DType],
    alarm: Alarm, tree: Split, least: int = 1,
) -> Alarm:
    """The alarm on as few columns as leaving out one after another leads to, `least` at least."""
    while alarm.bank.n_cols > least:
        shorter = alarm.bank.shortened()
        found = try_floats(graph, kernel, derivation, dtypes, shorter, tree)
        again = [a for a in found if a.name == alarm.name]
        if not again:
            break
        alarm = again[0]
    return alarm


def _column(values: Any, rows: int) -> Array:
    return np.broadcast_to(np.asarray(values), (rows, 1))[:, 0]
