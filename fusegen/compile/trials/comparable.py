"""Which outputs the text and the merged form must agree on, for the values at hand.

Not those that hang on what docs/special_values.md leaves open: columns of an order whose function
levels off, and what jumps (a comparison, a rounding, a cast to whole numbers) at a sum whose last
digit depends on the order of its terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fusegen.compile.trials.text import Values, each
from fusegen.ir import graph as g
from fusegen.ir.derivation import Commuted, Derivation
from fusegen.ir.expr import FLOATS
from fusegen.ir.ops import OPS

_ROUNDED = frozenset({g.Fold.SUM, g.Fold.MEAN, g.Fold.PROD})
_STEPS = frozenset({"floor", "ceil", "round", "sign"})
_ASKS = frozenset({"isnan", "isinf", "isfinite"})  # no last digit changes their answer


def comparable_outputs(
    graph: g.Graph, derivation: Derivation, known: Values, slack: float = 0.0
) -> frozenset[str]:
    """Names of outputs. `slack`: how far a sum in float64 may be from the text's, absolutely."""
    commuted = (e for e in derivation if isinstance(e, Commuted))
    open_ = {graph[e.name] for e in commuted if _ties(graph, e, known)}
    jumps = set(_undecided(graph, known, slack)) if slack else set()
    hanging: set[g.Node] = set()
    for node in graph.nodes:
        match node:
            case g.Part(top=top, field="indices") if top in open_:
                hanging.add(node)
            case g.Reduce(fold=g.Fold.ARGMAX | g.Fold.ARGMIN) if node in open_:
                hanging.add(node)
            case _ if node in jumps or any(a in hanging for a in g.operands(node)):
                hanging.add(node)
    named = zip(graph.outputs, graph.output_names, strict=True)
    return frozenset(name for node, name in named if node not in hanging)


def _ties(graph: g.Graph, entry: Commuted, known: Values) -> bool:
    """Does f make different elements equal, or NaN?"""
    node = graph[entry.name]
    assert isinstance(node, g.Reduce | g.TopK)
    results, arguments = known[node.arg], known[graph[entry.atom]]
    return any(v != v for v in results) or len({*results}) < len({*arguments})


def jumps(node: g.Node) -> bool:
    """May a last digit of an operand decide the value?"""
    match node:
        case g.Map(op=op):
            return (OPS[op].rule == "bool" and op not in _ASKS) or op in _STEPS
        case g.Cast(dtype=dtype):
            return dtype.kind != "float"
        case _:
            return False


def _undecided(graph: g.Graph, known: Values, slack: float) -> Iterator[g.Node]:
    """Nodes that jump within `slack` of where their operands are."""
    rounded: set[g.Node] = set()
    for node in graph.nodes:
        args = g.operands(node)
        if any(a in rounded for a in args) or isinstance(node, g.Field) or (
            isinstance(node, g.Reduce) and node.fold in _ROUNDED
        ):
            rounded.add(node)
        if jumps(node) and any(a in rounded for a in args) and any(
            not _same(_moved(node, known, rounded, way * slack), known[node]) for way in (1, -1)
        ):
            yield node


def _moved(node: g.Node, known: Values, rounded: set[g.Node], slack: float) -> Any:
    """The node's value where its rounded operands are `slack` away, in opposite directions."""
    args = g.operands(node)
    put = [each(lambda v, s=slack * (-1) ** i: _nudged(v, s), [known[a]]) if a in rounded
           else known[a] for i, a in enumerate(args)]
    match node:
        case g.Map(op=op):
            return each(FLOATS.functions[op], put)
        case g.Cast(dtype=dtype):
            return each(FLOATS.functions[f"to_{dtype.kind}"], put)
        case _:
            raise AssertionError(node)


def _nudged(value: Any, slack: float) -> Any:
    """0 is a sum of zeros, or of what cancels exactly: it has no last digit. Nor have integers."""
    whole = isinstance(value, bool | int | np.integer | np.bool_)
    return value if whole or value == 0 else value + slack * max(1.0, abs(value))


def _same(a: Any, b: Any) -> bool:
    return np.array_equal(np.asarray(a, float), np.asarray(b, float), equal_nan=True)
