"""Does a closed basis keep its digits and its range, for every tree of merges and every order?

A class for every pivot that a basis function depends on; docs/proofs.md has the lemma.

  D  dominated: x ≤ p at every part of the row and p only grows, or the mirror image
  M  the element's mean under the term's own weights, ≥ 0: Σ w·u = 0
  H  Hölder: factors that are each dominated or about an own mean; g·(x − mean x)
  S  a scale that bounds what it divides, or the range of what is measured from one of its ends
  =  a selection, [x = p]: it moves by 0 or 1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import sympy as sp

from fusegen.algebra.choice import Choice
from fusegen.algebra.facts.pivots import (
    is_attained,
    is_filled,
    is_made_of,
    is_mean_of,
    outside,
)
from fusegen.algebra.facts.questions import asks_for_specials, is_mask, leads, questions_in
from fusegen.algebra.floats.faults import (
    Fault,
    adrift,
    asks,
    cancels,
    unattained,
    unbounded_scale,
    undominated,
)
from fusegen.algebra.floats.probes import answered
from fusegen.algebra.floats.range import out_of_range, unheld_number
from fusegen.algebra.floats.readout import (
    CONDITION,
    Condition,
    condition_of,
    exponential_readout,
)
from fusegen.algebra.floats.unlike import unlike_text
from fusegen.algebra.pivot import Closed
from fusegen.algebra.rowsums import vanishes
from fusegen.algebra.setting import Setting
from fusegen.ir import graph as g
from fusegen.ir.derivation import RefusalKind
from fusegen.ir.shared import lazy

Class = Literal["D", "M", "H", "S", "="]
_WELL = Condition(1.0)


@dataclass(frozen=True)
class Ground:
    """Why one pivot is sound beside one basis function."""

    kind: Class
    choice: Choice
    degree: int = 0  # of u, outside of exponentials
    side: int = 0  # of what dominates: +1 above, −1 below


@dataclass(frozen=True)
class Verdict:
    """What each pivot stands on; the merge is used only if nothing is at fault."""

    grounds: tuple[Ground, ...] = ()
    faults: tuple[Fault, ...] = ()
    condition: Condition = _WELL  # of the read-out


def judge(
    setting: Setting, closed: Closed, zeros: tuple[sp.Expr, ...], *, brave: bool = False
) -> Verdict:
    """zeros: basis functions whose sum over any part of a row is 0 by definition.
    brave: cancellation in the read-out is allowed."""
    judged = _Judge(setting, closed, zeros)
    found = list(judged.found())
    grounds = dict.fromkeys(f for f in found if isinstance(f, Ground))
    faults = {f.why: f for f in found if isinstance(f, Fault)}
    condition = _WELL if faults else condition_of(setting, closed, brave=brave)
    if condition.worst > CONDITION:
        faults[""] = cancels(closed, condition)
    return Verdict(tuple(grounds), tuple(faults.values()), condition)


@dataclass(frozen=True)
class _Judge:
    setting: Setting
    closed: Closed
    zeros: tuple[sp.Expr, ...]

    @lazy
    def nodes(self) -> dict[sp.Symbol, g.Node]:
        return {s: n for n, s in self.setting.elements.items()}

    @lazy
    def numbers(self) -> set[sp.Symbol]:
        """Row values that do not change while the row is read."""
        return {r.symbol for r in self.setting.rows.values() if r.constant}

    @lazy
    def shifts(self) -> tuple[Choice, ...]:
        return tuple(c for c in self.closed.candidate.choices
                     if c.pivot is not None and c.action == "shift")

    @lazy
    def chooses(self) -> bool:
        """May a condition leave out the very elements that are NaN where a pivot is infinite?"""
        known = {*self.setting.rows, *self.setting.elements}
        return any(isinstance(n, g.Map) and n.op == "where"
                   and not all(isinstance(v, g.Literal) for v in n.args[1:])  # NaN times 0 is NaN
                   for n in outside(known, self.setting.arg))

    def found(self) -> Iterator[Ground | Fault]:
        question = self._question()
        if question is not None:
            yield asks(question)
        for c in self.closed.candidate.choices:
            used = [h for h in self.closed.basis if h.has(c.u)]
            if c.pivot is not None and used:
                yield from self._pivot(c, used)
        yield from self._ranges()
        unlike = unlike_text(self.setting, self.closed)
        if unlike is not None:
            kind, why, todo = unlike
            yield Fault(kind, why, None, todo)

    def _question(self) -> g.Map | None:
        """One that leaves terms with a value where a row value that they need has none."""
        setting = self.setting
        known = (*setting.rows, *setting.elements, *answered(setting, self.closed))
        needed = {s for c in self.closed.candidate.choices for s in (c.pivot, c.unit) if s}
        needed |= {setting.row(s) for s in (*setting.ordered, *setting.finite)}
        masks = [q for m in setting.elements if is_mask(m) for q in questions_in(m)]
        return asks_for_specials(setting.arg, known) or next(
            (q for q in masks if any(leads(q, r.node) for r in needed)), None)

    def _ranges(self) -> Iterator[Fault]:
        if exponential_readout(self.setting, self.closed):
            told_so = "the read-out would multiply the sum by an exponential of a row value."
            yield Fault(RefusalKind.UNBOUNDED, told_so)
        for h, c in self.closed.candidate.terms.items():
            why = out_of_range(self.setting, self.closed, h, c)
            if why is not None:
                yield Fault(RefusalKind.RANGE, why)
        number = unheld_number(self.closed)
        if number is not None:
            todo = "Scale the data, or take a constant nearer to 1."
            yield Fault(RefusalKind.RANGE, number, None, todo)

    def _pivot(self, c: Choice, used: list[sp.Expr]) -> Iterator[Ground | Fault]:
        assert c.pivot is not None
        x, p, facts = self.nodes[c.atom], c.pivot.node, self.setting.facts
        if c.action == "same":
            yield Ground("=", c)
            return
        scale = c.unit.node if c.unit else p
        if c.action == "scale" or c.unit is not None:
            held = facts.encloses(x, p, scale) if c.unit else facts.spans(x, p)
            yield Ground("S", c) if held else unbounded_scale(c)
        else:
            side = facts.dominates(x, p)
            for h in used:
                yield from self._shift(c, h, side)
        # Where p is infinite every u is NaN or infinite, and no sum of them can be read out.
        if not self._is_nan_too(c, used) or self._is_filled(x, p):
            yield unattained(c)

    def _is_filled(self, x: g.Node, p: g.Node) -> bool:
        """May p be infinite though no x that counts is, and the sum is read out of it?"""
        taken = self.closed.taken is not None
        return self.setting.facts.is_filled(p) if taken else is_filled(
            None if self.chooses else x, p)

    def _is_nan_too(self, c: Choice, used: list[sp.Expr]) -> bool:
        """Is the text NaN, or infinite, where an element makes the pivot infinite?"""
        assert c.pivot is not None
        x, p = self.nodes[c.atom], c.pivot.node
        if c.action == "scale" or c.unit is not None:
            return is_made_of(x, c.unit.node if c.unit else p)
        side = self.setting.facts.dominates(x, p)
        falling = any((sp.diff(e.args[0], c.u) * side).is_positive is not False
                      for h in used for e in h.atoms(sp.exp) if e.has(c.u))
        taken = self.closed.taken is not None and self.setting.facts.is_of_taken(x, p)
        return not falling or taken or is_attained(x, p)

    def _shift(self, c: Choice, h: sp.Expr, side: int) -> Iterator[Ground | Fault]:
        # exp(u) under what dominates is 1 at most, and so is what corrects it: exp(−δ).
        for e in sorted(h.atoms(sp.exp), key=sp.default_sort_key):
            slope = sp.diff(e.args[0], c.u)
            falls = (slope * side).is_positive  # from 1, or less, as p moves
            # A number of the row, of either sign: exp(b·u) and what corrects it are 1 at most, or
            # 1 at least, and then no more than the text's own terms.
            either = side and slope.is_negative is None and not slope.free_symbols - self.numbers
            if e.has(c.u):
                yield Ground("D", c, 0, side) if falls or either else undominated(c, e)
        degree = _degree(h, c.u)
        if side and degree != 0:
            yield Ground("D", c, degree or 0, side)
        elif degree is None:
            mean = _swings(h, c.u) and self._is_plain_mean(c)
            yield Ground("H", c) if mean else adrift(c)
        elif degree:
            yield self._power(c, h, degree)

    def _power(self, c: Choice, h: sp.Expr, degree: int) -> Ground | Fault:
        """uᵏ beside a pivot that is no bound of x."""
        weight = sp.cancel(h / c.u**degree)
        alone = not any(weight.has(s.u) and _degree(weight, s.u) for s in self.shifts)
        if alone and self._averages(c, weight):
            return Ground("M", c, degree)
        if alone and degree == 1 and self._is_plain_mean(c):
            return Ground("H", c, degree)
        return Ground("H", c, degree) if self._is_product(h) else adrift(c)

    def _averages(self, c: Choice, weight: sp.Expr) -> bool:
        """Is Σ |weight|·u = 0 over any part of a row?"""
        if weight.is_nonnegative:
            return any(sp.expand(weight * c.u - z) == 0 for z in self.zeros)
        here = {s.u: s.here for s in self.closed.candidate.choices}
        off = (sp.Abs(weight) * c.u).subs(here, simultaneous=True)
        return vanishes(off, self.setting.sums)

    def _is_plain_mean(self, c: Choice) -> bool:
        assert c.pivot is not None
        return is_mean_of(self.nodes[c.atom], c.pivot.node)

    def _is_product(self, h: sp.Expr) -> bool:
        """w·Π uᵢ^kᵢ with w ≥ 0 and every uᵢ dominated, or from its own mean under w."""
        weight, degrees = h, {c: _degree(h, c.u) for c in self.shifts}
        factors = {c: k for c, k in degrees.items() if k}
        if None in degrees.values():
            return False
        for c, k in factors.items():
            weight = weight / c.u**k
        weight = sp.cancel(weight)
        bounded = [c for c in factors if self._dominated(c)]
        return all(
            c in bounded
            # Beside one that is 0 at the extreme u² has a foreign weight: what is there moves p.
            or (not (bounded and k > 1) and (self._averages(c, weight) or (
                weight.is_number and self._is_plain_mean(c)))) for c, k in factors.items()
        )

    def _dominated(self, c: Choice) -> bool:
        assert c.pivot is not None
        return self.setting.facts.dominates(self.nodes[c.atom], c.pivot.node) != 0


def _degree(h: sp.Expr, u: sp.Symbol) -> int | None:
    """Degree of h in u outside of exponentials; None if it is no polynomial."""
    outside = h.replace(lambda e: isinstance(e, sp.exp), lambda e: sp.Integer(1))
    if not outside.has(u):
        return 0
    powers = sp.expand(outside).as_poly(u)
    return None if powers is None else int(powers.degree())


def _swings(h: sp.Expr, u: sp.Symbol) -> bool:
    """Is u only in sines and cosines, so that terms are bounded and move by a rotation?"""
    return not h.replace(lambda e: isinstance(e, sp.sin | sp.cos), lambda e: sp.Integer(1)).has(u)
