"""Lists of a sweep that differ in numbers of the row alone, such as where a group of columns
begins: one text collects them all, one after the other, where many would take compilers long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from fusegen.backend.cuda.emit.dialect import CudaDialect
from fusegen.backend.cuda.emit.views import Alike, ListView
from fusegen.ir.expr import Call, Expr, Var, variables
from fusegen.ir.kernel import Sweep
from fusegen.ir.kernel_walk import used_in

_MANY = 4  # lists, from which on they share a text


def with_one_text(
    sweep: Sweep, lists: Sequence[ListView], dialect: CudaDialect
) -> tuple[ListView, ...]:
    """The same lists; those that follow one another and are alike know of one another."""
    found: list[ListView] = []
    for _, run in groupby(lists, _form):
        group = tuple(run)
        alike = _alike(sweep, group, dialect) if len(group) >= _MANY else None
        found += (replace(top, alike=alike) for top in group)
    return tuple(found)


def _form(top: ListView) -> tuple[object, ...]:
    plan = (top.short.plan, top.short.items) if top.short else ()
    return top.k, top.made, top.value_type, plan


def _alike(sweep: Sweep, group: Sequence[ListView], dialect: CudaDialect) -> Alike | None:
    """None where they differ in more than numbers of one type that all have as variables."""
    lifts = {best.name: best.lift for best in sweep.monoid.lists}
    first = lifts[group[0].name]
    renamed = [_renamed(first, lifts[top.name]) for top in group]
    numbers = tuple(dict.fromkeys(n for names in renamed for n in names or ()))
    shared = {n for let in used_in(sweep, [first])[1] for n in variables(let.expr)}
    kinds = {n.kind for n in numbers}
    if None in renamed or len(kinds) != 1 or any(
        n.name in shared or dialect.text(n) != n.name for n in numbers
    ):
        return None
    return Alike(
        lists=tuple(top.name for top in group), type=dialect.type_of(kinds.pop()),
        numbers=tuple(n.name for n in numbers),
        values=tuple(tuple(dialect.text((names or {}).get(n, n)) for n in numbers)
                     for names in renamed),
    )


def _renamed(first: Expr, other: Expr) -> dict[Var, Var] | None:
    """Which numbers of the row the other expression has for the first one's. None: it differs in
    more."""
    found: dict[Var, Var] = {}
    for mine, its in _leaves(first, other):
        match mine, its:
            case (Var(kind=kind, varying=False), Var(kind=same, varying=False)) if kind == same:
                if found.setdefault(mine, its) != its:
                    return None
            case _ if mine != its:
                return None
    return {mine: its for mine, its in found.items() if mine != its}


def _leaves(first: Expr, other: Expr) -> Iterator[tuple[Expr, Expr]]:
    """What stands at the same places; expressions of another form as they are."""
    match first, other:
        case (Call(op=op, args=args), Call(op=same, args=others)) if (
            op == same and len(args) == len(others)
        ):
            for mine, its in zip(args, others, strict=True):
                yield from _leaves(mine, its)
        case _:
            yield first, other
