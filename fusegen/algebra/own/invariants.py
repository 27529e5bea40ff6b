"""What holds of every state that a row can lead to: what lift gives, and merge keeps.

Signs of fields are guessed from lift. Where they are not enough for a proof, order (low ≤ total)
and equalities under a condition (all: pre = n) are guessed from the states of small rows. All that
is guessed is assumed of a and b, and what does not follow of lift(x) or of a ⊕ b is dropped, until
nothing is: what is left is an invariant, by induction over the row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product

import sympy as sp

from fusegen.algebra.own.cases import Case, Guard, cases, evaluate
from fusegen.algebra.own.exact import exact, same
from fusegen.algebra.own.work import OutOfBounds, Work
from fusegen.ir import operator as op
from fusegen.ir.expr import Expr, Lit, ops_of
from fusegen.ir.operator import Operator

_STEPS = 20_000  # for the signs, and for all else: a second or so
_ASSUMED = {">": "positive", "≥": "nonnegative", "≤": "nonpositive"}  # as sympy calls them

State = Mapping[str, sp.Basic]


@dataclass(frozen=True)
class Order:
    """`less` ≤ `more`, fields of every state."""

    less: str
    more: str

    def __str__(self) -> str:
        return f"{self.less} ≤ {self.more}"


@dataclass(frozen=True)
class Tied:
    """Where the condition `flag` is `truth`, `number` is the field `other`, or else `constant`."""

    flag: str
    truth: bool
    number: str
    other: str | None
    constant: float | int | None

    def __str__(self) -> str:
        shown = self.flag if self.truth else f"not {self.flag}"
        value = self.constant if self.other is None else self.other
        return f"{self.number} = {value} where {shown}"

    def value(self, state: State) -> sp.Basic:
        """What the number then is."""
        if self.other is not None:
            return state[self.other]
        assert self.constant is not None
        return evaluate(Lit(self.constant), sp.Symbol, Case())


Fact = Order | Tied


@dataclass(frozen=True)
class Invariants:
    """Of one operator."""

    operator: Operator
    signs: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()

    def __str__(self) -> str:
        return ", ".join([*(f"{n} {s} 0" for n, s in self.signs.items()), *map(str, self.facts)])

    def state(self, mark: str) -> State:
        """Any state, as symbols."""
        return {f.name: _symbol(f"{mark}.{f.name}", f.kind, self.signs.get(f.name, ""))
                for f in self.operator.fields}

    def case(self, states: Sequence[State], put: Mapping[sp.Symbol, sp.Expr]) -> Case:
        """The case in which nothing but the invariants of these states is known."""
        orders = [f for f in self.facts if isinstance(f, Order)]
        ties = [f for f in self.facts if isinstance(f, Tied)]
        return Case(
            values=put,
            facts=tuple(s[f.more] - s[f.less] for s in states for f in orders),
            guards=tuple(_guard(f, s) for s in states for f in ties),
        )

    def starts(self, states: Sequence[State]) -> Iterator[Case]:
        """Where fields whose identity is NaN are NaN, or numbers, in each of these states."""
        fields = [f for f in self.operator.fields if f.identity.value != f.identity.value]
        symbols = [s[f.name] for s in states for f in fields]
        for nans in product((False, True), repeat=len(symbols)):
            put = {s: sp.nan for s, nan in zip(symbols, nans, strict=True) if nan}
            yield self.case(states, put)


def _guard(tie: Tied, state: State) -> Guard:
    return Guard(state[tie.flag], tie.truth, state[tie.number], tie.value(state))


def _symbol(name: str, kind: str, sign: str) -> sp.Expr:
    """A number of which the sign is known; whole ones > 0 as 1 + n, which sympy follows."""
    if kind == "bool":
        return sp.Symbol(name)
    whole = kind == "int"
    known = {_ASSUMED["≥" if whole and sign == ">" else sign]: True} if sign else {}
    symbol = sp.Symbol(name, real=True, integer=True if whole else None, **known)
    return symbol + 1 if whole and sign == ">" else symbol


class Merged(Mapping[str, sp.Basic]):
    """a ⊕ b in one case; only what is asked for meets its switches."""

    def __init__(self, operator: Operator, a: State, b: State, case: Case) -> None:
        self.sides, self.case = {"a": a, "b": b}, case
        self.steps = dict(operator.steps)
        self.merges = {f.name: f.merge for f in operator.fields}
        self.known: dict[str, sp.Basic] = {}

    def _value(self, name: str) -> sp.Basic:
        """Of a step, or of a side's field."""
        if name not in self.known:
            side, _, part = name.partition(".")
            found = self.case.value(self.sides[side][part]) if part else None
            self.known[name] = self._evaluated(self.steps[name]) if found is None else found
        return self.known[name]

    def _evaluated(self, expr: Expr) -> sp.Basic:
        return evaluate(expr, self._value, self.case)

    def __getitem__(self, name: str) -> sp.Basic:
        return self._evaluated(self.merges[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.merges)

    def __len__(self) -> int:
        return len(self.merges)


class _Lifted(Merged):
    """lift(x) in one case."""

    def __init__(self, operator: Operator, elements: State, case: Case) -> None:
        super().__init__(operator, {}, {}, case)
        self.merges = {f.name: f.lift for f in operator.fields}
        self.known = {n: case.value(x) for n, x in elements.items()}


# ---- finding them ----

_WEAKER = {">": (">", "≥"), "≥": ("≥",), "≤": ("≤",)}
_FAILURES = (OutOfBounds, ArithmeticError, TypeError, ValueError, NotImplementedError)

View = tuple[Callable[[Case], State], Case]
"""States in every case, from a first case on."""


class Induction:
    """Drops guesses until what is left follows of lift and of merge."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.work = Work(_STEPS)

    def signs(self) -> Invariants:
        """The signs alone; none where that takes too many steps."""
        try:
            lifts = self._lifts()
            numbers = [f.name for f in self.operator.fields if f.kind != "bool"]
            found = Invariants(self.operator, self._signs(lifts, dict.fromkeys(numbers, _ASSUMED)))
            while True:
                weaker = {n: _WEAKER[s] for n, s in found.signs.items()}
                kept = replace(found, signs=self._signs(self._merges(found), weaker))
                if kept == found:
                    return found
                found = kept
        except _FAILURES:
            return Invariants(self.operator)

    def facts(self, signs: Invariants, samples: Collection[op.State]) -> Invariants:
        """What small rows suggest besides; the signs alone where that takes too many."""
        try:
            lifts = self._lifts()
            guess = [f for f in _suggested(self.operator, samples) if self._holds(f, lifts)]
            found = replace(signs, facts=tuple(guess))
            while True:
                merges = self._merges(found)
                kept = tuple(f for f in found.facts if self._holds(f, merges))
                if kept == found.facts:
                    return found
                found = replace(found, facts=kept)
        except _FAILURES:
            return signs

    def _lifts(self) -> list[View]:
        """The states of one element: a number, or what lift asks for besides."""
        asked = {o for f in self.operator.fields for o in ops_of(f.lift)}
        special = [sp.nan, sp.oo, -sp.oo] if asked & {"isnan", "isinf", "isfinite"} else []
        elements = {v.name: _symbol(v.name, v.kind, "") for v in self.operator.elements}
        choices = [[None, *special] if v.kind != "bool" else [None] for v in self.operator.elements]
        starts = [
            Case({x: s for x, s in zip(elements.values(), chosen, strict=True) if s is not None})
            for chosen in product(*choices)
        ]
        return [(lambda case: _Lifted(self.operator, elements, case), start) for start in starts]

    def _merges(self, known: Invariants) -> list[View]:
        a, b = known.state("a"), known.state("b")
        return [(lambda case: Merged(self.operator, a, b, case), s) for s in known.starts((a, b))]

    def _signs(
        self, views: list[View], wanted: Mapping[str, Collection[str]]
    ) -> dict[str, str]:
        """The strongest of the wanted signs that each field has in every case."""
        found = {}
        for name, signs in wanted.items():
            left = list(signs)
            for state, start in views:
                for bounds in cases(_bounds_of(state, name), start, self.work):
                    left = [s for s in left if s in bounds]
            if left:
                found[name] = left[0]
        return found

    def _holds(self, fact: Fact, views: list[View]) -> bool:
        return all(
            holds for state, start in views
            for holds in cases(_truth_of(fact, state), start, self.work)
        )


def _bounds_of(state: Callable[[Case], State], name: str) -> Callable[[Case], set[str]]:
    return lambda case: case.bounds(case.value(state(case)[name]))


def _truth_of(fact: Fact, state: Callable[[Case], State]) -> Callable[[Case], bool]:
    def truth(case: Case) -> bool:
        found = state(case)
        if isinstance(fact, Order):
            return "≥" in case.bounds(case.value(found[fact.more] - found[fact.less]))
        if case.truth(case.value(found[fact.flag])) is not fact.truth:
            return True
        value = case.value(found[fact.number])
        return bool(sp.expand(value - case.value(fact.value(found))) == 0)

    return truth


def _suggested(operator: Operator, samples: Collection[op.State]) -> Iterator[Fact]:
    """Orders, and what is tied to a condition, that no sample contradicts."""
    numbers = [f.name for f in operator.fields if f.kind != "bool"]
    kinds = {f.name: f.kind for f in operator.fields}
    for less, more in permutations(numbers, 2):
        if kinds[less] == kinds[more] and all(s[less] <= s[more] for s in samples):
            yield Order(less, more)
    flags = [f.name for f in operator.fields if f.kind == "bool"]
    for flag, truth, number in product(flags, (True, False), numbers):
        where = [s for s in samples if s[flag] is truth]
        if where and all(same(s[number], exact(operator.identity[number])) for s in where):
            yield Tied(flag, truth, number, None, operator.identity[number])
            continue
        others = [o for o in numbers if o != number and kinds[o] == kinds[number]]
        tied = (o for o in others if where and all(same(s[number], s[o]) for s in where))
        if (other := next(tied, None)) is not None:
            yield Tied(flag, truth, number, other, None)
