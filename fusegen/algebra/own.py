"""The laws of a monoid of the user's own: refuted by numbers, proved by sympy, or neither.

Its fold is a homomorphism by construction: a row's state is lift(x₀) ⊕ lift(x₁) ⊕ …, however it is
cut, once ⊕ is associative and the identity is neutral. The laws are shown for the states that a
row can lead to: fields that lift makes positive (or not negative) and merge keeps so are taken to
be, and nothing else is assumed of them but that they are finite. A state that holds the identity
needs no part in associativity and commutativity: there they follow from its neutrality.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import sympy as sp

from fusegen import derivation as dv
from fusegen import graph as g
from fusegen.algebra.cases import Case, OutOfBounds, cases, evaluate
from fusegen.algebra.laws import is_zero
from fusegen.algebra.refute import Search
from fusegen.derivation import Counterexample, Obligation
from fusegen.errors import LawViolation, UnprovedLaw
from fusegen.expr import Expr
from fusegen.loc import Loc
from fusegen.operator import Law, Operator

SEARCH_SECONDS, PROOF_SECONDS = 0.1, 0.5  # per law
_MOST_CASES = 600
_MOST_OPERATIONS = 300  # of two sides, for what takes sympy long

_STATEMENTS: dict[Law, str] = {
    "associative": "(a ⊕ b) ⊕ c = a ⊕ (b ⊕ c)",
    "identity": "e ⊕ a = a = a ⊕ e",
    "commutative": "a ⊕ b = b ⊕ a",
}
_MEANS: dict[Law, str] = {
    "associative": "Rows are cut into pieces, and states merge in whatever grouping is fastest.",
    "identity": "Pieces may be empty: their state must change nothing, from either side.",
    "commutative": "",
}

_ASSUMED = {">": "positive", "≥": "nonnegative", "≤": "nonpositive"}  # as sympy calls them

Fields = Mapping[str, sp.Basic]


@dataclass(frozen=True)
class Finding:
    """What is known of one law."""

    law: Law
    proved: bool
    counterexample: Counterexample | None
    tried: str
    statement: str
    seconds: float


def own_entry(graph: g.Graph, node: g.Own) -> dv.Own:
    """The laws, and whether the reduction waits for others. Raises LawViolation, UnprovedLaw."""
    operator, name = node.operator, graph.names[node]
    needs = tuple(dict.fromkeys(graph.names[r] for a in node.args for r in g.reductions_of(a)))
    found = _required(operator, node.loc)
    ordered, note = _order(operator)
    if not ordered:
        found += (_obligation(operator, finding(operator, "commutative")),)
    refusal = _waits(node, name, needs) if needs else None
    return dv.Own(name, needs, operator.name, ordered, found, note, refusal)


def _required(operator: Operator, where: Loc) -> tuple[Obligation, ...]:
    laws: tuple[Law, ...] = ("associative", "identity")
    for law in laws:
        found = finding(operator, law)
        if found.counterexample is not None:
            raise _violation(operator, found, where)
        if not found.proved and law not in operator.assumed:
            raise _unproved(operator, found, where)
    return tuple(_obligation(operator, finding(operator, law)) for law in laws)


def _order(operator: Operator) -> tuple[bool, str]:
    """(is the order of states kept?, why)."""
    if operator.ordered:
        return True, "commutative=False"
    found = finding(operator, "commutative")
    if found.counterexample is not None:
        if "commutative" in operator.assumed:
            raise _violation(operator, found, operator.loc)
        return True, "; ".join(found.counterexample.text)
    if found.proved or "commutative" in operator.assumed:
        return False, ""
    return True, f"a ⊕ b = b ⊕ a is not proved ({found.tried})"


def _waits(node: g.Own, name: str, needs: tuple[str, ...]) -> dv.Refusal:
    others = ", ".join(needs)
    return dv.Refusal(
        dv.RefusalKind.ORDER, node.loc,
        f"{node.operator.name} ({name}) cannot join the sweep of {others}: "
        f"{dv.RefusalKind.ORDER.value}",
        f"What it lifts depends on {others}; its own merge says nothing of how that moves.",
        "It keeps a sweep of its own; the result is the same.",
    )  # fmt: skip


# ---- findings ----


@lru_cache(maxsize=256)
def finding(operator: Operator, law: Law) -> Finding:
    """Refute or prove; bounded in time."""
    start = time.perf_counter()
    search = Search(operator, SEARCH_SECONDS)
    counterexample = search.counterexample(law)
    agreed = f"{search.tried[law]} small examples agree"
    if counterexample is not None:
        return Finding(law, False, counterexample, agreed, _STATEMENTS[law], _since(start))
    proof = _Proof(operator)
    proved, how = proof.attempt(law)
    known = ", ".join(f"{n} {s} 0" for n, s in proof.signs.items())
    statement = f"{_STATEMENTS[law]} for all finite states{f' with {known}' if known else ''}"
    return Finding(law, proved, None, f"{how}; {agreed}", statement, _since(start))


def _since(start: float) -> float:
    return time.perf_counter() - start


class _Proof:
    """Attempts by sympy, in every case that the switches of merge make."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.until = time.perf_counter() + PROOF_SECONDS
        self.signs: dict[str, str] = {}  # field → ">" or "≥"
        self.met = 0

    def attempt(self, law: Law) -> tuple[bool, str]:
        """(proved?, what was tried)."""
        try:
            self._find_signs()
            self.until = time.perf_counter() + PROOF_SECONDS
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
    ) -> Callable[[Case], list[tuple[sp.Basic, sp.Basic]]]:
        a, b, c = (self._state(m) for m in "abc")
        empty = {f.name: evaluate(f.identity, lambda n: sp.Symbol(n), Case()) for f in self.operator.fields}

        def both(case: Case) -> list[tuple[sp.Basic, sp.Basic]]:
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


# ---- for people ----


def _obligation(operator: Operator, found: Finding) -> Obligation:
    engine = "sympy" if found.proved else f"{operator.loc.short}, assume=({found.law!r},)"
    return Obligation(found.law, found.statement, "proved" if found.proved else "assumed",
                      found.seconds, engine)  # fmt: skip


def _violation(operator: Operator, found: Finding, where: Loc) -> LawViolation:
    assert found.counterexample is not None
    text = "\n  ".join(found.counterexample.text)
    title = {"associative": "associativity", "commutative": "commutativity"}.get(found.law, "identity")
    return LawViolation(
        f"{operator.name}: {title} fails, {found.statement} is false", where=where,
        why=text, fix=_MEANS[found.law], counterexample=found.counterexample,
    )  # fmt: skip


def _unproved(operator: Operator, found: Finding, where: Loc) -> UnprovedLaw:
    return UnprovedLaw(
        f"{operator.name}: {found.statement} is neither proved nor refuted", where=where,
        why=f"Tried: {found.tried}.",
        fix=f"If you know that it holds, say so: fg.monoid(…, assume=({found.law!r},)).",
    )  # fmt: skip
