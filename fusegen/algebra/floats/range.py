"""Sums that leave the range of floats where the text's own quotients do not."""

from __future__ import annotations

import sympy as sp

from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import Unmodelled, freeze, told
from fusegen.ir import graph as g

LEAST, GREATEST = 2.0**-126, 2.0**128 - 2.0**104  # of float32's magnitudes in full precision


def out_of_range(setting: Setting, closed: Closed, h: sp.Expr, c: sp.Expr) -> str | None:
    """Why Σ h, read out times c, may overflow or vanish where the text does not; or None.

    Either a power ≥ 2 that the text forms only divided by a row value, (x / p)²; or 1/x,
    exp(x) or x² of an element without a pivot, which the text never forms by itself.
    """
    here = {k.u: k.here for k in closed.candidate.choices}
    # Numbers, too: exp(-b)·Σ exp(x) is none of the text's exp(x - b).
    rows = {r.symbol for r in setting.rows.values()}
    if any(p.exp.is_negative and p.base.free_symbols & rows for p in c.atoms(sp.Pow)):
        for power in _large_powers(h):
            if not is_formed(setting, power.subs(here, simultaneous=True), itself=True):
                return f"Σ {told(h)} leaves the range where the text's quotients do not."
        for power in _large_powers(c):
            if power.base.free_symbols & rows and not is_formed(setting, power):
                return f"the read-out forms {told(power)}, where the text has only quotients."
    relative = {k.u for k in closed.candidate.choices if k.pivot is not None}
    if not (h.free_symbols & relative or c.free_symbols & rows):
        return None
    for part in _alone(h, relative):
        if _is_wild(part) and not is_formed(setting, part):
            return f"Σ {told(h)} may leave the range: the text never forms {told(part)} by itself."
    return None


def unheld_number(closed: Closed) -> str | None:
    """Why a number that the algebra made of the text's own is none of float32's, or None: x / t for
    a t of 1e-40 moves by δ · 1e40, where 0 · inf is no number."""
    made = (*closed.basis, *closed.transport, *closed.candidate.terms.values())
    found = {n for e in made for n in sp.sympify(e).atoms(sp.Number) if n.is_finite and n != 0}
    for n in sorted(found, key=sp.default_sort_key):
        if not LEAST <= abs(n) <= GREATEST:
            return (f"its moves compute with {n.evalf(6)}, made of the text's constants, which is "
                    "no float32 in full: proved for constants with which all such numbers are "
                    f"{LEAST:.4g} … {GREATEST:.4g}.")
    return None


def _large_powers(expr: sp.Expr) -> list[sp.Pow]:
    powers = sorted(expr.atoms(sp.Pow), key=sp.default_sort_key)
    return [p for p in powers if p.exp.is_number and p.exp > 1]


def _alone(h: sp.Expr, relative: set[sp.Symbol]) -> list[sp.Expr]:
    """The factors of h that no pivot holds: of exponentials, and the product of the others."""
    parts = []
    for e in sorted(h.atoms(sp.exp), key=sp.default_sort_key):
        free, _ = e.args[0].as_independent(*relative, as_Add=True)
        parts.append(sp.exp(free))
    others = [f for f in sp.Mul.make_args(h) if not f.has(sp.exp) and not f.has(*relative)]
    return [p for p in (*parts, sp.Mul(*others)) if p.free_symbols]


def _is_wild(part: sp.Expr) -> bool:
    """Does it leave the range for elements that do not?"""
    return part.has(sp.exp) or any(
        p.exp.is_number and (p.exp >= 2 or p.exp < 0) for p in part.atoms(sp.Pow))


def is_formed(setting: Setting, part: sp.Expr, *, itself: bool = False) -> bool:
    """Does the text compute it on its way, so that it leaves the range, and rounds, there too?
    itself: in the term, and not only in the row values that it is made of."""
    if part.is_number or part.is_Symbol:
        return True
    leaves: dict[g.Node, sp.Expr] = {n: r.symbol for n, r in setting.rows.items()}
    leaves |= setting.elements
    done = set(leaves) if itself else set[g.Node]()
    for node in g.topological((setting.arg,), done.__contains__):
        if node in leaves:
            continue
        try:
            leaves[node] = freeze(node, leaves)
        except Unmodelled:
            continue
        if not isinstance(leaves[node], sp.Expr):
            continue  # a condition is no number
        if sp.expand(leaves[node] - part) == 0 or sp.expand(leaves[node] + part) == 0:
            return True
    return False
