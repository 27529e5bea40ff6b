"""What is a condition, or the number of a column, whatever the types of the inputs are."""

from __future__ import annotations

from fusegen.ir import graph as g
from fusegen.ir.ops import OPS


def is_condition(node: g.Node) -> bool:
    """Is the node's value true or false by its operation alone? An input's type is not known."""
    match node:
        case g.Map(op="where", args=(_, a, b)):
            return is_condition(a) and is_condition(b)
        case g.Map(op=op):
            return OPS[op].rule in ("bool", "logic")
        case g.Cast(dtype=dtype):
            return dtype.kind == "bool"
        case g.Literal(value=value):
            return isinstance(value, bool)
        case _:
            return False


@g.asked_once
def is_column(node: g.Node) -> bool:
    """Is the value certainly the number of a column that the row has?"""
    match node:
        case g.Reduce(fold=g.Fold.ARGMAX | g.Fold.ARGMIN):
            return g.is_reduction(node)
        case g.Part(field=field):
            return field == "indices"
        case g.Cast(dtype=dtype, arg=arg):
            return dtype.kind == "int" and is_column(arg)  # calls check that columns fit the type
        case _:
            return False


def asks_of_rows(arg: g.Node) -> bool:
    """Is there a condition about a value of the row in it?"""
    return any(_asks(n) for n in g.topological((arg,)))


def _asks(node: g.Node) -> bool:
    return isinstance(node, g.Map) and OPS[node.op].rule == "bool" and bool(g.reductions_of(node))
