"""Is a system of linear inequalities feasible? Exactly, in fractions, and one inequality at a time.

The general simplex of Dutertre & de Moura (A fast linear-arithmetic solver for DPLL(T), CAV 2006):
every linear form has a variable of its own, the inequalities are bounds of these, and a strict one
is a bound that is off by an infinitesimal. Taking an inequality back restores a bound, no more.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

from fusegen.algebra.own.work import Work

Rational = int | Fraction
Form = tuple[tuple[Hashable, Rational], ...]
"""Σ coefficient · variable, in a fixed order of variables."""

Value = tuple[Rational, Rational]
"""A number, and its multiple of an infinitesimal."""


def ratio(a: Rational, b: Rational) -> Rational:
    """a / b; whole where it can be, which is faster."""
    found = Fraction(a) / b
    return found.numerator if found.denominator == 1 else found


@dataclass
class Simplex:
    """Bounds on linear forms, and a point that keeps them all as long as there is one."""

    work: Work
    rows: dict[Hashable, dict[Hashable, Rational]] = field(default_factory=dict)  # basic = Σ others
    lower: dict[Hashable, Value] = field(default_factory=dict)
    upper: dict[Hashable, Value] = field(default_factory=dict)
    at: dict[Hashable, Value] = field(default_factory=dict)
    order: dict[Hashable, int] = field(default_factory=dict)  # Bland's rule: no cycles

    @contextmanager
    def assuming(self, form: Form, sign: int, than: Value) -> Iterator[bool]:
        """Is there still a point where the form is ≥ (sign +1) or ≤ (sign −1) `than`? So it stays
        until the block ends."""
        name = self._variable(form)
        bounds = self.lower if sign > 0 else self.upper
        before = bounds.get(name)
        if before is None or (before < than if sign > 0 else before > than):
            bounds[name] = than
        try:
            yield self._feasible(name)
        finally:
            if before is None:
                bounds.pop(name, None)
            else:
                bounds[name] = before

    def value(self, form: Form) -> Value:
        """The form at the point that was found last."""
        real = small = 0
        for variable, c in form:
            a, b = self.at.get(variable, (0, 0))
            real, small = real + c * a, small + c * b  # type: ignore[assignment]
        return real, small

    # ---- variables ----

    def _variable(self, form: Form) -> Hashable:
        """The variable that is this form, which is made where it is new."""
        for v, _ in form:
            self._known(v)
        name: Hashable = form[0][0] if len(form) == 1 and form[0][1] == 1 else form
        if name not in self.order:
            self.at[name] = self.value(form)
            self.order[name] = len(self.order)
            row: dict[Hashable, Rational] = {}
            for v, c in form:
                _add(row, self.rows.get(v, {v: 1}), c)
            self.rows[name] = row
        return name

    def _known(self, variable: Hashable) -> None:
        if variable not in self.order:
            self.order[variable] = len(self.order)
            self.at[variable] = (0, 0)

    # ---- a point within all bounds ----

    def _feasible(self, changed: Hashable) -> bool:
        if changed in self.lower and changed in self.upper \
                and self.lower[changed] > self.upper[changed]:
            return False
        if changed not in self.rows:
            off = self._off(changed)
            if off is not None:
                self._move(changed, off)
        while True:
            wrong = [(self.order[b], b) for b in self.rows if self._off(b) is not None]
            if not wrong:
                return True
            basic = min(wrong, key=lambda w: w[0])[1]
            target = self._off(basic)
            assert target is not None
            other = self._entering(basic, rising=self.at[basic] < target)
            if other is None:
                return False
            self._pivot(basic, other, target)

    def _off(self, name: Hashable) -> Value | None:
        """The bound that the variable breaks."""
        at, low, high = self.at[name], self.lower.get(name), self.upper.get(name)
        if low is not None and at < low:
            return low
        return high if high is not None and at > high else None

    def _entering(self, basic: Hashable, *, rising: bool) -> Hashable | None:
        """The first variable of the row that can move the basic one towards its bound."""
        for name in sorted(self.rows[basic], key=self.order.__getitem__):
            up = (self.rows[basic][name] > 0) is rising
            limit = (self.upper if up else self.lower).get(name)
            if limit is None or (self.at[name] < limit if up else self.at[name] > limit):
                return name
        return None

    def _move(self, name: Hashable, to: Value) -> None:
        """A variable that is not basic moves, and the basic ones with it."""
        step = (to[0] - self.at[name][0], to[1] - self.at[name][1])
        self.at[name] = to
        for basic, row in self.rows.items():
            if name in row:
                a, b = self.at[basic]
                self.at[basic] = (a + row[name] * step[0], b + row[name] * step[1])

    def _pivot(self, basic: Hashable, other: Hashable, to: Value) -> None:
        """`other` becomes basic in place of `basic`, which is put where it belongs."""
        self.work.spend(1 + len(self.rows))
        row = self.rows.pop(basic)
        slope = row.pop(other)
        self.at[other] = self._after(basic, other, slope, to)
        turned = {v: ratio(-c, slope) for v, c in row.items()}
        turned[basic] = ratio(1, slope)
        for held in self.rows.values():
            factor = held.pop(other, 0)
            if factor:
                _add(held, turned, factor)
        self.rows[other] = turned

    def _after(self, basic: Hashable, other: Hashable, slope: Rational, to: Value) -> Value:
        """Where `other` is once `basic` is at `to`; the other basic variables follow."""
        before = self.at[other]
        away = (ratio(to[0] - self.at[basic][0], slope), ratio(to[1] - self.at[basic][1], slope))
        self.at[basic] = to
        after = (before[0] + away[0], before[1] + away[1])
        for name, row in self.rows.items():
            if other in row:
                a, b = self.at[name]
                self.at[name] = (a + row[other] * away[0], b + row[other] * away[1])
        return after


def _add(
    row: dict[Hashable, Rational], more: Mapping[Hashable, Rational], factor: Rational
) -> None:
    """row += factor · more."""
    for v, c in more.items():
        total = row.get(v, 0) + factor * c
        if total:
            row[v] = total
        else:
            row.pop(v, None)
