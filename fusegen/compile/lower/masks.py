"""Elements that contribute nothing, by their column and their row's values alone.

A text that puts −inf, or 0, where a condition on column numbers does not hold (causal scores,
windows, ragged rows) makes lifts there that are the identity of every component: they need not be
computed. Vectors there are not looked at either: 0 times an infinity counts as 0, as it does behind
the end of a ragged row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from fusegen.ir.expr import Call, Expr, Lit, Var, call, substitute, variables, walk
from fusegen.ir.kernel import COLUMN, Sweep
from fusegen.ir.monoid import Monoid

_IDENTITY = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def contributing(sweep: Sweep) -> Expr | None:
    """A condition over columns and row values: elements for which it is false are the identity in
    every component. None: all may contribute."""
    monoid = sweep.monoid
    if sweep.element_stores or monoid.best or monoid.lists or monoid.own or monoid.is_empty:
        return None  # each has a say about every column
    lets: dict[str, Expr] = {}
    for let in sweep.lets:
        lets[let.name] = substitute(let.expr, lets)
    found: Expr | None = None
    for condition in dict.fromkeys(_conditions(sweep, lets)):
        if _is_identity(monoid, lets, condition):
            found = condition if found is None else call("and", found, condition)
    return found


def _conditions(sweep: Sweep, lets: Mapping[str, Expr]) -> Iterator[Expr]:
    """Those on columns and row values that choose elements."""
    monoid = sweep.monoid
    lifts = [*(f.lift for f in monoid.folded), *(m.lift for m in monoid.moving),
             *(r.atom for r in monoid.relatives)]
    for lift in lifts:
        for part in walk(substitute(lift, lets)):
            if isinstance(part, Call) and part.op == "where" and _is_positional(part.args[0]):
                yield part.args[0]


def _is_positional(condition: Expr) -> bool:
    names = variables(condition)
    varying = [n for n, v in names.items() if v.varying and n != COLUMN.name]
    return COLUMN.name in names and not varying


def _is_identity(monoid: Monoid, lets: Mapping[str, Expr], condition: Expr) -> bool:
    """Is every component's lift its identity where the condition is false?"""
    atoms = {r.name: _known(substitute(r.atom, lets), condition, {}) for r in monoid.relatives}
    # What is measured from a number stays infinite; a scale may have any sign.
    seen = {n: v for n, v in atoms.items()
            if v is not None and math.isinf(v) and _is_shift(monoid, n)}
    wanted = [(f.lift, _IDENTITY[f.fold]) for f in monoid.folded]
    wanted += [(m.lift, 0.0) for m in monoid.moving]
    return all(_known(substitute(lift, lets), condition, seen) == identity
               for lift, identity in wanted)


def _is_shift(monoid: Monoid, relative: str) -> bool:
    pivot = monoid.pivot(next(r for r in monoid.relatives if r.name == relative).pivot)
    return pivot.action == "shift" and not pivot.unit


def _known(expr: Expr, condition: Expr, seen: Mapping[str, float]) -> float | None:
    """The expression's value where the condition is false, if that is certain for numbers."""
    match expr:
        case Lit(value=value):
            return float(value)
        case Var(name=name):
            return seen.get(name)
        case Call(op="where", args=(c, _, otherwise)) if c == condition:
            return _known(otherwise, condition, seen)
        case Call(op=op, args=args):
            return _computed(op, [_known(a, condition, seen) for a in args])


def _computed(op: str, args: list[float | None]) -> float | None:
    match op, args:
        case "exp" | "exp2", [float() as a] if a == -math.inf:
            return 0.0
        case "neg", [float() as a]:
            return -a
        case "to_float", [a]:
            return a
        case ("mul" | "zero_wins" | "rounded_mul"), [a, b] if 0.0 in (a, b):
            return 0.0
        case "xlogy", [float() as a, _] if a == 0.0:
            return 0.0
        case "add", [a, b] if -math.inf in (a, b):
            return -math.inf
        case "sub", [float() as a, _] if math.isinf(a):
            return a
        case "where", [_, a, b] if a == b:
            return a
        case _:
            return None
