"""Conditions on whole numbers that leave a span of columns, solved for its ends."""

from __future__ import annotations

from fusegen.ir.expr import Call, Expr, Lit, Var, call
from fusegen.ir.kernel import COLUMN, Span


def span_of(condition: Expr) -> Span | None:
    """The columns for which a condition on whole numbers holds, if they are a span."""
    match condition:
        case Call(op="and", args=(a, b)):
            one, other = span_of(a), span_of(b)
            return None if one is None or other is None else met(one, other)
        case Call(op="lt" | "le" | "gt" | "ge" as op, args=(a, b)):
            left, right = _line(a), _line(b)
            if left is None or right is None or abs(left[0] - right[0]) != 1:
                return None
            return _solved(op, left, right)
        case _:
            return None


_Line = tuple[int, Expr]
"""slope · column + a row value."""


def _line(expr: Expr) -> _Line | None:
    """A whole number as a function of the column."""
    if expr.kind != "int":
        return None
    if not expr.varying:
        return 0, expr
    match expr:
        case Var() if expr == COLUMN:
            return 1, Lit(0, "int")
        case Call(op="add" | "sub" as op, args=(a, b)):
            left, right = _line(a), _line(b)
            if left is None or right is None:
                return None
            slope = left[0] + (right[0] if op == "add" else -right[0])
            return slope, _plus(op, left[1], right[1])
        case Call(op="neg", args=(a,)):
            inner = _line(a)
            return None if inner is None else (-inner[0], _plus("sub", Lit(0, "int"), inner[1]))
        case _:
            return None


def _plus(op: str, a: Expr, b: Expr) -> Expr:
    if b == Lit(0, "int"):
        return a
    if a == Lit(0, "int") and op == "add":
        return b
    return call(op, a, b)


def _solved(op: str, left: _Line, right: _Line) -> Span:
    """slope · column + p OP q, by the slope of both sides together."""
    rising = left[0] - right[0] == 1
    bound = _plus("sub", right[1], left[1]) if rising else _plus("sub", left[1], right[1])
    below = (op in ("lt", "le")) == rising  # is it an upper bound?
    strict = op in ("lt", "gt")
    one = Lit(1, "int")
    if below:
        return None, bound if strict else _plus("add", bound, one)
    return _plus("add", bound, one) if strict else bound, None


def met(one: Span, other: Span) -> Span:
    """The columns of both."""
    first, end = ((a or b if a is None or b is None else call(op, a, b))
                  for op, a, b in (("maximum", one[0], other[0]), ("minimum", one[1], other[1])))
    return first, end
