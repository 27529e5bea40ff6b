"""A graph with some of its sums about pivots of their own."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fusegen.algebra.equality import prove_equal
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.dtypes import FLOAT64, DType
from fusegen.ir.kinds import compute_dtype
from fusegen.ir.names import Taken
from fusegen.lang.trace import unique_names
from fusegen.lang.value import Builder
from fusegen.rewrite.build import joining, put, rebuilt
from fusegen.rewrite.finished import given_number

if TYPE_CHECKING:
    from fusegen.rewrite.repair.sums import Repaired


@dataclass(frozen=True, slots=True)
class Change:
    """One sum and what stands for it; `text` is the sum over row values as they now are."""

    name: str
    text: g.Reduce
    repaired: Repaired
    hidden: tuple[g.Reduction, ...]  # reductions that the text does not have


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The graph, with the same inputs, outputs and names; and what has changed in it."""

    graph: g.Graph
    changes: tuple[Change, ...]


def repaired_graph(
    graph: g.Graph, derivation: Derivation, dtypes: Mapping[str, DType]
) -> g.Graph:
    """What a derivation of the graph is about, for inputs of these types."""
    if not derivation.repairs:
        return graph
    return rewritten(graph, {r.name: r.after for r in derivation.repairs}, dtypes).graph


def rewritten(
    graph: g.Graph, names: Mapping[str, tuple[str, ...]], dtypes: Mapping[str, DType]
) -> Rewriting:
    """The graph with the named sums repaired, those whose terms have the shape for it. With every
    name the reductions that are finished by then: numbers to the sum."""
    with joining(graph) as build:
        return _rewritten(graph, names, build, wide=compute_dtype(graph, dtypes) == FLOAT64)


def _rewritten(
    graph: g.Graph, wanted: Mapping[str, tuple[str, ...]], build: Builder, *, wide: bool
) -> Rewriting:
    known: dict[g.Node, g.Node] = {}
    changes: list[Change] = []
    for node in graph.nodes:
        made = rebuilt(node, known.__getitem__)
        found = None
        name = graph.names[node]
        if name in wanted and isinstance(made, g.Reduce) and not _is_own(made):
            found = _repaired(name, made, [known[graph[n]] for n in wanted[name]], wide=wide)
        if found is not None and isinstance(made, g.Reduce):
            before = {*graph.nodes, *known.values(), made}
            inner = g.topological((found.value,))
            hidden = tuple(n for n in inner if isinstance(n, g.Reduction) and n not in before)
            changes.append(Change(name, made, found, hidden))
            made = found.value
        known[node] = made
        build.labels.setdefault(made, name)
    outputs = tuple(known[n] for n in graph.outputs)
    nodes = g.topological((*graph.read, *outputs))
    _name_new([n for n in nodes if n not in set(known.values())], graph, build)
    own = [p for c in changes for p in c.repaired.pivots]
    # Arrays are called as they are for the text, whoever named them.
    names = unique_names(nodes, build, graph.names.values())
    names |= {i: graph.names[i] for i in graph.read}
    new = replace(
        graph, nodes=nodes, outputs=outputs, names=names,
        named=frozenset([*(known[n] for n in graph.named), *own]) & frozenset(nodes),
    )
    return Rewriting(new, tuple(changes))


def _repaired(
    name: str, total: g.Reduce, done: Sequence[g.Node], *, wide: bool
) -> Repaired | None:
    """The sum about pivots of its own elements, where what is `done` are numbers."""
    from fusegen.rewrite.repair.pivots import repaired

    if not done:
        return repaired(total, wide=wide)
    given = {n: given_number(n, f"{name}_given_{i}", signs=True) for i, n in enumerate(done)}
    behind = put(total, given)
    assert isinstance(behind, g.Reduce)
    found = repaired(behind, wide=wide)
    if found is None:
        return None
    back = {number: n for n, number in given.items()}
    return replace(
        found, value=put(found.value, back), plain=put(found.plain, back),
        pivots=tuple(put(p, back) for p in found.pivots),
        parts=tuple((put(c, back), put(s, back)) for c, s in found.parts),
        proofs=found.proofs or (functools.partial(
            prove_equal, name, behind, found.plain, equal_to_text(name)),),
    )


def equal_to_text(name: str) -> str:
    """What a repair claims."""
    return f"{name} about another pivot = {name} as written"


def _is_own(total: g.Reduce) -> bool:
    """Does the sum use a state of the user's own? How it rounds along a tree is unknown."""
    return any(isinstance(n, g.Own) for n in g.topological((total,)))


def _name_new(nodes: Sequence[g.Node], graph: g.Graph, build: Builder) -> None:
    """New nodes take no name that a node of the text has."""
    taken = Taken(graph.names.values())
    for node in nodes:
        if node in build.labels:
            build.labels[node] = taken.free(build.labels[node])
