"""Turning graph nodes into expressions, where each node is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from fusegen.ir import graph as g
from fusegen.ir.dtypes import Kind
from fusegen.ir.errors import InternalError
from fusegen.ir.expr import Expr, Lit, Var, call, is_long
from fusegen.ir.kernel import COLUMN, N_COLS
from fusegen.ir.kinds import whole_power
from fusegen.ir.ops import OPS


@dataclass(frozen=True, slots=True)
class Names:
    """The graph with its kinds: what every lowering step looks things up in."""

    graph: g.Graph
    kinds: Mapping[g.Node, Kind]
    rounded: frozenset[g.Node] = frozenset()  # products that are one number: ir/products.py

    def of(self, node: g.Node) -> str:
        return self.graph.names[node]

    def note(self, node: g.Node) -> str:
        """The user's line, for the end of the emitted one."""
        shown = node.loc.shown
        return f"{node.loc.short}  {shown}" if shown else node.loc.short

    def var(self, node: g.Node) -> Var:
        return Var(self.of(node), self.kinds[node], g.extent(node) is g.Extent.ELEMENT)


Leaf = Callable[[g.Node], Expr | None]
"""Answers with an expression for nodes that a scope knows, None for those to take apart."""

Line = Callable[[g.Node, Expr], Expr]
"""Gives an expression a line of its own; answers with its name."""

def expression(node: g.Node, names: Names, leaf: Leaf, line: Line | None = None) -> Expr:
    """The node as an expression over what `leaf` knows. Where there can be lines, operations that
    are used again, and long expressions, get one."""
    known: dict[g.Node, Expr] = {}

    def is_leaf(n: g.Node) -> bool:
        found = known.get(n) or leaf(n)
        if found is not None:
            known[n] = found
        return found is not None

    order = g.topological((node,), is_leaf)
    uses = Counter(a for n in order for a in g.operands(n))
    for n in order:
        found = operation(n, [known[a] for a in g.operands(n)], names)
        own = line is not None and n is not node and (uses[n] > 1 or is_long(found))
        known[n] = line(n, found) if line is not None and own else found
    return known[node]


def operation(node: g.Node, inner: list[Expr], names: Names) -> Expr:
    """The node over its operands, which are already spelled."""
    match node:
        case g.Literal(value=value):
            return Lit(value, names.kinds[node])
        case g.Length():
            return N_COLS
        case g.Index():
            return COLUMN
        case g.Map() if node in names.rounded:
            a, b = (convert(i, "float") for i in (inner[0], inner[node.op == "mul"]))
            return call("rounded_mul", a, b)
        case g.Map(op="pow") if names.kinds[node] == "int":
            return _power(convert(inner[0], "int"), whole_power(node) or 0)
        case g.Map(op=op):
            if op == "pow" and inner[1] in (Lit(2, "int"), Lit(2.0)):
                return call("square", convert(inner[0], "float"))
            return call(op, *_match_kinds(op, inner, names.kinds[node]))
        case g.Cast():
            return convert(inner[0], names.kinds[node])
        case (g.Input() | g.RowNumber() | g.Reduce() | g.Inner() | g.TopK() | g.Part()
              | g.Take() | g.Own() | g.Field()):
            raise InternalError(f"{names.of(node)} is not known in this scope")
        case _:
            assert_never(node)


def _power(base: Expr, power: int) -> Expr:
    """A whole number to a whole power, by squaring: exact as far as 64 bits hold it."""
    found: Expr = base if power else Lit(1, "int")
    for bit in f"{power:b}"[1:]:
        found = call("square", found)
        found = call("mul", found, base) if bit == "1" else found
    return found


def _match_kinds(op: str, args: list[Expr], kind: Kind) -> list[Expr]:
    """Make operands the kind the operation computes in (weak integers become float)."""
    rule = OPS[op].rule
    start = 1 if rule == "select" else 0
    target: Kind = kind
    if rule == "bool":
        target = "float" if any(a.kind == "float" for a in args) else "int"
        if OPS[op].arity == 1:
            target = "float"
    if rule == "float":
        target = "float"
    if rule == "logic":
        return args
    return args[:start] + [convert(a, target) for a in args[start:]]


def turned(expr: Expr) -> Expr:
    """The value, so that the K greatest of these are the K least values; its own inverse."""
    # −1 − i reaches every integer, as −i does not.
    return call("mirror", expr) if expr.kind == "float" else call("sub", Lit(-1, "int"), expr)


def turned_back(expr: Expr) -> Expr:
    """A value of `turned` as it was; a zero, whose sign is lost on the way, as +0."""
    found = turned(expr)
    return call("add", found, Lit(0.0)) if expr.kind == "float" else found


def convert(expr: Expr, kind: Kind) -> Expr:
    """The expression as `kind`; literals change in place."""
    if expr.kind == kind:
        return expr
    if isinstance(expr, Lit) and kind == "float":
        return Lit(float(expr.value))
    return call({"float": "to_float", "int": "to_int", "bool": "to_bool"}[kind], expr)
