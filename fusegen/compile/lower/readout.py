"""How a merged sum is read out: Σ coefficient · sum, without 0 · ∞ where the text has no term."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fusegen.ir.derivation import Dependent
from fusegen.ir.expr import ONE, Call, Expr, Lit, call, substitute, variables, walk

_ZERO = Lit(0.0)


def read_out(
    entry: Dependent, sums: Sequence[Expr], rows: Mapping[str, Expr] | None = None, *,
    whole: bool = False,
) -> Expr:
    """`sums` of the entry's basis; `rows`: what stands for row values; `whole`: of integers."""
    total: Expr | None = None
    for k, (coefficient, held) in enumerate(zip(entry.readout, sums, strict=True)):
        if coefficient == _ZERO:
            continue
        term = weighed(substitute(coefficient, rows) if rows else coefficient, held)
        if k in entry.selections:  # it has taken nothing of the row
            term = call("where", call("eq", held, _ZERO), _ZERO, term)
        total = term if total is None else call("add", total, term)
    nothing = Lit(0, "int") if whole else _ZERO
    return nothing if total is None else total  # on its domain the text is 0


def by_choice(
    total: Expr, spell: Callable[[Expr], Expr], guarded: Callable[[Expr], Expr],
    plain: Callable[[Expr], Expr], moves: Callable[[Expr], bool],
) -> Expr:
    """The read-out guarded where a pivot may be no number; what a condition of the row chooses in
    place of sums needs no guard: where(r > 0, Σ x / r, 0) is 0 where r is. So do sums there that no
    pivot `moves`; of these `plain` is the value."""

    def chosen(part: Expr) -> Expr:
        match part:
            case Call(op="where", args=(condition, a, b)) if _is_of_row(condition):
                sides = (s if s == _ZERO else chosen(s) for s in (a, b))
                return call("where", spell(condition), *sides)
            case Call(op="add" | "sub" | "neg" as op, args=args) if _has_choice(part):
                return call(op, *map(chosen, args))
            case _:
                return guarded(part) if moves(part) else plain(part)

    return chosen(total) if _has_choice(total) else guarded(total)


def _has_choice(expr: Expr) -> bool:
    return any(isinstance(e, Call) and e.op == "where" and _is_of_row(e.args[0])
               for e in walk(expr))


def _is_of_row(condition: Expr) -> bool:
    """Not of the sums that are read out."""
    return not any(name.startswith("state.") for name in variables(condition))


def weighed(coefficient: Expr, total: Expr) -> Expr:
    """coefficient · total. (a / b) · S is spelled a · S / b, never as a product with 1 / b, which
    is infinite where b is subnormal; and p² · S is S · p · p, for p² may be infinite where S is 0.
    A condition of the row chooses between sums: one that it leaves out may be infinite or NaN.
    """
    match coefficient:
        case Lit(value=0.0):
            return coefficient
        case Call(op="where", args=(condition, a, b)):
            return call("where", condition, weighed(a, total), weighed(b, total))
        case Call(op="add" | "sub", args=(a, b)) if _chooses(a) or _chooses(b):
            return call(coefficient.op, weighed(a, total), weighed(b, total))
        case Lit(value=1.0):
            return total
        case Call(op="neg", args=(a,)):
            return call("neg", weighed(a, total))
        case Call(op="div", args=(a, b)):
            return call("div", weighed(a, total), b)
        case Call(op="mul", args=(a, Call(op="div", args=(over, under)))):
            return call("div", weighed(call("mul", a, over) if over != ONE else a, total), under)
        case Call(op="mul", args=(Call(op="div", args=(over, under)), b)):
            return call("div", weighed(call("mul", over, b) if over != ONE else b, total), under)
        case Call(op="mul", args=(a, b)) if b in _multiplied(a):
            return call("mul", weighed(a, total), b)
        case _:
            return call("mul", coefficient, total)


def _chooses(expr: Expr) -> bool:
    return any(isinstance(e, Call) and e.op == "where" for e in walk(expr))


def _multiplied(expr: Expr) -> list[Expr]:
    """What a product is made of."""
    if isinstance(expr, Call) and expr.op == "mul":
        return [f for a in expr.args for f in _multiplied(a)]
    return [expr]
