"""A pivot of the term's own elements, with the text's row value P in the read-out.

  exponential  Σ w·exp(x − P) = exp(m − P) · Σ w·exp(x − m),           m = max x where w ≠ 0
  scale        Σ w·(x / P)ᵏ   = (a / P)ᵏ · Σ w·(x / a)ᵏ,               a = max |x| where w ≠ 0
  moments      Σ w·(x − P)ᵏ   = Σⱼ C(k,j)·(μ − P)ᵏ⁻ʲ · Σ w·(x − μ)ʲ,   μ = Σ |w|·x / Σ |w|
  quotient     Σ (w / P)      = (Σ w) / P,  and products alike

docs/proofs.md says why each is as accurate as the text; sympy proves each equal to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb

from fusegen import graph as g
from fusegen.algebra.symbols import is_nonnegative, is_positive
from fusegen.loc import Loc
from fusegen.repair.product import Product, both, magnitude, moves, multiplied, taken_apart
from fusegen.rewrite.build import at_element, call_it, fold, length, literal, name_of, op
from fusegen.rewrite.exponent import Exponent, gathered, linear, parts, scaled, spelled

NOTHING = 3.4028234663852886e38
"""A maximum over nothing is below every float32, and a number: no sum about it is NaN."""
LEAST = 1.1754943508222875e-38
"""A scale of nothing is no more than what float32 rounds to 0, and can be divided by."""
MAX_POWER = 6


@dataclass(frozen=True, slots=True)
class Repaired:
    """The row value in place of a sum. `plain` is the same without guards, for the proof: guards
    act only where a pivot is infinite, a scale is 0, or nothing is selected."""

    value: g.Node
    plain: g.Node
    pivot: g.Node | None


def repaired(total: g.Reduce) -> Repaired | None:
    """The sum about a pivot of its own elements, if its term has the shape."""
    known = frozenset(g.topological((total,)))
    term = taken_apart(total.arg)
    own = _Sum(total, term, known)
    if len(term.deviations) + len(term.quotients) > 1:
        return None
    if term.deviations:
        return own.moments()
    if not own.is_plain:
        return None
    if term.quotients:
        return own.scale() if term.has_plain_exponent else None
    if any(moves(n) for n in term.exponent):
        return own.exponential()
    return own.quotient() if any(moves(n) for n in (*term.over, *term.under)) else None


@dataclass(frozen=True)
class _Sum:
    """Σ or the mean of a product."""

    total: g.Reduce
    term: Product
    known: frozenset[g.Node]  # what the text computes

    @property
    def loc(self) -> Loc:
        return self.total.loc

    def op(self, name: str, *args: g.Node) -> g.Node:
        return op(name, self.loc, *args)

    def number(self, value: float | int) -> g.Node:
        return literal(value, self.loc)

    @property
    def is_plain(self) -> bool:
        """Are weights and masks known without any row value that is still to come?"""
        return not any(g.reductions_of(n) for n in (*self.term.weights, *self.term.masks))

    # ---- sums of the term's own elements ----

    @property
    def selected(self) -> g.Node | None:
        """Where the term is not 0 for its weight or mask; None: everywhere."""
        t = self.term
        nonzero = [self.op("ne", w, self.number(0.0)) for w in t.weights if not is_positive(w)]
        return both([*t.masks, *nonzero], self.loc)

    @property
    def where(self) -> str:
        """For the name of what is taken over selected elements alone."""
        return "" if self.selected is None else "_selected"

    def masked(self, value: g.Node) -> g.Node:
        """The value, and 0 where the text's own masks say so."""
        mask = both(self.term.masks, self.loc)
        return value if mask is None else self.op("where", mask, value, self.number(0.0))

    def chosen(self, value: g.Node, nothing: float) -> g.Node:
        """The value where the term counts, elsewhere what no maximum takes."""
        found = self.selected
        return value if found is None else \
            self.op("where", found, value, self.number(nothing))

    def sum_of(self, *factors: g.Node) -> g.Node:
        """Σ of the factors with the term's weights, folded as the text folds."""
        product = multiplied((*self.term.weights, *factors), self.loc) or self.number(1.0)
        return fold(self.total.fold, self.masked(product), self.loc)

    def sum_where_selected(self, *factors: g.Node) -> g.Node:
        """The same where a factor may be infinite beside a weight of 0."""
        product = multiplied((*self.term.weights, *factors), self.loc) or self.number(1.0)
        found = self.selected
        if found is not None:
            product = self.op("where", found, product, self.number(0.0))
        return fold(self.total.fold, product, self.loc)

    def read(self, value: g.Node) -> g.Node:
        """The value with the text's factors that do not vary over the row."""
        t = self.term
        for factor in t.over:
            value = self.op("mul", value, factor)
        for factor in t.under:
            value = self.op("div", value, factor)
        return self.op("neg", value) if t.negative else value

    def guarded(self, value: g.Node) -> g.Node:
        """The value, and 0 where nothing is selected."""
        found = self.selected
        if found is None:
            return value
        one, zero = self.number(1.0), self.number(0.0)
        some = fold(g.Fold.MAX, self.op("where", found, one, zero), self.loc)
        return self.op("where", self.op("gt", call_it(some, "selected"), zero), value, zero)

    # ---- repairs ----

    def exponential(self) -> Repaired | None:
        varying, rows = parts(self.term.exponent)
        if not varying or any(g.reductions_of(n) for n in varying):
            return None
        x, c = self._exponent_element(varying)
        if x not in self.known:  # a sum of elements that the text does not form may cancel
            return None
        greatest, nothing = (g.Fold.MAX, -NOTHING) if c > 0 else (g.Fold.MIN, NOTHING)
        m = fold(greatest, self.chosen(x, nothing), self.loc)
        _name(m, x, f"{greatest.value}{self.where}")
        rest = self.sum_where_selected(self.op("exp", spelled({x: c, m: -c}, self.loc)))
        # The text's own term at m, difference by difference: beside a great m and P, which it may
        # never add up, they are small. An exponent that holds more elements has no such term.
        off = self._exponent_at(x, m)
        if g.extent(off) is not g.Extent.ROW:
            return None
        # Twice the root: exp(m − P) alone may be subnormal, or infinite, where the result is not.
        p = spelled(scaled(rows, -1), self.loc)
        scale = self.op("exp", self.op("mul", off, self.number(0.5)))
        plain = self.op("mul", self.op("mul", scale, rest), scale)
        infinite = scale if not self.term.weights else self.op("zero_wins", scale, rest)
        value = self.op("where", self.op("isinf", m), infinite, self._corrected(plain, off))
        # Of an infinite P exp(x − P) is 0; or infinite, NaN where x is so too: NaN stands for both.
        beyond = self.op("mul", scale, self.number(0.0))
        value = self.op("where", self.op("isinf", p), beyond, value)
        return Repaired(self.read(self.guarded(value)), self.read(plain), m)

    def _exponent_element(self, varying: Exponent) -> tuple[g.Node, Fraction]:
        """What varies in the exponent as a multiple of one node: where the text forms it, and
        rounds it, that very node; else the rounding of c·m would be that of every term."""
        for node in g.topological(tuple(self.term.exponentials)):
            element = g.extent(node) is g.Extent.ELEMENT and not g.reductions_of(node)
            if element and node in self.known and linear(node) == varying:
                return node, Fraction(1)
        ((x, c),) = gathered(varying, self.loc).items()
        return x, c

    def _corrected(self, value: g.Node, off: g.Node) -> g.Node:
        """The value times exp of what the exponent of its scale has lost in rounding. In the text
        every term rounds its own exponent, and the sum averages; here all share one."""
        lost = self._lost(off)
        if lost is None:
            return value
        some = self.op("lt", self.op("abs", lost), self.number(1.0))  # not beside an infinity
        lost = self.op("where", some, lost, self.number(0.0))
        return self.op("mul", value, self.op("add", self.number(1.0), lost))

    def _lost(self, off: g.Node) -> g.Node | None:
        """What the differences in an exponent at m are off by: the two-sum of Møller and Knuth.
        None where nothing is lost, or not by differences."""
        if off in self.known or not isinstance(off, g.Map):
            return None
        match off.op, off.args:
            case ("mul" | "div") as name, (a, g.Literal() as c):
                lost = self._lost(a)
                return None if lost is None else self.op(name, lost, c)
            case ("add" | "sub") as name, (a, b):
                part = self.op("sub", off, a)  # what has come of ±b
                rest = self.op("sub" if name == "add" else "add", b, part)
                lost = self.op(name, self.op("sub", a, self.op("sub", off, part)), rest)
                for inner, sign in ((self._lost(a), "add"), (self._lost(b), name)):
                    lost = lost if inner is None else self.op(sign, lost, inner)
                return lost
            case _:
                return None

    def _exponent_at(self, x: g.Node, m: g.Node) -> g.Node:
        """What the text takes exp of, where x is m."""
        found: g.Node | None = None
        for node in self.term.exponentials:
            assert isinstance(node, g.Map)
            one = at_element(node.args[0], x, m)
            found = one if found is None else self.op("add", found, one)
        assert found is not None
        return found

    def scale(self) -> Repaired | None:
        (quotient,) = self.term.quotients
        x, p, k = quotient.element, quotient.row, quotient.power
        size = x if is_nonnegative(x) else self.op("abs", x)
        a = fold(g.Fold.MAX, self.chosen(size, LEAST), self.loc)
        _name(a, x, f"scale{self.where}")
        power = self.number(int(k) if k == int(k) else k)
        own = self.op("pow", self.op("div", x, a), power)
        rest = self.sum_where_selected(own, *self.term.exponentials)
        ratio = self.op("div", a, p)
        scale = self.op("pow", ratio, power)
        plain = self.op("mul", rest, scale)
        if k == int(k) and k <= MAX_POWER:  # (a / P)ᵏ alone may leave the range
            plain = rest
            for _ in range(int(k)):
                plain = self.op("mul", plain, ratio)
        alone = self.op("eq", a, self.number(0.0))
        if not self.term.weights and not self.term.exponentials and (k % 2 == 0 or size is x):
            alone = self.op("or", alone, self.op("isinf", a))
        value = self.op("where", alone, scale, plain)
        return Repaired(self.read(self.guarded(value)), self.read(plain), a)

    def moments(self) -> Repaired | None:
        (deviation,) = self.term.deviations
        x, p, k = deviation.element, deviation.row, deviation.power
        if k > MAX_POWER or self.term.quotients or not self.is_plain:
            return None
        mean, weighed = self._own_mean(x)
        _name(mean, x, "mean")
        off = self.op("sub", x, mean)
        weights = self.term.exponentials

        def moment(j: int) -> g.Node:
            if j == 0 and not (weights or self.term.weights or self.term.masks):
                return self.number(1.0) if self.total.fold is g.Fold.MEAN else length(self.loc)
            power = [] if j == 0 else [off] if j == 1 else [self.op("pow", off, self.number(j))]
            return self.sum_of(*weights, *power)

        d = self.op("sub", mean, p)
        value = moment(0)
        for j in range(1, k + 1):
            term = moment(j)
            term = term if comb(k, j) == 1 else self.op("mul", self.number(float(comb(k, j))), term)
            value = self.op("add", self.op("mul", value, d), term)
        plain = self.read(value)
        if weighed is not None:  # no weight, no mean
            nothing = self.op("eq", weighed[1], self.number(0.0))
            value = self.op("where", nothing, self._weightless(weighed[0], p), value)
        return Repaired(self.read(value), plain, mean)

    def _own_mean(self, x: g.Node) -> tuple[g.Node, tuple[g.Node, g.Node] | None]:
        """The mean of x under the magnitudes of the term's own weights; Σ |w|·x and Σ |w| where
        the weights may all be 0."""
        t = self.term
        weights = [*(magnitude(w, self.loc) for w in t.weights), *t.exponentials]
        if not weights and not t.masks:
            return fold(g.Fold.MEAN, x, self.loc), None
        w = self.masked(multiplied(weights, self.loc) or self.number(1.0))
        whole = fold(g.Fold.SUM, w, self.loc)
        if not t.has_plain_exponent:  # a weight that moves itself: Σ of it is no base monoid
            share = self.op("div", w, whole)
            return fold(g.Fold.SUM, self.op("mul", share, x), self.loc), None
        part = fold(g.Fold.SUM, self.masked(multiplied([*weights, x], self.loc) or x), self.loc)
        return self.op("div", part, whole), (part, whole)

    def _weightless(self, part: g.Node, p: g.Node) -> g.Node:
        """The sum where no element has weight: 0, but NaN as the text's 0·x and 0·P are where the
        mask chooses any."""
        if not (self.term.weights or self.term.exponentials):
            return part
        beside = self.op("mul", p, self.number(0.0))
        if self.term.masks:
            one, zero = self.masked(self.number(1.0)), self.number(0.0)
            some = call_it(fold(g.Fold.MAX, one, self.loc), "chosen")
            beside = self.op("where", self.op("gt", some, zero), beside, zero)
        return self.op("add", part, beside)

    def quotient(self) -> Repaired | None:
        value = self.read(self.sum_of(*self.term.exponentials))
        return Repaired(value, value, None)


def _name(pivot: g.Node, element: g.Node, what: str) -> None:
    """A pivot that the user's text does not have is named after its element."""
    name = name_of(element)
    call_it(pivot, f"{name}_{what}" if name else f"own_{what}")
