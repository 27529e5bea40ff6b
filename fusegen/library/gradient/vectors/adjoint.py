"""The backward text of a text over vectors: one graph, of which stages are made (stages.py).

  rows     gradients of what a row has: row values and elements, made of sums over columns
  columns  gradients of what a column has: sums over rows of these terms
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fusegen.backend.cache.results import kept
from fusegen.backend.host.threads import load
from fusegen.compile.typed import Traced
from fusegen.ir import graph as g
from fusegen.ir.derivation import Obligation
from fusegen.ir.dtypes import FLOAT32, DType
from fusegen.ir.errors import TraceError
from fusegen.ir.shared import lazy
from fusegen.ir.vectors import lengths_of
from fusegen.lang.trace import unique_names
from fusegen.lang.value import ACTIVE, Builder
from fusegen.rewrite.adjoint.normalised import inverted, normalised
from fusegen.rewrite.adjoint.reverse import Reverse
from fusegen.rewrite.adjoint.terms import Terms
from fusegen.rewrite.adjoint.transplant import moved_nodes
from fusegen.rewrite.scalar_text import scalar_text

OF_COLUMNS = (g.Axis.PER_COLUMN, g.Axis.COLUMN_VECTOR)


@dataclass(frozen=True, eq=False)
class Adjoint:
    """Gradients with respect to inputs of a text. graph: cotangents and inputs come with it, and
    its outputs are those of the forward text, `rows`, and the factors of `columns`."""

    graph: g.Graph
    forward: tuple[g.Node, ...]  # outputs
    inputs: Mapping[str, g.Input]  # of the forward text
    cotangents: Mapping[str, g.Input]
    of: Mapping[str, g.Node]  # the output of each
    rows: Mapping[str, g.Node]
    columns: Mapping[str, Terms]
    narrow: Mapping[str, Terms]  # the same for vectors of 16 bits
    proofs: tuple[Obligation, ...]
    origin: g.Graph  # the forward text

    def typed(self, types: Mapping[str, DType]) -> dict[str, DType]:
        """These types, and of cotangents that have none those of their outputs, in float32."""
        missing = [n for n in self.cotangents if n not in types]
        lengths = lengths_of(self.origin, types) if missing else {}
        outputs = dict(zip(self.forward, self.origin.outputs, strict=True))
        found = dict(types)
        for name in missing:
            length = lengths.get(outputs[self.of[name]], 0)
            found[name] = FLOAT32.vector(length) if length else FLOAT32
        return found

    @lazy
    def backwards(self) -> frozenset[g.Node]:
        """Nodes that a cotangent takes part in; all others are of the forward text."""
        found: set[g.Node] = set(self.cotangents.values())
        for node in self.graph.nodes:
            if any(a in found for a in g.operands(node)):
                found.add(node)
        return frozenset(found)


def adjoint(
    name: str, traced: Traced, wrt: tuple[str, ...], cotangents: Mapping[int, str]
) -> Adjoint:
    """Of the text, with respect to these inputs. cotangents: their names, by output. Raises
    TraceError for what has no gradient."""
    build = Builder()
    token = ACTIVE.set(build)
    try:
        return _adjoint(name, traced, wrt, cotangents, build)
    finally:
        ACTIVE.reset(token)


def _adjoint(
    name: str, traced: Traced, wrt: tuple[str, ...], cotangents: Mapping[int, str], build: Builder
) -> Adjoint:
    forward = traced.graph
    given: dict[g.Node, g.Node] = {
        i: build.add(g.Input(i.name, i.axis, i.loc)).node for i in forward.inputs}
    moved = moved_nodes(forward.outputs, given, forward)
    inputs = {i.name: i for i in given.values() if isinstance(i, g.Input)}
    reverse = Reverse([inputs[n] for n in wrt], _prover(traced, moved, name))
    named: dict[str, g.Input] = {}
    pairs: list[tuple[g.Node, g.Node]] = []
    for position, cotangent in cotangents.items():
        output = forward.outputs[position]
        node = build.add(g.Input(cotangent, _axis_of(output), output.loc)).node
        assert isinstance(node, g.Input)
        named[cotangent] = node
        pairs.append((moved[output], node))
    reverse.add(*pairs)
    found = {n: reverse.found.get(inputs[n], {}) for n in wrt if inputs[n].axis in OF_COLUMNS}
    columns = {n: inverted(terms) for n, terms in found.items()}
    narrow = {n: inverted(normalised(terms)) for n, terms in found.items()}
    rows = {n: reverse.write(inputs[n]) for n in wrt if n not in columns}
    for n, node in rows.items():
        build.labels.setdefault(node, f"grad_{n}")
    terms_of = (*columns.values(), *narrow.values())
    factors = sorted({n for ts in terms_of for p in ts for n, _ in p}, key=build.made.__getitem__)
    every = (*named.values(), *inputs.values())
    results = tuple(moved[n] for n in forward.outputs)
    outputs = (*results, *rows.values(), *factors)
    nodes = g.topological((*every, *outputs))
    names = unique_names(nodes, build)
    graph = g.Graph(
        name=name, loc=forward.loc, inputs=every, nodes=nodes, outputs=outputs,
        output_names=tuple(names[n] for n in outputs), structure=tuple(range(len(outputs))),
        names=names, named=frozenset(n for n in nodes if n in build.labels),
        constants=forward.constants, varying=forward.varying, guards=forward.guards,
        allow_cancellation=forward.allow_cancellation)
    of = dict(zip(named, (output for output, _ in pairs), strict=True))
    return Adjoint(graph, results, inputs, named, of, rows, columns, narrow,
                   tuple(reverse.proofs), forward)


def _axis_of(output: g.Node) -> g.Axis:
    """What a cotangent shaped like this output is."""
    match g.extent(output):
        case g.Extent.ELEMENT:
            return g.Axis.ELEMENT
        case g.Extent.ROW:
            return g.Axis.ROW_VECTOR if g.is_vector(output) else g.Axis.PER_ROW
        case g.Extent.LIST:
            raise TraceError(
                "the values of a top-K have no gradient here", where=output.loc,
                why="It would scatter K values into the columns, and be 0 elsewhere.",
                fix="Pass the columns that fg.topk chose as fg.PerRow inputs to a second "
                "pipeline, and take the elements there: fg.take(s, column).")


def _prover(
    traced: Traced, moved: Mapping[g.Node, g.Node], name: str
) -> Callable[[g.Node, g.Reduce], Obligation]:
    """`stationary` for the forward text with a number for every vector, answers kept on disk."""
    forward, text = traced.graph, scalar_text(traced.graph).graph
    origin = {now: was for was, now in moved.items()}

    def prove(output: g.Node, pivot: g.Node) -> Obligation:
        load("sympy")
        from fusegen.algebra.stationary import stationary

        assert isinstance(pivot, g.Reduce)
        return stationary(output, pivot, text.names)

    def prover(output: g.Node, pivot: g.Reduce) -> Obligation:
        one, other = (text.by_name[forward.names[origin[n]]] for n in (output, pivot))
        key = ("stationary", "vectors", traced.digest, text.names[one], text.names[other])
        return kept(key, functools.partial(prove, one, other), _settled, Obligation, name)

    return prover


def _settled(proof: Obligation) -> bool:
    return proof.status == "proved" or proof.seconds < 1  # a longer search may have been cut off
