"""How an element may be written: relative to which row value, and what moves when that moves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import sympy as sp

from fusegen.algebra.domain import Indicator, zero_or_one
from fusegen.algebra.setting import RowParameter, Setting
from fusegen.ir import graph as g
from fusegen.ir.monoid import Action, move_name

_ONE = sp.Integer(1)


@dataclass(frozen=True)
class Choice:
    """One element's pivot; `pivot` None leaves the element as it is.

    `element` is its symbol in f, `atom` the element it stands for: they differ for the twin that
    stands beside a row value, and for indicators, which are their own u.
    """

    element: sp.Symbol
    atom: sp.Symbol
    pivot: RowParameter | None
    action: Action
    u: sp.Symbol
    move: sp.Symbol
    unit: RowParameter | None = None  # w of u = (x − p) / w
    ratio: sp.Symbol = _ONE  # w before / w after; δ is then (p − q) / w after
    contrary_to: sp.Symbol | None = None  # the indicator [x = p], where u is [x ≠ p]

    @property
    def inverse(self) -> sp.Expr:
        """The element in terms of u and the pivot."""
        if self.pivot is None or self.action == "same":
            return self.u
        p = self.pivot.symbol
        scale = self.unit.symbol if self.unit else _ONE
        return self.u * scale + p if self.action == "shift" else self.u * p

    @property
    def moved(self) -> sp.Expr:
        """u at the new pivot, in terms of u at the old one."""
        if self.pivot is None:
            return self.u
        if self.contrary_to is not None:  # what equalled p before it moved is other than p now
            return self.u + self.contrary_to * (1 - self.move)
        return self.u * self.ratio + self.move if self.action == "shift" else self.u * self.move

    @property
    def moves(self) -> set[sp.Symbol]:
        """The symbols that T may depend on."""
        return {self.move, self.ratio} if self.unit else {self.move}

    @property
    def here(self) -> sp.Expr:
        """u in terms of the element and the pivot."""
        if self.pivot is None or self.action == "same":
            return self.atom if self.pivot is None else self.u
        p = self.pivot.symbol
        if self.action == "scale":
            return self.atom / p
        return (self.atom - p) / self.unit.symbol if self.unit else self.atom - p


def all_choices(setting: Setting) -> Iterator[tuple[Choice, ...]]:
    masks = {s for p in setting.f.atoms(sp.Piecewise) for _, c in p.args for s in _truths(c)}
    per_element: list[list[Choice]] = []
    for element, atom, beside in setting.occurrences:
        if beside is not None:
            shift = _choice(element, atom, beside, "shift")
            units = [r for r in setting.changing if r.pivotal and r.symbol.is_positive
                     and setting.f.has(r.symbol) and _related(setting, atom, r)]
            per_element.append([*(_in_units(shift, w) for w in units), shift])
            continue
        options = []
        pivots = () if element in masks else setting.changing
        for row in (r for r in pivots if r.pivotal and _related(setting, atom, r)):
            options.append(_choice(element, atom, row, "shift"))
            if row.symbol.is_positive:
                options.append(_choice(element, atom, row, "scale"))
        options.append(Choice(element, atom, None, "shift", element, sp.Integer(0)))
        per_element.append(options)
    per_element += [[same] for i in setting.indicators for same in _same(setting, i)]
    return itertools.product(*per_element)


def _truths(condition: sp.Basic) -> set[sp.Basic]:
    """Elements that are conditions themselves, and are measured from nothing."""
    if condition.is_Symbol:
        return {condition}
    if isinstance(condition, sp.And | sp.Or | sp.Not):
        return {s for a in condition.args for s in _truths(a)}
    return set()


def _related(setting: Setting, atom: sp.Symbol, row: RowParameter) -> bool:
    """Was the row value made from this element, or does the text put them side by side?"""
    element = next(n for n, s in setting.elements.items() if s == atom)
    if element in g.topological((row.node,)):
        return True
    x, p = atom, row.symbol
    for e in setting.text.atoms(sp.Add, sp.Mul):
        if {x, p} <= {a for t in e.args for a in (t, -t)}:
            return True
        powers = {a.as_base_exp() for a in e.args}
        if x in (b for b, _ in powers) and any(b == p and n.is_negative for b, n in powers):
            return True
    return False


def _choice(element: sp.Symbol, atom: sp.Symbol, row: RowParameter, action: Action) -> Choice:
    word = "minus" if action == "shift" else "over"
    keeps_sign = True if action == "scale" and atom.is_positive else None
    return Choice(
        element, atom, row, action,
        sp.Symbol(f"{atom.name}_{word}_{row.symbol.name}", real=True, positive=keeps_sign),
        sp.Symbol(move_name(row.symbol.name, action), real=True,
                  positive=True if action == "scale" else None),
    )


def _in_units(shift: Choice, unit: RowParameter) -> Choice:
    """u = (x − p) / w: measured from p in units of w."""
    assert shift.pivot is not None
    w = unit.symbol.name
    return replace(
        shift, unit=unit, ratio=sp.Symbol(move_name(w, "scale"), positive=True),
        u=sp.Symbol(f"{shift.u.name}_over_{w}", real=True),
        move=sp.Symbol(move_name(shift.pivot.symbol.name, "shift", w), real=True),
    )


def _same(setting: Setting, indicator: Indicator) -> tuple[Choice, Choice]:
    """[x = p] and [x ≠ p]."""
    row = setting.row(indicator.bound.row)
    move = zero_or_one(move_name(row.symbol.name, "same"))
    own, other = indicator.symbol, indicator.contrary
    equal = Choice(own, indicator.bound.element, row, "same", own, move)
    return equal, replace(equal, element=other, u=other, contrary_to=own)
