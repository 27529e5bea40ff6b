"""Choices that leave elements out, said alike: `where(c, s, −∞)` where a text may say
`where(~c, −∞, s)`, as a mask of what is not seen does."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.expr import Call, Expr, Lit, call
from fusegen.ir.kernel import Sweep
from fusegen.ir.monoid import Folded, Moving

_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_DUAL = {"and": "or", "or": "and"}


def with_literals_last(sweep: Sweep) -> Sweep:
    """The sweep, whose elements choose a constant where a condition does not hold."""
    monoid = sweep.monoid

    def put(one: Folded | Moving) -> Folded | Moving:
        return replace(one, lift=_turned(one.lift))

    monoid = replace(
        monoid, folded=tuple(map(put, monoid.folded)),  # type: ignore[arg-type]
        moving=tuple(map(put, monoid.moving)),  # type: ignore[arg-type]
        relatives=tuple(replace(r, atom=_turned(r.atom)) for r in monoid.relatives))
    lets = tuple(replace(let, expr=_turned(let.expr)) for let in sweep.lets)
    return replace(sweep, monoid=monoid, lets=lets)


def _turned(expr: Expr) -> Expr:
    if not isinstance(expr, Call):
        return expr
    args = tuple(map(_turned, expr.args))
    match expr.op, args:
        case "where", (c, Lit() as a, b) if not isinstance(b, Lit):
            return Call("where", (_denied(c), b, a))
        case "where", (Call(op="not", args=(c,)), a, b):
            return Call("where", (_denied(c), a, b))
    return Call(expr.op, args)


def _denied(condition: Expr) -> Expr:
    """What holds where the condition does not. Whole numbers are less, equal or greater; of floats
    a NaN is none of these."""
    match condition:
        case Call(op="not", args=(a,)):
            return a
        case Call(op="and" | "or" as op, args=(a, b)):
            return call(_DUAL[op], _denied(a), _denied(b))
        case Call(op="lt" | "le" | "gt" | "ge" | "eq" | "ne" as op, args=args) if op in (
                "eq", "ne") or all(a.kind == "int" for a in args):
            return Call(_OPPOSITE[op], args)
    return call("not", condition)
