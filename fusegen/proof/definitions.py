"""The user's text as definitions: what an argument starts from."""

from __future__ import annotations

from fusegen import graph as g
from fusegen.derivation import Definition
from fusegen.expr import Expr, Lit, Var, call


def definitions_of(graph: g.Graph) -> tuple[Definition, ...]:
    """Every row reduction and every operation, in topological order.

    Formulas are taken apart down to inputs, reductions and what the user named.
    """
    reductions = frozenset(graph.reductions)
    return tuple(
        _definition(graph, node)
        for node in graph.nodes
        if node in reductions or isinstance(node, g.Map | g.Cast)
    )


def _definition(graph: g.Graph, node: g.Node) -> Definition:
    name, where = graph.names[node], node.loc.short
    match node:
        case g.Reduce(fold=fold, arg=arg):
            return Definition(name, fold.value, _formula(graph, arg), where)
        case g.TopK(arg=arg, k=k, largest=largest):
            word = f"{'top' if largest else 'least'} {k}"
            return Definition(name, word, _formula(graph, arg), where)
        case _:
            return Definition(name, "", _formula(graph, node, inside=True), where)


def _formula(graph: g.Graph, node: g.Node, *, inside: bool = False) -> Expr:
    """The node over named values; `inside`: its own name does not count."""
    match node:
        case g.Literal(value=value):
            return Lit(value)
        case g.Map(op=op, args=args) if inside or node not in graph.named:
            return call(op, *(_formula(graph, a) for a in args))
        case g.Cast(arg=arg) if inside or node not in graph.named:
            return _formula(graph, arg)
        case _:
            return Var(graph.names[node], varying=g.extent(node) is g.Extent.ELEMENT)
