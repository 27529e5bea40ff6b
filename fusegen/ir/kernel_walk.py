"""What stands inside records of the Kernel IR: expressions, names, gathers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

from fusegen.ir.expr import Call, Expr, Lit, Var, substitute, variables
from fusegen.ir.kernel import ENTRY, Gather, Let, ListStore, Sweep


def expressions_in(part: Any) -> Iterator[Expr]:
    """Every expression inside records of the Kernel IR."""
    return _inside(part, (Var, Lit, Call))


def gathers_in(part: Any) -> Iterator[Gather]:
    """Every gather inside records of the Kernel IR: of row values, and of lists' entries."""
    return _inside(part, (Gather,))


def is_plain(stored: ListStore) -> bool:
    """Is an entry computed without a look at other arrays, or at its place?"""
    plain = all(isinstance(step, Let) for step in stored.entries.steps)
    return plain and ENTRY.name not in names_in(stored)


def _inside(part: Any, kinds: tuple[type, ...]) -> Iterator[Any]:
    todo = [part]  # the next one last
    while todo:
        one = todo.pop()
        if isinstance(one, kinds):
            yield one
        elif isinstance(one, tuple):
            todo += reversed(one)
        else:
            kind: Any = type(one)
            todo += [getattr(one, name) for name in _last_first(kind)]


@cache
def _last_first(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass; others have none."""
    return tuple(f.name for f in reversed(fields(kind))) if is_dataclass(kind) else ()


def used_in(sweep: Sweep, exprs: Iterable[Expr]) -> tuple[set[str], list[Let]]:
    """Names, and the sweep's lets among them, in order, that these element expressions use."""
    wanted = {n for e in exprs for n in variables(e)}
    lets: list[Let] = []
    for let in reversed(sweep.lets):
        if let.name in wanted:
            lets.insert(0, let)
            wanted |= set(variables(let.expr))
    return wanted, lets


def names_in(part: Any) -> frozenset[str]:
    """Every name that expressions inside records of the Kernel IR use."""
    return frozenset(n for e in expressions_in(part) for n in variables(e))


def with_values(part: Any, values: Mapping[str, Expr]) -> Any:
    """A record of the Kernel IR with variables replaced in all its expressions."""
    if isinstance(part, Var | Lit | Call):
        return substitute(part, values)
    if isinstance(part, tuple):
        return tuple(with_values(inner, values) for inner in part)
    if is_dataclass(part) and not isinstance(part, type):
        found = {f.name: with_values(getattr(part, f.name), values) for f in fields(part)}
        return replace(part, **found)
    return part
