"""Row values that elements are divided by: what quotients need of them is found before a loop."""

from __future__ import annotations

from collections.abc import Iterable

from fusegen.backend.cpu.emit.names import fg
from fusegen.ir.expr import Call, Expr, Var, walk


def divisors_in(exprs: Iterable[Expr]) -> tuple[Var, ...]:
    """The row values that elements are divided by, in the order of the text."""
    found: dict[Var, None] = {}
    for part in (part for expr in exprs for part in walk(expr)):
        match part:
            case Call(op="div", args=(value, Var() as by)) if value.varying and not by.varying:
                found[by] = None
    return tuple(found)


def divisor_of(name: str) -> str:
    """What stands for a row value, as a dialect calls it, where elements are divided by it."""
    return f"{name.replace('.', '_')}_divisor"


def divisor_line(name: str) -> str:
    return f"const {fg('divisor')}<V> {divisor_of(name)}({name});"
