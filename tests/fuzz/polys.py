"""Sums of products of atoms, with coefficients that are vectors of numbers.

A coefficient is never symbolic: it holds its value on every sample row and piece, so "constant",
"zero" and "positive" are facts about data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath as mp

from .exact import apply

CLOSE = mp.mpf(10) ** -45


@dataclass(frozen=True, slots=True)
class Row:
    """A row value: one number per sample, and the reductions it needs."""

    values: tuple[Any, ...]
    needs: frozenset[str] = frozenset()

    def with_(self, op: str, *others: Row) -> Row:
        columns = zip(self.values, *(o.values for o in others), strict=True)
        needs = self.needs.union(*(o.needs for o in others))
        return Row(tuple(apply(op, v) for v in columns), needs)

    @property
    def constant(self) -> bool:
        first = self.values[0]
        return all(abs(v - first) <= CLOSE * (1 + abs(first)) for v in self.values)

    @property
    def zero(self) -> bool:
        return all(abs(v) <= CLOSE for v in self.values)


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """A factor of a basis function; `rate` and `pivot` say how an exponential moves."""

    key: tuple[Any, ...]
    kind: str  # raw, dev, exp, tie
    values: tuple[tuple[Any, ...], ...]  # per sample, per column
    rate: Any = 0
    pivot: Row | None = None


Monomial = tuple[tuple[Atom, int], ...]  # sorted by key; () is 1
Poly = dict[Monomial, Row]


def monomial_value(monomial: Monomial, sample: int, column: int) -> Any:
    value = mp.mpf(1)
    for atom, power in monomial:
        value *= atom.values[sample][column] ** power
    return value


def plus(a: Poly, b: Poly) -> Poly:
    total = dict(a)
    for m, r in b.items():
        total[m] = total[m].with_("add", r) if m in total else r
    return total


def cleaned(poly: Poly) -> Poly:
    return {m: r for m, r in poly.items() if not r.zero}


def times(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
        if atom.kind == "tie":
            powers[atom] = 1
    return tuple(sorted(powers.items(), key=lambda pair: repr(pair[0].key)))


def order(monomial: Monomial) -> str:
    return repr([(a.key, p) for a, p in monomial])


def vector(row: Row) -> str:
    return ",".join(mp.nstr(v, 30) for v in row.values)


def key_of(poly: Poly) -> tuple[Any, ...]:
    return tuple(sorted((order(m), mp.nstr(r.values[0], 30)) for m, r in poly.items()))
