"""A traced graph as a person would write it: one line per named value and output."""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from fusegen.ir import graph as g
from fusegen.ir.expr import Expr, Lit, Var, call, text

_LONGEST = 40  # operations that a line may hold
_FOLDS = {g.Fold.SUM: "Σ", g.Fold.PROD: "Π"}


def formula(graph: g.Graph) -> str:
    """`y = exp(x - m) / Σ(exp(x - m))` and so on, in the order of computation; row values that are
    used again have a line of their own."""
    uses = Counter(a for n in graph.nodes for a in set(g.operands(n)))
    outputs = set(graph.outputs)
    spoken: set[g.Node] = {
        n for n in graph.nodes
        if not isinstance(n, g.Input | g.Literal | g.Length | g.Index)
        and (n in graph.named or n in outputs
             or (uses[n] > 1 and g.extent(n) is g.Extent.ROW))
    }
    lines, operand, size = [], dict[g.Node, Expr](), dict[g.Node, int]()
    for node in graph.nodes:
        found = _written(node, [operand[a] for a in g.operands(node)])
        size[node] = 1 + sum(size[a] for a in g.operands(node) if a not in spoken)
        if size[node] > _LONGEST:
            spoken.add(node)
        if node in spoken:
            lines.append(f"{graph.names[node]} = {text(found)}")
        operand[node] = Var(graph.names[node]) if node in spoken else found
    lines += [f"{name} = {graph.names[n]}" for n, name in
              zip(graph.outputs, graph.output_names, strict=True) if n not in spoken]
    return "\n".join(lines)


def _written(node: g.Node, inner: list[Expr]) -> Expr:
    match node:
        case g.Literal(value=value):
            return Lit(value)
        case g.Map(op=op):
            return call(op, *inner)
        case g.Input(name=name):
            return Var(name)
        case g.Length():
            return Var("n_cols")
        case g.Index():
            return Var("column")
        case g.RowNumber():
            return Var("row")
        case g.Cast(dtype=dtype):
            return Var(f"{dtype.name}({text(inner[0])})")
        case g.Reduce(fold=fold):
            return Var(f"{_FOLDS.get(fold, fold.value)}({text(inner[0])})")
        case g.Inner():
            return Var(f"inner({text(inner[0])})")
        case g.TopK(k=k, largest=largest):
            return Var(f"{'top' if largest else 'least'}{k}({text(inner[0])})")
        case g.Part(field=field):
            return Var(f"{text(inner[0])}.{field}")
        case g.Take():
            return Var(f"{text(inner[0], 9)}[{text(inner[1])}]")
        case g.Own(operator=operator):
            return Var(f"{operator.name}({', '.join(map(text, inner))})")
        case g.Field(name=name):
            return Var(f"{text(inner[0])}.{name}")
        case _:
            assert_never(node)
