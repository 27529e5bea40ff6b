"""What a merged sum is where its pivot is no usable number.

Every element relative to such a pivot is NaN, and so is the sum; but for sums over the elements
that are *not* at the extreme they are measured from. Where the extreme is the least that it can be
(a maximum of −inf, a scale of 0) there are none. At the other end they are infinitely far from it,
where an exponential or a quotient is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fusegen.ir import graph as g
from fusegen.ir.derivation import Dependent
from fusegen.ir.expr import Call, Expr, Lit, Var, call, factors_of, walk
from fusegen.ir.monoid import Action

NAN, ZERO = Lit(float("nan")), Lit(0.0)


def without_pivot(
    entry: Dependent, pivots: Mapping[str, g.Node], value: Callable[[g.Node], Expr],
    weighed: Callable[[Expr, Expr], Expr],
) -> Expr:
    """The read-out there. `value` of a row value; `weighed`: a coefficient times a sum."""
    found = _left_out(entry)
    if found is None:
        return NAN
    name, action = found
    node, extreme = pivots[name], value(pivots[name])
    ((lift, coefficient),) = _read(entry)
    none = call("eq", extreme, _nothing(node, action))
    far: Expr = NAN
    if action == "scale" or _vanishes(lift, entry):
        far = call("where", call("isnan", extreme), NAN, weighed(coefficient, ZERO))
    return call("where", none, ZERO, far)


def _left_out(entry: Dependent) -> tuple[str, Action] | None:
    """The one pivot of a sum whose terms are all 0 where the element equals it."""
    same = {s.name for s in entry.shifts if s.action == "same"}
    other = {(s.pivot, s.action) for s in entry.shifts if s.action != "same"}
    pivots = {s.pivot for s in entry.shifts}
    if len(other) != 1 or len(pivots) != 1 or any(s.unit for s in entry.shifts):
        return None
    read = _read(entry)
    contrary = len(read) == 1 and any(_is_contrary(e, same) for e in factors_of(read[0][0]))
    return next(iter(other)) if contrary else None


def _read(entry: Dependent) -> list[tuple[Expr, Expr]]:
    """Basis functions that are read out, with their coefficients."""
    pairs = zip(entry.basis, entry.readout, strict=True)
    return [(b.lift, c) for b, c in pairs if c != ZERO]


def _is_contrary(expr: Expr, same: set[str]) -> bool:
    match expr:
        case Call(op="sub", args=(Lit(value=1), Var(name=name))):
            return name in same
        case _:
            return False



def _vanishes(lift: Expr, entry: Dependent) -> bool:
    """Is an exponential of the distance a factor?"""
    relatives = {s.name for s in entry.shifts if s.action == "shift"}
    return any(
        isinstance(f, Call) and f.op == "exp"
        and any(isinstance(e, Var) and e.name in relatives for e in walk(f))
        for f in factors_of(lift)
    )


def _nothing(node: g.Node, action: Action) -> Expr:
    """The extreme where no element is away from it."""
    if action == "scale":
        return ZERO
    least = isinstance(node, g.Reduce) and node.fold is g.Fold.MIN
    return Lit(float("inf") if least else float("-inf"))
