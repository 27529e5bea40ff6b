"""The user's text as definitions: what an argument starts from."""

from __future__ import annotations

from fusegen.ir import graph as g
from fusegen.ir.derivation import Definition
from fusegen.ir.expr import Expr, Lit, Var, call, is_long


def definitions_of(graph: g.Graph) -> tuple[Definition, ...]:
    """Every row reduction and every operation, in topological order.

    Formulas are taken apart down to inputs, reductions, what the user named, and what is long.
    """
    operand: dict[g.Node, Expr] = {}  # the node inside other formulas
    found: list[Definition] = []
    for node in graph.nodes:
        name, inner = graph.names[node], [operand[a] for a in g.operands(node)]
        operand[node] = Var(name, varying=g.extent(node) is g.Extent.ELEMENT)
        match node:
            case g.Literal(value=value):
                operand[node] = Lit(value)
            case g.Map() | g.Cast():
                formula = call(node.op, *inner) if isinstance(node, g.Map) else inner[0]
                found.append(Definition(name, "", formula, node.loc.short))
                if node not in graph.named and not is_long(formula):
                    operand[node] = formula
            case _ if g.is_reduction(node):
                found.append(_reduced(node, name, inner))
    return tuple(found)


def _reduced(node: g.Node, name: str, inner: list[Expr]) -> Definition:
    match node:
        case g.Reduce(fold=fold):
            return Definition(name, fold.value, inner[0], node.loc.short)
        case g.TopK(k=k, largest=largest):
            word = f"{'top' if largest else 'least'} {k}"
            return Definition(name, word, inner[0], node.loc.short)
        case _:
            return Definition(name, "", Var(name), node.loc.short)


def formula_of(graph: g.Graph, node: g.Node) -> Expr:
    """A row value over named values, inputs and reductions; itself it need not be in the graph."""
    operand: dict[g.Node, Expr] = {}
    for part in g.topological((node,)):
        name = graph.names.get(part)
        match part:
            case g.Literal(value=value):
                operand[part] = Lit(value)
            case g.Map() | g.Cast():
                inner = [operand[a] for a in g.operands(part)]
                formula = call(part.op, *inner) if isinstance(part, g.Map) else inner[0]
                told = part in graph.named or is_long(formula)
                keeps = name is None or part is node or not told
                operand[part] = formula if keeps else Var(str(name))
            case _:
                operand[part] = Var(str(name), varying=g.extent(part) is g.Extent.ELEMENT)
    return operand[node]
