"""Scalar expressions: what kernels compute, one value at a time.

The graph says what a pipeline means over whole rows; an `Expr` says what one lane computes. The
algebra returns Exprs, schedules arrange them, printers spell them. Never sympy's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import copysign
from operator import itemgetter
from typing import Any

from fusegen.ir.dtypes import Kind
from fusegen.ir.errors import InternalError
from fusegen.ir.ops import OPS
from fusegen.ir.shared import lazy


@dataclass(frozen=True, slots=True)
class Var:
    """A named value. `varying`: one per element; otherwise one per row."""

    name: str
    kind: Kind = "float"
    varying: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Lit:
    """A constant. 0 and −0 are two: quotients tell them apart."""

    value: float | int | bool
    kind: Kind = "float"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lit):
            return NotImplemented
        same = (self.value, self.kind) == (other.value, other.kind)
        return same and (bool(self.value) or copysign(1, self.value) == copysign(1, other.value))

    def __hash__(self) -> int:
        return hash((self.value, self.kind))

    @property
    def varying(self) -> bool:
        return False


@dataclass(frozen=True)
class Call:
    """An operation of the table `OPS` over expressions."""

    op: str
    args: tuple[Expr, ...]

    @lazy
    def kind(self) -> Kind:
        return result_kind(self.op, tuple(a.kind for a in self.args))

    @lazy
    def varying(self) -> bool:
        return any(a.varying for a in self.args)

    @lazy
    def size(self) -> int:
        """Operations in it, each as often as it would be printed."""
        return 1 + sum(a.size for a in self.args if isinstance(a, Call))


Expr = Var | Lit | Call

ONE = Lit(1.0)


def result_kind(op: str, kinds: tuple[Kind, ...]) -> Kind:
    """Kind of `op` over operands of these kinds (already made compatible)."""
    rule = OPS[op].rule
    if rule == "arith":
        return "float" if "float" in kinds else "int"
    if rule == "select":
        return "float" if "float" in kinds[1:] else kinds[1]
    if rule in ("float", "to_float"):
        return "float"
    return "int" if rule == "to_int" else "bool"


def call(op: str, *args: Expr) -> Expr:
    """`op(*args)`, checked for arity; the only way expressions are built."""
    if OPS[op].arity != len(args):
        raise InternalError(f"{op} takes {OPS[op].arity} operands, got {len(args)}")
    return Call(op, args)


_LONGEST = 40
"""Operations that one expression may hold: what a person still reads, and what everything that
recurs into expressions takes easily. The longest of the library has 14."""


def is_long(expr: Expr) -> bool:
    """Does the expression need a name, rather than a place in another one?"""
    return isinstance(expr, Call) and expr.size > _LONGEST


def walk(expr: Expr) -> Iterator[Expr]:
    """Every subexpression, operands before their operation."""
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from walk(arg)
    yield expr


def variables(expr: Expr) -> dict[str, Var]:
    return {e.name: e for e in walk(expr) if isinstance(e, Var)}


def product(factors: Sequence[Expr]) -> Expr:
    """In their order; 1 of none."""
    total = factors[0] if factors else ONE
    for factor in factors[1:]:
        total = call("mul", total, factor)
    return total


def factors_of(expr: Expr, ops: Collection[str] = ("mul", "zero_wins")) -> list[Expr]:
    """Of a product, in their order, however it is bracketed."""
    if isinstance(expr, Call) and expr.op in ops:
        return [f for a in expr.args for f in factors_of(a, ops)]
    return [expr]


def ops_of(expr: Expr) -> set[str]:
    return {e.op for e in walk(expr) if isinstance(e, Call)}


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with named variables replaced, all at once."""
    match expr:
        case Var(name=name):
            return values.get(name, expr)
        case Call(op=op, args=args):
            return Call(op, tuple(substitute(a, values) for a in args))
        case _:
            return expr


def rename(expr: Expr, names: Mapping[str, str]) -> Expr:
    """`expr` with variables renamed; kind and extent stay."""
    values: dict[str, Expr] = {
        v.name: Var(names[v.name], v.kind, v.varying)
        for v in variables(expr).values()
        if v.name in names
    }
    return substitute(expr, values)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What expressions are computed with: a function per operation, and how literals are read."""

    functions: Mapping[str, Callable[..., Any]]
    literal: Callable[[float | int | bool], Any]


FLOATS = Arithmetic({name: op.numpy for name, op in OPS.items()}, lambda value: value)
"""NumPy's."""


def evaluate(expr: Expr, env: Mapping[str, Any], arithmetic: Arithmetic = FLOATS) -> Any:
    """The value of `expr`, for replays of derived operators."""
    match expr:
        case Var(name=name):
            return env[name]
        case Lit(value=value):
            return arithmetic.literal(value)
        case Call(op=op, args=args):
            return arithmetic.functions[op](*(evaluate(a, env, arithmetic) for a in args))


def compiled(expr: Expr, arithmetic: Arithmetic = FLOATS) -> Callable[[Mapping[str, Any]], Any]:
    """As `evaluate`, for an expression that is computed many times: a function of the scope."""
    match expr:
        case Var(name=name):
            return itemgetter(name)
        case Lit(value=value):
            number = arithmetic.literal(value)
            return lambda env: number
        case Call(op=op, args=args):
            return _applied(arithmetic.functions[op], [compiled(a, arithmetic) for a in args])


def _applied(
    function: Callable[..., Any], inner: list[Callable[[Mapping[str, Any]], Any]]
) -> Callable[[Mapping[str, Any]], Any]:
    match inner:
        case [only]:
            return lambda env: function(only(env))
        case [left, right]:
            return lambda env: function(left(env), right(env))
        case _:
            return lambda env: function(*(one(env) for one in inner))


_INFIX_TEXT = {
    "add": ("+", 1), "sub": ("-", 1), "mul": ("·", 2), "div": ("/", 2), "pow": ("^", 3),
    "lt": ("<", 0), "le": ("<=", 0), "gt": (">", 0), "ge": (">=", 0), "eq": ("==", 0),
    "ne": ("!=", 0), "and": ("and", 0), "or": ("or", 0), "zero_wins": ("·", 2),
    "zeros_win": ("·", 2), "rounded_mul": ("·", 2),
}


def text(expr: Expr, outer: int = 0) -> str:
    """The expression as a person would write it: for banners, proofs and explain."""
    match expr:
        case Var(name=name):
            return name
        case Lit(value=value):
            return f"{value:g}" if isinstance(value, float) else str(value)
        case Call(op="neg", args=(arg,)):
            return f"-{text(arg, 3)}"
        case Call(op=op, args=(left, right)) if op in _INFIX_TEXT:
            symbol, level = _INFIX_TEXT[op]
            tail = level + 1 if op in ("sub", "div", "pow") else level
            space = "" if op in ("pow", "mul", "zero_wins", "zeros_win", "rounded_mul") else " "
            body = f"{text(left, level)}{space}{symbol}{space}{text(right, tail)}"
            return f"({body})" if level < outer else body
        case Call(op=op, args=args):
            return f"{op}({', '.join(text(a) for a in args)})"
