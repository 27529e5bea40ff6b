"""What an elementwise operation does to a small change of its operands: one row per operation.

A rule gets the result y and the operands, and gives ∂y/∂operand for each: pipeline values, or a
tuple of them to be added. Where the derivative jumps it is torch's: abs and sign 0 at 0,
maximum and minimum ½ each where both are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from fusegen.ir import graph as g
from fusegen.lang import lang as fg
from fusegen.lang.value import Operand, Value
from fusegen.rewrite.adjoint.terms import choice

Slope = Operand | tuple[Value, ...]
Rule = Callable[..., tuple[Slope, ...]] | Literal["flat", "internal"]
"""flat: the derivative is 0 wherever there is one.  internal: no pipeline text has it."""


def _pow(y: Value, a: Value, b: Value) -> tuple[Slope, ...]:
    if isinstance(b.node, g.Literal):
        return b.node.value * a ** (b.node.value - 1), 0
    nonzero = choice((b == 0).node, False)
    return nonzero * b * a ** (b - 1), y * fg.log(a)


def _greater(y: Value, a: Value, b: Value) -> tuple[Slope, ...]:
    tie = 0.5 * choice((a == b).node)
    return (choice((a > b).node), tie), (choice((b > a).node), tie)


def _xlogy(y: Value, a: Value, b: Value) -> tuple[Slope, ...]:
    if a.node is b.node:
        return fg.log(b), 1
    return fg.log(b), choice((a == 0).node, False) * a / b  # 0 where a is, also over b = 0


def _where(y: Value, condition: Value, a: Value, b: Value) -> tuple[Slope, ...]:
    found = settled(condition.node) if g.extent(condition.node) is g.Extent.ROW else condition.node
    if isinstance(found, bool):
        return 0, int(found), int(not found)
    return 0, choice(found), choice(found, False)


@g.asked_once
def settled(condition: g.Node) -> g.Node | bool:
    """The condition of row values as it is for finite ones: isinf(m) is false.

    Such a condition only says what rows with infinities return, as in logsumexp. Their gradient is
    that of the other path: NaN where that has none, as torch's.
    """
    match condition:
        case g.Map(op="isnan" | "isinf"):
            return False
        case g.Map(op="isfinite"):
            return True
        case g.Map(op="not", args=(a,)):
            inner = settled(a)
            return not inner if isinstance(inner, bool) else condition
        case g.Map(op="and" | "or" as op, args=(a, b)):
            left, right = settled(a), settled(b)
            if isinstance(left, bool):
                return left if left is (op == "or") else right
            if isinstance(right, bool):
                return right if right is (op == "or") else left
    return condition


RULES: dict[str, Rule] = {
    "add": lambda y, a, b: (1, 1),
    "sub": lambda y, a, b: (1, -1),
    "mul": lambda y, a, b: (b, a),
    "div": lambda y, a, b: (1 / b, -y / b),
    "neg": lambda y, a: (-1,),
    "pow": _pow,
    "square": "internal",
    "abs": lambda y, a: (fg.sign(a),),
    "sign": "flat",
    "maximum": _greater,
    "minimum": lambda y, a, b: _greater(y, b, a),
    "exp": lambda y, a: (y,),
    "exp2": lambda y, a: (math.log(2) * y,),
    "expm1": lambda y, a: (fg.exp(a),),
    "log": lambda y, a: (1 / a,),
    "log2": lambda y, a: (1 / math.log(2) / a,),
    "log1p": lambda y, a: (1 / (1 + a),),
    "sqrt": lambda y, a: (0.5 / y,),
    "rsqrt": lambda y, a: (-0.5 * y**3,),
    "tanh": lambda y, a: (1 - y * y,),
    "sin": lambda y, a: (fg.cos(a),),
    "cos": lambda y, a: (-fg.sin(a),),
    "erf": lambda y, a: (2 / math.sqrt(math.pi) * fg.exp(-(a * a)),),
    "sigmoid": lambda y, a: (y * fg.sigmoid(-a),),
    "floor": "flat",
    "ceil": "flat",
    "round": "flat",
    "xlogy": _xlogy,
    "zero_wins": "internal", "zeros_win": "internal", "mirror": "internal",
    "rounded_mul": "internal",
    "where": _where,
    "lt": "flat", "le": "flat", "gt": "flat", "ge": "flat", "eq": "flat", "ne": "flat",
    "isnan": "flat", "isinf": "flat", "isfinite": "flat",
    "and": "flat", "or": "flat", "not": "flat",
    "to_float": "internal", "to_int": "internal", "to_bool": "internal",
}
