"""Elements that contribute nothing, by their column and their row's values, or by what is loaded.

A text that puts −inf, or 0, where a condition on column numbers does not hold (causal scores,
windows, ragged rows) makes lifts there that are the identity of every component: they need not be
computed. Vectors there are not looked at either: 0 times an infinity counts as 0, as it does behind
the end of a ragged row. Conditions on numbers that come with columns or elements (a row's length,
seen from the columns; a padding mask) say so too, where the text alone makes 0 of all the rest.

What a mask leaves out is −inf, and exp(−inf − m) is 0 unless m is −inf or NaN, as of a row of which
nothing is left. In sweeps after that of m such rows are folded as they are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import reduce
from typing import Any

from fusegen.compile.lower.choices import with_literals_last
from fusegen.compile.lower.spans import met, span_of
from fusegen.ir.expr import Call, Expr, Lit, Var, call, substitute, variables, walk
from fusegen.ir.kernel import COLUMN, N_COLS, FromMemory, FromVectors, Span, Sweep
from fusegen.ir.monoid import Folded, Monoid, Moving

_IDENTITY = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def narrowed(sweep: Sweep, finished: Set[str]) -> Sweep:
    """The sweep over those elements alone that may contribute: a span of columns where that is what
    the conditions say, which are then true of all that it folds. finished: row values that earlier
    sweeps have made."""
    sweep = with_literals_last(sweep)
    conditions = _contributing(sweep, finished)
    counted = _counted(sweep, finished)
    if counted is not None:
        sweep = _numbers_where(counted, sweep)
    sweep = replace(sweep, counted=counted if sweep.vectors else None)
    spans = {c: span_of(c) for c in conditions}
    guards = {c: _any(unless) for c, unless in conditions.items() if unless}
    known = {c: span for c, span in spans.items() if span is not None}
    rest = [call("or", guards[c], c) if c in guards else c for c in conditions if c not in known]
    only = reduce(lambda a, b: call("and", a, b), rest) if rest else None
    if not known:
        return replace(sweep, only=only)
    all_of = reduce(met, (_unless(guards.get(c), span) for c, span in known.items()))
    return replace(_where_true(sweep, {*known} - {*guards}), only=only, span=all_of)


def _counted(sweep: Sweep, finished: Set[str]) -> Expr | None:
    """Of which elements, by what is loaded with them or by the row alone, vectors are summed up:
    all others have the weight 0 and are the identity of every other component, whatever numbers
    stand there."""
    vectors = frozenset(sweep.vectors) | _of_one_number(sweep)
    if not vectors or _all_count(sweep):
        return None
    lets, lifts = _written_out(sweep), _lifts(sweep)
    loaded = {s.name for s in sweep.loads if isinstance(s, FromMemory)}
    asked = [c for c in dict.fromkeys(_chosen_by(sweep, lets))
             if not _is_positional(c) and _loads(c) <= loaded
             and _is_identity(sweep.monoid, lets, c, vectors)]
    tests = [call("or", _any(unless), c) if unless else c for c in asked
             for unless in [tuple(_equal_infinities(lifts, lets, c, finished))]]
    return reduce(lambda a, b: call("and", a, b), tests) if tests else None


def _of_one_number(sweep: Sweep) -> Set[str]:
    """Columns' vectors of one number, which are elements."""
    return {s.name for s in sweep.loads
            if isinstance(s, FromVectors) and s.value == Var(s.name, "float", varying=True)}


def _numbers_where(counted: Expr, sweep: Sweep) -> Sweep:
    """The sweep whose sums of vectors of one number are of those elements that count."""
    numbers, lets = _of_one_number(sweep), _written_out(sweep)

    def put(one: Folded | Moving) -> Any:
        if one.width > 1 or not numbers & variables(substitute(one.lift, lets)).keys():
            return one
        return replace(one, lift=call("where", counted, one.lift, Lit(0.0)))

    monoid = sweep.monoid
    return replace(sweep, monoid=replace(
        monoid, folded=tuple(map(put, monoid.folded)), moving=tuple(map(put, monoid.moving))))


def _loads(condition: Expr) -> Set[str]:
    """What it asks of an element beside its column."""
    return {n for n, v in variables(condition).items() if v.varying and n != COLUMN.name}


def _all_count(sweep: Sweep) -> bool:
    """Has something in it a say about every column?"""
    monoid = sweep.monoid
    return bool(sweep.element_stores or monoid.best or monoid.lists or monoid.own
                or monoid.is_empty)


def _lifts(sweep: Sweep) -> list[Expr]:
    return [*(f.lift for f in sweep.monoid.folded), *(m.lift for m in sweep.monoid.moving)]


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
    if _all_count(sweep):
        return {}
    lets, lifts = _written_out(sweep), _lifts(sweep)
    return {c: tuple(_equal_infinities(lifts, lets, c, finished))
            for c in dict.fromkeys(_chosen_by(sweep, lets))
            if _is_positional(c) and _is_identity(sweep.monoid, lets, c)}


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


def _chosen_by(sweep: Sweep, lets: Mapping[str, Expr]) -> Iterator[Expr]:
    """Conditions that choose elements, and not numbers of vectors."""
    for lift in (*_lifts(sweep), *(r.atom for r in sweep.monoid.relatives)):
        for part in walk(substitute(lift, lets)):
            if isinstance(part, Call) and part.op == "where" and not (
                    variables(part.args[0]).keys() & {*sweep.vectors}):
                yield part.args[0]


def _is_positional(condition: Expr) -> bool:
    """Is it one on columns and row values?"""
    return COLUMN.name in variables(condition) and not _loads(condition)


def _is_identity(
    monoid: Monoid, lets: Mapping[str, Expr], condition: Expr, only: Set[str] | None = None
) -> bool:
    """Is every component's lift its identity where the condition is false? only: of what elements
    are made of, names that may be NaN or infinite there; None: all."""
    atoms = {r.name: _known(substitute(r.atom, lets), condition, {}, only)
             for r in monoid.relatives}
    # What is measured from a number stays infinite; a scale may have any sign.
    seen = {n: v for n, v in atoms.items()
            if v is not None and math.isinf(v) and _is_shift(monoid, n)}
    wanted = [(f.lift, _IDENTITY[f.fold]) for f in monoid.folded]
    wanted += [(m.lift, 0.0) for m in monoid.moving]
    return all(_known(substitute(lift, lets), condition, seen, only) == identity
               for lift, identity in wanted)


def _is_shift(monoid: Monoid, relative: str) -> bool:
    pivot = monoid.pivot(next(r for r in monoid.relatives if r.name == relative).pivot)
    return pivot.action == "shift" and not pivot.unit


def _known(
    expr: Expr, condition: Expr, seen: Mapping[str, float], only: Set[str] | None = None
) -> float | None:
    """The expression's value where the condition is false, if that is certain for numbers. only:
    names that stand for these; others may stand for NaN and infinities. None: all do."""
    match expr:
        case Lit(value=value):
            return float(value)
        case Var(name=name):
            return seen.get(name)
        case Call(op="where", args=(c, _, otherwise)) if c == condition:
            return _known(otherwise, condition, seen, only)
        case Call(op=op, args=args):
            found = [_known(a, condition, seen, only) for a in args]
            numbers = [*zip(args, found, strict=True)][1 if op == "where" else 0 :]
            if only is not None and any(v is None and not _loads(a) <= only for a, v in numbers):
                return None
            return _computed(op, found)


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
