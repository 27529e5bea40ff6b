"""Reductions that commute with a monotone map: topk(f(x)) = f(topk(x)), and max, min, arg."""

from __future__ import annotations

import sympy as sp

from fusegen.algebra.laws import obligation
from fusegen.algebra.setting import Setting
from fusegen.derivation import Obligation


def direction(setting: Setting) -> tuple[int, Obligation]:
    """+1 or −1 if f is proved strictly monotone in its one element, else 0; with the proof."""
    found = 0

    def prove() -> bool:
        nonlocal found
        found = _sign_of_slope(setting)
        return found != 0

    element = next(iter(setting.elements.values()))
    proof = obligation("monotone", f"∂f/∂{element} has one sign, never 0", prove)
    return found, proof


def _sign_of_slope(setting: Setting) -> int:
    if len(setting.elements) != 1:
        return 0
    (element,) = setting.elements.values()
    if setting.f.has(sp.Piecewise, sp.Max, sp.Min, sp.Abs, sp.sign, sp.floor, sp.ceiling):
        return 0
    if setting.f.atoms(sp.core.function.AppliedUndef):
        return 0
    slope = sp.diff(setting.f, element)
    for shape in (lambda e: e, sp.factor, lambda e: sp.factor(sp.simplify(e.rewrite(sp.exp)))):
        candidate = shape(slope)
        if candidate.is_positive:
            return 1
        if candidate.is_negative:
            return -1
    return 0
