"""Proofs of the laws of a monoid of the user's own, by sympy, in every case that merge has.

A state is a symbol for every field. What is assumed of them is what lift and merge imply: the sign
of a field, found by assuming the most and dropping what lift does not give or merge does not keep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import product

import sympy as sp

from fusegen.algebra.cases import Case, OutOfBounds, cases, evaluate
from fusegen.algebra.laws import is_zero
from fusegen.expr import Expr
from fusegen.operator import Law, Operator

SECONDS = 0.5  # for the signs, and for the law
_MOST_CASES = 600
_MOST_OPERATIONS = 300  # of a difference of two sides, for what takes sympy long

_ASSUMED = {">": "positive", "≥": "nonnegative", "≤": "nonpositive"}  # as sympy calls them

Fields = Mapping[str, sp.Basic]
Sides = list[tuple[sp.Basic, sp.Basic]]


class Proof:
    """Attempts by sympy, in every case that the switches of merge make."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.until = time.perf_counter() + SECONDS
        self.signs: dict[str, str] = {}  # field → ">" or "≥"
        self.met = 0

    def attempt(self, law: Law) -> tuple[bool, str]:
        """(proved?, what was tried)."""
        try:
            self._find_signs()
            self.until = time.perf_counter() + SECONDS
            proved = all(
                self._equal(*sides)
                for start in self._starts(law) for sides in self._sides(law, start)
            )  # fmt: skip
        except OutOfBounds:
            return False, f"stopped after {self.met} cases"
        except (ArithmeticError, TypeError, ValueError, NotImplementedError, RecursionError) as e:
            return False, f"sympy stopped with {type(e).__name__}"
        tried = "expand, cancel, simplify and exp of both sides"
        return proved, f"{tried}, in {self.met} {'case' if self.met == 1 else 'cases'}"

    def _go_on(self, _: int) -> bool:
        self.met += 1
        return self.met <= _MOST_CASES and time.perf_counter() < self.until

    # ---- what is known of states ----

    def _state(self, mark: str) -> Fields:
        return {f.name: self._symbol(f"{mark}.{f.name}", f.kind, self.signs.get(f.name, ""))
                for f in self.operator.fields}  # fmt: skip

    @staticmethod
    def _symbol(name: str, kind: str, sign: str) -> sp.Expr:
        """A number of which the sign is known; whole ones > 0 as 1 + n, which sympy follows."""
        if kind == "bool":
            return sp.Symbol(name)
        whole = kind == "int"
        known = {_ASSUMED["≥" if whole and sign == ">" else sign]: True} if sign else {}
        symbol = sp.Symbol(name, real=True, integer=True if whole else None, **known)
        return symbol + 1 if whole and sign == ">" else symbol

    def _find_signs(self) -> None:
        """The signs that lift gives and merge keeps: assume the most, drop what does not hold."""
        numbers = [f for f in self.operator.fields if f.kind != "bool"]
        env = {v.name: self._symbol(v.name, v.kind, "") for v in self.operator.elements}
        lifts = {f.name: self._lift(f.lift, env) for f in numbers}
        self.signs = {n: s for n, lift in lifts.items() if (s := self._sign_of(lift))}
        while True:
            before = dict(self.signs)
            a, b = self._state("a"), self._state("b")
            for name in before:
                found = self._sign_of(self._merged_field(a, b, name))
                if found != before[name]:
                    self.signs = {**self.signs, name: found if before[name] == ">" else ""}
            self.signs = {n: s for n, s in self.signs.items() if s}
            if self.signs == before:
                return

    def _sign_of(self, value: Callable[[Case], sp.Basic]) -> str:
        """The strongest of > 0, ≥ 0 and ≤ 0 that holds of the value in every case."""
        left = list(_ASSUMED)
        for holds in cases(lambda c: c.bounds(value(c)), Case(), self._go_on):
            left = [s for s in left if s in holds]
        return next(iter(left), "")

    @staticmethod
    def _lift(lift: Expr, env: Fields) -> Callable[[Case], sp.Basic]:
        return lambda case: evaluate(lift, lambda n: case.value(env[n]), case)

    def _merged_field(self, a: Fields, b: Fields, name: str) -> Callable[[Case], sp.Basic]:
        return lambda case: self._merge(a, b, case)[name]

    # ---- the two sides of a law ----

    def _merge(self, a: Fields, b: Fields, case: Case) -> Fields:
        return _Merged(self.operator, a, b, case)

    def _starts(self, law: Law) -> Iterator[Case]:
        """Fields whose identity is NaN may be NaN in any state, or numbers."""
        marks = {"associative": "abc", "identity": "a", "commutative": "ab"}[law]
        fields = [f for f in self.operator.fields if f.identity.value != f.identity.value]
        symbols = [self._state(m)[f.name] for m in marks for f in fields]
        for nans in product((False, True), repeat=len(symbols)):
            yield Case({s: sp.nan for s, nan in zip(symbols, nans, strict=True) if nan})

    def _sides(self, law: Law, start: Case) -> Iterator[tuple[sp.Basic, sp.Basic]]:
        """Both sides of the law for every field, in every case."""
        for f in self.operator.fields:
            both = self._law(law, f.name, truth=f.kind == "bool")
            yield from (pair for pairs in cases(both, start, self._go_on) for pair in pairs)

    def _law(
        self, law: Law, name: str, *, truth: bool
    ) -> Callable[[Case], Sides]:
        a, b, c = (self._state(m) for m in "abc")
        empty = {f.name: evaluate(f.identity, sp.Symbol, Case()) for f in self.operator.fields}

        def both(case: Case) -> Sides:
            def join(p: Fields, q: Fields) -> Fields:
                return self._merge(p, q, case)

            match law:
                case "associative":
                    pairs = [(join(join(a, b), c), join(a, join(b, c)))]
                case "commutative":
                    pairs = [(join(a, b), join(b, a))]
                case "identity":
                    pairs = [(join(empty, a), a), (join(a, empty), a)]
            found = [(case.value(p[name]), case.value(q[name])) for p, q in pairs]
            return [(sp.sympify(case.truth(p)), sp.sympify(case.truth(q))) for p, q in found] \
                if truth else found  # fmt: skip

        return both

    def _equal(self, left: sp.Basic, right: sp.Basic) -> bool:
        """Are the two the same? False means "not shown", never a guess."""
        if left == right:
            return True
        if sp.nan in (left, right) or isinstance(left, sp.logic.boolalg.BooleanAtom):
            return False
        difference = left - right
        if difference.count_ops() > _MOST_OPERATIONS or time.perf_counter() > self.until:
            raise OutOfBounds
        if difference.is_rational_function():
            return bool(sp.cancel(sp.together(difference)) == 0)
        if difference.has(sp.log):  # exp is one to one on the reals, and undoes log of a sum
            difference = sp.expand(sp.powsimp(sp.expand(sp.exp(left) - sp.exp(right))))
        return is_zero(difference)


class _Merged(Mapping[str, sp.Basic]):
    """a ⊕ b in one case; only what is asked for meets its switches."""

    def __init__(self, operator: Operator, a: Fields, b: Fields, case: Case) -> None:
        self.sides, self.case = {"a": a, "b": b}, case
        self.exprs = dict(operator.steps)
        self.merges = {f.name: f.merge for f in operator.fields}
        self.known: dict[str, sp.Basic] = {}

    def _value(self, name: str) -> sp.Basic:
        """Of a step, or of a side's field."""
        if name not in self.known:
            side, _, field = name.partition(".")
            found = self.case.value(self.sides[side][field]) if field else \
                self._evaluated(self.exprs[name])  # fmt: skip
            self.known[name] = found
        return self.known[name]

    def _evaluated(self, expr: Expr) -> sp.Basic:
        return evaluate(expr, self._value, self.case)

    def __getitem__(self, name: str) -> sp.Basic:
        return self._evaluated(self.merges[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.merges)

    def __len__(self) -> int:
        return len(self.merges)
