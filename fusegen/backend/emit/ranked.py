"""Which columns a kernel's one list ranks first, where scores of rounded vectors say how far from
it a column can be: by dots, or by distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusegen.ir.expr import Call, Expr, Var, call
from fusegen.ir.kernel import FromVectors
from fusegen.ir.monoid import Best, KBest, Monoid

Ranked = Literal["dots", "nearest", "farthest"]
"""By x·y, by least |x − y|² or its root, or by greatest."""


@dataclass(frozen=True, slots=True)
class Order:
    """What ranks columns."""

    ranked: Ranked
    turned: bool  # are the least dots, or the greatest distances, the best?
    rooted: bool  # do roots of distances rank?


def only_list(monoid: Monoid) -> KBest | None:
    match monoid.components:
        case (KBest() as best,):
            return best
        case (Best(name=name, largest=largest, lift=lift, kind=kind),):
            # No number is the least as well as the greatest: argmin finds it first.
            return KBest(f"{name}_best", 1, lift if largest else call("neg", lift), kind)
        case _:
            return None


def order_of(source: FromVectors, lift: Expr) -> Order | None:
    """`lift`: what is greatest of the best. None: nothing that has a bound."""
    down = is_turned(lift)
    of = lift.args[0] if isinstance(lift, Call) and down else lift
    rooted = isinstance(of, Call) and of.op == "sqrt"
    of = of.args[0] if isinstance(of, Call) and rooted else of
    if of != Var(source.name, "float", varying=True):
        return None
    distances = Order("nearest", False, rooted) if down else Order("farthest", True, rooted)
    match source.value:
        case Call(op="mul", args=(Var(name=a), Var(name=b))) if a != b and not rooted:
            return Order("dots", down, False)
        case Call(op="mul", args=(Call(op="sub") as a, b)) if a == b and _apart(a):
            return distances
        case Call(op="square", args=(Call(op="sub") as a,)) if _apart(a):
            return distances
        case _:
            return None


def is_turned(lift: Expr) -> bool:
    """Is it what is least, with its order turned round?"""
    return isinstance(lift, Call) and lift.op in ("mirror", "neg")


def _apart(difference: Call) -> bool:
    a, b = difference.args
    return isinstance(a, Var) and isinstance(b, Var) and a != b
