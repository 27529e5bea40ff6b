"""What is a condition, or the number of a column, whatever the types of the inputs are."""

from __future__ import annotations

from fusegen.ir import graph as g
from fusegen.ir.ops import OPS

_EXACT = ("neg", "abs", "maximum", "minimum")


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


@g.asked_once
def asks_what_rounds(arg: g.Node) -> bool:
    """Does such a condition compare what floats round? Over the reals exp(x - max(x)) > 0 always
    holds; in floats it is a switch."""
    return any(_asks(n) and not all(map(_compares_exactly, g.operands(n)))
               for n in g.topological((arg,)))


def _asks(node: g.Node) -> bool:
    return isinstance(node, g.Map) and OPS[node.op].rule == "bool" and bool(g.reductions_of(node))


def _compares_exactly(node: g.Node) -> bool:
    """Has the number in floats the sign and the order that it has over the reals? A difference of
    two floats has."""
    if not isinstance(node, g.Map) or not g.reductions_of(node):
        return True
    if node.op == "sub":
        return not any(isinstance(a, g.Map) and g.reductions_of(a) for a in node.args)
    return node.op in _EXACT and all(map(_compares_exactly, node.args))
