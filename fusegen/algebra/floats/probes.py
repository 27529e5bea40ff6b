"""What sympy has decided or cancelled, found by special numbers.

Over the reals r − r = 0, r / r = 1 and exp(y) > 0, and sympy says so as it reads a text. In floats
none holds for every number: r may be infinite, or 0; exp(y) is 0 at last. So every element and row
value takes special numbers by turns, beside usual ones of all others: there the term as written and
what stands for it must agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np

from fusegen.algebra.choice import Choice
from fusegen.algebra.facts.questions import asked_extreme
from fusegen.algebra.facts.terms import chooses
from fusegen.algebra.floats.points import Numbers, Points
from fusegen.algebra.floats.values import Spelled, value
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting, as_vars
from fusegen.algebra.symbols import is_positive
from fusegen.algebra.thaw import thaw
from fusegen.ir import graph as g
from fusegen.ir.expr import Expr
from fusegen.ir.shared import lazy

_SPECIAL = (0.0, inf, -inf, nan)
_HARD = (1e4, -1e4, 1e30, -1e30)  # exp of them is infinite, or 0, and so are squares


def cancelled(setting: Setting, closed: Closed) -> g.Node | None:
    """An element or row value with which the sums read out are another number than the term, where
    they should be the same, or NaN; None: there is none."""
    probes, form = Points(setting), _Form(setting, closed)
    for node, numbers in probes.of(_SPECIAL):
        if form.is_guarded(numbers) or _agree(probes.text(numbers), form.at(numbers)):
            continue
        if not _agree(probes.text(probes.beside_a_choice(node, numbers)), form.at(numbers)):
            return node
    for node, numbers in probes.ignored():
        text, read = probes.text(numbers), form.at(numbers)
        if not form.is_guarded(numbers) and np.isnan(read) and not np.isnan(text):
            return node
    return None


def decided(setting: Setting) -> g.Node | None:
    """An element or row value with which the term is not the f that its trend is told of."""
    probes = Points(setting)
    f = thaw(setting.f, as_vars(setting), frozenset())
    for node, numbers in probes.of((*_SPECIAL, *_HARD)):
        got = value(f, probes.named(numbers))
        text = probes.text(numbers)
        noise = max((abs(v) for v in numbers.values() if np.isfinite(v)), default=0)
        if not (_agree(text, got, noise) and np.isnan(text) == np.isnan(got)):
            return node
    return None


def undefined(setting: Setting) -> g.Node | None:
    """A row value of the term that may be 0 while it has none: 0 · ∞ or 0 / 0, at an element that
    need not be the greatest. Row values that are 0 only where every element is say NaN of all."""
    probes = Points(setting)
    (x,) = setting.elements
    for row in setting.changing:
        if is_positive(row.node) or setting.facts.is_zero_of_equals(x, row.node):
            continue
        usual = {**probes.usual, row.node: np.float32(0)}
        if np.isinf(probes.text(usual)):  # divided by it, and some element may be what makes 0 / 0
            return row.node
        for number in (0.0, inf, -inf):
            numbers = {**usual, x: np.float32(number)}
            if any(np.isnan(probes.text(n)) for _, n in probes.feasible(x, numbers)):
                return row.node
    return None


def answered(setting: Setting, closed: Closed) -> Iterator[g.Node]:
    """Conditions that ask whether an extreme is a number, where the text is NaN if it is none: at
    the element that is the extreme, which no condition leaves out, or of which the sum knows."""
    probes, parts = Points(setting), g.topological((setting.arg,), setting.rows.__contains__)
    if closed.taken is None and any(map(chooses, parts)):
        return
    for node in parts:
        extreme = asked_extreme(node)
        if extreme in setting.rows and setting.rows[extreme].symbol in setting.finite and any(
                setting.facts.is_of_taken(x, extreme) and probes.is_nan_at(x, extreme)
                for x in setting.elements):
            yield node


def told_simpler(graph: g.Graph, node: g.Node) -> tuple[str, str]:
    """Why a text that cancels this element or row value is computed as written, and what to do."""
    name = graph.names.get(node, "a value")
    why = ("over the reals the expression is simpler than it is written, and for special values of "
           f"{name},\nas 0, infinity or NaN, it is another number than the text has.")
    return why, f"To share the sweep, write the simpler expression, where {name} does not cancel."


def _agree(text: Any, form: Any, noise: Any = 0) -> bool:
    """To rounding, of sums of numbers up to `noise`; or the form is NaN."""
    if np.isnan(form):
        return True
    with np.errstate(invalid="ignore"):
        return bool(text == form or abs(text - form) <= 1e-4 * (1 + abs(text)) + 1e-6 * noise)


@dataclass(frozen=True)
class _Form:
    """What stands for the term: Σ c·h of one element, nothing guarded."""

    setting: Setting
    closed: Closed

    @lazy
    def _choices(self) -> tuple[Choice, ...]:
        return tuple(c for c in self.closed.candidate.choices
                     if c.pivot is not None and c.action != "same")

    def is_guarded(self, numbers: Numbers) -> bool:
        """Is the sum NaN anyway, by the guard policy?"""
        units = {c.unit.node for c in self._choices if c.unit is not None}
        units |= {c.pivot.node for c in self._choices if c.pivot and c.action == "scale"}
        pivots = {c.pivot.node for c in self._choices if c.pivot is not None}
        finite = {self.setting.row(s).node for s in self.setting.finite}
        ordered = {self.setting.row(s).node for s in self.setting.ordered}
        return any(np.isnan(numbers[n]) for n in ordered) or any(
            not np.isfinite(numbers[n]) for n in units | pivots | finite
        ) or any(numbers[n] == 0 for n in units)

    @lazy
    def _spelled(self) -> Spelled:
        return Spelled(self.setting, self.closed)

    @lazy
    def _terms(self) -> list[Expr]:
        """Conditions of the row choose, as they do in read-outs."""
        terms = self.closed.candidate.terms.items()
        return [thaw(c * h, self._spelled.words, frozenset()) for h, c in terms if c != 0]

    def at(self, numbers: Numbers) -> Any:
        env = dict(Points(self.setting).named(numbers))
        with np.errstate(all="ignore"):
            env |= self._spelled.relative(env)
            return sum((np.float32(value(t, env)) for t in self._terms), np.float32(0))
