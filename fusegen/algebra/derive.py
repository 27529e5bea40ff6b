"""The pass that decides, for every reduction, whether it can join an earlier one's sweep."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping

import sympy as sp

from fusegen import graph as g
from fusegen.algebra.kinks import moving_kink
from fusegen.algebra.laws import obligations_of
from fusegen.algebra.limits import REDUCTION_SECONDS, within
from fusegen.algebra.monotone import trend_of
from fusegen.algebra.pivot import (
    MAX_BASIS,
    Closed,
    NotClosed,
    best_candidate,
    close,
    joined,
)  # fmt: skip
from fusegen.algebra.safety import (
    cancelling_readout,
    exponential_readout,
    raw_moment,
    rewritten_readout,
    unbounded_factor,
)  # fmt: skip
from fusegen.algebra.setting import Setting, read_setting
from fusegen.algebra.spell import spelled
from fusegen.algebra.steady import is_steady
from fusegen.algebra.symbols import Unmodelled
from fusegen.derivation import (
    Base,
    Commuted,
    Derivation,
    Entry,
    Refusal,
    RefusalKind,
    Refused,
)  # fmt: skip
from fusegen.ops import OPS

_ORDERED = (g.Fold.MAX, g.Fold.MIN, g.Fold.ARGMAX, g.Fold.ARGMIN)
_SUMS = (g.Fold.SUM, g.Fold.MEAN)
_MAX_NODES = 200  # of one element expression: sympy's time grows with it


def derive(graph: g.Graph) -> Derivation:
    """Classify every row reduction of the graph; never raises for what it cannot prove."""
    start = time.perf_counter()
    entries: dict[g.Node, Entry] = {}
    for node in graph.reductions:
        entries[node] = within(
            REDUCTION_SECONDS, functools.partial(_entry, graph, node, entries), _late(graph, node)
        )
    return Derivation(graph.name, tuple(entries.values()), time.perf_counter() - start)


def _late(graph: g.Graph, node: g.Reduce | g.TopK) -> Entry:
    needs = tuple(graph.names[r] for r in g.reductions_of(node.arg))
    why = f"sympy did not decide it within {REDUCTION_SECONDS:g} seconds."
    return _refused(graph, node, needs, RefusalKind.LATE, why)


def _entry(
    graph: g.Graph, node: g.Reduce | g.TopK, entries: Mapping[g.Node, Entry]
) -> Entry:
    name = graph.names[node]
    needs = tuple(graph.names[r] for r in g.reductions_of(node.arg))
    if not needs:
        return Base(name)
    try:
        if len(g.topological((node.arg,))) > _MAX_NODES:
            return _refused(graph, node, needs, RefusalKind.UNPROVED,
                            f"its expression has more than {_MAX_NODES} operations.")  # fmt: skip
        setting = read_setting(node.arg, graph.names, entries)
        if isinstance(node, g.TopK) or node.fold in _ORDERED:
            return _commuted(graph, node, needs, setting)
        if node.fold in _SUMS:
            return _dependent(graph, node, needs, setting)
        why = f"{node.fold.value} of a value that depends on another reduction has no rule."
        return _refused(graph, node, needs, RefusalKind.UNPROVED, why)
    except Unmodelled as error:
        return _unmodelled(graph, node, needs, error.node)
    except (ArithmeticError, TypeError, ValueError, NotImplementedError, RecursionError) as error:
        why = f"sympy stopped with {type(error).__name__}: {error}."
        return _refused(graph, node, needs, RefusalKind.UNPROVED, why)


def _commuted(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], setting: Setting
) -> Entry:
    trend, proof = trend_of(setting)
    if trend.sign == 0:
        why = f"f is not proved monotone in one element: f = {setting.f}."
        return _refused(graph, node, needs, RefusalKind.NON_MONOTONE, why)
    if not trend.strict and _uses_columns(graph, node):
        why = f"f = {setting.f} makes different elements equal, and equal ones go to the lowest " \
              "column: columns taken by the element itself would differ (values alone would not)."
        return _refused(graph, node, needs, RefusalKind.NON_MONOTONE, why)
    (element,) = setting.elements
    return Commuted(graph.names[node], needs, graph.names[element], trend.sign > 0, (proof,))


def _uses_columns(graph: g.Graph, node: g.Reduce | g.TopK) -> bool:
    """Does anything ask which column an entry stands in?"""
    if isinstance(node, g.Reduce):
        return node.fold in (g.Fold.ARGMAX, g.Fold.ARGMIN)
    return any(isinstance(n, g.Part) and n.top is node and n.field == "indices"
               for n in graph.nodes)  # fmt: skip


def _dependent(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], setting: Setting
) -> Entry:
    """Merged as a whole, else term by term."""
    kink = moving_kink(setting)
    if kink is not None:
        return _refused(graph, node, needs, RefusalKind.KINK, f"{kink}.")
    changing = frozenset(r.symbol for r in setting.changing)
    whole, doubt = _attempt(graph, setting, changing)
    if doubt is not None and len(setting.parts) > 1:
        terms = [_attempt(graph, part, changing) for part in setting.parts]
        if all(d is None for _, d in terms):
            whole, doubt = joined([c for c, _ in terms if isinstance(c, Closed)]), None
    if doubt is not None:
        return _refused(graph, node, needs, *doubt)
    assert isinstance(whole, Closed)
    obligations = obligations_of(setting, whole)
    failed = [o for o in obligations if o.status != "proved"]
    if failed:
        why = f"sympy did not prove the {failed[0].name} ({failed[0].statement})."
        return _refused(graph, node, needs, RefusalKind.UNPROVED, why)
    return spelled(graph.names[node], needs, setting, whole, obligations)


def _attempt(
    graph: g.Graph, setting: Setting, changing: frozenset[sp.Symbol]
) -> tuple[Closed | NotClosed, tuple[RefusalKind, str] | None]:
    """The best pivots with their transport: first for the differences that the text itself forms,
    then for any; with the reason not to merge."""
    whole = _closed(setting.apart, changing)
    doubt = _doubt(graph, setting, whole, changing)
    if doubt is None or not setting.apart.twins:
        return whole, doubt
    other = _closed(setting, changing)
    lossy = not graph.allow_cancellation and rewritten_readout(other.candidate, changing)
    if lossy or _doubt(graph, setting, other, changing) is not None:
        return whole, doubt
    return other, None


def _closed(setting: Setting, changing: frozenset[sp.Symbol]) -> Closed | NotClosed:
    candidate = best_candidate(setting)
    if candidate.stuck:
        return NotClosed(candidate, candidate.stuck[0])
    return close(candidate, changing)


def _doubt(
    graph: g.Graph, setting: Setting, closed: Closed | NotClosed, changing: frozenset[sp.Symbol]
) -> tuple[RefusalKind, str] | None:
    """The first reason not to merge, if there is one."""
    candidate = closed.candidate
    if candidate.stuck:
        why = f"no pivot separates the row values from the element in {candidate.stuck[0]}."
        return RefusalKind.STUCK_ATOM, why
    careful = not graph.allow_cancellation
    loose = raw_moment(candidate, changing) if careful else None
    if loose is not None:
        return RefusalKind.MIXED_SIGN, _no_pivot(setting, loose)
    if isinstance(closed, NotClosed):
        return _not_closed(closed)
    held = closed.transport.free_symbols - {m for c in candidate.choices for m in c.moves}
    if held:
        why = f"the correction depends on {', '.join(sorted(map(str, held)))}, an input per row."
        return RefusalKind.STUCK_ATOM, why
    factor = unbounded_factor(closed)
    if factor is not None:
        why = f"moving the pivot multiplies the sum by {factor}, which has no bound."
        return RefusalKind.UNBOUNDED, why
    if exponential_readout(candidate, changing):
        why = "the read-out would multiply the sum by an exponential of a row value."
        return RefusalKind.UNBOUNDED, why
    mixed = cancelling_readout(setting, closed) if careful else None
    if mixed is not None:
        why = f"a sum of terms of one sign would be read out as the difference {mixed}."
        return RefusalKind.MIXED_SIGN, why
    return None


def _no_pivot(setting: Setting, loose: sp.Symbol) -> str:
    why = f"without a pivot for {loose}, large sums of its powers would cancel in the result"
    wild = [r.symbol.name for r in setting.changing if not r.pivotal and not is_steady(r.node)]
    if wild:
        why += (f"; {', '.join(wild)} may leave the range of the data while the row is read, for it"
                " divides by a sum that may pass through 0 (fg.abs or fg.exp of weights would not)")
    return f"{why}."


def _not_closed(closed: NotClosed) -> tuple[RefusalKind, str]:
    if closed.stuck is None:
        return RefusalKind.TOO_MANY_STATES, f"more than {MAX_BASIS} sums would be needed."
    why = f"moving the pivot leaves {closed.stuck}, which mixes the element and the move."
    return RefusalKind.STUCK_ATOM, why


def _unmodelled(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], stuck: g.Node
) -> Refused:
    if isinstance(stuck, g.Map | g.Cast) and not (
        isinstance(stuck, g.Map) and stuck.op in OPS and g.extent(stuck) is g.Extent.LIST
    ):
        why = f"the algebra has no model of {graph.names[stuck]} ({stuck.loc.short})."
        return _refused(graph, node, needs, RefusalKind.UNPROVED, why)
    why = f"it uses {graph.names[stuck]}, which exists only when the row is finished."
    return _refused(graph, node, needs, RefusalKind.ORDER, why)


def _refused(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], kind: RefusalKind, why: str
) -> Refused:
    what = node.fold.value if isinstance(node, g.Reduce) else f"topk({node.k})"
    others = ", ".join(needs)
    shown = f"{what} ({graph.names[node]}) cannot join the sweep of {others}: {kind.value}"
    fix = "It keeps a sweep of its own; the result is the same."
    return Refused(graph.names[node], needs, Refusal(kind, node.loc, shown, why, fix))
