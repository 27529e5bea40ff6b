"""Read-outs that are equal in exact arithmetic and lose digits or range in floating point.

  R1  basis functions are functions of u alone: no raw powers of an element that has no pivot
  R2  no read-out coefficient grows exponentially with a row value
  R4  a sum of terms of one sign is not read out as a difference
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
