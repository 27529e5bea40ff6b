"""Another value in the place of a pivot: a reference that lags behind it.

T(p→r) is proved for any two values, of which neither has to come from the row: the pivot's own
monoid is not used. So S(r) = T(p→r) S(p) is as good a state as S(p), while T keeps its numbers in
range; T(r→p) leads back. A fold may add elements about an old maximum, and move its sums only when
an element is far above it.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from fusegen.algebra.choice import Choice
from fusegen.algebra.floats.judge import Verdict
from fusegen.algebra.laws import is_zero, obligation
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import told
from fusegen.ir import graph as g
from fusegen.ir.derivation import LAGS, Obligation


def reference_of(setting: Setting, closed: Closed, verdict: Verdict) -> Obligation | None:
    """That one will do; None where sums are about no single extreme of what they measure."""
    choices = [c for c in closed.candidate.choices if c.pivot is not None]
    if len(choices) != 1 or {g.kind for g in verdict.grounds} != {"D"}:
        return None
    (choice,) = choices
    if choice.action != "shift" or choice.unit is not None or choice.pivot is None:
        return None
    held = closed.transport.free_symbols & {r.symbol for r in setting.rows.values()
                                            if not is_scalar(r.node)}
    if held:  # a number of the row may be of any size, and T(p→r) with it
        return None
    p = told(choice.pivot.symbol)
    statement = (f"r does in {p}'s place: T(r→{p}) T({p}→r) = 1 for every r,\n"
                 f"and T({p}→r) is bounded while r is at most τ from {p}")
    return obligation(LAGS, statement, _proof(closed, choice))


def is_scalar(node: g.Node) -> bool:
    """Is the row value a number of the call: the same in every row?"""
    return isinstance(node, g.Input) and node.axis is g.Axis.SCALAR


def _proof(closed: Closed, choice: Choice) -> Callable[[], bool]:
    gap = sp.Symbol("gap", real=True)
    there, back = (closed.transport.subs(choice.move, way) for way in (gap, -gap))

    def prove() -> bool:
        returns = back * there - sp.eye(there.shape[0])
        return all(map(is_zero, returns)) and all(_is_bounded(e, gap) for e in there)

    return prove


def _is_bounded(entry: sp.Expr, gap: sp.Symbol) -> bool:
    """On an interval: is it made of powers of the gap, and exponentials of its multiples?"""
    outside = entry
    for e in entry.atoms(sp.exp):
        if sp.diff(e.args[0], gap).has(gap):
            return False
        outside = outside.subs(e, 1)
    return bool(outside.is_polynomial(gap))
