"""A closed basis as a derivation, in fusegen's own expressions."""

from __future__ import annotations

import sympy as sp

from fusegen.algebra.floats.left_out import selections
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting, as_vars
from fusegen.algebra.symbols import freeze
from fusegen.algebra.thaw import thaw, with_log1p, without_logs_of_nothing
from fusegen.ir import graph as g
from fusegen.ir.conditions import is_condition
from fusegen.ir.derivation import Basis, Dependent, Obligation, Shifted
from fusegen.ir.expr import Expr, Lit, Var, call

_GUARDS = ("xlogy", "zero_wins")


def spelled(
    name: str, needs: tuple[str, ...], setting: Setting, closed: Closed,
    obligations: tuple[Obligation, ...], zeros: tuple[int, ...],
) -> Dependent:
    """The entry of a merged sum."""
    words, shifts = _words(setting, closed)
    guarded = any(isinstance(n, g.Map) and n.op in _GUARDS for n in g.topological((setting.arg,)))
    relative = frozenset(shifts)
    if guarded:  # infinities, too, that the text lets a weight of 0 take away
        relative |= {s.name for s in setting.elements.values()}
    moves = frozenset(
        m.name for c in closed.candidate.choices if c.pivot is not None for m in c.moves
    )
    size = len(closed.basis)
    lifts = [without_logs_of_nothing(h) if guarded else h for h in closed.basis]
    if any(isinstance(n, g.Map) and n.op == "log1p" for n in g.topological((setting.arg,))):
        lifts = [with_log1p(h) for h in lifts]
    basis = tuple(
        Basis(
            thaw(lifts[k], words, relative),
            tuple((j, thaw(without_logs_of_nothing(closed.transport[k, j]), words, moves))
                  for j in range(size) if closed.transport[k, j] != 0),
        )
        for k in range(size)
    )
    terms = closed.candidate.terms
    readout = tuple(
        thaw(_shorter(terms.get(h, sp.Integer(0))), words, frozenset()) for h in closed.basis
    )
    return Dependent(
        name, needs, tuple(shifts.values()), basis, readout, obligations, zeros,
        tuple(s.name for s in setting.ordered), tuple(s.name for s in setting.finite),
        selections(setting, closed), closed.taken,
    )


def _words(
    setting: Setting, closed: Closed
) -> tuple[dict[sp.Expr, Expr], dict[str, Shifted]]:
    """How symbols are spelled, conditions by the text's names for them, and the elements that are
    kept relative to a pivot, by name."""
    words: dict[sp.Expr, Expr] = {**_conditions(setting), **as_vars(setting)}
    shifts: dict[str, Shifted] = {}
    for c in closed.candidate.choices:
        if c.pivot is None:
            words[c.u] = words[c.atom]
        elif c.contrary_to is not None:
            words[c.u] = call("sub", Lit(1.0), words[c.contrary_to])
        else:
            words[c.u] = Var(c.u.name, "float", True)
            words |= {m: Var(m.name) for m in c.moves}
            unit = c.unit.symbol.name if c.unit else ""
            pivot = c.pivot.symbol.name
            shifts[c.u.name] = Shifted(c.u.name, c.atom.name, pivot, c.action, unit)
    return words, shifts


def _conditions(setting: Setting) -> dict[sp.Expr, Expr]:
    """Those of elements, and of what is given beside them: whatever asks one asks it once."""
    found: dict[sp.Expr, Expr] = {}
    for n in g.topological((setting.arg,), setting.symbols.__contains__):
        if is_condition(n) and g.extent(n) is g.Extent.ELEMENT and not g.reductions_of(n):
            c, name = freeze(n, setting.symbols), Var(setting.graph.names[n], "bool", True)
            found |= {c: name, getattr(c, "canonical", c): name}  # as sympy has it in choices
    return found


def _shorter(coefficient: sp.Expr) -> sp.Expr:
    factored = sp.factor(coefficient)
    return factored if factored.count_ops() < coefficient.count_ops() else coefficient
