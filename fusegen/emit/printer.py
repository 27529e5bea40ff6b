"""Expressions as C++ text, with as few parentheses as the language allows."""

from __future__ import annotations

from typing import Protocol, assert_never

from fusegen.expr import Call, Expr, Lit, Var
from fusegen.ops import OPS

_TOP = 0
_TIGHTEST = 16


class Dialect(Protocol):
    """How a backend spells constants, names and functions; operators are C++'s own."""

    def literal(self, lit: Lit) -> str: ...

    def name(self, var: Var) -> str: ...

    def function(self, call: Call, args: list[str]) -> str | None:
        """The call as text, or None to print it as an operator."""
        ...

    def argument(self, expr: Expr, shown: str, call: Call) -> str:
        """An operand, already printed, as it must stand inside `call`."""
        ...


def show(expr: Expr, dialect: Dialect, outer: int = _TOP) -> str:
    """The expression as text; parenthesised if it binds less tightly than `outer`."""
    match expr:
        case Lit():
            shown = dialect.literal(expr)
            return f"({shown})" if shown.startswith("-") and outer > 12 else shown
        case Var():
            return dialect.name(expr)
        case Call():
            return _show_call(expr, dialect, outer)
        case _:
            assert_never(expr)


def _show_call(expr: Call, dialect: Dialect, outer: int) -> str:
    op = OPS[expr.op]
    if op.spelling not in ("infix", "prefix"):
        args = [dialect.argument(a, show(a, dialect), expr) for a in expr.args]
        shown = dialect.function(expr, args)
        assert shown is not None, expr.op
        return shown
    spelled = dialect.function(expr, [dialect.argument(a, show(a, dialect), expr)
                                      for a in expr.args])  # fmt: skip
    if spelled is not None:
        return spelled
    if op.spelling == "prefix":
        (arg,) = expr.args
        inner = show(arg, dialect, op.precedence)
        body = f"{op.c}{inner}" if not inner.startswith(op.c) else f"{op.c}({inner})"
    else:
        left, right = expr.args
        # Comparisons and bit operators mixed read badly without parentheses, so give them.
        floor = _TIGHTEST if op.rule == "logic" and _is_mixed(left, right) else op.precedence
        body = (
            f"{show(left, dialect, floor)} {op.c} "
            f"{show(right, dialect, max(floor, op.precedence + 1))}"
        )
    return f"({body})" if op.precedence < outer else body


def _is_mixed(left: Expr, right: Expr) -> bool:
    """Is either side an operator of its own?"""
    return any(isinstance(e, Call) and OPS[e.op].spelling == "infix" for e in (left, right))
