"""The text as written, for one row, in any arithmetic: what precise replays are compared with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, assert_never

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.errors import InternalError
from fusegen.ir.expr import Arithmetic, evaluate
from fusegen.oracle.replay import rank

_FOLDS: dict[g.Fold, Callable[[list[Any]], Any]] = {
    g.Fold.SUM: lambda v: np.sum(np.array(v, object)),  # Python's integers do not overflow
    g.Fold.PROD: lambda v: np.prod(np.array(v, object)),
    g.Fold.ARGMAX: lambda v: min(enumerate(v), key=lambda p: rank((p[1], p[0])))[0],
    g.Fold.ARGMIN: lambda v: min(enumerate(v), key=lambda p: rank((p[1], p[0]), largest=False))[0],
}


_EXTREMES = {g.Fold.MAX: "maximum", g.Fold.MIN: "minimum"}

Values = Mapping[g.Node, Any]
"""Numbers for row values, lists of numbers for elements and lists."""

Tree = list[int] | tuple["Tree", "Tree"]
"""How states were merged: the columns of a piece, or what was left and right of ⊕."""


def values_of(
    graph: g.Graph, row: Mapping[str, Any], n_cols: int, arithmetic: Arithmetic,
    trees: Mapping[str, Tree] | None = None,
) -> Values:
    """Every value of the text for a row given by input names.

    `trees`: the grouping that the user's own monoids, by their graph names, fold along; otherwise
    from left to right.
    """
    known: dict[g.Node, Any] = {}
    for node in graph.nodes:
        if isinstance(node, g.Own) and trees is not None:
            lifted = [_elements(a, known, n_cols) for a in node.args]
            known[node] = _along(trees[graph.names[node]], node, lifted, arithmetic)
        else:
            known[node] = _value(node, known, row, n_cols, arithmetic)
    return known


def _value(
    node: g.Node, known: Values, row: Mapping[str, Any], n_cols: int,
    arithmetic: Arithmetic,
) -> Any:
    match node:
        case g.Input(name=name):
            return row[name][0] if node.per_row else list(row[name])
        case g.Literal(value=value):
            return arithmetic.literal(value)
        case g.Length():
            return n_cols
        case g.Index():
            return list(range(n_cols))
        case g.Map(op=op, args=args):
            return each(arithmetic.functions[op], [known[a] for a in args])
        case g.Cast(dtype=dtype, arg=arg):
            return each(arithmetic.functions[f"to_{dtype.kind}"], [known[arg]])
        case g.Reduce(fold=fold, arg=arg):
            return _folded(fold, _elements(arg, known, n_cols), arithmetic)
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
            return each(lambda c: elements[int(c)] if 0 <= c < n_cols else np.nan, [known[index]])
        case g.Inner(arg=arg):
            return known[arg]  # of one number
        case g.RowNumber():
            raise InternalError("the trials' texts have an input for the rows' numbers")
        case g.Own():
            return _own(node, [_elements(a, known, n_cols) for a in node.args], arithmetic)
        case g.Field(own=own, name=name):
            return known[own][name]
        case _:
            assert_never(node)


def _folded(fold: g.Fold, elements: list[Any], arithmetic: Arithmetic) -> Any:
    if fold is g.Fold.MEAN:
        return arithmetic.functions["div"](_FOLDS[g.Fold.SUM](elements), len(elements))
    if fold in _EXTREMES:
        return functools.reduce(arithmetic.functions[_EXTREMES[fold]], elements)
    return _FOLDS[fold](elements)


def _least_first(pair: tuple[Any, int]) -> tuple[Any, ...]:
    """The lesser value, then the lower column; NaN comes last."""
    value, column = pair
    return (True, 0, column) if value != value else (False, value, column)


def _own(node: g.Own, lifted: list[list[Any]], arithmetic: Arithmetic) -> Mapping[str, Any]:
    """identity ⊕ lift(x₀) ⊕ lift(x₁) ⊕ …"""
    tree: Tree = []
    for column in range(len(lifted[0])):
        tree = (tree, [column])
    return _along(tree, node, lifted, arithmetic)


def _along(
    tree: Tree, node: g.Own, lifted: list[list[Any]], arithmetic: Arithmetic
) -> Mapping[str, Any]:
    fields = node.operator.fields

    def join(a: Mapping[str, Any], b: Mapping[str, Any]) -> Mapping[str, Any]:
        return node.operator.merge(a, b, lambda e, env: evaluate(e, env, arithmetic))

    if isinstance(tree, tuple):
        return join(*(_along(side, node, lifted, arithmetic) for side in tree))
    if not tree:
        return {f.name: evaluate(f.identity, {}, arithmetic) for f in fields}
    states = ({f.name: v[c] for f, v in zip(fields, lifted, strict=True)} for c in tree)
    return functools.reduce(join, states)


def _elements(node: g.Node, known: Values, n_cols: int) -> list[Any]:
    """The values that a reduction folds, one per element, also where all are the same."""
    found = known[node]
    return found if isinstance(found, list) else [found] * n_cols


def each(function: Callable[..., Any], args: list[Any]) -> Any:
    """Entry by entry where any operand has entries."""
    sizes = [len(a) for a in args if isinstance(a, list)]
    if not sizes:
        return function(*args)
    rows = [a if isinstance(a, list) else [a] * sizes[0] for a in args]
    return [function(*entry) for entry in zip(*rows, strict=True)]
