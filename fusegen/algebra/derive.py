"""The pass that decides, for every reduction, whether it can join an earlier one's sweep."""

from __future__ import annotations

import time
from collections.abc import Mapping

import sympy as sp

from fusegen import graph as g
from fusegen.algebra.kinks import moving_kink
from fusegen.algebra.laws import obligations_of
from fusegen.algebra.monotone import direction
from fusegen.algebra.own.laws import own_entry
from fusegen.algebra.pivot import (
    MAX_BASIS,
    Closed,
    NotClosed,
    best_candidate,
    close,
    raw_moment,
    unbounded_factor,
)  # fmt: skip
from fusegen.algebra.setting import Setting, as_vars, read_setting
from fusegen.algebra.symbols import Unmodelled, thaw
from fusegen.derivation import (
    Base,
    Basis,
    Commuted,
    Dependent,
    Derivation,
    Entry,
    Refusal,
    RefusalKind,
    Refused,
    Shifted,
)  # fmt: skip
from fusegen.expr import Expr, Var
from fusegen.ops import OPS

_ORDERED = (g.Fold.MAX, g.Fold.MIN, g.Fold.ARGMAX, g.Fold.ARGMIN)
_SUMS = (g.Fold.SUM, g.Fold.MEAN)
_MAX_NODES = 200  # of one element expression: sympy's time grows with it


def derive(graph: g.Graph) -> Derivation:
    """Classify every row reduction of the graph; never raises for what it cannot prove.

    Only the laws of the user's own monoids must hold: raises LawViolation or UnprovedLaw.
    """
    start = time.perf_counter()
    entries: dict[g.Node, Entry] = {}
    for node in graph.reductions:
        entries[node] = own_entry(graph, node, entries) if isinstance(node, g.Own) else \
            _entry(graph, node, entries)  # fmt: skip
    return Derivation(graph.name, tuple(entries.values()), time.perf_counter() - start)


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
    sign, proof = direction(setting)
    if sign == 0:
        why = f"f is not proved strictly monotone in one element: f = {setting.f}."
        return _refused(graph, node, needs, RefusalKind.NON_MONOTONE, why)
    (element,) = setting.elements
    return Commuted(graph.names[node], needs, graph.names[element], sign > 0, (proof,))


def _dependent(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], setting: Setting
) -> Entry:
    kink = moving_kink(setting)
    if kink is not None:
        return _refused(graph, node, needs, RefusalKind.KINK, f"{kink}.")
    candidate = best_candidate(setting)
    changing = frozenset(r.symbol for r in setting.changing)
    if candidate.stuck:
        why = f"no pivot separates the row values from the element in {candidate.stuck[0]}."
        return _refused(graph, node, needs, RefusalKind.STUCK_ATOM, why)
    loose = raw_moment(candidate, changing)
    if loose is not None:
        why = f"without a pivot for {loose}, large sums of its powers would cancel in the result."
        return _refused(graph, node, needs, RefusalKind.MIXED_SIGN, why)
    closed = close(candidate, changing)
    if isinstance(closed, NotClosed):
        return _not_closed(graph, node, needs, closed)
    held = closed.transport.free_symbols - {c.move for c in candidate.choices}
    if held:
        why = f"the correction depends on {', '.join(sorted(map(str, held)))}, an input per row."
        return _refused(graph, node, needs, RefusalKind.STUCK_ATOM, why)
    factor = unbounded_factor(closed)
    if factor is not None:
        why = f"moving the pivot multiplies the sum by {factor}, which has no bound."
        return _refused(graph, node, needs, RefusalKind.UNBOUNDED, why)
    if any(e.free_symbols & changing for c in candidate.terms.values() for e in c.atoms(sp.exp)):
        why = "the read-out would multiply the sum by an exponential of a row value."
        return _refused(graph, node, needs, RefusalKind.UNBOUNDED, why)
    obligations = obligations_of(setting, closed)
    failed = [o for o in obligations if o.status != "proved"]
    if failed:
        why = f"sympy did not prove the {failed[0].name} ({failed[0].statement})."
        return _refused(graph, node, needs, RefusalKind.UNPROVED, why)
    entry = _spelled(graph.names[node], needs, setting, closed)
    return Dependent(*entry, obligations)


def _spelled(
    name: str, needs: tuple[str, ...], setting: Setting, closed: Closed
) -> tuple[str, tuple[str, ...], tuple[Shifted, ...], tuple[Basis, ...], tuple[Expr, ...]]:
    """The derivation in fusegen's own expressions."""
    spelled = as_vars(setting)
    shifts = []
    for c in closed.candidate.choices:
        if c.pivot is None:
            continue
        spelled[c.u] = Var(c.u.name, "float", True)
        spelled[c.move] = Var(c.move.name)
        shifts.append(Shifted(c.u.name, c.element.name, c.pivot.symbol.name, c.action))
    relative = frozenset(s.name for s in shifts)
    moves = frozenset(c.move.name for c in closed.candidate.choices if c.pivot is not None)
    size = len(closed.basis)
    basis = tuple(
        Basis(
            thaw(closed.basis[k], spelled, relative),
            tuple((j, thaw(closed.transport[k, j], spelled, moves))
                  for j in range(size) if closed.transport[k, j] != 0),
        )
        for k in range(size)
    )  # fmt: skip
    terms = closed.candidate.terms
    readout = tuple(
        thaw(sp.factor(terms.get(h, sp.Integer(0))), spelled, frozenset()) for h in closed.basis
    )
    return name, needs, tuple(shifts), basis, readout


def _not_closed(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], closed: NotClosed
) -> Refused:
    if closed.stuck is None:
        why = f"more than {MAX_BASIS} sums would be needed."
        return _refused(graph, node, needs, RefusalKind.TOO_MANY_STATES, why)
    why = f"moving the pivot leaves {closed.stuck}, which mixes the element and the move."
    return _refused(graph, node, needs, RefusalKind.STUCK_ATOM, why)


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
