"""The text that a trial is of: as the user's, with shorter lists."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir import graph as g
from fusegen.lang.value import ACTIVE, Builder
from fusegen.rewrite.build import rebuilt

LONGEST = 24


def with_short_lists(graph: g.Graph) -> g.Graph:
    """The graph with lists of some more than LONGEST entries in place of all longer ones.

    No law depends on how long a list is, and a row has to be as long as its lists: of a million
    entries nobody would wait for a trial. Lists of several lengths keep several, in their order,
    so no two of them become one; nodes have the names that they had.
    """
    longer = sorted({n.k for n in graph.nodes if isinstance(n, g.TopK) and n.k > LONGEST})
    if not longer:
        return graph
    short = {k: LONGEST + 1 + i for i, k in enumerate(longer)}
    known: dict[g.Node, g.Node] = {}
    token = ACTIVE.set(Builder())
    try:
        for node in graph.nodes:
            made = rebuilt(node, known.__getitem__)
            if isinstance(made, g.TopK):
                made = replace(made, k=short.get(made.k, made.k))
            known[node] = made
    finally:
        ACTIVE.reset(token)
    return replace(
        graph, nodes=tuple(known[n] for n in graph.nodes),
        outputs=tuple(known[n] for n in graph.outputs),
        names={known[n]: name for n, name in graph.names.items()},
        named=frozenset(known[n] for n in graph.named),
    )
