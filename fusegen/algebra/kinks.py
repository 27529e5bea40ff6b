"""The kink lemma: a switch that moves with a row value cannot be summed ahead of time.

Functions of x that switch at different places are linearly independent, so no finite set of sums
carries Σ f(x; p) for every p. Where an element expression switches at such a place, it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import told

_SWITCHES = (sp.Max, sp.Min, sp.Abs, sp.sign, sp.floor, sp.ceiling)


@dataclass(frozen=True)
class Kink:
    """`atom` switches where `element` = `place`, which moves with the names in `movers`."""

    atom: sp.Expr
    element: sp.Symbol
    place: sp.Expr | None
    movers: tuple[str, ...]

    def __str__(self) -> str:
        where = "at a point"
        if self.place is not None:
            where = f"at {self.element} = {told(self.place)}"
        return f"{told(self.atom)} switches {where}, which moves with {', '.join(self.movers)}"


def moving_kink(setting: Setting) -> Kink | None:
    """A switch of f whose place depends on a changing row value, or None."""
    elements = set(setting.elements.values())
    changing = {r.symbol for r in setting.changing}
    switches = setting.f.atoms(*_SWITCHES) | setting.f.atoms(sp.core.relational.Relational)
    for atom in sorted(switches, key=sp.default_sort_key):
        if not (atom.free_symbols & elements and atom.free_symbols & changing):
            continue
        surface = _surface(atom)
        element = sorted(surface.free_symbols & elements, key=lambda s: s.name)
        if not element or not surface.free_symbols & changing:
            continue
        place = _solve(surface, element[0])
        shown = place.free_symbols if place is not None else surface.free_symbols
        movers = tuple(sorted(s.name for s in shown & changing))
        if movers and not _only_scales(surface, changing):
            return Kink(atom, element[0], place, movers)
    return None


def _surface(atom: sp.Expr) -> sp.Expr:
    if isinstance(atom, sp.core.relational.Relational):
        return atom.lhs - atom.rhs
    if isinstance(atom, sp.Max | sp.Min):
        return atom.args[0] - atom.args[1]
    return atom.args[0]


def _solve(surface: sp.Expr, element: sp.Symbol) -> sp.Expr | None:
    """The place for surfaces linear in the element; others stay unsolved."""
    slope = sp.diff(surface, element)
    if slope == 0 or slope.has(element):
        return None
    return sp.simplify(-surface.subs(element, 0) / slope)


def _only_scales(surface: sp.Expr, changing: set[sp.Symbol]) -> bool:
    """x / p and x · p with p > 0 switch at x = 0 wherever p is."""
    positive = {s for s in changing if s.is_positive}
    if not positive:
        return False
    rest, factor = surface.as_independent(*positive, as_Add=False)
    return factor != 1 and not (rest.free_symbols & changing) and not (
        factor.free_symbols - positive
    )
