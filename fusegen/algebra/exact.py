"""The text on one short row, exactly: in the numbers of `algebra.numbers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import assert_never

from fusegen.algebra.numbers import OPERATIONS, Number, Outside, best_columns, tame
from fusegen.ir import graph as g

Values = Number | list[Number]  # a row value, or one per column or list entry


def evaluate(
    nodes: Sequence[g.Node], inputs: Mapping[str, Values], n_cols: int
) -> list[Values]:
    """Values of the nodes for one row. Raises Outside."""
    known: dict[g.Node, Values] = {}
    for node in g.topological(tuple(nodes)):
        known[node] = _value(node, known, inputs, n_cols)
    return [known[n] for n in nodes]


def _value(
    node: g.Node, known: Mapping[g.Node, Values], inputs: Mapping[str, Values], n_cols: int
) -> Values:
    match node:
        case g.Input(name=name):
            return inputs[name]
        case g.Literal(value=value):
            return _literal(value)
        case g.Length():
            return Fraction(n_cols)
        case g.Index():
            return [Fraction(i) for i in range(n_cols)]
        case g.Map(op=op, args=args):
            return _mapped(op, [known[a] for a in args])
        case g.Cast(dtype=dtype, arg=arg):
            if dtype.kind == "float":
                return known[arg]
            return _mapped("to_int" if dtype.kind == "int" else "to_bool", [known[arg]])
        case g.Reduce(fold=fold, arg=arg):
            return _folded(fold, _wide(known[arg], n_cols))
        case g.TopK(arg=arg, k=k, largest=largest):
            values = _wide(known[arg], n_cols)
            ordered = values if largest else [-v for v in values]  # ties to the lowest column
            return [Fraction(c) for c in best_columns(ordered, k)]
        case g.Part(top=top, field=field):
            columns = known[top]
            return columns if field == "indices" else _taken(_wide(known[top.arg], n_cols), columns)
        case g.Take(arg=arg, index=index):
            return _taken(_wide(known[arg], n_cols), known[index])
        case g.Inner(arg=arg):
            return known[arg]  # of one number
        case g.Own() | g.Field() | g.RowNumber():
            raise Outside  # the user's own monoids have a search of their own
        case _:
            assert_never(node)


def _literal(value: float | int | bool) -> Number:
    if isinstance(value, bool):
        return value
    if not float("-inf") < value < float("inf"):
        raise Outside
    return Fraction(repr(value))  # as it is written: 0.1 is a tenth


def _wide(values: Values, n_cols: int) -> list[Number]:
    """One per column; a row value is the same at each."""
    return values if isinstance(values, list) else [values] * n_cols


def _mapped(op: str, args: list[Values]) -> Values:
    if op not in OPERATIONS:
        raise Outside
    compute = OPERATIONS[op]
    lengths = {len(a) for a in args if isinstance(a, list)}
    if not lengths:
        return tame(compute(*args))
    (length,) = lengths
    entries = zip(*(_wide(a, length) for a in args), strict=True)
    return [tame(compute(*entry)) for entry in entries]


def _taken(values: Values, columns: Values) -> Values:
    """Values at a column, or at those of a list. Raises Outside where the text says NaN."""
    assert isinstance(values, list)
    found = []
    for column in columns if isinstance(columns, list) else [columns]:
        if not 0 <= column < len(values):
            raise Outside
        found.append(values[int(column)])
    return found if isinstance(columns, list) else found[0]


def _folded(fold: g.Fold, values: list[Number]) -> Number:
    match fold:
        case g.Fold.SUM | g.Fold.MEAN:
            total = sum(values, Fraction(0))
            return total if fold is g.Fold.SUM else total / len(values)
        case g.Fold.PROD:
            product: Number = Fraction(1)
            for v in values:
                product = product * v
            return product
        case g.Fold.MAX | g.Fold.ARGMAX:
            (column,) = best_columns(values, 1)
            return values[column] if fold is g.Fold.MAX else Fraction(column)
        case g.Fold.MIN | g.Fold.ARGMIN:
            (column,) = best_columns([-v for v in values], 1)
            return values[column] if fold is g.Fold.MIN else Fraction(column)
        case _:
            assert_never(fold)
