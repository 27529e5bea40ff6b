"""The condition of a read-out of several sums: what it adds up, beside what the text adds up.

Where the terms of a row have one sign, Σₖ |cₖ|·Σ|hₖ| stands beside Σ|f|: the text loses nothing.
Where they have both, it stands beside what the text's own rounding is in proportion to. Signs that
sympy knows prove the condition to be 1. All else is measured on hard rows (oracle/bank.py), with
the row values of those rows: that p ≤ 1 needs no proof there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

from fusegen.algebra.choice import Choice
from fusegen.algebra.floats.beside import condition_on, hard_rows
from fusegen.algebra.floats.range import is_formed
from fusegen.algebra.floats.values import Array, Spelled, cut_at, value
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting
from fusegen.ir import graph as g
from fusegen.ir.kinds import assumed_dtypes
from fusegen.oracle.bank import Bank
from fusegen.oracle.reference import every_value

CONDITION = 32.0
"""Five binary digits: what a read-out may cost beyond the text."""


@dataclass(frozen=True)
class Condition:
    """The worst of Σₖ|cₖ|Σ|hₖ| ÷ what it stands beside; `rows` 0: by the signs of all terms."""

    worst: float
    rows: int = 0
    allowed: bool = False  # not looked at: the user accepts cancellation


def exponential_readout(setting: Setting, closed: Closed) -> bool:
    """Would the read-out multiply a sum by an exponential of a row value?"""
    changing = frozenset(r.symbol for r in setting.changing)
    return any(e.free_symbols & changing
               for c in closed.candidate.terms.values() for e in c.atoms(sp.exp))


def condition_of(setting: Setting, closed: Closed, *, brave: bool) -> Condition:
    """1 where a read-out has one term, or terms of one sign; else measured."""
    terms = [(part, h) for h, c in closed.candidate.terms.items() for part in _added(setting, c)]
    if len(terms) < 2 or _one_signed(setting, closed, terms):
        return Condition(1.0)
    if brave:
        return Condition(1.0, allowed=True)
    graph = cut_at(setting.graph, setting.arg)
    dtypes = assumed_dtypes(graph, "float32")
    spelled = Spelled(setting, closed)
    worst, rows = 1.0, 0
    for bank in hard_rows(graph, dtypes):
        found = _measured(spelled, graph, bank, terms)
        worst, rows = max(worst, float(np.max(found, initial=0.0))), rows + len(bank)
    return Condition(worst, rows)


def _added(setting: Setting, c: sp.Expr) -> tuple[sp.Expr, ...]:
    """What a coefficient adds up; one that the text forms itself is as good there."""
    if c == 0 or is_formed(setting, c):
        return (c,) if c != 0 else ()
    return tuple(sp.Add.make_args(sp.expand(c)))


def _measured(
    spelled: Spelled, graph: g.Graph, bank: Bank, terms: list[tuple[sp.Expr, sp.Expr]]
) -> Array:
    """The condition, row by row; 0 where a row says nothing."""
    values = every_value(graph, bank.inputs, assumed_dtypes(graph, "float32"), bank.n_cols)
    shape = (len(bank), bank.n_cols)
    env = {name: values[node] for node, name in spelled.names().items()}
    with np.errstate(all="ignore"):
        env |= spelled.relative(env)
        total = np.zeros(len(bank))
        for c, h in terms:
            lifts = np.broadcast_to(np.abs(value(spelled.spell(h), env)), shape)
            factor = np.broadcast_to(np.abs(value(spelled.spell(c), env)), (len(bank), 1))
            total = total + np.where(factor == 0, 0.0, factor)[:, 0] * lifts.sum(1)
    return condition_on(bank, graph.outputs[0], values, total)


def _one_signed(
    setting: Setting, closed: Closed, terms: list[tuple[sp.Expr, sp.Expr]]
) -> bool:
    known = {c.u: _signed(c, setting) for c in closed.candidate.choices}
    signs = {_sign(c) * _sign(h.subs(known)) for c, h in terms}
    return len(signs) == 1 and 0 not in signs


def _signed(choice: Choice, setting: Setting) -> sp.Expr:
    """u with its sign known where the pivot is an extreme of the element itself."""
    for b in setting.bounds:
        own = choice.pivot is not None and b.row == choice.pivot.symbol
        if own and b.element == choice.atom and choice.action == "shift":
            return -b.distance if b.above else b.distance
    return choice.u


def _sign(expr: sp.Expr) -> int:
    """+1 if never negative, −1 if never positive, 0 if not known."""
    if expr.is_nonnegative:
        return 1
    return -1 if expr.is_nonpositive else 0
