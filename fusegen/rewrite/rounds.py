"""Sweep after sweep: what cannot share the first is derived again, of finished numbers.

Behind a cut, a sweep whose row values must be finished before the next can begin, these values are
numbers, as inputs per row are. So what reads them may merge there: a softmax of normalised elements
takes one sweep behind the norm's. That goes on until nothing waits for anything but its own pivots.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from fusegen.algebra.derive import derive
from fusegen.ir import graph as g
from fusegen.ir.derivation import (
    Base,
    Commuted,
    Dependent,
    Derivation,
    Entry,
    Refusal,
    RefusalKind,
    Refused,
)
from fusegen.rewrite.finished import behind


def derived(
    graph: g.Graph, defects: Mapping[str, Refused] | None = None, *,
    groups: Collection[frozenset[str]] = (), witnesses: bool = True,
) -> Derivation:
    """The derivation of the text, and of what is left of it behind every sweep; arguments, and what
    it raises, are those of `derive`."""
    found = derive(graph, defects, groups=groups, witnesses=witnesses)
    entries: dict[g.Node, Entry] = {graph[e.name]: e for e in found}
    local, done, seconds = dict(entries), frozenset[g.Node](), found.seconds
    while now := _joining(graph, local, done):
        done |= now
        left = tuple(n for n in graph.reductions if n not in done)
        entries |= {n: _late(graph, n, e, done) for n in left
                    if isinstance(e := entries[n], Dependent)}
        if all(done.issuperset(_needs(n)) for n in left):  # plain folds of what is finished
            entries |= {n: _behind(entries[n], Base(graph.names[n]), _after(graph, n, done))
                        for n in left}
            break
        parts = [n for n in graph.nodes if isinstance(n, g.Part) and n.top in left]
        cut = behind(graph, [*left, *parts], done, signs=True)
        new = derive(cut.graph, defects, groups=groups, witnesses=False)
        seconds += new.seconds
        local = {graph[e.name]: e for e in new}
        local |= {n: entries[n] for n in left if isinstance(entries[n], Commuted)}
        for n in left:
            entries[n] = _behind(entries[n], local[n], _after(graph, n, done))
    return replace(found, entries=tuple(entries[n] for n in graph.reductions), seconds=seconds)


def _needs(node: g.Reduction) -> frozenset[g.Node]:
    return frozenset(r for a in g.operands(node) for r in g.reductions_of(a))


def _joining(
    graph: g.Graph, local: Mapping[g.Node, Entry], done: frozenset[g.Node]
) -> frozenset[g.Node]:
    """The reductions that the next sweep finishes. `local`: how those that are left are derived of
    what is done."""
    found: set[g.Node] = set()
    for node in graph.reductions:
        if node in done:
            continue
        match local[node]:
            case Base():
                found.add(node)
            case Dependent() | Commuted() if _needs(node) <= found | done:
                found.add(node)
            case _ if _needs(node) <= done:
                found.add(node)
    return frozenset(found)


def _behind(text: Entry, new: Entry, after: tuple[str, ...]) -> Entry:
    """An entry as it stands, or as it is behind the sweeps that finish `after`."""
    match text, new:
        case Commuted(), _:
            return text
        case _, Dependent() | Commuted():
            return replace(new, after=after)
        case Refused(refusal=before), Refused(refusal=refusal):
            witness = before.witness if before.kind is refusal.kind else None
            return replace(new, refusal=replace(refusal, witness=witness), after=after)
        case Refused(), Base():
            return replace(text, after=after, opens=True)
        case _:
            return text


def _late(
    graph: g.Graph, node: g.Reduction, entry: Dependent, done: frozenset[g.Node]
) -> Refused:
    """A sum that would merge, but for what it is read out with."""
    missing = ", ".join(graph.names[r] for r in graph.reductions if r in _needs(node) - done)
    what = node.fold.value if isinstance(node, g.Reduce) else "the reduction"
    shown = (f"{what} ({entry.name}) cannot join the sweep of {', '.join(entry.depends_on)}: "
             f"{RefusalKind.ORDER.value}")
    why = f"its sums would be read out with {missing}, which a later sweep finishes."
    fix = "It keeps a sweep of its own; the result is the same."
    refusal = Refusal(RefusalKind.ORDER, node.loc, shown, why, fix)
    return Refused(entry.name, entry.depends_on, refusal)


def _after(graph: g.Graph, node: g.Reduction, done: frozenset[g.Node]) -> tuple[str, ...]:
    """The finished reductions that the node is made of, by name."""
    return tuple(graph.names[r] for r in g.outermost(g.operands(node), done.__contains__))
