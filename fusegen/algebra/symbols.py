"""From fusegen's graph to sympy: `freeze`; `thaw.py` leads back.

Symbols carry what is known about their sign; nothing is assumed that the graph does not imply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import sympy as sp

from fusegen.ir import graph as g
from fusegen.ir.digest import attributes


class Unmodelled(Exception):
    """The algebra has no model of this operation; carries the node."""

    def __init__(self, node: g.Node) -> None:
        self.node = node
        super().__init__(str(attributes(node)))


class Decided(Unmodelled):
    """Over the reals it has one answer, and in floats it may have another: exp(y) reaches 0."""


_DIRECT = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "neg": lambda a: -a, "pow": lambda a, b: a**b,
    "exp": sp.exp, "log": sp.log, "sqrt": sp.sqrt, "abs": sp.Abs, "sign": sp.sign,
    "maximum": sp.Max, "minimum": sp.Min, "tanh": sp.tanh, "sin": sp.sin, "cos": sp.cos,
    "floor": sp.floor, "ceil": sp.ceiling, "erf": sp.erf,
    "rsqrt": lambda a: 1 / sp.sqrt(a),
    "exp2": lambda a: sp.exp(a * sp.log(2)),
    "expm1": lambda a: sp.exp(a) - 1,
    "log1p": lambda a: sp.log(1 + a),
    "log2": lambda a: sp.log(a) / sp.log(2),
    "sigmoid": lambda a: 1 / (1 + sp.exp(-a)),
    "xlogy": lambda a, b: a * sp.log(b),
    "zero_wins": lambda a, b: a * b, "square": lambda a: a**2,
    "where": lambda c, a, b: sp.Piecewise((a, c), (b, True)),
    "lt": sp.Lt, "le": sp.Le, "gt": sp.Gt, "ge": sp.Ge, "eq": sp.Eq, "ne": sp.Ne,
    "and": sp.And, "or": sp.Or, "not": sp.Not,
    # The algebra speaks of finite reals; infinities and NaN are the guard policy's business.
    "isnan": lambda a: sp.false, "isinf": lambda a: sp.false, "isfinite": lambda a: sp.true,
}

_POWERS = ("pow", "exp2")
_MAX_POWER = 64  # sympy writes powers of numbers out, digit by digit


def number(value: float | int | bool) -> sp.Expr:
    """An exact number: 0.7 is 7/10, not the nearest binary fraction."""
    if isinstance(value, bool):
        return sp.true if value else sp.false
    return sp.Integer(value) if isinstance(value, int) else sp.Rational(repr(value))


def apply(op: str, *args: sp.Expr) -> sp.Expr:
    """The operation in sympy; one that it does not know is a function of which nothing is known."""
    return _DIRECT[op](*args) if op in _DIRECT else sp.Function(op, real=True)(*args)


def freeze(node: g.Node, leaves: Mapping[g.Node, sp.Expr]) -> sp.Expr:
    """The node as a sympy expression over `leaves`. Raises Unmodelled."""
    known: dict[g.Node, sp.Expr] = dict(leaves)
    for part in _needed(node, leaves):
        match part:
            case g.Literal(value=value):
                if isinstance(value, float) and not float("-inf") < value < float("inf"):
                    raise Unmodelled(part)
                known[part] = number(value)
            case g.Map(op="where", args=(g.Map(op="not", args=(c,)), a, b)) if c in known:
                # Not "≤": what fails x > 0 may be NaN, and fails x ≤ 0 too.
                known[part] = apply("where", known[c], known[b], known[a])
            case g.Map(op=op, args=args):
                operands = [known[a] for a in args]
                if op in _POWERS and operands[-1].is_number and abs(operands[-1]) > _MAX_POWER:
                    raise Unmodelled(part)
                known[part] = apply(op, *operands)
                if _is_decided(op, operands, known[part]):
                    raise Decided(part)
            case g.Cast(dtype=dtype, arg=arg) if dtype.kind == "float":
                known[part] = known[arg]
            case g.Cast() | g.Input() | g.Length() | g.Index() | g.Reduce() | g.TopK():
                raise Unmodelled(part)
            case g.Part() | g.Take() | g.Own() | g.Field() | g.Inner() | g.RowNumber():
                raise Unmodelled(part)
            case _:
                assert_never(part)
    return known[node]


def _is_decided(op: str, operands: list[sp.Expr], found: sp.Expr) -> bool:
    """Has sympy said what a sign is, or lost a condition beside one that it has decided?"""
    if op == "sign":
        return not operands[0].is_number and bool(found.is_number)
    if op in ("and", "or"):
        return not {s for a in operands for s in a.free_symbols} <= found.free_symbols
    return False


def _needed(node: g.Node, leaves: Mapping[g.Node, sp.Expr]) -> list[g.Node]:
    """Nodes above the leaves, operands first."""
    order: dict[g.Node, None] = {}

    def visit(n: g.Node) -> None:
        if n in leaves or n in order:
            return
        if not isinstance(n, g.Reduce | g.TopK | g.Part | g.Take | g.Own | g.Field):
            for a in g.operands(n):
                visit(a)
        order[n] = None

    visit(node)
    return list(order)


@g.asked_once
def _operations(node: g.Node) -> int:
    """Operations down to reductions; what is used twice counts twice, as sympy will see it."""
    if not isinstance(node, g.Map | g.Cast):
        return 0
    return 1 + sum(map(_operations, g.operands(node)))


def operations(*nodes: g.Node) -> int:
    """How many operations sympy will see, those inside of reductions once."""
    inner = {a for n in g.topological(nodes) if not isinstance(n, g.Map | g.Cast)
             for a in g.operands(n)}
    return sum(map(_operations, {*nodes, *inner}))


@g.asked_once
def is_positive(node: g.Node) -> bool:
    """Is the value certainly > 0 for every finite input?"""
    match node:
        case g.Literal(value=value):
            return not isinstance(value, bool) and value > 0
        case g.Length():
            return True
        case g.Input(magnitude=magnitude):
            return magnitude > 0
        case g.Map(op="exp" | "exp2" | "sigmoid"):
            return True
        case g.Map(op="add", args=(a, b)):
            return (is_positive(a) and is_nonnegative(b)) or (is_nonnegative(a) and is_positive(b))
        case g.Map(op="mul" | "div", args=(a, b)):
            return is_positive(a) and is_positive(b)
        case g.Map(op="sqrt" | "rsqrt", args=(a,)):
            return is_positive(a)
        case g.Map(op="maximum", args=(a, b)):
            return is_positive(a) or is_positive(b)
        case g.Map(op="minimum", args=(a, b)):
            return is_positive(a) and is_positive(b)
        case g.Map(op="pow", args=(a, _)) | g.Cast(arg=a):
            return is_positive(a)
        case g.Reduce(fold=g.Fold.ARGMAX | g.Fold.ARGMIN):
            return False
        case g.Reduce(arg=arg):
            return is_positive(arg)
        case _:
            return False


@g.asked_once
def is_nonnegative(node: g.Node) -> bool:
    """Is the value certainly ≥ 0 for every finite input?"""
    if is_positive(node):
        return True
    match node:
        case g.Literal(value=value):
            return not isinstance(value, bool) and value >= 0
        case g.Index():
            return True
        case g.Map(op="abs" | "sqrt" | "square"):
            return True
        case g.Map(op="pow", args=(a, g.Literal(value=value))):
            return value % 2 == 0 or is_nonnegative(a)
        case g.Map(op="where", args=(_, a, b)):
            return is_nonnegative(a) and is_nonnegative(b)
        case g.Map(op="sub", args=(g.Reduce(fold=g.Fold.MAX, arg=a), g.Reduce() as low)):
            return low.fold in (g.Fold.MIN, g.Fold.MEAN) and low.arg is a
        case g.Cast(arg=arg):
            return is_nonnegative(arg)
        case g.Map(op="add" | "mul" | "div" | "minimum", args=(a, b)):
            same = node.op == "mul" and a is b
            return same or (is_nonnegative(a) and is_nonnegative(b))
        case g.Map(op="maximum", args=(a, b)):
            return is_nonnegative(a) or is_nonnegative(b)
        case g.Reduce(arg=arg):
            return is_nonnegative(arg)
        case _:
            return False


def counts_as_positive(node: g.Node, divided_by: frozenset[g.Node]) -> bool:
    """Is it > 0, or ≥ 0 and divided by?"""
    return is_positive(node) or (node in divided_by and is_nonnegative(node))


def told(expr: sp.Expr) -> str:
    """The expression for messages."""
    return str(expr).replace("**", "^").replace("*", "·")


def divisors(node: g.Node) -> frozenset[g.Node]:
    """What `node` divides by, or takes the logarithm of; products and roots are taken apart.

    Where one of them is 0 the text itself has no value: the guard policy's business, as infinities
    are. The algebra may take them as positive if they are never negative.
    """
    found: set[g.Node] = set()

    def factors(n: g.Node) -> None:
        found.add(n)
        if isinstance(n, g.Map) and n.op in ("mul", "div", "sqrt", "abs", "pow", "square"):
            factors(n.args[0])
            if n.op == "mul":
                factors(n.args[1])

    for n in g.topological((node,)):
        if isinstance(n, g.Map) and n.op in ("div", "rsqrt", "log", "log2"):
            factors(n.args[-1])
    return frozenset(found)
