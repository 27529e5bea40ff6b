"""Sums over what a condition takes, times row values: Σ where(c, h·r, 0) = r·Σ where(c, h, 0).

Where c takes nothing of a row, the text has no term with r, and is 0; r may be 0, infinite or NaN
there, and then r·0 is none. A sum of 1, or of exponentials, is 0 only there, and says so itself:
its read-out is 0 where it is. Beside other h a sum of 1 can be kept, for its answer alone. Where
the text multiplies what is left out, too, where(c, h, 0)·r, both are NaN.
"""

from __future__ import annotations

from collections.abc import Set

import sympy as sp

from fusegen.algebra.facts.pivots import is_filled
from fusegen.algebra.facts.terms import chooses, conditions, masks_of
from fusegen.algebra.floats.partial import partials
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import freeze, is_positive
from fusegen.ir import graph as g
from fusegen.ir.conditions import is_condition


def selections(setting: Setting, closed: Closed) -> tuple[int, ...]:
    """Positions in the basis of sums that are 0 only where conditions leave out all of the row,
    and are read out times row values that the text has within its choices alone."""
    if closed.taken is not None:
        return ()
    rows = {r.symbol for r in setting.rows.values()}
    inside, found = _inside(setting), []
    for k, h in enumerate(closed.basis):
        c, rest = closed.candidate.terms.get(h, sp.Integer(0)), _chosen(setting, h)
        if rest is not None and rest.is_positive and _is_of_rows(c, rows, inside):
            found.append(k)
    return tuple(found)


def taken_by(setting: Setting, closed: Closed) -> sp.Expr | None:
    """[c], if the text is 0 for elements of which a condition c does not hold, and has row values
    of which it makes use for others alone."""
    moving = {c.u for c in closed.candidate.choices if c.pivot is not None}
    pivots = {r.symbol for c in closed.candidate.choices for r in (c.pivot, c.unit) if r}
    used = pivots.union(setting.ordered, *(c.free_symbols for c in closed.candidate.terms.values()))
    choices = [{f for f in sp.Mul.make_args(h) if isinstance(f, sp.Piecewise)}
               for h, c in closed.candidate.terms.items() if c != 0]
    common = set.intersection(*choices) if choices else set()
    # A condition of the row that holds where nothing is taken chooses a sum of nothing.
    rows = {r.symbol for n, r in setting.rows.items() if not is_condition(n)}
    known = {one for f in common for one in _together(f)}
    if used & rows <= _inside(setting) and known >= _masks(setting) and common:
        taken = sp.Mul(*common)
        return None if taken.free_symbols & moving else taken
    return None


def _together(choice: sp.Piecewise) -> set[tuple[sp.Expr, bool]]:
    """Conditions that all hold, or do not, where the choice is 1."""
    ((one, condition), _) = choice.args
    return _holding(condition, one == 1)


def _holding(condition: sp.Expr, holds: bool) -> set[tuple[sp.Expr, bool]]:
    """[a and b] is [a]·[b], and [not (a or b)] is [not a]·[not b]."""
    match condition:
        case sp.Not(args=(inner,)):
            return _holding(inner, not holds)
        case sp.And() | sp.Or() if isinstance(condition, sp.And) is holds:
            return {one for part in condition.args for one in _holding(part, holds)}
        case sp.Ne(args=(a, b)):
            return _holding(sp.Eq(a, b), not holds)
        case sp.core.relational.Relational():
            return {(condition.canonical, holds)}
        case _:
            return {(condition, holds)}


def hangs_on_rows(setting: Setting, closed: Closed) -> bool:
    """May a pivot be no number, or 0, where nothing is taken, or what sums are multiplied by? Sums
    under an extreme are 0 there."""
    if any(c.action == "scale" or c.unit is not None or not c.pivot.is_extreme
           for c in closed.candidate.choices if c.pivot is not None and c.action != "same"):
        return True
    rows = {r.symbol for r in setting.rows.values()}
    return any(c.free_symbols & rows and _is_silent(setting, h)
               for h, c in closed.candidate.terms.items())


def _is_silent(setting: Setting, h: sp.Expr) -> bool:
    """May the sum be 0, of which conditions choose the terms, where they take something?"""
    rest = _chosen(setting, h)
    return rest is not None and not rest.is_positive


def _masks(setting: Setting) -> set[tuple[sp.Expr, bool]]:
    """Conditions that facts about the term's elements are of, and whether they hold."""
    whole = {part: (m, holds) for m in setting.elements if is_condition(m)
             for holds in (True, False) for part in conditions(m, holds)}
    found: set[tuple[sp.Expr, bool]] = set()
    for part in masks_of(setting.arg):
        c, holds = whole.get(part, part)
        if g.extent(c) is g.Extent.ELEMENT:  # others hold for all of a row, or for nothing
            found |= _holding(freeze(c, setting.symbols), holds)
    return found


def doubtful_factor(setting: Setting, closed: Closed) -> sp.Expr | None:
    """Such a factor of row values, not always a number, of a sum that may be 0 otherwise."""
    if closed.taken is not None:
        return None
    rows, inside = moving_rows(setting), _inside(setting)
    for h, c in closed.candidate.terms.items():
        doubt = _is_silent(setting, h) and not _is_number(setting, c)
        if doubt and _is_of_rows(c, rows, inside):
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
    """Row values that the text has only in branches of choices between elements, or in elements
    that are multiplied by such."""
    outside: set[g.Node] = set()
    todo = [setting.arg]
    while todo:
        node = todo.pop()
        if node not in outside and not chooses(node):
            outside.add(node)
            todo += [] if node in setting.rows else _not_chosen(node)
    return {r.symbol for n, r in setting.rows.items() if n not in outside}


def _not_chosen(node: g.Node) -> tuple[g.Node, ...]:
    """The operands; of a product of which a choice leaves elements out, its row values alone."""
    parts = g.operands(node)
    if isinstance(node, g.Map) and node.op == "mul" and any(map(masks_of, parts)):
        return tuple(a for a in parts if g.extent(a) is g.Extent.ROW or masks_of(a))
    return parts


def _is_number(setting: Setting, c: sp.Expr) -> bool:
    """Is it a finite number in every row of such, overflow aside?"""
    inner = [p.base for p in c.atoms(sp.Pow) if not (p.exp.is_integer and p.exp.is_nonnegative)]
    inner += [e.args[0] for e in c.atoms(sp.log)]
    rows = [setting.row(s).node for s in c.free_symbols & moving_rows(setting)]
    parts = [n for n in g.topological(rows) if g.extent(n) is g.Extent.ROW]
    filled = any(is_filled(None, r) for r in rows)  # max where(c, x, −∞), of nothing
    return all(is_sure(setting, e) for e in inner) and not filled and not any(partials(parts))
