"""The text as written, for one row, in any arithmetic: what precise replays are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import numpy as np

from fusegen import graph as g
from fusegen.derivation import Commuted, Derivation
from fusegen.expr import Arithmetic, evaluate
from fusegen.replay import rank

_FOLDS: dict[g.Fold, Callable[[list[Any]], Any]] = {
    g.Fold.MAX: max, g.Fold.MIN: min, g.Fold.SUM: np.sum, g.Fold.PROD: np.prod,
    g.Fold.ARGMAX: lambda v: min(enumerate(v), key=lambda p: rank((p[1], p[0])))[0],
    g.Fold.ARGMIN: lambda v: min(enumerate(v), key=lambda p: rank((p[1], p[0]), largest=False))[0],
}  # fmt: skip


Values = Mapping[g.Node, Any]
"""Numbers for row values, lists of numbers for elements and lists."""


def values_of(
    graph: g.Graph, row: Mapping[str, Any], n_cols: int, arithmetic: Arithmetic
) -> Values:
    """Every value of the text for a row given by input names."""
    known: dict[g.Node, Any] = {}
    for node in graph.nodes:
        known[node] = _value(node, known, row, n_cols, arithmetic)
    return known


def comparable_outputs(graph: g.Graph, derivation: Derivation, known: Values) -> frozenset[str]:
    """Outputs that the text and the merged form must agree on, for these values.

    Where f(x) levels off, f(x) ties and x does not: a commuted order then has columns in the order
    of x (docs/special_values.md), and what hangs on those columns is not compared.
    """
    tied = {graph[e.name] for e in derivation if isinstance(e, Commuted) and _ties(graph, e, known)}
    hanging: set[g.Node] = set()
    for node in graph.nodes:
        match node:
            case g.Part(top=top, field="indices") if top in tied:
                hanging.add(node)
            case g.Reduce(fold=g.Fold.ARGMAX | g.Fold.ARGMIN) if node in tied:
                hanging.add(node)
            case _ if any(a in hanging for a in g.operands(node)):
                hanging.add(node)
    named = zip(graph.outputs, graph.output_names, strict=True)
    return frozenset(name for node, name in named if node not in hanging)


def _ties(graph: g.Graph, entry: Commuted, known: Values) -> bool:
    """Does f make different elements equal, or NaN?"""
    node = graph[entry.name]
    assert isinstance(node, g.Reduce | g.TopK)
    results, arguments = known[node.arg], known[graph[entry.atom]]
    return any(v != v for v in results) or len({*results}) < len({*arguments})


def _value(
    node: g.Node, known: Values, row: Mapping[str, Any], n_cols: int,
    arithmetic: Arithmetic,
) -> Any:  # fmt: skip
    match node:
        case g.Input(name=name, axis=axis):
            return row[name][0] if axis is g.Axis.PER_ROW else list(row[name])
        case g.Literal(value=value):
            return arithmetic.literal(value)
        case g.Length():
            return n_cols
        case g.Index():
            return list(range(n_cols))
        case g.Map(op=op, args=args):
            return _each(arithmetic.functions[op], [known[a] for a in args])
        case g.Cast(dtype=dtype, arg=arg):
            return _each(arithmetic.functions[f"to_{dtype.kind}"], [known[arg]])
        case g.Reduce(fold=fold, arg=arg):
            elements = _elements(arg, known, n_cols)
            if fold is g.Fold.MEAN:
                return arithmetic.functions["div"](np.sum(elements), len(elements))
            return _FOLDS[fold](elements)
        case g.TopK(arg=arg, k=k, largest=largest):
            elements = _elements(arg, known, n_cols)
            first = rank if largest else _least_first
            return sorted(range(n_cols), key=lambda c: first((elements[c], c)))[:k]
        case g.Part(top=top, field=field):
            columns = known[top]
            elements = _elements(top.arg, known, n_cols)
            return columns if field == "indices" else [elements[c] for c in columns]
        case g.Take(arg=arg, index=index):
            elements = _elements(arg, known, n_cols)
            return _each(lambda c: elements[int(c)] if 0 <= c < n_cols else np.nan, [known[index]])
        case g.Own():
            return _own(node, [_elements(a, known, n_cols) for a in node.args], arithmetic)
        case g.Field(own=own, name=name):
            return known[own][name]
        case _:
            assert_never(node)


def _least_first(pair: tuple[Any, int]) -> tuple[Any, ...]:
    """The lesser value, then the lower column; NaN comes last."""
    value, column = pair
    return (True, 0, column) if value != value else (False, value, column)


def _own(node: g.Own, lifted: list[list[Any]], arithmetic: Arithmetic) -> Mapping[str, Any]:
    """identity ⊕ lift(x₀) ⊕ lift(x₁) ⊕ …"""
    fields = node.operator.fields
    state: Mapping[str, Any] = {f.name: evaluate(f.identity, {}, arithmetic) for f in fields}
    for values in zip(*lifted, strict=True):
        element = {f.name: v for f, v in zip(fields, values, strict=True)}
        state = node.operator.merge(state, element, lambda e, env: evaluate(e, env, arithmetic))
    return state


def _elements(node: g.Node, known: Values, n_cols: int) -> list[Any]:
    """The values that a reduction folds, one per element, also where all are the same."""
    found = known[node]
    return found if isinstance(found, list) else [found] * n_cols


def _each(function: Callable[..., Any], args: list[Any]) -> Any:
    """Entry by entry where any operand has entries."""
    sizes = [len(a) for a in args if isinstance(a, list)]
    if not sizes:
        return function(*args)
    rows = [a if isinstance(a, list) else [a] * sizes[0] for a in args]
    return [function(*entry) for entry in zip(*rows, strict=True)]
