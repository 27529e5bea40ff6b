"""Numeric safety: what is equal in exact arithmetic and loses digits or range in floating point.

  R1  basis functions are functions of u alone: no raw powers of an element that has no pivot
  R2  no read-out coefficient grows exponentially with a row value
  R3  no correction grows exponentially as the pivot moves; polynomial drift is accepted
  R4  a sum of terms of one sign is not read out as a difference
  R5  powers of x over powers of a row value stay quotients: x² alone leaves the range first
"""

from __future__ import annotations

import sympy as sp

from fusegen.algebra.choice import Choice
from fusegen.algebra.domain import Bound
from fusegen.algebra.pivot import Candidate, Closed
from fusegen.algebra.setting import Setting


def raw_moment(candidate: Candidate, setting: Setting) -> sp.Symbol | None:
    """An element that would be summed as raw moments: powers of it, as it is, whose large sums
    nearly cancel in the read-out (x² − 2px + p² for (x − p)²). None if there is no such element."""
    loose = [c.element for c in candidate.choices if c.pivot is None]
    changing = {r.symbol for r in setting.changing}
    exact = {b.row for b in setting.bounds if _vanishes_at(setting.f, b)}
    # Σ h(x) + n·c(p) subtracts what the text subtracts, element by element; an extreme is exact
    # there, and near its elements.
    moving = any(c.free_symbols & (changing if a != 1 else exact)
                 for a, c in candidate.terms.items())  # fmt: skip
    for element in loose:
        shapes = {atom.as_independent(element, as_Add=False)[1] for atom in candidate.terms}
        if moving and len(shapes) > 1:
            return element
    return None


def _vanishes_at(f: sp.Expr, bound: Bound) -> bool:
    """Is f 0 for an element that equals the extreme, where that is positive or negative?"""
    at = [sp.Symbol("at", positive=True), -sp.Symbol("at", positive=True)]
    return any(f.subs({bound.element: v, bound.row: v}, simultaneous=True) == 0 for v in at)


def rewritten_readout(candidate: Candidate, changing: frozenset[sp.Symbol]) -> bool:
    """Would one sum be read out as several, weighed by row values in powers that the text does
    not form? (Σ x·(x − m) by x = u + m: m·Σ u + Σ u².)"""
    weights = (sp.numer(sp.together(c)) for c in candidate.terms.values())
    return len(candidate.terms) > 1 and any(w.free_symbols & changing for w in weights)


def exponential_readout(candidate: Candidate, changing: frozenset[sp.Symbol]) -> bool:
    """Would the read-out multiply a sum by an exponential of a row value?"""
    return any(
        e.free_symbols & changing for c in candidate.terms.values() for e in c.atoms(sp.exp)
    )


def unbounded_factor(closed: Closed) -> sp.Expr | None:
    """A correction that can grow exponentially as the row is read, if there is one."""
    by_move = {c.move: c.pivot for c in closed.candidate.choices if c.pivot is not None}
    by_move |= {c.ratio: c.unit for c in closed.candidate.choices if c.unit is not None}
    for factor in closed.transport:
        for e in factor.atoms(sp.exp):
            for move in e.free_symbols & set(by_move):
                pivot = by_move[move]
                # δ = old − new is ≤ 0 for a maximum, ≥ 0 for a minimum.
                if not (sp.diff(e.args[0], move) * pivot.monotone).is_positive:
                    return factor
        for power in factor.atoms(sp.Pow):
            if power.base in by_move and power.exp.is_negative:
                return factor
    return None


def cancelling_readout(setting: Setting, closed: Closed) -> sp.Expr | None:
    """The read-out of a sum of one-signed terms, if its own terms may be of both signs."""
    terms = [(c, a) for a, c in closed.candidate.terms.items() if c != 0]
    if len(terms) < 2 or _sign(_by_distance(setting, setting.f)) == 0:
        return None
    known = {c.u: _signed(c, setting) for c in closed.candidate.choices}
    signs = {_sign(c) * _sign(a.subs(known)) for c, a in terms}
    if len(signs) == 1 and 0 not in signs:
        return None
    return sum(c * sp.Symbol(f"S_{k + 1}") for k, (c, _) in enumerate(terms))


def out_of_range(setting: Setting, closed: Closed) -> sp.Expr | None:
    """A sum of powers of a plain element that the text forms only divided by a base row value,
    (x / p)²: the square overflows where the quotient does not."""
    loose = {c.u for c in closed.candidate.choices if c.pivot is None}
    for h, c in closed.candidate.terms.items():
        powers = {f.base for f in h.atoms(sp.Pow) if f.base in loose and (f.exp - 2).is_nonnegative}
        divided = any(
            r.symbol == f.base and r.base and (f.exp + 2).is_nonpositive
            for f in c.atoms(sp.Pow) for r in setting.changing
        )  # fmt: skip
        if powers and divided:
            return h
    return None


def _by_distance(setting: Setting, f: sp.Expr) -> sp.Expr:
    for b in setting.bounds:
        f = f.subs(b.element, b.inside)
    return f


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
