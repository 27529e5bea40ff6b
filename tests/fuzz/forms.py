"""A separated form of an element expression, found by reading the text, not by the algebra.

The text is rewritten as Σ c_k(row) · Π atoms, where an atom is a function of elements alone, a
deviation E − p of such a function from a row value, an exponential of one, or a tie [E = p]; those
are the atoms whose sums can follow a moving p. Coefficients are never symbolic: they are vectors of
their values over sample rows and pieces, so "constant", "positive" and "never above 0" are facts
about data, domains like x ≤ max included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp

from fusegen.ir import graph as g

from .exact import Piece, apply, is_nan
from .polys import (
    CLOSE,
    Atom,
    Poly,
    Row,
    cleaned,
    key_of,
    monomial_value,
    order,
    plus,
    times,
    vector,
)


class Stuck(Exception):
    """No separated form by these rules."""


class MovingKink(Stuck):
    """A switch whose place moves across the elements: by linear independence there is no form."""


@dataclass
class Reader:
    """Rewrites nodes of one graph over fixed samples."""

    graph: g.Graph
    samples: Sequence[Piece]
    known_on_pieces: frozenset[str]  # reductions whose value over a piece is in the state
    atoms: dict[tuple[Any, ...], Atom] = field(default_factory=dict)
    read: dict[g.Node, Poly] = field(default_factory=dict)
    exponents: list[Row] = field(default_factory=list)  # of exponentials left in the read-out

    def poly(self, node: g.Node) -> Poly:
        """The node's separated form. Raises Stuck."""
        if node not in self.read:
            self.read[node] = self._row(node) if self._is_row(node) else self._made(node)
        return self.read[node]

    def _is_row(self, node: g.Node) -> bool:
        return g.extent(node) is g.Extent.ROW

    def _row(self, node: g.Node) -> Poly:
        values = tuple(s.value(node) for s in self.samples)
        if any(is_nan(v) for v in values):
            raise Stuck("a row value is undefined on a sample")
        values = tuple(mp.mpf(v) for v in values)
        needs = frozenset(self.graph.names[r] for r in g.reductions_of(node))
        return cleaned({(): Row(values, needs)})

    def _made(self, node: g.Node) -> Poly:
        match node:
            case g.Input() | g.Index():
                values = tuple(tuple(s.value(node)) for s in self.samples)
                leaf = self.atom(("leaf", self.graph.names[node]), "raw", values)
                return {((leaf, 1),): self.one}
            case g.Cast(arg=arg):
                return self.poly(arg)
            case g.Map(op=op, args=args):
                return self._map(op, args)
            case _:
                raise Stuck(type(node).__name__)

    def _map(self, op: str, args: tuple[g.Node, ...]) -> Poly:
        if op == "where":
            return self._where(*args)
        polys = [self.poly(a) for a in args]
        if op in ("add", "sub"):
            return cleaned(plus(polys[0], self.scaled(polys[1], 1 if op == "add" else -1)))
        if op == "neg":
            return self.scaled(polys[0], -1)
        if op in ("mul", "zero_wins"):
            return self.product(*polys)
        if op == "xlogy":
            return self.product(polys[0], self._function("log", [polys[1]]))
        if op == "div":
            return self.product(polys[0], self._inverse(polys[1]))
        if op in ("pow", "square"):
            return self._power(polys[0], polys[1] if op == "pow" else None)
        if op in ("maximum", "minimum"):
            return self._greater(op, *polys)
        if op in ("eq", "gt", "lt", "ge", "le", "ne"):
            return self._relation(op, *polys)
        return self._function(op, polys)

    # ---- pieces of the language ----

    @property
    def one(self) -> Row:
        return self.number(1)

    def number(self, value: Any) -> Row:
        return Row((mp.mpf(value),) * len(self.samples))

    def atom(self, key: tuple[Any, ...], kind: str, values: Any, **more: Any) -> Atom:
        return self.atoms.setdefault(key, Atom(key, kind, values, **more))

    def scaled(self, poly: Poly, factor: Any) -> Poly:
        return {m: r.with_("mul", self.number(factor)) for m, r in poly.items()}

    def values(self, poly: Poly) -> tuple[tuple[Any, ...], ...]:
        """What the form says, per sample and column."""
        return tuple(
            tuple(mp.fsum(r.values[i] * monomial_value(m, i, j) for m, r in poly.items())
                  for j in range(len(sample.columns)))
            for i, sample in enumerate(self.samples)
        )

    def sign(self, poly: Poly) -> tuple[bool, bool, bool]:
        """(is it ever negative, zero, positive?) over all samples."""
        flat = [v for values in self.values(poly) for v in values]
        return (any(v < -CLOSE for v in flat), any(abs(v) <= CLOSE for v in flat),
                any(v > CLOSE for v in flat))

    def product(self, a: Poly, b: Poly) -> Poly:
        total: Poly = {}
        for m, r in self.settled(a).items():
            for n, s in self.settled(b).items():
                key = times(m, n)
                new = r.with_("mul", s)
                total[key] = total[key].with_("add", new) if key in total else new
        return cleaned(total)

    def settled(self, poly: Poly) -> Poly:
        """c·E + r as a deviation: c·(E − p) with p = −r/c, if p is known on pieces."""
        split = self.affine(poly)
        if split is None:
            return poly
        factor, inner, pivot = split
        if pivot.constant or not pivot.needs <= self.known_on_pieces:
            return poly
        key = ("dev", key_of(inner), vector(pivot))
        values = self.values({**inner, (): pivot.with_("neg")})
        return {((self.atom(key, "dev", values, pivot=pivot), 1),): factor}

    def affine(self, poly: Poly) -> tuple[Row, Poly, Row] | None:
        """(c, E, p) with poly = c·(E − p), E a function of elements alone; None if it is not."""
        rest = poly.get((), self.number(0))
        inner = {m: r for m, r in poly.items() if m != ()}
        if not inner or any(a.kind != "raw" for m in inner for a, _ in m):
            return None
        lead = inner[min(inner, key=order)]
        if any(v == 0 for v in lead.values):
            return None
        ratios = {m: r.with_("div", lead) for m, r in inner.items()}
        if not all(r.constant for r in ratios.values()):
            return None
        plain = {m: self.number(r.values[0]) for m, r in ratios.items()}
        return lead, plain, rest.with_("neg").with_("div", lead)

    def is_raw(self, poly: Poly) -> bool:
        return all(r.constant for r in poly.values()) and all(
            a.kind == "raw" for m in poly for a, _ in m)

    def raw(self, op: str, polys: Sequence[Poly]) -> Poly:
        """A function of elements alone, as an atom of its own."""
        columns = [self.values(p) for p in polys]
        made = tuple(
            tuple(mp.mpf(apply(op, v)) for v in zip(*(c[i] for c in columns), strict=True))
            for i in range(len(self.samples))
        )
        if any(is_nan(v) for values in made for v in values):
            raise Stuck(f"{op} is undefined on a sample")
        return {((self.atom((op, *map(key_of, polys)), "raw", made), 1),): self.one}

    def _single(self, poly: Poly) -> tuple[Row, Poly] | None:
        """(c, atoms) if the form is one product c·Π atoms."""
        if len(poly) != 1:
            return None
        ((monomial, factor),) = poly.items()
        return factor, {monomial: self.one}

    # ---- operations ----

    def _function(self, op: str, polys: list[Poly]) -> Poly:
        if all(set(p) <= {()} for p in polys):
            rows = [p.get((), self.number(0)) for p in polys]
            return cleaned({(): rows[0].with_(op, *rows[1:])})
        if all(self.is_raw(p) for p in polys):
            return self.raw(op, polys)
        (poly,) = polys
        if op == "exp":
            return self._exp(poly)
        if op == "abs":
            return self._abs(poly)
        if op in ("sin", "cos"):
            return self._turned(op, poly)
        if op == "log":
            return self._log(poly)
        if op in ("sqrt", "sign"):
            return self._homogeneous(op, poly)
        raise Stuck(op)

    def _exp(self, poly: Poly) -> Poly:
        split = self.affine(poly)
        if split is not None and split[0].constant:
            factor, inner, pivot = split
            rate = factor.values[0]
            if pivot.needs <= self.known_on_pieces:
                return self._exp_of(rate, inner, pivot)
            exponent = pivot.with_("mul", self.number(-rate))
            self.exponents.append(exponent)
            row = exponent.with_("exp")
            return self.product(self.raw("exp", [self.scaled(inner, rate)]), {(): row})
        total: Poly = {(): self.one}
        for monomial, row in poly.items():
            if monomial == ():
                self.exponents.append(row)
                part: Poly = {(): row.with_("exp")}
            elif row.constant and len(monomial) == 1 and monomial[0][0].kind == "dev" \
                    and monomial[0][1] == 1:
                dev, rate = monomial[0][0], row.values[0]
                values = tuple(tuple(apply("exp", [rate * v]) for v in vs) for vs in dev.values)
                made = self.atom(("exp", rate, dev.key), "exp", values, rate=rate, pivot=dev.pivot)
                part = {((made, 1),): self.one}
            elif row.constant and all(a.kind == "raw" for a, _ in monomial):
                part = self.raw("exp", [{monomial: row}])
            else:
                raise Stuck("exp of a product of a row value and an element")
            total = self.product(total, part)
        return total

    def _exp_of(self, rate: Any, inner: Poly, pivot: Row) -> Poly:
        shifted = self.scaled({**inner, (): pivot.with_("neg")}, rate)
        values = tuple(tuple(apply("exp", [v]) for v in vs) for vs in self.values(shifted))
        key = ("exp", rate, ("dev", key_of(inner), vector(pivot)))
        return {((self.atom(key, "exp", values, rate=rate, pivot=pivot), 1),): self.one}

    def _abs(self, poly: Poly) -> Poly:
        below, _, above = self.sign(poly)
        if not below or not above:
            return poly if not below else self.scaled(poly, -1)
        return self._homogeneous("abs", poly)

    def _homogeneous(self, op: str, poly: Poly) -> Poly:
        """|c·A| = |c|·|A|, √(c·A) = √c·√A, for A of elements alone."""
        single = self._single(poly)
        if single is None or not self.is_raw(single[1]):
            raise self._kink(op, poly) if op == "abs" else Stuck(op)
        row = single[0].with_(op)
        if any(is_nan(v) for v in row.values):
            raise Stuck(op)
        return self.product({(): row}, self.raw(op, [single[1]]))

    def _turned(self, op: str, poly: Poly) -> Poly:
        """sin(E + r) and cos(E + r) by the addition theorems."""
        row = poly.get((), self.number(0))
        inner = {m: r for m, r in poly.items() if m != ()}
        if not self.is_raw(inner):
            raise Stuck(op)
        sin, cos = (self.raw(f, [inner]) for f in ("sin", "cos"))
        first, second = (sin, cos) if op == "sin" else (cos, sin)
        turn: Poly = {(): row.with_("sin")}
        return cleaned(plus(self.product(first, {(): row.with_("cos")}),
                           self.scaled(self.product(second, turn), 1 if op == "sin" else -1)))

    def _log(self, poly: Poly) -> Poly:
        single = self._single(poly)
        if single is None or any(v <= 0 for v in single[0].values):
            raise Stuck("log")
        total: Poly = {(): single[0].with_("log")}
        for atom, power in next(iter(single[1])):
            if atom.kind == "exp":
                dev = self.atoms.get(atom.key[2]) or self._deviation(atom)
                part: Poly = {((dev, 1),): self.number(atom.rate)}
            elif atom.kind == "raw":
                part = self.raw("log", [{((atom, 1),): self.one}])
            else:
                raise Stuck("log of a deviation")
            total = plus(total, self.scaled(part, power))
        return cleaned(total)

    def _deviation(self, exponential: Atom) -> Atom:
        values = tuple(tuple(mp.log(v) / exponential.rate for v in vs) for vs in exponential.values)
        return self.atom(exponential.key[2], "dev", values, pivot=exponential.pivot)

    def _inverse(self, poly: Poly) -> Poly:
        if set(poly) == {()}:
            return {(): self.one.with_("div", poly[()])}
        single = self._single(poly)
        if single is None and self.is_raw(poly):
            return self.raw("div", [{(): self.one}, poly])
        if single is None or not self.is_raw(single[1]):
            raise Stuck("division by a deviation")
        return self.product({(): self.one.with_("div", single[0])},
                            self.raw("div", [{(): self.one}, single[1]]))

    def _power(self, poly: Poly, power: Poly | None) -> Poly:
        exponent = self.number(2) if power is None else power.get((), self.number(0))
        if not exponent.constant or (power is not None and set(power) - {()}):
            raise Stuck("pow")
        n = exponent.values[0]
        if n != int(n) or not 0 <= n <= 8:
            if self.is_raw(poly):
                return self.raw("pow", [poly, {(): exponent}])
            raise Stuck("pow")
        total: Poly = {(): self.one}
        for _ in range(int(n)):
            total = self.product(total, poly)
        return total

    def _greater(self, op: str, a: Poly, b: Poly) -> Poly:
        below, _, above = self.sign(plus(a, self.scaled(b, -1)))
        if not below or not above:
            return a if below is not (op == "maximum") else b
        if self.is_raw(a) and self.is_raw(b):
            return self.raw(op, [a, b])
        single = self._single(a)
        if set(cleaned(b)) or single is None or not self.is_raw(single[1]):
            raise self._kink(op, plus(a, self.scaled(b, -1)))
        return self._by_sign_of_row(single, lambda inner: self.raw(op, [inner, {}]))

    def _kink(self, op: str, surface: Poly) -> Stuck:
        """Both signs were seen. E = p with a moving p is a moving kink; else nothing is known."""
        split = self.affine(cleaned(surface))
        moves = split is not None and not split[2].constant
        return MovingKink(op) if moves else Stuck(op)

    def _by_sign_of_row(
        self, single: tuple[Row, Poly], made: Callable[[Poly], Poly]
    ) -> Poly:
        """max(c·A, 0) = max(c, 0)·max(A, 0) + max(−c, 0)·max(−A, 0)."""
        row, inner = single
        zero = self.number(0)
        up: Poly = {(): row.with_("maximum", zero)}
        down: Poly = {(): row.with_("neg").with_("maximum", zero)}
        return cleaned(plus(self.product(up, made(inner)),
                           self.product(down, made(self.scaled(inner, -1)))))

    def _relation(self, op: str, a: Poly, b: Poly) -> Poly:
        """1 where it holds, else 0."""
        difference = cleaned(plus(a, self.scaled(b, -1)))
        seen = self.sign(difference)
        holds = {"gt": (False, False, True), "lt": (True, False, False), "ge": (False, True, True),
                 "le": (True, True, False), "eq": (False, True, False),
                 "ne": (True, False, True)}[op]
        if op in ("eq", "ne") and not seen[1] and not self.is_raw(difference):
            raise self._kink(op, difference)  # not seen is not never
        met = {h for h, s in zip(holds, seen, strict=True) if s}
        if len(met) == 1:
            return cleaned({(): self.number(1 if met.pop() else 0)})
        if self.is_raw(difference):
            return self.raw(op, [difference, {}])
        single = self._single(difference)
        if single is not None and self.is_raw(single[1]) and all(v > 0 for v in single[0].values):
            return self.raw(op, [single[1], {}])
        if (seen[0] and seen[2]) or self.affine(difference) is None:
            raise self._kink(op, difference)
        tie = self._tie(difference)
        closed = holds[1]  # the row value bounds the element: only the tie is left open
        return tie if closed else cleaned(plus({(): self.one}, self.scaled(tie, -1)))

    def _tie(self, difference: Poly) -> Poly:
        split = self.affine(difference)
        assert split is not None
        _, inner, pivot = split
        if not pivot.needs <= self.known_on_pieces:
            raise Stuck("a tie with a value that pieces do not know")
        values = tuple(tuple(mp.mpf(1 if abs(v) <= CLOSE else 0) for v in vs)
                       for vs in self.values(difference))
        return {((self.atom(("tie", key_of(inner), vector(pivot)), "tie", values), 1),): self.one}

    def _where(self, condition: g.Node, a: g.Node, b: g.Node) -> Poly:
        holds = self.poly(condition)
        if self.is_raw(holds) and set(holds) <= {()}:
            return self.poly(a if holds else b)
        return cleaned(plus(self.product(holds, self.poly(a)), self.product(
            plus({(): self.one}, self.scaled(holds, -1)), self.poly(b))))
