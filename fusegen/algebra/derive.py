"""The pass that decides, for every reduction, whether it can join an earlier one's sweep."""

from __future__ import annotations

import functools
import time
from collections.abc import Collection, Mapping

from fusegen.algebra.floats.partial import out_of_domain
from fusegen.algebra.floats.probes import decided, told_simpler, undefined
from fusegen.algebra.limits import REDUCTION_SECONDS, TEXT_SECONDS, within
from fusegen.algebra.merge import Doubt, merged
from fusegen.algebra.monotone import trend_of
from fusegen.algebra.own.laws import own_entry
from fusegen.algebra.proof.definitions import definitions_of
from fusegen.algebra.reading import asks_of_extremes, read_setting, wholes_of
from fusegen.algebra.refusals import ROUNDED, refused, with_stray, with_witness
from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import Decided, Unmodelled, operations, told
from fusegen.ir import graph as g
from fusegen.ir.conditions import asks_of_rows
from fusegen.ir.derivation import Base, Commuted, Derivation, Entry, RefusalKind, Refused

_ORDERED = (g.Fold.MAX, g.Fold.MIN, g.Fold.ARGMAX, g.Fold.ARGMIN)
_SUMS = (g.Fold.SUM, g.Fold.MEAN)
_VECTORS = "To share the sweep, measure vectors from a row's or a column's own, or from nothing."
_MOST = 60  # operations of one element expression: sympy's time grows with them


def derive(
    graph: g.Graph, defects: Mapping[str, Refused] | None = None, *,
    groups: Collection[frozenset[str]] = (), witnesses: bool = True,
) -> Derivation:
    """Classify every row reduction of the graph; never raises for what it cannot prove.

    defects: reductions, by name, whose merge is not to be used, whatever is proved of it.
    groups: names of sums that are of use together alone: after one is refused, the rest are.
    witnesses: refusals come with a row that shows why, where a short one is found.
    Only the laws of the user's own monoids must hold: raises LawViolation or UnprovedLaw.
    """
    start, end = time.perf_counter(), time.thread_time() + TEXT_SECONDS
    entries: dict[g.Node, Entry] = {}
    for node in graph.reductions:
        if defects and graph.names[node] in defects:
            entries[node] = defects[graph.names[node]]
            continue
        if isinstance(node, g.Own):
            entries[node] = own_entry(graph, node, entries)
            continue
        lost = _lost(graph.names[node], groups, entries)
        entries[node] = _idle(graph, node, lost) if lost else \
            _decided(graph, node, entries, end - time.thread_time(), witnesses)
    seconds = time.perf_counter() - start
    return Derivation(graph.name, tuple(entries.values()), seconds, definitions_of(graph))


def _lost(
    name: str, groups: Collection[frozenset[str]], entries: Mapping[g.Node, Entry]
) -> frozenset[str]:
    """What is refused already, in every group of the sum."""
    refused = {e.name for e in entries.values() if isinstance(e, Refused)}
    lost = [group & refused for group in groups if name in group]
    return frozenset().union(*lost) if all(lost) else frozenset()


def _needs(graph: g.Graph, node: g.Reduce | g.TopK) -> tuple[str, ...]:
    return tuple(graph.names[r] for r in g.reductions_of(node.arg))


def _idle(graph: g.Graph, node: g.Reduce | g.TopK, lost: frozenset[str]) -> Entry:
    why = f"it is of use beside {', '.join(sorted(lost))} alone."
    return refused(graph, node, _needs(graph, node), RefusalKind.UNPROVED, why)


def _decided(
    graph: g.Graph, node: g.Reduce | g.TopK, entries: Mapping[g.Node, Entry], left: float,
    witnesses: bool,
) -> Entry:
    needs = _needs(graph, node)
    if not needs:
        return Base(graph.names[node])
    if operations(node.arg) > _MOST:
        return refused(graph, node, needs, RefusalKind.UNPROVED,
                        f"its expression has more than {_MOST} operations, those that are used "
                        "twice counted twice.")
    # sympy may take for ever. What is late keeps its sweep, and is asked again another time.
    seconds = min(REDUCTION_SECONDS, left)
    why = f"sympy did not decide it within {REDUCTION_SECONDS:g} seconds, or all of the text " \
          f"within {TEXT_SECONDS:g}."
    late: Entry = refused(graph, node, needs, RefusalKind.LATE, why)
    work = functools.partial(_entry, graph, node, needs, entries, witnesses)
    entry = within(seconds, work, late) if seconds > 0 else late
    return with_witness(graph, node, entry, entries) if witnesses else entry


def _entry(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...],
    entries: Mapping[g.Node, Entry], witnesses: bool,
) -> Entry:
    """As the text reads; else with extremes that are numbers, where it asks, or with what it
    computes of finished numbers taken as a whole."""
    found = _read(graph, node, needs, entries, witnesses)
    if isinstance(found, Refused) and asks_of_extremes(node.arg):
        other = _read(graph, node, needs, entries, witnesses, finite=True)
        unfit = isinstance(other, Refused) and other.refusal.kind is RefusalKind.SPECIAL
        found = found if unfit else other
    if isinstance(found, Refused) and wholes_of(node.arg):
        other = _read(graph, node, needs, entries, witnesses, whole=True)
        found = found if isinstance(other, Refused) else other
    return found


def _read(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...],
    entries: Mapping[g.Node, Entry], witnesses: bool, *, whole: bool = False, finite: bool = False,
) -> Entry:
    """By the kind of reduction. Whatever sympy raises is a refusal: the text runs without it."""
    try:
        setting = read_setting(graph, node.arg, entries, whole=whole, finite=finite,
                               filled=isinstance(node, g.TopK) or node.fold in _ORDERED)
        if isinstance(node, g.TopK) or node.fold in _ORDERED:
            return _commuted(graph, node, needs, setting)
        if node.fold in _SUMS:
            return _dependent(graph, node, needs, setting, witnesses)
        why = f"{node.fold.value} of a value that depends on another reduction has no rule."
        return refused(graph, node, needs, RefusalKind.UNPROVED, why)
    except Decided:
        return refused(graph, node, needs, RefusalKind.KINK, ROUNDED)
    except Unmodelled as error:
        return _unmodelled(graph, node, needs, error.node)
    except (ArithmeticError, TypeError, ValueError, NotImplementedError, RecursionError) as error:
        why = f"sympy stopped with {type(error).__name__}: {error}."
        return refused(graph, node, needs, RefusalKind.UNPROVED, why)


def _commuted(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], setting: Setting
) -> Entry:
    trend, proof = trend_of(setting)
    if trend.sign == 0:
        why = f"f is not proved monotone in one element: f = {told(setting.f)}."
        return refused(graph, node, needs, RefusalKind.NON_MONOTONE, why)
    doubt = _not_in_floats(graph, node, needs, setting)
    if doubt is not None:
        return doubt
    if not trend.strict and _uses_columns(graph, node):
        why = f"f = {told(setting.f)} makes different elements equal, and equal ones go to the " \
              "lowest column: columns taken by the element itself would differ (values would not)."
        return refused(graph, node, needs, RefusalKind.NON_MONOTONE, why)
    (element,) = setting.elements
    return Commuted(graph.names[node], needs, graph.names[element], trend.sign > 0, (proof,))


def _not_in_floats(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], setting: Setting
) -> Refused | None:
    """Why a map that follows the order over the reals is not applied to the greatest alone."""
    strange = decided(setting)
    if strange is not None and asks_of_rows(node.arg):
        return refused(graph, node, needs, RefusalKind.KINK, ROUNDED)
    if strange is not None:
        why, todo = told_simpler(graph, strange)
        return refused(graph, node, needs, RefusalKind.SIMPLER, why, todo)
    # max f(x) is NaN if any f(x) is; f of the greatest x need not be.
    partial = out_of_domain(setting)
    if partial is not None:
        why = f"{partial.op} ({partial.loc.short}) has no value for some elements: the text may " \
              "be NaN there, whatever the greatest is."
        todo = "To share the sweep, keep its operand where it has a value: fg.maximum(x, 1e-6)."
        return refused(graph, node, needs, RefusalKind.SPECIAL, why, todo)
    row = undefined(setting)
    if row is not None:
        name = graph.names[row]
        why = f"{name} may be 0: the text is then NaN at some elements, whatever the greatest is."
        todo = f"To share the sweep, keep {name} from 0: fg.maximum({name}, 1e-6)."
        return refused(graph, node, needs, RefusalKind.SPECIAL, why, todo)
    return None


def _uses_columns(graph: g.Graph, node: g.Reduce | g.TopK) -> bool:
    """Does anything ask which column an entry stands in?"""
    if isinstance(node, g.Reduce):
        return node.fold in (g.Fold.ARGMAX, g.Fold.ARGMIN)
    return any(isinstance(n, g.Part) and n.top is node and n.field == "indices"
               for n in graph.nodes)


def _dependent(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], setting: Setting,
    witnesses: bool,
) -> Entry:
    found = merged(graph.names[node], needs, setting, brave=graph.allow_cancellation)
    # A state has one move for all numbers of a vector: nothing is measured from vectors.
    wide = [graph.names[n] for n in setting.rows if n in graph.wide]
    if isinstance(found, Doubt) and wide:
        why = f"{', '.join(wide)} is a vector, and a state keeps its sums relative to numbers."
        return refused(graph, node, needs, RefusalKind.ORDER, why, _VECTORS)
    if isinstance(found, Doubt):
        entry = refused(graph, node, needs, found.kind, found.why, found.todo)
        if witnesses and found.merge is not None:
            return with_stray(graph, node, entry, *found.merge)
        return entry
    return found


def _unmodelled(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], stuck: g.Node
) -> Refused:
    if isinstance(stuck, g.Literal):
        why = f"it holds {stuck.value} ({stuck.loc.short}), and the algebra speaks of finite reals."
        return refused(graph, node, needs, RefusalKind.UNPROVED, why)
    ordered = [n for n in g.topological((stuck,)) if isinstance(n, g.TopK | g.Take)]
    if isinstance(stuck, g.Map | g.Cast) and not ordered:
        why = f"the algebra has no model of {graph.names[stuck]} ({stuck.loc.short})."
        return refused(graph, node, needs, RefusalKind.UNPROVED, why)
    why = f"it uses {graph.names[stuck]}, which exists only when the row is finished."
    return refused(graph, node, needs, RefusalKind.ORDER, why)
