"""Elements that contribute nothing, by their column and their row's values alone.

A text that puts −inf, or 0, where a condition on column numbers does not hold (causal scores,
windows, ragged rows) makes lifts there that are the identity of every component: they need not be
computed. Vectors there are not looked at either: 0 times an infinity counts as 0, as it does behind
the end of a ragged row.

What a mask leaves out is −inf, and exp(−inf − m) is 0 unless m is −inf or NaN, as of a row of which
nothing is left. In sweeps after that of m such rows are folded as they are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import reduce

from fusegen.ir.expr import Call, Expr, Lit, Var, call, substitute, variables, walk
from fusegen.ir.kernel import COLUMN, N_COLS, Span, Sweep
from fusegen.ir.monoid import Monoid

_IDENTITY = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def narrowed(sweep: Sweep, finished: Set[str]) -> Sweep:
    """The sweep over those elements alone that may contribute: a span of columns where that is what
    the conditions say, which are then true of all that it folds. finished: row values that earlier
    sweeps have made."""
    conditions = _contributing(sweep, finished)
    spans = {c: span_of(c) for c in conditions}
    guards = {c: _any(unless) for c, unless in conditions.items() if unless}
    known = {c: span for c, span in spans.items() if span is not None}
    rest = [call("or", guards[c], c) if c in guards else c for c in conditions if c not in known]
    only = reduce(lambda a, b: call("and", a, b), rest) if rest else None
    if not known:
        return replace(sweep, only=only)
    met = reduce(_met, (_unless(guards.get(c), span) for c, span in known.items()))
    return replace(_where_true(sweep, {*known} - {*guards}), only=only, span=met)


def _any(conditions: Iterable[Expr]) -> Expr:
    return reduce(lambda a, b: call("or", a, b), conditions)


def _unless(guard: Expr | None, span: Span) -> Span:
    """The span, and the whole row where the guard holds."""
    if guard is None:
        return span
    first, end = span
    return (None if first is None else call("where", guard, Lit(0, "int"), first),
            None if end is None else call("where", guard, N_COLS, end))


def _contributing(sweep: Sweep, finished: Set[str]) -> Mapping[Expr, tuple[Expr, ...]]:
    """Conditions over columns and row values: elements for which one of them is false are the
    identity in every component, unless one of these conditions on the row holds."""
    monoid = sweep.monoid
    if sweep.element_stores or monoid.best or monoid.lists or monoid.own or monoid.is_empty:
        return {}  # each has a say about every column
    lets = _written_out(sweep)
    lifts = [*(f.lift for f in monoid.folded), *(m.lift for m in monoid.moving)]
    return {c: tuple(_equal_infinities(lifts, lets, c, finished))
            for c in dict.fromkeys(_conditions(sweep, lets)) if _is_identity(monoid, lets, c)}


def _written_out(sweep: Sweep) -> dict[str, Expr]:
    """What names of the sweep stand for."""
    lets: dict[str, Expr] = {}
    for let in sweep.lets:
        lets[let.name] = substitute(let.expr, lets)
    return lets


def _equal_infinities(
    lifts: Iterable[Expr], lets: Mapping[str, Expr], condition: Expr, finished: Set[str]
) -> Iterator[Expr]:
    """Where ∞ − r, for a row value r of earlier sweeps, is not what it is for numbers r."""
    found: dict[Expr, None] = {}
    for lift in lifts:
        for part in walk(substitute(lift, lets)):
            match part:
                case Call(op="sub", args=(a, r)) if any(n in finished for n in variables(r)):
                    first = _known(a, condition, {})
                    if first is not None and math.isinf(first) and not r.varying:
                        found |= {call("eq", r, Lit(first)): None, call("isnan", r): None}
    yield from found


def _where_true(sweep: Sweep, conditions: Set[Expr]) -> Sweep:
    """The sweep without asking these, whether they stand where they choose or have a name."""
    monoid = sweep.monoid
    lets = _written_out(sweep)

    def true(expr: Expr) -> Expr:
        if not isinstance(expr, Call):
            return expr
        if expr.op == "where" and substitute(expr.args[0], lets) in conditions:
            return true(expr.args[1])
        return Call(expr.op, tuple(map(true, expr.args)))

    folded = tuple(replace(f, lift=true(f.lift)) for f in monoid.folded)
    moving = tuple(replace(m, lift=true(m.lift)) for m in monoid.moving)
    relatives = tuple(replace(r, atom=true(r.atom)) for r in monoid.relatives)
    kept = tuple(replace(let, expr=true(let.expr)) for let in sweep.lets)
    every = (*(x.expr for x in kept), *(f.lift for f in folded), *(m.lift for m in moving),
             *(r.atom for r in relatives))
    asked = {n for e in every for n in variables(e)}
    return replace(
        sweep, lets=tuple(x for x in kept if x.name in asked or lets[x.name] not in conditions),
        monoid=replace(monoid, folded=folded, moving=moving, relatives=relatives))


# ---- spans ----


def span_of(condition: Expr) -> Span | None:
    """The columns for which a condition on whole numbers holds, if they are a span."""
    match condition:
        case Call(op="and", args=(a, b)):
            one, other = span_of(a), span_of(b)
            return None if one is None or other is None else _met(one, other)
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


def _met(one: Span, other: Span) -> Span:
    """The columns of both."""
    first, end = ((a or b if a is None or b is None else call(op, a, b))
                  for op, a, b in (("maximum", one[0], other[0]), ("minimum", one[1], other[1])))
    return first, end


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
