"""Proofs of the laws of a monoid of the user's own, by sympy, in every case that merge has.

A state is a symbol for every field. Nothing is assumed of them but what lift gives and merge keeps
(`invariants`), and that they are finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import sympy as sp

from fusegen.algebra.laws import is_zero
from fusegen.algebra.own.cases import Case, cases, evaluate
from fusegen.algebra.own.invariants import Invariants, Merged, State
from fusegen.algebra.own.work import OutOfBounds, Work
from fusegen.ir.operator import Law, Operator

_STEPS = 20_000  # for a law: a second or so
_MOST_OPERATIONS = 300  # of a difference of two sides, for what takes sympy long
_WEIGHT = 20  # steps for each of these operations

_STATES: dict[Law, str] = {"associative": "abc", "identity": "a", "commutative": "ab"}

Sides = list[tuple[sp.Basic, sp.Basic]]


class Proof:
    """One attempt at a law."""

    def __init__(self, operator: Operator, invariants: Invariants) -> None:
        self.operator, self.invariants = operator, invariants
        self.work = Work(_STEPS)
        self.met = 0

    def attempt(self, law: Law) -> tuple[bool, str]:
        """(proved?, what was tried)."""
        scaled = "log" in self.operator.operations  # by a maximum that cancels, whichever it is
        try:
            proved = (scaled and self._holds(law, whole=True)) or self._holds(law, whole=False)
        except OutOfBounds:
            return False, f"stopped after {self.met} cases"
        except (ArithmeticError, TypeError, ValueError, NotImplementedError, RecursionError) as e:
            return False, f"sympy stopped with {type(e).__name__}"
        tried = "expand, cancel, simplify and exp of both sides"
        return proved, f"{tried}, in {self.met} {'case' if self.met == 1 else 'cases'}"

    def _holds(self, law: Law, *, whole: bool) -> bool:
        states = [self.invariants.state(m) for m in _STATES[law]]
        starts = (replace(s, whole=whole) for s in self.invariants.starts(states))
        return all(self._equal(*sides) for s in starts for sides in self._sides(law, s))

    def _sides(self, law: Law, start: Case) -> Iterator[tuple[sp.Basic, sp.Basic]]:
        """Both sides of the law for every field, in every case."""
        for f in self.operator.fields:
            both = self._law(law, f.name, truth=f.kind == "bool")
            yield from (pair for pairs in cases(both, start, self.work) for pair in pairs)

    def _law(self, law: Law, name: str, *, truth: bool) -> Callable[[Case], Sides]:
        a, b, c = (self.invariants.state(m) for m in "abc")
        empty = {f.name: evaluate(f.identity, sp.Symbol, Case()) for f in self.operator.fields}

        def both(case: Case) -> Sides:
            self.met += 1

            def join(p: State, q: State) -> State:
                return Merged(self.operator, p, q, case)

            match law:
                case "associative":
                    pairs = [(join(join(a, b), c), join(a, join(b, c)))]
                case "commutative":
                    pairs = [(join(a, b), join(b, a))]
                case "identity":
                    pairs = [(join(empty, a), a), (join(a, empty), a)]
            found = [(case.value(p[name]), case.value(q[name])) for p, q in pairs]
            if truth:
                found = [(sp.sympify(case.truth(p)), sp.sympify(case.truth(q))) for p, q in found]
            return found

        return both

    def _equal(self, left: sp.Basic, right: sp.Basic) -> bool:
        """Are the two the same? False means "not shown", never a guess."""
        if left == right:
            return True
        if sp.nan in (left, right) or isinstance(left, sp.logic.boolalg.BooleanAtom):
            return False
        difference = left - right
        operations = difference.count_ops()
        self.work.spend(_WEIGHT * operations)
        if operations > _MOST_OPERATIONS:
            raise OutOfBounds
        if difference.is_rational_function():
            return bool(sp.cancel(sp.together(difference)) == 0)
        if difference.has(sp.log):  # exp is one to one on the reals, and undoes log of a sum
            difference = sp.expand(sp.powsimp(sp.expand(sp.exp(left) - sp.exp(right))))
        return is_zero(difference)
