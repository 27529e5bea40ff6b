"""How wide column numbers are: 32 bits where all that a program computes from them fits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from fusegen.backend.cuda.schedule.cuda import NARROW_COLUMNS
from fusegen.ir.expr import Call, Expr, Lit, Var, walk
from fusegen.ir.kernel import COLUMN, N_COLS, Let, Program
from fusegen.ir.kernel_walk import expressions_in

_MOST = 2**31 - 1
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def wide_columns(program: Program, n_cols: int) -> bool:
    """Do column numbers of such rows, or what is computed from them alone, need 64 bits?

    C++ computes in the width of the operands: column · column of two 32-bit numbers overflows.
    """
    return n_cols > NARROW_COLUMNS or Computed.of(program).need(n_cols)


@dataclass(frozen=True)
class Computed:
    """What a program computes, each part once, behind those that it is made of."""

    parts: tuple[Expr, ...]
    columns: frozenset[str]  # names of column numbers

    @classmethod
    def of(cls, program: Program) -> Computed:
        found = (part for kernel in program.kernels for expr in expressions_in(kernel)
                 for part in walk(expr))
        lists = {c.column for s in program.sweeps for c in s.monoid.lists}
        return cls(tuple(dict.fromkeys(found)), frozenset({COLUMN.name, N_COLS.name, *lists}))

    def need(self, n_cols: int) -> bool:
        """64 bits, for rows of so many columns?"""
        bounds: dict[Expr, int | None] = {}
        for part in self.parts:
            bounds[part] = bound = _bound(part, bounds, n_cols, self.columns)
            if bound is not None and bound > _MOST:
                return True
        return False


def as_columns(program: Program) -> frozenset[str]:
    """Names of whole numbers that are made of column numbers alone, and only compared: they are as
    wide as these, where the language says 64 bits."""
    narrow = {COLUMN.name, N_COLS.name}
    bounds: dict[Expr, int | None] = {}
    found: set[str] = set()
    others: set[str] = set()
    for kernel in program.kernels:
        steps = (*kernel.prelude, *(x for s in kernel.sweeps for x in (*s.lets, *s.steps)))
        for let in (step for step in steps if isinstance(step, Let)):
            for part in walk(let.expr):
                bounds.setdefault(part, _bound(part, bounds, 1, narrow))
            made = isinstance(let.expr, Call) and bounds[let.expr] is not None
            (found if made else others).add(let.name)
        for expr in expressions_in(kernel):
            others |= {e.name for e in _but_compared(expr)}
    return frozenset(found - others)


def _but_compared(expr: Expr) -> Iterator[Var]:
    """Variables, but for those that a comparison takes as they are."""
    if isinstance(expr, Var):
        yield expr
    for part in walk(expr):
        if isinstance(part, Call) and part.op not in _COMPARISONS:
            yield from (a for a in part.args if isinstance(a, Var))


def _bound(
    expr: Expr, known: Mapping[Expr, int | None], n_cols: int, narrow: Collection[str]
) -> int | None:
    """The greatest magnitude of what C++ computes in 32 bits; None for what it has wider."""
    match expr:
        case Var(name=name):
            return n_cols if name in narrow else None
        case Lit(value=value, kind="int"):
            return abs(int(value)) if abs(value) <= _MOST else None
        case Call(op="where", args=(_, Lit(value=one), Lit(value=two))) if expr.kind == "int":
            return 1 if max(abs(one), abs(two)) <= 1 else None  # printed as numbers of 64 bits
        case Call(op=op, args=args) if expr.kind == "int":
            numbers = args[1:] if op == "where" else args
            found = [b for a in numbers if (b := known[a]) is not None]
            return _bound_of(op, found) if len(found) == len(numbers) else None
        case _:
            return None


def _bound_of(op: str, operands: list[int]) -> int | None:
    match op, operands:
        case "add" | "sub", [a, b]:
            return a + b
        case "mul", [a, b]:
            return a * b
        case "square", [a]:
            return a * a
        case "neg" | "abs" | "where" | "maximum" | "minimum", _:
            return max(operands)
        case _:
            return None
