"""A text over vectors as one over numbers: what the algebra, the trials and the sweeps are about.

Monoids and their proofs do not care where an element comes from. So every sum over a vector's index
becomes an input of its own, as if it had been stored; and what is a vector becomes any one of its
numbers, for all of them are treated alike: a sum over columns, Σ p·v, merges number by number, and
its transport knows no vector. A sum over the index of what a whole row makes waits for the row, and
stays: of one number it is that number. Kernels put vectors back: compile/lower/vectors.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusegen.ir import graph as g
from fusegen.ir.dtypes import FLOAT32, FLOAT64, INT64, DType
from fusegen.ir.kinds import infer_kinds
from fusegen.ir.names import Taken
from fusegen.ir.vectors import row_numbers
from fusegen.lang.value import ACTIVE, Builder
from fusegen.rewrite.build import rebuilt


@dataclass(frozen=True, eq=False)
class ScalarText:
    """`graph` has no vectors; `inners` are the nodes of the user's text that became inputs of it,
    by their names there."""

    graph: g.Graph
    inners: Mapping[str, g.Inner]
    numbers: str | None = None  # the input that holds the rows' numbers

    def types(self, text: g.Graph, dtypes: Mapping[str, DType]) -> Mapping[str, DType]:
        """Types of its inputs. text: the user's; dtypes: of that one's inputs."""
        if self.graph is text:
            return dtypes
        casts = {n.dtype for n in text.nodes if isinstance(n, g.Cast)}
        wide = FLOAT64 in {*casts, *(d.number for d in dtypes.values())}
        kinds = infer_kinds(text, dtypes)
        found = {n: INT64 if n == self.numbers else dtypes[n].number
                 for n in (i.name for i in self.graph.inputs) if n not in self.inners}
        made = {n: INT64 if kinds[node] == "int" else FLOAT64 if wide else FLOAT32
                for n, node in self.inners.items()}
        return {i.name: {**found, **made}[i.name] for i in self.graph.inputs}


def scalar_text(graph: g.Graph) -> ScalarText:
    """The text with a number for every vector."""
    asked = (g.Inner, g.RowNumber)
    if not any(isinstance(n, asked) or g.is_vector(n) for n in graph.nodes):
        return ScalarText(graph, {})
    build = Builder()
    token = ACTIVE.set(build)
    try:
        return _numbered(graph, build)
    finally:
        ACTIVE.reset(token)


def _numbered(graph: g.Graph, build: Builder) -> ScalarText:
    known: dict[g.Node, g.Node] = {}
    inners: dict[str, g.Inner] = {}
    taken = Taken(graph.names.values(), graph.output_names)
    numbers = row_numbers(graph)
    names = {n: taken.free(name) if name in graph.output_names else name
             for n, name in graph.names.items()}  # an array that is read is none that is written
    for node in graph.nodes:
        name = names[node]
        match node:
            case g.Input() if node.axis in g.VECTORS:
                found: g.Node = g.Input(node.name, _axis(node), node.loc)
            case g.RowNumber():
                found = g.Input(numbers or "", g.Axis.PER_ROW, node.loc)
            case g.Inner() if not g.reductions_of(node):
                inners[name] = node
                found = g.Input(name, _axis(node), node.loc)
            case _:
                found = rebuilt(node, known.__getitem__)
        known[node] = build.add(found).node
    outputs = tuple(known[n] for n in graph.outputs)
    nodes = g.topological(outputs)
    kept = frozenset(nodes)
    made = {known[n] for n in graph.nodes if isinstance(n, g.Inner | g.RowNumber)}
    new = replace(
        graph, inputs=g.arrays_in(nodes), nodes=nodes, outputs=outputs,
        names={n: n.name if isinstance(n, g.Input) and n in made else graph.names[old]
               for old, n in known.items() if n in kept},
        named=frozenset(known[n] for n in graph.named) & kept,
        components=frozenset(i.name for i in graph.inputs if i.axis in g.VECTORS),
        made=frozenset(inners),
    )
    read = {i.name for i in new.inputs}
    return ScalarText(new, {n: i for n, i in inners.items() if n in read}, numbers)


def _axis(node: g.Node) -> g.Axis:
    return g.Axis.PER_ROW if g.extent(node) is g.Extent.ROW else g.Axis.ELEMENT

