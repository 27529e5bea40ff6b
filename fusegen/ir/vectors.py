"""Lengths of vectors, of the inputs as their types say, of all else as it is made of those; and the
array of the rows' numbers, which comes with a call although nobody gives it."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import ShapeError
from fusegen.ir.names import Taken


def lengths_of(graph: g.Graph, dtypes: Mapping[str, DType]) -> dict[g.Node, int]:
    """Numbers in each of a node's vectors, for all nodes that have some. dtypes: by input name.

    Raises ShapeError at the user's line where vectors of several lengths meet."""
    found: dict[g.Node, int] = {}
    for node in graph.nodes:
        if not g.is_vector(node):
            continue
        if isinstance(node, g.Input):
            found[node] = dtypes[node.name].length
            continue
        met = {found[a]: a for a in g.operands(node) if a in found}
        if len(met) > 1:
            (m, a), (n, b), *_ = met.items()
            raise ShapeError(
                f"{_told(a, graph)} has vectors of {m} numbers, {_told(b, graph)} of {n}",
                where=node.loc, why="Vectors meet number by number.",
                fix="Give arrays whose last axes have the same size.",
            )
        found[node] = next(iter(met))
    return found


def _told(node: g.Node, graph: g.Graph) -> str:
    """A node's vectors as the user knows them: by their inputs, and the name that has them."""
    if isinstance(node, g.Input):
        return node.name
    inputs = [n.name for n in g.topological((node,)) if isinstance(n, g.Input) and g.is_vector(n)]
    of = " and ".join(dict.fromkeys(inputs))
    return f"{graph.names[node]} (of {of})" if node in graph.named else f"what is made of {of}"


def groups_of(graph: g.Graph) -> dict[str, int]:
    """Of each input that holds vectors, a number; those that meet number by number have the same.
    """
    found: dict[g.Node, int] = {}
    for node in graph.nodes:
        if g.is_vector(node):
            met = {found[a] for a in g.operands(node) if a in found}
            found[node] = min(met, default=len(found))
            found = {n: found[node] if i in met else i for n, i in found.items()}
    return {n.name: i for n, i in found.items() if isinstance(n, g.Input)}


def row_numbers(graph: g.Graph) -> str | None:
    """The name of the array that holds the rows' numbers; None where the text asks for none."""
    if not any(isinstance(n, g.RowNumber) for n in graph.nodes):
        return None
    return Taken([*graph.names.values(), *graph.output_names]).free("row_numbers")
