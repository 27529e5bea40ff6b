"""Linear forms over the reals and the whole numbers, and what holds of them along a path of cases.

A path asks for signs of linear forms; `Paths` runs it once for every combination of answers that a
point has, by the exact simplex. Forms of whole numbers are bounded by whole numbers: d > 0 is
d ≥ g where g is what all their coefficients are multiples of. That decides congruences too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeVar

from fusegen.algebra.own.simplex import Form, Rational, Simplex, Value, ratio
from fusegen.algebra.own.work import Work
from fusegen.ir.shared import lazy

T = TypeVar("T")
Relation = Literal[">", "≥", "=", "≤", "<"]
OPPOSITE: dict[Relation, Relation] = {">": "≤", "≥": "<", "<": "≥", "≤": ">"}
_TURNED: dict[Relation, Relation] = {">": "<", "≥": "≤", "=": "=", "≤": "≥", "<": ">"}


@dataclass(frozen=True, order=True)
class Unknown:
    """A variable; `whole`: it is an integer."""

    name: str
    whole: bool


@dataclass(frozen=True)
class Linear:
    """Σ coefficient · variable + constant, variables in order and none with coefficient 0."""

    terms: tuple[tuple[Unknown, Rational], ...]
    constant: Rational

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for v, c in other.terms:
            terms[v] = terms.get(v, 0) + c
        kept = tuple(sorted((v, c) for v, c in terms.items() if c))
        return Linear(kept, self.constant + other.constant)

    def __mul__(self, factor: Rational) -> Linear:
        if not factor:
            return constant(0)
        return Linear(tuple((v, c * factor) for v, c in self.terms), self.constant * factor)

    def __neg__(self) -> Linear:
        return self * -1

    def __sub__(self, other: Linear) -> Linear:
        return self + -other

    def __str__(self) -> str:
        return " + ".join([*(f"{c}·{v.name}" for v, c in self.terms), str(self.constant)])

    @lazy
    def whole(self) -> bool:
        """Is it an integer, whatever the variables are?"""
        numbers = [self.constant, *(c for _, c in self.terms)]
        return all(v.whole for v, _ in self.terms) and all(ratio(c, 1) == int(c) for c in numbers)

    @lazy
    def primitive(self) -> tuple[Form, Rational, bool]:
        """(form, scale > 0 or < 0, whole): the form times the scale is this without its constant,
        and forms that are multiples of one another are the same."""
        scale: Rational = self.terms[0][1]
        whole = all(v.whole for v, _ in self.terms)
        if whole:
            below = math.lcm(*(Fraction(c).denominator for _, c in self.terms))
            above = math.gcd(*(int(c * below) for _, c in self.terms))
            scale = ratio(above if scale > 0 else -above, below)
        return tuple((v, ratio(c, scale)) for v, c in self.terms), scale, whole


def constant(value: Rational) -> Linear:
    return Linear((), value)


def variable(name: str, *, whole: bool) -> Linear:
    return Linear(((Unknown(name, whole), 1),), 0)


def _bounds(d: Linear, relation: Relation) -> Iterator[tuple[Form, int, Value]]:
    """`d relation 0` as bounds of its primitive form."""
    form, scale, whole = d.primitive
    place = ratio(-d.constant, scale)
    seen = relation if scale > 0 else _TURNED[relation]
    if seen in (">", "≥", "="):
        strict = seen == ">"
        least = math.floor(place) + 1 if strict else math.ceil(place)
        yield form, 1, (least, 0) if whole else (place, 1 if strict else 0)
    if seen in ("<", "≤", "="):
        strict = seen == "<"
        most = math.ceil(place) - 1 if strict else math.floor(place)
        yield form, -1, (most, 0) if whole else (place, -1 if strict else 0)


def _so(value: Rational, relation: Relation) -> bool:
    return {">": value > 0, "≥": value >= 0, "=": value == 0, "≤": value <= 0,
            "<": value < 0}[relation]


class Dead(Exception):
    """No point has all the answers that were given."""


@dataclass
class _Choice:
    """One answer on the path, and those that are left to try."""

    difference: Linear
    taken: Relation
    left: tuple[Relation, ...]
    held: ExitStack


@dataclass
class Paths:
    """The cases of one evaluation, depth first."""

    work: Work
    simplex: Simplex = field(init=False)
    choices: list[_Choice] = field(default_factory=list)
    position: int = 0

    def __post_init__(self) -> None:
        self.simplex = Simplex(self.work)

    def each(self, run: Callable[[], T]) -> Iterator[T]:
        """What `run` gives in every case that a point has; it asks by `choose` and `state`.

        While the caller looks at a result, `always` speaks of its case. Raises OutOfBounds.
        """
        start = len(self.choices)
        while True:
            self.position = start
            try:
                self.work.spend(1)
                found = run()
            except Dead:
                pass
            else:
                yield found
            if not self._next(start):
                return

    def _next(self, start: int) -> bool:
        """Go on to the next answers; False where there are none."""
        while len(self.choices) > start:
            last = self.choices.pop()
            last.held.close()
            if self._push(last.difference, last.left):
                return True
        return False

    def _push(self, difference: Linear, relations: Sequence[Relation]) -> bool:
        for i, relation in enumerate(relations):
            held = ExitStack()
            if self._holds(difference, relation, held):
                rest = tuple(relations[i + 1 :])
                self.choices.append(_Choice(difference, relation, rest, held))
                return True
            held.close()
        return False

    def _holds(self, d: Linear, relation: Relation, held: ExitStack) -> bool:
        self.work.spend(1)
        return all(
            held.enter_context(self.simplex.assuming(*bound)) for bound in _bounds(d, relation)
        )

    def choose(self, difference: Linear, *relations: Relation) -> Relation:
        """One of these relations of the difference to 0, which together leave no number out."""
        if not difference.terms:
            return next(r for r in relations if _so(difference.constant, r))
        if self.position == len(self.choices) and not self._push(difference, relations):
            raise Dead
        self.position += 1
        return self.choices[self.position - 1].taken

    def state(self, difference: Linear, relation: Relation) -> None:
        """From here on, the relation holds. Raises Dead where it cannot."""
        if difference.terms:
            self.choose(difference, relation)
        elif not _so(difference.constant, relation):
            raise Dead

    def never(self, differences: Sequence[Linear]) -> bool:
        """Is there no point of this case where all of these are > 0?"""
        with ExitStack() as held:
            return not all(self._holds(d, ">", held) if d.terms else _so(d.constant, ">")
                           for d in differences)

    def always(self, difference: Linear, relation: Relation) -> bool:
        """Does it hold at every point of this case?"""
        if not difference.terms:
            return _so(difference.constant, relation)
        if relation == "=":
            return self.always(difference, "≥") and self.always(difference, "≤")
        with ExitStack() as held:
            return not self._holds(difference, OPPOSITE[relation], held)
