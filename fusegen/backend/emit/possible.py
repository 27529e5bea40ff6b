"""May a condition hold anywhere in a run of columns? By intervals of numbers, as a term of C++."""

from __future__ import annotations

from collections.abc import Callable

from fusegen.ir.expr import Call, Expr, Lit, Var
from fusegen.ir.kernel import COLUMN

Spelled = Callable[[Expr], str]
"""How the language says a row value."""


def possible(condition: Expr, first: str, last: str, spelled: Spelled) -> str:
    """A term that is false only if the condition is false in all columns from `first` to `last`."""
    return _possible(condition, (first, last), spelled) or "true"


def _possible(condition: Expr, columns: tuple[str, str], spelled: Spelled) -> str:
    """"" where nothing is known."""
    if not condition.varying:
        return f"({spelled(condition)})"
    match condition:
        case Call(op="and", args=(a, b)):
            known = [t for t in (_possible(a, columns, spelled), _possible(b, columns, spelled))
                     if t]
            return " && ".join(known)
        case Call(op="or", args=(a, b)):
            known = [t for t in (_possible(a, columns, spelled), _possible(b, columns, spelled))
                     if t]
            return f"({' || '.join(known)})" if len(known) == 2 else ""
        case Call(op="lt" | "le" | "gt" | "ge" | "eq" as op, args=(a, b)):
            left, right = (_bounds(e, columns, spelled) for e in (a, b))
            return "" if left is None or right is None else _compared(op, left, right)
        case _:
            return ""


def _compared(op: str, left: tuple[str, str], right: tuple[str, str]) -> str:
    match op:
        case "lt" | "le":
            return f"{left[0]} {'<' if op == 'lt' else '<='} {right[1]}"
        case "gt" | "ge":
            return f"{left[1]} {'>' if op == 'gt' else '>='} {right[0]}"
        case _:
            return f"({left[0]} <= {right[1]} && {right[0]} <= {left[1]})"


def _bounds(
    expr: Expr, columns: tuple[str, str], spelled: Spelled
) -> tuple[str, str] | None:
    """(least, greatest) of a number over these columns; None where it is not known."""
    if not expr.varying:
        return (spelled(expr), spelled(expr)) if isinstance(expr, Lit | Var) else \
            (f"({spelled(expr)})", f"({spelled(expr)})")
    match expr:
        case Var() if expr == COLUMN:
            return columns
        case Call(op="add", args=(a, b)):
            x, y = _bounds(a, columns, spelled), _bounds(b, columns, spelled)
            return None if x is None or y is None else (f"({x[0]} + {y[0]})", f"({x[1]} + {y[1]})")
        case Call(op="sub", args=(a, b)):
            x, y = _bounds(a, columns, spelled), _bounds(b, columns, spelled)
            return None if x is None or y is None else (f"({x[0]} - {y[1]})", f"({x[1]} - {y[0]})")
        case Call(op="neg", args=(a,)):
            x = _bounds(a, columns, spelled)
            return None if x is None else (f"-{x[1]}", f"-{x[0]}")
        case _:
            return None
