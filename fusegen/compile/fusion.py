"""Which reductions share a sweep: the only importer of networkx.

Every reduction is a vertex; an edge says "needs", with `wait` 1 where the needed value must be
finished before the sweep can start, 0 where it may finish in the same sweep, and None where only
the read-out needs it. The sweep of a reduction is the longest path of waits that leads to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fusegen.ir import graph as g
from fusegen.ir.derivation import Commuted, Dependent, Derivation, Entry
from fusegen.ir.digest import attributes
from fusegen.ir.dtypes import Kind
from fusegen.ir.errors import PipelineError
from fusegen.ir.forms import Form

if TYPE_CHECKING:
    import networkx as nx  # loaded where it is used: a run from the cache never needs it

_LABELLED = ("map", "reduce", "part", "own", "field")  # nodes that a drawing calls by what they do

Mode = Literal["text", "merged", "commuted"]
"""text: folded as written; merged: kept relative to a moving pivot; commuted: taken of the atom."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One sweep: the reductions it folds and the element values it stores."""

    number: int
    folds: tuple[g.Reduction, ...]
    stores: tuple[g.Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """The sweeps of a form. `finish[node]`: the sweep after which a row or list value is known."""

    form: Form
    stages: tuple[Stage, ...]
    modes: Mapping[g.Node, Mode]
    finish: Mapping[g.Node, int]
    materialised: frozenset[g.Node]  # element values that are written out and read back


def fuse(
    graph: g.Graph, derivation: Derivation, form: Form, kinds: Mapping[g.Node, Kind]
) -> Fusion:
    """Assign every reduction and every stored element value to a sweep."""
    kind: Form = "online" if form == "auto" else form
    entries: dict[g.Node, Entry] = {n: derivation[graph.names[n]] for n in graph.reductions}
    modes: dict[g.Node, Mode] = {n: _mode(entries[n], kind) for n in graph.reductions}
    for node in graph.reductions:
        if not isinstance(node, g.Own) and _inexact(graph, node, entries[node], kinds):
            modes[node] = "text"
    if kind == "unfused":
        return _one_per_sweep(graph, modes, entries)
    level = _levels(graph, modes, entries)
    finish = _finish(graph, level)
    while late := [
        n for n in level if modes[n] == "merged"
        and (level[n] < finish[n] or not _pivots_move(graph, n, entries, modes, level))
    ]:
        # Its read-out would meet a row value of a later sweep: fold the text there instead.
        modes = {**modes, late[0]: "text"}
        level = _levels(graph, modes, entries)
        finish = _finish(graph, level)
    stored = {n: _store_level(n, finish) for n in graph.outputs if _is_element(n)}
    stages = _stages({n: level[n] for n in graph.reductions}, stored)
    return Fusion(form=kind, stages=stages, modes=modes, finish=finish, materialised=frozenset())


def _stages(
    folds: Mapping[g.Reduction, int], stores: Mapping[g.Node, int]
) -> tuple[Stage, ...]:
    """The sweeps by the level of what they fold and store."""
    folded: dict[int, list[g.Reduction]] = {}
    stored: dict[int, list[g.Node]] = {}
    for reduction, level in folds.items():
        folded.setdefault(level, []).append(reduction)
    for node, level in stores.items():
        stored.setdefault(level, []).append(node)
    return tuple(
        Stage(i, tuple(folded.get(i, ())), tuple(stored.get(i, ())))
        for i in range(1, max([*folded, *stored, 1]) + 1)
    )


def as_networkx(graph: g.Graph) -> nx.DiGraph:
    """The whole graph, for people: nodes by name, with attributes label, loc and extent."""
    import networkx as nx

    drawn: nx.DiGraph = nx.DiGraph(name=graph.name)
    for node in graph.nodes:
        what = attributes(node)
        label = str(what[1]) if len(what) > 1 and what[0] in _LABELLED else what[0]
        drawn.add_node(
            graph.names[node], label=label, loc=str(node.loc), extent=g.extent(node).value,
            output=node in graph.outputs,
        )
    for node in graph.nodes:
        drawn.add_edges_from((graph.names[a], graph.names[node]) for a in g.operands(node))
    return drawn


def _mode(entry: Entry, form: Form) -> Mode:
    if form == "unfused":
        return "text"
    match entry:
        case Dependent() if form == "online":
            return "merged"
        case Commuted():
            return "commuted"
        case _:
            return "text"


def _inexact(
    graph: g.Graph, node: g.Reduce | g.TopK, entry: Entry, kinds: Mapping[g.Node, Kind]
) -> bool:
    """Would merging make whole numbers floats? They are summed and compared exactly, as written;
    counts of what equals an extreme stay whole when merged."""
    if not isinstance(entry, Dependent):
        return False
    whole = any(kinds[graph[s.atom]] == "int" for s in entry.shifts if s.action == "same")
    # Where NaN takes the order away there is no whole number to say so.
    return whole or (kinds[node] == "int" and not (entry.counts and not entry.ordered))


def _pivots_move(
    graph: g.Graph, node: g.Node, entries: Mapping[g.Node, Entry], modes: Mapping[g.Node, Mode],
    level: Mapping[g.Node, int],
) -> bool:
    """Are the pivots known while the sweep runs, as they were derived: folded or merged in it?"""
    entry = entries[node]
    if not isinstance(entry, Dependent):
        return True
    pivots = [graph[n] for s in entry.shifts for n in (s.pivot, s.unit) if n]
    moving = {r for p in pivots for r in g.reductions_of(p)} - {graph[n] for n in entry.after}
    return all(level[r] == level[node] and (
        modes[r] == "merged" or not isinstance(entries[r], Dependent)) for r in moving)


def _is_element(node: g.Node) -> bool:
    return g.extent(node) is g.Extent.ELEMENT


def row_needs(node: g.Node) -> tuple[g.Reduction, ...]:
    """The reductions whose finished values `node` uses directly."""
    return tuple(dict.fromkeys(r for a in g.operands(node) for r in g.reductions_of(a)))


def _needs(
    graph: g.Graph, modes: Mapping[g.Node, Mode], entries: Mapping[g.Node, Entry]
) -> nx.DiGraph:
    """Reductions after those whose values they use. wait: sweeps that come between: one before the
    text is read, or an element, at a finished value, none where a list meets one; None: it merges,
    and needs the value only when it is read out."""
    import networkx as nx

    needs: nx.DiGraph = nx.DiGraph()
    needs.add_nodes_from(graph.reductions)
    for node in graph.reductions:
        wait = 1 if modes[node] == "text" else None
        needs.add_edges_from((r, node, {"wait": wait}) for r in row_needs(node))
        entry = entries[node]
        if isinstance(entry, Dependent | Commuted):
            needs.add_edges_from((graph[n], node, {"wait": 1}) for n in entry.after)
    _keep_lists_alive(graph, needs)
    return needs


def _keep_lists_alive(graph: g.Graph, needs: nx.DiGraph) -> None:
    """A list is consumed in the sweep that made it, so it waits for the row values it meets."""
    import networkx as nx

    inside = {a for n in graph.nodes if g.lists_of(n) for a in g.operands(n)}
    for node in graph.nodes:
        # What a list value meets, those that it is part of meet too.
        for top in () if node in inside else g.lists_of(node):
            for row in _meets(node):
                if row is top or needs.get_edge_data(row, top, {"wait": None})["wait"]:
                    continue
                if nx.has_path(needs, top, row):
                    if not _comes_from(row, top):
                        raise PipelineError(
                            "two top-K results need each other's row values", where=node.loc,
                            fix="Split the pipeline in two.",
                        )
                    continue
                needs.add_edge(row, top, wait=0)


def _meets(node: g.Node) -> tuple[g.Reduction, ...]:
    """Row reductions combined with a list: also those inside the list's own element expression."""
    found = dict.fromkeys(row_needs(node))
    for top in [r for r in found if isinstance(r, g.TopK)]:
        found |= dict.fromkeys(row_needs(top))
    return tuple(found)


def _comes_from(row: g.Node, top: g.TopK) -> bool:
    return top in g.topological((row,))


def _levels(
    graph: g.Graph, modes: Mapping[g.Node, Mode], entries: Mapping[g.Node, Entry]
) -> dict[g.Node, int]:
    import networkx as nx

    needs = _needs(graph, modes, entries)
    level: dict[g.Node, int] = {}
    finish: dict[g.Node, int] = {}
    for node in nx.lexicographical_topological_sort(needs, key=_place(graph)):
        start = 1
        for before, _, wait in needs.in_edges(node, data="wait"):
            start = start if wait is None else max(start, finish[before] + wait)
        level[node] = start
        # A merged or commuted value is read out only when the rows in its formula are finished.
        late = [finish[r] for r in row_needs(node)]
        finish[node] = max([start, *late])
        if modes[node] == "commuted" or isinstance(node, g.TopK):
            level[node] = finish[node]  # what is left of it is of use in that sweep alone
    return level


def _finish(graph: g.Graph, level: Mapping[g.Node, int]) -> dict[g.Node, int]:
    """The sweep that completes each row or list value; 0 if it is known before any."""
    finish: dict[g.Node, int] = {}
    for node in graph.nodes:
        inner = [finish[a] for a in g.operands(node)]
        finish[node] = max([level.get(node, 0), *inner, 0])
    return finish


def _store_level(node: g.Node, finish: Mapping[g.Node, int]) -> int:
    """The sweep behind the one that finishes the last row value that the element is made of."""
    waits = [finish[r] for r in row_needs(node)]
    return max(waits) + 1 if waits else 1


def _place(graph: g.Graph) -> Callable[[g.Node], int]:
    return {n: i for i, n in enumerate(graph.nodes)}.__getitem__


def _met(node: g.Node, kept: Collection[g.Node]) -> list[g.Node]:
    """Those of `kept` that the node is made of, without looking inside them or reductions."""
    inner = g.topological(g.operands(node), lambda n: n in kept or g.is_reduction(n))
    return list(dict.fromkeys(a for n in (node, *inner) for a in g.operands(n) if a in kept))


def _one_per_sweep(
    graph: g.Graph, modes: Mapping[g.Node, Mode], entries: Mapping[g.Node, Entry]
) -> Fusion:
    """Unfused: as an eager program runs it, with every named element value written out."""
    import networkx as nx

    used = {a for n in graph.nodes for a in g.operands(n)}
    outputs = {n for n in graph.outputs if _is_element(n)}
    kept = {
        n for n in graph.nodes if _is_element(n) and n in graph.named and n in used
        and (not isinstance(n, g.Input) or n.name in graph.made)
        and n not in graph.wide  # a vector for every element
    }
    order: nx.DiGraph = _needs(graph, modes, entries)
    for node in [n for n in graph.nodes if n in kept | outputs]:
        order.add_node(node)
    for after in list(order):
        order.add_edges_from((before, after, {"wait": 1}) for before in _met(after, kept))
    for node in kept | outputs:
        order.add_edges_from((r, node, {"wait": 1}) for r in row_needs(node))
    stages, level = [], {}
    for number, node in enumerate(
        nx.lexicographical_topological_sort(order, key=_place(graph)), start=1
    ):
        level[node] = number
        folds = (node,) if g.is_reduction(node) else ()
        stages.append(Stage(number, folds, () if folds else (node,)))
    rows = {n: i for n, i in level.items() if g.is_reduction(n)}
    return Fusion(
        form="unfused", stages=tuple(stages) or _stages({}, {}), modes=modes,
        finish=_finish(graph, rows),
        materialised=frozenset(kept),
    )
