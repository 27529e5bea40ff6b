"""Terms that a sweep sums and a later one needs again: exponentials of what lies below a maximum.

Backends keep them, each in its own place: as `FromKept`, a source of items like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from fusegen.ir.expr import Call, Expr, Lit, Var, walk
from fusegen.ir.kernel import Let, Source, Sweep
from fusegen.ir.kernel_walk import used_in
from fusegen.ir.monoid import Monoid

TERM = Var("term", "float", varying=True)
"""What expressions call a kept term."""


@dataclass(frozen=True, slots=True)
class FromKept:
    """Items are terms that an earlier sweep has kept."""

    name: str = TERM.name
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """exp of `relative` in a sweep's sums, and as later sweeps spell it."""

    relative: str
    pivot: str  # the component that it is relative to
    steps: Expr  # by how many times its distance from there
    known: str  # and the row value that this becomes
    again: Expr


def term_of(relative: str) -> Expr:
    """The exponential of a relative."""
    return Call("exp", (Var(relative, "float", varying=True),))


def below_pivots(monoid: Monoid) -> frozenset[str]:
    """Relatives that are never above 0: they are relative to the greatest of themselves."""
    tops = {f.name: f.lift for f in monoid.folded if f.fold == "max"}
    return frozenset(
        r.name for r in monoid.relatives
        for pivot in (monoid.pivot(r.pivot),)
        if pivot.action == "shift" and not pivot.unit and isinstance(pivot.value, Var)
        and tops.get(pivot.value.name) == r.atom
    )


def terms(sweep: Sweep) -> Iterator[Term]:
    """What a sweep's sums have of them."""
    monoid = sweep.monoid
    known = {step.expr: step.name for step in sweep.steps if isinstance(step, Let)}
    below = below_pivots(monoid)
    for relative in monoid.relatives:
        pivot = monoid.pivot(relative.pivot).value
        used = any(term_of(relative.name) in walk(m.lift) for m in monoid.moving)
        if relative.name not in below or not used or not isinstance(pivot, Var):
            continue
        name = known.get(replace(pivot, name=f"state.{pivot.name}"))
        if name is not None:
            at = {relative.pivot: Var(name, pivot.kind)}.__getitem__
            again = Call("exp", (monoid.relative(relative, at),))
            yield Term(relative.name, pivot.name, relative.factor, name, again)


def sums_from_one(sweep: Sweep) -> frozenset[str]:
    """Row values that are sums of such terms alone, of which the greatest is 1; or NaN."""
    monoid, below = sweep.monoid, below_pivots(sweep.monoid)
    wanted = {term_of(name) for name in below}
    sums = {Var(f"state.{m.name}", m.kind) for m in monoid.moving if m.lift in wanted}
    found = set()
    for step in sweep.steps:
        match step:
            case Let(name=name, expr=Call(op="where", args=(_, Var() as value, Lit() as other))):
                if value in sums and math.isnan(other.value):
                    found.add(name)
    return frozenset(found)


def over_terms(sweep: Sweep, term: Term) -> Sweep | None:
    """A later sweep with kept terms in place of what computes them. None where it has no such
    term."""
    again = over(sweep, {term.again: TERM})
    if not any(TERM in walk(expr) for expr in expressions(again)):
        return None
    again = over(again, {Var(let.name, "float", varying=True): TERM
                         for let in again.lets if let.expr == TERM})
    kept = cast(Source, FromKept())  # of a program that no other backend sees
    return replace(again, loads=(kept, *again.loads))


def over_value(sweep: Sweep, let: Let) -> Sweep:
    """A sweep over the kept value of a let, in place of the let."""
    values: Mapping[Expr, Expr] = {Var(let.name, "float", varying=True): TERM}
    monoid = sweep.monoid
    folded = tuple(replace(f, lift=replaced(f.lift, values)) for f in monoid.folded)
    moving = tuple(replace(m, lift=replaced(m.lift, values)) for m in monoid.moving)
    relatives = tuple(replace(r, atom=replaced(r.atom, values)) for r in monoid.relatives)
    stores = tuple(replace(s, value=replaced(s.value, values)) for s in sweep.element_stores)
    lets = tuple(replace(o, expr=replaced(o.expr, values)) for o in sweep.lets if o != let)
    kept = cast(Source, FromKept())  # of a program that no other backend sees
    found = replace(sweep, loads=(kept, *sweep.loads), lets=lets, element_stores=stores,
                    monoid=replace(monoid, folded=folded, moving=moving, relatives=relatives))
    wanted = (*(f.lift for f in folded), *(m.lift for m in moving), *(r.atom for r in relatives),
              *(s.value for s in stores))
    used, needed = used_in(found, wanted)
    loads = found.loads if folded else tuple(s for s in found.loads if s.name in used)
    return replace(found, loads=loads, lets=tuple(needed))


def expressions(sweep: Sweep) -> list[Expr]:
    """What a sweep without a state computes of elements."""
    return [*(let.expr for let in sweep.lets), *(s.value for s in sweep.element_stores)]


def over(sweep: Sweep, values: Mapping[Expr, Expr]) -> Sweep:
    """The sweep with other expressions for some, however its lets part them, and no lets that
    nothing needs any more."""
    parts = {let.name: let.expr for let in sweep.lets}
    stores = tuple(replace(s, value=replaced(s.value, values, parts)) for s in sweep.element_stores)
    lets = tuple(replace(let, expr=replaced(let.expr, values, parts)) for let in sweep.lets)
    found = replace(sweep, lets=lets, element_stores=stores)
    return replace(found, lets=tuple(used_in(found, (s.value for s in stores))[1]))


def same_items(one: Sweep, other: Sweep) -> bool:
    """Do names that both have stand for the same values of an element?"""
    first, second = ({let.name: let.expr for let in s.lets} for s in (one, other))
    return all(second[name] == first[name] for name in first.keys() & second.keys())


def replaced(
    expr: Expr, values: Mapping[Expr, Expr], parts: Mapping[str, Expr] | None = None
) -> Expr:
    """An expression with others for some that it is made of, of which `parts` may have names."""
    for wanted, value in values.items():
        if _is(expr, wanted, parts or {}):
            return value
    if isinstance(expr, Call):
        return Call(expr.op, tuple(replaced(a, values, parts) for a in expr.args))
    return expr


def _is(expr: Expr, wanted: Expr, parts: Mapping[str, Expr]) -> bool:
    """Is it this, with names for parts of it? A name that both have is not looked into."""
    match expr, wanted:
        case _ if expr == wanted:
            return True
        case Var(name=name), _ if name in parts:
            return _is(parts[name], wanted, parts)
        case Call(op=op, args=args), Call(op=other, args=others):
            return op == other and len(args) == len(others) and all(
                _is(a, b, parts) for a, b in zip(args, others, strict=True))
        case _:
            return False
