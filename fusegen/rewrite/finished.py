"""Row values of finished sweeps as inputs of the row: what reads them is derived as of numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from fusegen.algebra.symbols import is_nonnegative, is_positive
from fusegen.ir import graph as g
from fusegen.ir.names import Taken
from fusegen.lang.value import ACTIVE, Builder
from fusegen.rewrite.build import literal, op, rebuilt

_LEAST = 1e-6
"""What a value known to be > 0 is at least, where a number stands for it."""


@dataclass(frozen=True, slots=True)
class Behind:
    """What is left of a graph once some of its reductions are finished: its nodes have the names
    that they have there. `given`: the row values in place of which it has inputs, by name."""

    graph: g.Graph
    given: Mapping[str, g.Node]


def behind(
    graph: g.Graph, roots: Collection[g.Node], done: Collection[g.Node], *, signs: bool = False
) -> Behind:
    """The graph of `roots`, with an input per row for every row value of the reductions `done`.
    signs: what is known of a value's sign is said of the input, too."""
    build = Builder()
    token = ACTIVE.set(build)
    try:
        return _behind(graph, roots, frozenset(done), signs)
    finally:
        ACTIVE.reset(token)


def _behind(
    graph: g.Graph, roots: Collection[g.Node], done: frozenset[g.Node], signs: bool
) -> Behind:
    known: dict[g.Node, g.Node] = {}
    names: dict[g.Node, str] = {}
    given: dict[str, g.Node] = {}
    taken = Taken(graph.names.values())
    for node in g.topological(roots, lambda n: is_finished(n, done)):
        for a in g.operands(node):
            if a not in known:
                given[graph.names[a]] = a
                known[a] = made = given_number(a, graph.names[a], signs=signs)
                names |= {n: taken.free(f"{graph.names[a]}_finished")
                          for n in g.topological((made,)) if n not in names}
                names[made] = graph.names[a]
        known[node] = rebuilt(node, known.__getitem__)
        names[known[node]] = graph.names[node]
    outputs = tuple(known[n] for n in roots)
    nodes = g.topological(outputs)
    cut = replace(
        graph, nodes=nodes, outputs=outputs, output_names=tuple(names[n] for n in outputs),
        inputs=g.arrays_in(nodes), names={n: names[n] for n in nodes}, like=(),
        named=frozenset(known[n] for n in graph.named if n in known),
        components=graph.components | {n for n, a in given.items() if a in graph.wide},
    )
    return Behind(cut, given)


def is_finished(node: g.Node, done: frozenset[g.Node]) -> bool:
    """Is the node a row value that is known when these reductions are?"""
    if g.extent(node) is not g.Extent.ROW:
        return False
    match node:
        case g.Reduce() | g.Own() if g.is_reduction(node):
            return node in done
        case g.Reduce() | g.Field() | g.Take():
            return all(r in done for r in g.reductions_of(node))
        case _:
            return False


def given_number(value: g.Node, name: str, *, signs: bool) -> g.Node:
    """An input in place of the value; |input|, or one that is never 0, if its sign is known."""
    loc = value.loc
    found = g.Input(name, g.Axis.PER_ROW, loc)
    if signs and is_positive(value):
        return op("maximum", loc, op("abs", loc, found), literal(_LEAST, loc))
    return op("abs", loc, found) if signs and is_nonnegative(value) else found
