"""The states that rows can lead to, as far as linear facts tell: by induction over the row.

A state's *mode* says which conditions hold in it and which numbers are finite. The modes are those
that lift and merge make, one from another, until there are no new ones. In each mode, facts that
small rows suggest (x ≥ 0, x ≤ y, z = x + y, x < a literal) are assumed of a and of b, and what does
not follow of lift(x) and of a ⊕ b, in every case and for every pair of modes, is dropped, until
nothing is. What is left holds of every state, by induction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any

from fusegen.algebra.own.linear import Linear, Paths, Relation, constant, variable
from fusegen.algebra.own.piecewise import Evaluation, Value, literal
from fusegen.algebra.own.simplex import ratio
from fusegen.algebra.own.work import OutOfBounds, Work
from fusegen.ir import operator as op
from fusegen.ir.expr import Lit, walk
from fusegen.ir.operator import Operator

State = Mapping[str, Value]
Mode = tuple[tuple[str, bool | str | Fraction], ...]
"""By field: a condition's truth, "finite", "inf", "-inf", "nan", or the one number that it is."""

_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_MOST_MODES = 24
_MOST_VALUES = 4  # of a field, that modes tell apart


def mode_of(state: Mapping[str, Any], told: Collection[str] = ()) -> Mode:
    """`told`: fields of which modes tell the very number."""
    return tuple((n, _sort(v, n in told)) for n, v in state.items())


def _sort(value: Any, told: bool) -> bool | str | Fraction:
    match value:
        case bool():
            return value
        case float():
            return str(value)
        case Fraction() if told:
            return value
        case Linear(terms=(), constant=number) if told:
            return Fraction(number)
        case _:
            return "finite"


@dataclass(frozen=True)
class Fact:
    """Σ coefficient · field + constant is > 0, ≥ 0 or = 0."""

    terms: tuple[tuple[str, int], ...]
    constant: Fraction | int
    relation: Relation

    def of(self, state: State) -> Linear:
        total = constant(self.constant)
        for name, c in self.terms:
            held = state[name]
            assert isinstance(held, Linear)
            total += held * c
        return total

    def allows(self, sample: op.State) -> bool:
        total = sum((c * sample[n] for n, c in self.terms), self.constant)
        return {">": total > 0, "≥": total >= 0, "=": total == 0}[self.relation]

    def __str__(self) -> str:
        left = [(n, c) for n, c in self.terms if c > 0]
        right = [(n, -c) for n, c in self.terms if c < 0]
        sides = [" + ".join(n if c == 1 else f"{c}·{n}" for n, c in side)
                 for side in (left, right)]
        if not right:
            return f"{sides[0]} {self.relation} {-self.constant}"
        if not left:
            turned = {">": "<", "≥": "≤"}.get(self.relation, self.relation)
            return f"{sides[1]} {turned} {self.constant}"
        more = f" − {self.constant}" if self.constant else ""
        return f"{sides[0]} {self.relation} {sides[1]}{more}"


@dataclass(frozen=True)
class Reachable:
    """Modes, and what holds in each."""

    operator: Operator
    modes: Mapping[Mode, tuple[Fact, ...]]

    def state(self, mark: str, mode: Mode) -> State:
        """A state of this mode: an unknown for every finite number."""
        kinds = {f.name: f.kind for f in self.operator.fields}


        def held(name: str, sort: bool | str | Fraction) -> Value:
            match sort:
                case bool():
                    return sort
                case Fraction():
                    return constant(ratio(sort, 1))
                case "finite":
                    return variable(f"{mark}.{name}", whole=kinds[name] == "int")
                case _:
                    return _SPECIAL[sort]

        return {name: held(name, sort) for name, sort in mode}

    def assume(self, paths: Paths, state: State, mode: Mode) -> None:
        for fact in self.modes[mode]:
            paths.state(fact.of(state), fact.relation)

    def __str__(self) -> str:
        shared = [f for f in next(iter(self.modes.values()), ())
                  if all(f in facts for facts in self.modes.values())]
        return ", ".join(map(str, shared))


class Joined(Mapping[str, Value]):
    """a ⊕ b; only what is asked for meets its cases."""

    def __init__(self, operator: Operator, paths: Paths, a: State, b: State) -> None:
        self.sides = {"a": a, "b": b}
        self.merges = {f.name: f.merge for f in operator.fields}
        self.evaluation = Evaluation(paths, {}, dict(operator.steps), self._member)

    def _member(self, name: str) -> Value:
        side, _, part = name.partition(".")
        return self.sides[side][part]

    def __getitem__(self, name: str) -> Value:
        return self.evaluation.value(self.merges[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.merges)

    def __len__(self) -> int:
        return len(self.merges)


def merged(operator: Operator, paths: Paths, a: State, b: State) -> State:
    return dict(Joined(operator, paths, a, b))


def _resolved(paths: Paths, state: State) -> State:
    whole = Evaluation(paths, {})
    return {n: whole.resolved(v) for n, v in state.items()}


# ---- finding them ----


def reachable(
    operator: Operator, samples: Sequence[op.State], work: Work, *, depth: int
) -> Reachable:
    """`depth`: 0 asks for modes alone, 1 also for facts of one and two fields, 2 of three; 3 tells
    fields of few values by these.

    Raises Nonlinear, OutOfBounds.
    """
    values = {f.name: {s[f.name] for s in samples} for f in operator.fields if f.kind != "bool"}
    told = {n for n, found in values.items() if depth == 3 and len(found) <= _MOST_VALUES}
    paths = Paths(work)
    known: dict[Mode, list[Fact]] = {}
    seen: dict[Mode, list[op.State]] = {}
    for sample in samples:
        seen.setdefault(mode_of(sample, told), []).append(sample)

    def met(state: State) -> None:
        mode = mode_of(state, told)
        if mode not in known:
            if len(known) == _MOST_MODES:
                raise OutOfBounds
            known[mode] = list(suggested(operator, mode, seen.get(mode, ()), depth))
        known[mode] = [f for f in known[mode] if paths.always(f.of(state), f.relation)]

    for start in _elements(operator):
        for state in paths.each(lambda start=start: _lifted(operator, paths, start)):  # type: ignore[misc]
            met(state)
    while True:
        before = {m: len(f) for m, f in known.items()}
        now = Reachable(operator, {m: tuple(f) for m, f in known.items()})
        for pair in product(list(known), repeat=2):
            for state in paths.each(_merging(now, paths, *pair)):
                met(state)
        if {m: len(f) for m, f in known.items()} == before:
            return now


def _merging(now: Reachable, paths: Paths, of_a: Mode, of_b: Mode) -> Callable[[], State]:
    def run() -> State:
        a, b = now.state("a", of_a), now.state("b", of_b)
        now.assume(paths, a, of_a)
        now.assume(paths, b, of_b)
        return _resolved(paths, merged(now.operator, paths, a, b))

    return run


def _elements(operator: Operator) -> Iterator[dict[str, Value]]:
    """What lift is given: any number, truths, and NaN or infinities where it or merge asks for
    them."""
    asks = operator.operations & {"isnan", "isinf", "isfinite"}
    special = [math.nan, math.inf, -math.inf] if asks else []
    choices: list[list[Value]] = [
        [True, False] if v.kind == "bool"
        else [variable(v.name, whole=v.kind == "int"), *(special if v.kind == "float" else [])]
        for v in operator.elements
    ]
    for chosen in product(*choices):
        yield dict(zip((v.name for v in operator.elements), chosen, strict=True))


def _lifted(operator: Operator, paths: Paths, elements: dict[str, Value]) -> State:
    lift = Evaluation(paths, dict(elements))
    return _resolved(paths, {f.name: lift.value(f.lift) for f in operator.fields})


# ---- what small rows suggest ----


def constants_of(operator: Operator) -> tuple[Fraction, ...]:
    """The finite numbers of the text, and −1, 0 and 1."""
    exprs = [e for f in operator.fields for e in (f.lift, f.merge, f.identity)]
    exprs += [e for _, e in operator.steps]
    found = {Fraction(n) for n in (-1, 0, 1)}
    for part in (p for e in exprs for p in walk(e) if isinstance(p, Lit)):
        value = literal(part.value)
        if isinstance(value, Linear):
            found |= {Fraction(value.constant), -Fraction(value.constant)}
    return tuple(sorted(found))


def suggested(
    operator: Operator, mode: Mode, samples: Collection[op.State], depth: int
) -> Iterator[Fact]:
    """Facts that no sample of the mode contradicts."""
    if depth == 0 or not samples:
        return
    names = [n for n, v in mode if v == "finite"]
    places = constants_of(operator)
    guesses = [Fact(((n, sign),), -sign * c, relation) for n in names for c in places
               for sign in (1, -1) for relation in _RELATIONS]
    guesses += [Fact(((x, 1), (y, -1)), 0, relation)
                for x, y in permutations(names, 2) for relation in _RELATIONS]
    if depth == 2:
        guesses += [Fact(((z, sign), (x, -sign), (y, -sign)), 0, relation)
                    for x, y in combinations(names, 2) for z in names if z not in (x, y)
                    for sign in (1, -1) for relation in _RELATIONS]
    held = [f for f in guesses if all(f.allows(s) for s in samples)]
    exactly = {(f.terms, f.constant) for f in held if f.relation == "="}
    yield from (f for f in held if f.relation == "=" or (f.terms, f.constant) not in exactly)


_RELATIONS: tuple[Relation, ...] = ("=", ">", "≥")
