"""Lists of a sweep that differ in numbers of the row alone, such as where a group of columns
begins: one text collects them all, one after the other, where many would take compilers long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fusegen.backend.cuda.emit.dialect import CudaDialect
from fusegen.backend.cuda.emit.views import Alike, ListView
from fusegen.ir.expr import Call, Expr, Var, variables
from fusegen.ir.kernel import Let, Sweep
from fusegen.ir.kernel_walk import used_in

_MANY = 4  # lists, from which on they share a text


def with_one_text(
    sweep: Sweep, lists: Sequence[ListView], dialect: CudaDialect
) -> tuple[ListView, ...]:
    """The same lists; those that follow one another and are alike know of one another."""
    lifts = {best.name: best.lift for best in sweep.monoid.lists}
    groups: list[list[tuple[ListView, dict[Var, Var]]]] = []
    for top in lists:
        first = groups[-1][0][0] if groups else top
        renamed = _renamed(lifts[first.name], lifts[top.name])
        if groups and renamed is not None and _form(top) == _form(first):
            groups[-1].append((top, renamed))
        else:
            groups.append([(top, {})])
    return tuple(
        replace(top, alike=alike) for group in groups
        for alike in [_alike(used_in(sweep, [lifts[group[0][0].name]])[1], group, dialect)]
        for top, _ in group
    )


def _form(top: ListView) -> tuple[object, ...]:
    plan = (top.short.plan, top.short.items) if top.short else ()
    return top.k, top.made, top.value_type, plan


def _alike(
    lets: Sequence[Let], group: Sequence[tuple[ListView, Mapping[Var, Var]]], dialect: CudaDialect
) -> Alike | None:
    """None of few, or where their numbers are not of one type, variables, and the lists' alone:
    `lets` are what all of them take besides."""
    numbers = tuple(dict.fromkeys(n for _, names in group for n in names))
    shared = {n for let in lets for n in variables(let.expr)}
    kinds = {n.kind for n in numbers}
    if len(group) < _MANY or len(kinds) != 1 or any(
        n.name in shared or dialect.text(n) != n.name for n in numbers
    ):
        return None
    return Alike(
        lists=tuple(top.name for top, _ in group), type=dialect.type_of(kinds.pop()),
        numbers=tuple(n.name for n in numbers),
        values=tuple(tuple(dialect.text(names.get(n, n)) for n in numbers) for _, names in group),
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
