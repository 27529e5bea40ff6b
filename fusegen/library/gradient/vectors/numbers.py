"""Sums over the index of vectors that rows have, as sums of stored rows: δ = Σᵢ dOᵢ·Oᵢ.

Lanes that share a tile's rows would each read these vectors, number by number, and once more where
the rows' results are made; kernels of stored rows read them once, as they lie in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from fusegen.ir import graph as g
from fusegen.lang import lang as fg
from fusegen.lang.value import Value
from fusegen.rewrite.adjoint.transplant import scalars_of, transplant


def inners_of(
    outputs: Sequence[g.Node], arrays: Collection[g.Node], lengths: Mapping[g.Node, int]
) -> list[tuple[g.Inner, ...]]:
    """Those that the outputs are made of, over vectors that come as arrays of all rows; together
    where these have the same length."""
    known = {*arrays}
    found: dict[int, list[g.Inner]] = {}
    for node in g.topological(outputs, known.__contains__):
        if isinstance(node, g.Inner) and node not in known and _is_stored(node.arg, known):
            found.setdefault(lengths[next(_vectors(node.arg, known))], []).append(node)
    return [*map(tuple, found.values())]


def vectors_of(inners: Sequence[g.Inner], arrays: Collection[g.Node]) -> tuple[g.Node, ...]:
    """The arrays that they are made of."""
    return tuple(dict.fromkeys(v for n in inners for v in _vectors(n.arg, {*arrays})))


def summed(
    inners: Sequence[g.Inner], vectors: Sequence[g.Node], graph: g.Graph, precision: str,
    taken: Callable[[Sequence[g.Node], Sequence[Value]], Mapping[g.Node, g.Node]],
) -> Callable[..., dict[str, Value]]:
    """The text of these sums over arrays of elements in the vectors' places. taken: what stands
    for the vectors, of the arrays."""
    def text(*arrays: Value, **numbers: Any) -> dict[str, Value]:
        given = {**scalars_of(graph, numbers), **taken(vectors, arrays)}
        terms = transplant([n.arg for n in inners], given, graph)
        return {graph.names[n]: fg.cast(fg.sum(Value(term)), precision)
                for n, term in zip(inners, terms, strict=True)}

    return text


def _is_stored(node: g.Node, known: Collection[g.Node]) -> bool:
    """Is it arithmetic of such arrays and of numbers of the call?"""
    if node in known:
        return g.is_vector(node)
    match node:
        case g.Map() | g.Cast():
            return all(_is_stored(a, known) for a in g.operands(node))
        case g.Literal() | g.Input(axis=g.Axis.SCALAR):
            return True
        case _:
            return False


def _vectors(node: g.Node, known: Collection[g.Node]) -> Iterator[g.Node]:
    if node in known:
        yield node
        return
    for operand in g.operands(node):
        yield from _vectors(operand, known)
