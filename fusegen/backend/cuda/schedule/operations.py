"""What operations compile to: machine instructions in float32, about."""

from __future__ import annotations

from fusegen.ir.expr import Call, Expr, Lit, Var, walk

TERM_EXP, NARROW_EXP = 2, 3
BY_DIVISOR, NEARLY = 5, 2  # by a value of the row, or a number; about a pivot
_OPS = {
    "neg": 0, "abs": 0, "div": 9, "pow": 30, "exp": 8, "exp2": 3, "expm1": 14, "log": 16,
    "log2": 16, "log1p": 24, "sqrt": 7, "rsqrt": 4, "tanh": 14, "sin": 18, "cos": 18, "erf": 22,
    "sigmoid": 12, "xlogy": 22, "zero_wins": 2, "zeros_win": 3, "sign": 3, "mirror": 2, "to_int": 3,
}  # the others take one


def of_operation(call: Call) -> float:
    """Of one operation, of numbers that nothing more is known of."""
    match call:
        case Call(op="div", args=(_, Var(varying=False) | Lit())):
            return BY_DIVISOR
        case Call(op=op):
            return _OPS.get(op, 1)


def of_value(expr: Expr) -> float:
    """Of a value by itself, with all that it is made of."""
    return sum(of_operation(e) for e in {*walk(expr)} if isinstance(e, Call))
