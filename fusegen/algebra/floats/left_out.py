"""Sums over what a condition takes, times row values: Σ where(c, h·r, 0) = r·Σ where(c, h, 0).

Where c takes nothing of a row, the text has no term with r, and is 0; r may be 0, infinite or NaN
there, and then r·0 is none. A sum of 1, or of exponentials, is 0 only there, and says so itself:
its read-out is 0 where it is. Of other h that is not known. Where the text multiplies what is left
out, too, where(c, h, 0)·r, both are NaN.
"""

from __future__ import annotations

from collections.abc import Set

import sympy as sp

from fusegen.algebra.floats.partial import partials
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import is_positive
from fusegen.ir import graph as g


def selections(setting: Setting, closed: Closed) -> tuple[int, ...]:
    """Positions in the basis of sums that are 0 only where conditions leave out all of the row,
    and are read out times row values that the text has within its choices alone."""
    rows = {r.symbol for r in setting.rows.values()}
    inside, found = _inside(setting), []
    for k, h in enumerate(closed.basis):
        c, rest = closed.candidate.terms.get(h, sp.Integer(0)), _chosen(setting, h)
        if rest is not None and rest.is_positive and _is_of_rows(c, rows, inside):
            found.append(k)
    return tuple(found)


def doubtful_factor(setting: Setting, closed: Closed) -> sp.Expr | None:
    """Such a factor of row values, not always a number, of a sum that may be 0 otherwise."""
    rows, inside = moving_rows(setting), _inside(setting)
    for h, c in closed.candidate.terms.items():
        rest = _chosen(setting, h)
        if rest is None or rest.is_positive or _is_number(setting, c):
            continue
        if _is_of_rows(c, rows, inside):
            return c
    return None


def is_sure(setting: Setting, e: sp.Expr) -> bool:
    """Is it positive for certain, not because the text divides by it; or 0 only where all elements
    are equal, so that all terms are 0 / 0?"""
    rows = [setting.row(s).node for s in e.free_symbols & moving_rows(setting)]
    return bool(e.is_positive) and all(is_positive(r) or any(
        setting.facts.is_zero_of_equals(x, r) for x in setting.elements) for r in rows)


def moving_rows(setting: Setting) -> Set[sp.Symbol]:
    return {r.symbol for r in setting.changing}


def _chosen(setting: Setting, h: sp.Expr) -> sp.Expr | None:
    """What conditions choose there, without them; None: there are none."""
    factors = sp.Mul.make_args(h)
    rest = [f for f in factors
            if not (isinstance(f, sp.Piecewise) or f in setting.selectors)]
    return sp.Mul(*rest) if len(rest) < len(factors) else None


def _is_of_rows(c: sp.Expr, rows: Set[sp.Symbol], inside: Set[sp.Symbol]) -> bool:
    found = c.free_symbols & rows
    return bool(found) and found <= inside


def _inside(setting: Setting) -> Set[sp.Symbol]:
    """Row values that the text has only in branches of choices between elements."""
    outside: set[g.Node] = set()
    todo = [setting.arg]
    while todo:
        node = todo.pop()
        chooses = isinstance(node, g.Map) and node.op == "where" and (
            g.extent(node.args[0]) is g.Extent.ELEMENT)
        if node not in outside and not chooses:
            outside.add(node)
            todo += [] if node in setting.rows else g.operands(node)
    return {r.symbol for n, r in setting.rows.items() if n not in outside}


def _is_number(setting: Setting, c: sp.Expr) -> bool:
    """Is it a finite number in every row of such, overflow aside?"""
    inner = [p.base for p in c.atoms(sp.Pow) if not (p.exp.is_integer and p.exp.is_nonnegative)]
    inner += [e.args[0] for e in c.atoms(sp.log)]
    rows = [setting.row(s).node for s in c.free_symbols & moving_rows(setting)]
    parts = [n for n in g.topological(rows) if g.extent(n) is g.Extent.ROW]
    return all(is_sure(setting, e) for e in inner) and not any(partials(parts))
