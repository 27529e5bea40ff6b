"""Expressions as C++ text, with as few parentheses as the language allows."""

from __future__ import annotations

from typing import Protocol, assert_never

from fusegen.ir.expr import Call, Expr, Lit, Var
from fusegen.ir.ops import OPS

_SIGNED = 12  # how tightly a minus binds
TIGHTEST = 16


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


def show(expr: Expr, dialect: Dialect, outer: int = 0) -> str:
    """The expression as text; in brackets if it binds less tightly than `outer`."""
    return _bracketed(_printed(expr, dialect), outer)


def _printed(expr: Expr, dialect: Dialect) -> tuple[str, int]:
    """The text and how tightly it binds."""
    match expr:
        case Lit():
            shown = dialect.literal(expr)
            return shown, _SIGNED if shown.startswith("-") else TIGHTEST
        case Var():
            return dialect.name(expr), TIGHTEST
        case Call():
            return _printed_call(expr, dialect)
        case _:
            assert_never(expr)


def _printed_call(expr: Call, dialect: Dialect) -> tuple[str, int]:
    op = OPS[expr.op]
    printed = [_printed(a, dialect) for a in expr.args]
    plain = [shown for shown, _ in printed]
    args = [dialect.argument(a, t, expr) for a, t in zip(expr.args, plain, strict=True)]
    spelled = dialect.function(expr, args)
    if spelled is not None:
        return spelled, TIGHTEST
    assert op.spelling in ("infix", "prefix"), expr.op
    if op.spelling == "prefix":
        inner = _bracketed(printed[0], op.precedence)
        body = f"{op.c}{inner}" if not inner.startswith(op.c) else f"{op.c}({inner})"
        return body, op.precedence
    # Comparisons and bit operators mixed read badly without parentheses, so give them.
    mixed = op.rule == "logic" and any(_is_infix(a) for a in expr.args)
    floor = TIGHTEST if mixed else op.precedence
    left, right = printed
    body = f"{_bracketed(left, floor)} {op.c} {_bracketed(right, max(floor, op.precedence + 1))}"
    return body, op.precedence


def _bracketed(printed: tuple[str, int], outer: int) -> str:
    """The text as an operand: in brackets if it binds less tightly than `outer`."""
    shown, binds = printed
    return f"({shown})" if binds < outer else shown


def _is_infix(expr: Expr) -> bool:
    return isinstance(expr, Call) and OPS[expr.op].spelling == "infix"


def both_whole(choice: Call) -> bool:
    """Does a `where` choose between whole numbers that C++ would take for 32-bit ones?

    Sums of 0 and 1 stay far from the edge, and most choices are of these: they are left alone.
    """
    _, a, b = choice.args
    if not (isinstance(a, Lit) and isinstance(b, Lit) and choice.kind == "int"):
        return False
    return max(abs(a.value), abs(b.value)) > 1
