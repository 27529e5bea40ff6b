"""Powers and products of deviations about the means of their own elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import comb

from fusegen.algebra.facts.pivots import Pivots, is_mean_of
from fusegen.ir import graph as g
from fusegen.ir.shared import lazy
from fusegen.rewrite.build import call_it, fold, length
from fusegen.rewrite.repair.exponential import (
    OwnExponent,
    corrected,
    is_about_its_extreme,
    is_never_positive,
    own_exponent,
)
from fusegen.rewrite.repair.product import Deviation, magnitude, multiplied
from fusegen.rewrite.repair.sums import MAX_POWER, Part, Repaired, Sum, name_pivot

MAX_PARTS = 6


def moments(own: Sum) -> Repaired | None:
    """Σ w·(x − P)ᵏ, or of a product of such deviations; w may hold exponentials."""
    deviations = own.term.deviations
    if max(d.power for d in deviations) > MAX_POWER:
        return None
    if own.term.exponentials and own.term.has_plain_exponent and own.selected is None:
        e = own_exponent(own)  # w·x may leave the range where w·(x − P)ᵏ does not
        if e is not None:
            return _Moments(own, (e.relative,), e).made()
    if own.term.has_plain_exponent or is_about_its_extreme(own):
        return _Moments(own, tuple(own.term.exponentials), None).made()
    # A deviation that is 0 at the greatest exponential leaves what may be far below it.
    e = own_exponent(own) if is_never_positive(own) or _is_of_the_exponent(own) else None
    return None if e is None else _Moments(own, (e.relative,), e).made()


def is_dominated(d: Deviation) -> bool:
    """Is it a difference from an extreme of its element?"""
    return _holds(d, lambda x, p: Pivots().dominates(x, p) != 0)


def _holds(d: Deviation, fact: Callable[[g.Node, g.Node], bool]) -> bool:
    match d.node:
        case g.Map(op="sub", args=(x, p)):
            return fact(x, p)
        case _:
            return False


def _is_of_the_exponent(own: Sum) -> bool:
    """Is the term uᵏ·exp(u)?"""
    (u, *rest) = {n.args[0] for n in own.term.exponentials if isinstance(n, g.Map)}
    return not rest and all(d.node is u for d in own.term.deviations)


@dataclass(frozen=True, slots=True)
class _Mean:
    """A mean; Σ |w|·x and Σ |w| where the weights may all be 0."""

    value: g.Node
    part: g.Node | None = None
    whole: g.Node | None = None


@dataclass(frozen=True)
class _Moments:
    own: Sum
    exponentials: tuple[g.Node, ...]  # what is summed of them
    exponent: OwnExponent | None  # they are about a pivot of their own

    def made(self) -> Repaired | None:
        own, deviations = self.own, self.own.term.deviations
        added: list[Part] = []
        means = {d: self.mean(d.element) for d in deviations if d not in self.kept}
        if len(deviations) == 1 and means:
            (pivot,) = means.values()
            value = self.horner(deviations[0], pivot.value)
        else:
            added = self.product(means)
            if len(added) > MAX_PARTS:
                return None
            value = self.added_up(added)
        pivots = list(dict.fromkeys(mean.value for mean in means.values()))
        if self.exponent is not None:
            value = own.op("mul", own.op("mul", self.exponent.root, value), self.exponent.root)
            pivots.append(self.exponent.pivot)
        plain = own.read(value)
        whole = next((mean.whole for mean in means.values() if mean.whole is not None), None)
        if whole is not None:  # no weight, no mean
            nothing = own.op("eq", whole, own.number(0.0))
            value = own.op("where", nothing, self.weightless(means), value)
        if self.exponent is not None:
            value = corrected(own, value, self.exponent)
        parts = tuple((self.scaled(c), s) for c, s in added)
        return Repaired(own.read_out(self.guarded(value)), plain, tuple(pivots), parts)

    # ---- one deviation ----

    def horner(self, deviation: Deviation, mean: g.Node) -> g.Node:
        """Σⱼ C(k,j)·(μ − P)ᵏ⁻ʲ·Mⱼ."""
        own, k = self.own, deviation.power
        off, d = own.op("sub", deviation.element, mean), deviation.off(mean)
        value = self.moment({})
        for j in range(1, k + 1):
            term = self.moment({off: j})
            term = term if comb(k, j) == 1 else own.op("mul", own.number(float(comb(k, j))), term)
            value = own.op("add", own.op("mul", value, d), term)
        by = deviation.by**k
        return value if by == 1 else own.op("mul", value, own.number(float(by)))

    # ---- several ----

    @lazy
    def kept(self) -> list[Deviation]:
        """Factors that are sound as the text has them, if others, or the exponent, are not."""
        deviations = self.own.term.deviations
        sound = [d for d in deviations if self.is_sound(d)]
        return sound if len(sound) < len(deviations) or self.exponent is not None else []

    def product(self, means: Mapping[Deviation, _Mean]) -> list[Part]:
        """What is added up: factors that are sound as the text has them stay."""
        own = self.own
        added: dict[g.Node, list[g.Node]] = {}
        for powers in itertools.product(*(range(d.power + 1) for d in means)):
            factors: list[g.Node] = []
            monomial = {d.node: d.power for d in self.kept}
            for (d, mean), j in zip(means.items(), powers, strict=True):
                factors += self.binomial(d, mean.value, j)
                off = own.op("sub", d.element, mean.value)
                monomial[off] = monomial.get(off, 0) + j
            one = own.number(1.0)
            added.setdefault(self.moment(monomial), []).append(
                multiplied(factors, own.loc) or one)
        return [(c, s) for s, factors in added.items() for c in factors]

    def binomial(self, d: Deviation, mean: g.Node, j: int) -> Iterator[g.Node]:
        """C(k,j)·(μ − P)ᵏ⁻ʲ, factor by factor."""
        constant = comb(d.power, j) * d.by**d.power
        if constant != 1:
            yield self.own.number(float(constant))
        if j < d.power:
            off = d.off(mean)
            yield off if d.power - j == 1 else self.own.op(
                "pow", off, self.own.number(d.power - j))

    def is_sound(self, d: Deviation) -> bool:
        """Is the text's own row value an extreme of the element, or with no weights its mean?"""
        t = self.own.term
        weighed = t.weights or t.masks or self.exponentials
        return is_dominated(d) or (not weighed and _holds(d, is_mean_of))

    def added_up(self, parts: list[Part]) -> g.Node:
        return self.total(
            s if isinstance(c, g.Literal) and c.value == 1 else self.own.op("mul", c, s)
            for c, s in parts)

    # ---- sums ----

    def moment(self, powers: dict[g.Node, int]) -> g.Node:
        """Σ w·Π offᵏ."""
        own, t = self.own, self.own.term
        factors = [off if k == 1 else own.op("pow", off, own.number(k))
                   for off, k in powers.items() if k]
        if not (factors or self.exponentials or t.weights or t.masks):
            return own.number(1.0) if own.total.fold is g.Fold.MEAN else length(own.loc)
        if self.exponent is not None:
            return own.sum_where_selected(*self.exponentials, *factors)
        return own.sum_of(*self.exponentials, *factors)

    def mean(self, x: g.Node) -> _Mean:
        """The mean of x under the magnitudes of the term's own weights."""
        mean = self._mean(x)
        name_pivot(mean.value, x, "mean")
        return mean

    def _mean(self, x: g.Node) -> _Mean:
        own, t = self.own, self.own.term
        weights = [*(magnitude(w, own.loc) for w in t.weights), *self.exponentials]
        if not weights and not t.masks:
            return _Mean(fold(g.Fold.MEAN, x, own.loc))
        w = multiplied(weights, own.loc) or own.number(1.0)
        if self.exponent is not None or not t.has_plain_exponent:
            # A weight that moves itself: Σ of it is no base monoid.
            w = self.selected(w)
            share = own.op("div", w, fold(g.Fold.SUM, w, own.loc))
            return _Mean(fold(g.Fold.SUM, own.op("mul", share, x), own.loc))
        part = fold(g.Fold.SUM, own.masked(multiplied([*weights, x], own.loc) or x), own.loc)
        whole = fold(g.Fold.SUM, own.masked(w), own.loc)
        return _Mean(own.op("div", part, whole), part, whole)

    def selected(self, w: g.Node) -> g.Node:
        own = self.own
        if self.exponent is None or own.selected is None:
            return own.masked(w)
        return own.op("where", own.selected, w, own.number(0.0))

    # ---- guards ----

    def weightless(self, means: Mapping[Deviation, _Mean]) -> g.Node:
        """The sum where no element has weight: 0, but NaN as the text's 0·x and 0·P are where the
        mask chooses any."""
        own, t, zero = self.own, self.own.term, self.own.number(0.0)
        parts = [mean.part for mean in means.values() if mean.part is not None]
        if not (t.weights or t.exponentials):
            return parts[0]
        rows = dict.fromkeys(d.row for d in t.deviations)
        beside = self.total(own.op("mul", p, zero) for p in rows)
        if t.masks:
            one = own.masked(own.number(1.0))
            some = call_it(fold(g.Fold.MAX, one, own.loc), "chosen")
            beside = own.op("where", own.op("gt", some, zero), beside, zero)
        return self.total((*parts, beside))

    def total(self, terms: Iterable[g.Node]) -> g.Node:
        return reduce(lambda a, b: self.own.op("add", a, b), terms)

    def guarded(self, value: g.Node) -> g.Node:
        """The value; of an infinite exponent 0 where the exponential is 0, beside numbers."""
        own, e = self.own, self.exponent
        if e is None:
            return value
        infinite = own.op("or", own.op("isinf", e.pivot), e.infinite)
        beyond = own.op("mul", e.root, own.number(0.0))
        for row in dict.fromkeys(d.row for d in own.term.deviations):
            beyond = own.op("mul", beyond, row)
        return own.guarded(own.op("where", infinite, beyond, value))

    def scaled(self, c: g.Node) -> g.Node:
        """The factor of a part with all that the read-out multiplies it by."""
        own, e = self.own, self.exponent
        if e is not None:
            c = own.op("mul", own.op("mul", e.root, c), e.root)
        return own.read(c)
