"""The name under which what was made of a graph is kept."""

from __future__ import annotations

import hashlib

from fusegen import graph as g


def digest(graph: g.Graph) -> str:
    """A hash of all that generated source depends on: structure, names, lines; not folders."""
    number = {n: i for i, n in enumerate(graph.nodes)}
    parts = [graph.name, graph.loc.short, repr(graph.structure), repr(graph.output_names)]
    parts.append(repr(graph.allow_cancellation))
    for node in graph.nodes:
        row = (
            g.attributes(node),
            [number[a] for a in g.operands(node)],
            graph.names[node],
            node in graph.named,
            node.loc.short,
            node.loc.text,
        )
        parts.append(repr(row))
    parts.append(repr([number[n] for n in graph.outputs]))
    parts.append(repr([i.name for i in graph.inputs]))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
