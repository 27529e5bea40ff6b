"""Between fusegen's expressions and sympy's: `freeze` goes in, `thaw` comes out.

Symbols carry what is known about their sign; nothing is assumed that the graph does not imply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import sympy as sp

from fusegen import graph as g
from fusegen.expr import Expr, Lit, Var, call


class Unmodelled(Exception):
    """The algebra has no model of this operation; carries the node."""

    def __init__(self, node: g.Node) -> None:
        self.node = node
        super().__init__(str(g.attributes(node)))


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
}  # fmt: skip


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
            case g.Map(op=op, args=args):
                known[part] = apply(op, *(known[a] for a in args))
            case g.Cast(dtype=dtype, arg=arg) if dtype.kind == "float":
                known[part] = known[arg]
            case g.Cast() | g.Input() | g.Length() | g.Index() | g.Reduce() | g.TopK():
                raise Unmodelled(part)
            case g.Part() | g.Take() | g.Own() | g.Field():
                raise Unmodelled(part)
            case _:
                assert_never(part)
    return known[node]


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


def is_positive(node: g.Node) -> bool:
    """Is the value certainly > 0 for every finite input?"""
    match node:
        case g.Literal(value=value):
            return not isinstance(value, bool) and value > 0
        case g.Length():
            return True
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
        case g.Reduce(fold=g.Fold.MAX, arg=arg):
            # A scale of 0 is the guard policy's business, as infinities are.
            return is_positive(arg) or (isinstance(arg, g.Map) and arg.op == "abs")
        case g.Reduce(arg=arg):
            return is_positive(arg)
        case _:
            return False


def is_nonnegative(node: g.Node) -> bool:
    """Is the value certainly ≥ 0 for every finite input?"""
    if is_positive(node):
        return True
    match node:
        case g.Literal(value=value):
            return not isinstance(value, bool) and value >= 0
        case g.Index():
            return True
        case g.Map(op="abs" | "sqrt"):
            return True
        case g.Map(op="pow", args=(_, g.Literal(value=value))):
            return isinstance(value, int) and value % 2 == 0
        case g.Map(op="add" | "mul" | "div" | "minimum", args=(a, b)):
            same = node.op == "mul" and a is b
            return same or (is_nonnegative(a) and is_nonnegative(b))
        case g.Map(op="maximum", args=(a, b)):
            return is_nonnegative(a) or is_nonnegative(b)
        case g.Reduce(arg=arg):
            return is_nonnegative(arg)
        case _:
            return False


def thaw(expr: sp.Expr, names: Mapping[sp.Symbol, Var], moving: frozenset[str]) -> Expr:
    """A sympy expression in fusegen's own language.

    `moving` names relatives and moves: products of their powers with an exponential are guarded,
    so that u·exp(u) at u = −inf is 0 (its limit), not NaN.
    """
    if expr in names:
        return names[expr]
    if expr.is_Integer or expr.is_Rational or expr.is_Float:
        return Lit(float(expr))
    if isinstance(expr, sp.Add):
        return _thaw_sum(expr, names, moving)
    if isinstance(expr, sp.Mul):
        return _thaw_product(expr, names, moving)
    if isinstance(expr, sp.exp):
        return call("exp", thaw(expr.args[0], names, moving))
    if isinstance(expr, sp.Pow):
        return _thaw_power(expr, names, moving)
    inner = [thaw(a, names, moving) for a in expr.args]
    for op in ("log", "tanh", "sin", "cos", "erf"):
        if isinstance(expr, _DIRECT[op]):
            return call(op, *inner)
    if isinstance(expr, sp.Abs):
        return call("abs", *inner)
    if isinstance(expr, sp.core.function.AppliedUndef):
        return call(expr.func.__name__, *inner)
    raise ValueError(f"no spelling for {expr}")


def _ordered(args: tuple[sp.Expr, ...]) -> list[sp.Expr]:
    return sorted(args, key=sp.default_sort_key)


def _thaw_sum(expr: sp.Add, names: Mapping[sp.Symbol, Var], moving: frozenset[str]) -> Expr:
    plus = [t for t in _ordered(expr.args) if not t.could_extract_minus_sign()]
    minus = [-t for t in _ordered(expr.args) if t.could_extract_minus_sign()]
    terms = [thaw(t, names, moving) for t in plus]
    total = terms[0] if terms else call("neg", thaw(minus.pop(0), names, moving))
    for term in terms[1:]:
        total = call("add", total, term)
    for t in minus:
        total = call("sub", total, thaw(t, names, moving))
    return total


def _product(factors: list[Expr]) -> Expr:
    total = factors[0] if factors else Lit(1.0)
    for factor in factors[1:]:
        total = call("mul", total, factor)
    return total


def _thaw_product(expr: sp.Mul, names: Mapping[sp.Symbol, Var], moving: frozenset[str]) -> Expr:
    if expr.args[0] == -1:
        return call("neg", thaw(-expr, names, moving))
    over, under = sp.fraction(expr, exact=True)
    if under != 1 and not under.has(sp.exp):
        return call("div", thaw(over, names, moving), thaw(under, names, moving))
    exponentials = [a for a in _ordered(expr.args) if isinstance(a, sp.exp)]
    growing = [
        a for a in _ordered(expr.args)
        if a not in exponentials and {s.name for s in a.free_symbols} & moving
    ]  # fmt: skip
    others = [a for a in _ordered(expr.args) if a not in exponentials and a not in growing]
    if not (exponentials and growing):
        return _product([thaw(a, names, moving) for a in (*others, *growing, *exponentials)])
    weight = _product([thaw(a, names, moving) for a in exponentials])
    value = _product([thaw(a, names, moving) for a in growing])
    guarded = call("zero_wins", weight, value)
    return _product([*(thaw(a, names, moving) for a in others), guarded])


def _thaw_power(expr: sp.Pow, names: Mapping[sp.Symbol, Var], moving: frozenset[str]) -> Expr:
    base, power = expr.args
    inner = thaw(base, names, moving)
    if power.is_Integer and 2 <= power <= 4:
        return _product([inner] * int(power))
    if power.is_Integer and -4 <= power <= -1:
        return call("div", Lit(1.0), _product([inner] * -int(power)))
    if power == sp.Rational(1, 2):
        return call("sqrt", inner)
    if power == sp.Rational(-1, 2):
        return call("rsqrt", inner)
    return call("pow", inner, thaw(power, names, moving))
