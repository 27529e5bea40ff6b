"""From terms back to the graph: the text an expert would write for an adjoint.

The forward text's own values are used wherever a product contains one (y for e/d), common factors
are taken out, row values are multiplied among themselves first, and row sums hold elements only.
Choices stand outermost: where(c, everything, 0) keeps an infinity or NaN of the path that was not
taken out of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from fusegen.ir import graph as g
from fusegen.lang import lang as fg
from fusegen.lang.lines import here
from fusegen.lang.value import Value, builder
from fusegen.rewrite.adjoint import terms as tm
from fusegen.rewrite.adjoint.terms import ONE, Product, Terms
from fusegen.rewrite.adjoint.vanishing import nothing_outside, unless_nothing


@dataclass
class Writer:
    """Writes terms into the graph under construction, in the words of the forward graph."""

    words: dict[g.Node, list[tuple[Product, g.Node]]] = field(default_factory=dict)  # by a factor
    known: set[g.Node] = field(default_factory=set)

    def learn(self, nodes: Iterable[g.Node]) -> None:
        """Products of the forward text that later text may name, largest first."""
        for node in nodes:
            self.known.add(node)
            if isinstance(node, g.Map) and node.op in ("mul", "div", "pow"):
                coefficient, product = tm.factors(node)
                if coefficient == 1 and tm.size(product) > 1:
                    last = self._ranked(product)[-1][0]
                    self.words.setdefault(last, []).append((product, node))

    # ---- terms to nodes ----

    def write(self, terms: Terms) -> g.Node:
        """The sum of the terms as one node; 0 for none."""
        parts = [(self._prepared(p), c) for p, c in terms.items()]
        if not parts:
            return builder().add(g.Literal(0.0, here())).node
        if len(parts) == 1:
            ((product, coefficient),) = parts
            return self._product(self._named(product), coefficient)
        shared = tm.common(p for p, _ in parts)
        sizes = {abs(c) for _, c in parts}
        scale = sizes.pop() if len(sizes) == 1 else Fraction(1)
        inner = self._sum([(self._named(tm.without(p, shared)), c / scale) for p, c in parts])
        return self._product(tm.times(self._named(shared), frozenset({(inner, 1)})), scale)

    def _prepared(self, product: Product) -> Product:
        """Means and guarded logarithms as factors of their own."""
        product = self._with_means(product)
        if any(_is_element_log(n) for n, _ in product):
            return self._guarded(self._named(product))
        return product

    def _sum(self, parts: list[tuple[Product, Fraction]]) -> g.Node:
        plus = [self._product(p, c) for p, c in parts if c > 0]
        minus = [self._product(p, -c) for p, c in parts if c < 0]
        if not plus:
            return (-Value(self._chain(minus))).node
        total = Value(self._chain(plus))
        for node in minus:
            total = total - Value(node)
        return total.node

    def _chain(self, nodes: list[g.Node]) -> g.Node:
        total = Value(nodes[0])
        for node in nodes[1:]:
            total = total + Value(node)
        return total.node

    def _product(self, product: Product, coefficient: Fraction) -> g.Node:
        choices = [n for n, _ in self._ranked(product) if tm.is_choice(n)]
        factors = frozenset(f for f in product if f[0] not in choices)
        if not factors and coefficient == 1 and choices:
            found = Value(choices.pop(0))
        else:
            found = Value(self._ratio(factors, coefficient))
        for node in choices:
            condition, first, second = (Value(a) for a in g.operands(node))
            chosen = (found, second) if tm.is_number(first.node, 1.0) else (first, found)
            found = fg.where(condition, *chosen)
        return found.node

    def _ratio(self, factors: Product, coefficient: Fraction) -> g.Node:
        elements, rows = tm.split(factors)
        row = self._fraction(rows, coefficient) if rows or coefficient != 1 else None
        if not elements:
            return row if row is not None else builder().add(g.Literal(1.0, here())).node
        if row is None:
            return self._fraction(elements, Fraction(1))
        above = frozenset(f for f in elements if f[1] > 0)
        if not above:
            below = self._fraction(tm.power(elements, -1), Fraction(1))
            return (Value(row) / Value(below)).node
        if not rows and coefficient == -1:
            return (-Value(self._fraction(elements, Fraction(1)))).node
        return (Value(self._fraction(elements, Fraction(1))) * Value(row)).node

    def _fraction(self, product: Product, coefficient: Fraction) -> g.Node:
        """Factors of one extent, numerator over denominator; numbers before vectors."""
        vectors, numbers = tm.split_vectors(product)
        if vectors and (numbers or coefficient != 1):
            number = Value(self._fraction(numbers, coefficient))
            return (number * Value(self._fraction(vectors, Fraction(1)))).node
        above = [Value(n) for n, e in self._ranked(product) for _ in range(e)]
        below = [Value(n) for n, e in self._ranked(product) for _ in range(-e)]
        size = abs(coefficient)
        if size != 1 or not above:
            above.insert(0, builder().add(g.Literal(_number(size, whole=bool(above)), here())))
        over = _multiplied(above)
        if coefficient < 0:
            over = -over
        return (over / _multiplied(below) if below else over).node

    # ---- row sums ----

    def row_sum(self, terms: Terms) -> Terms:
        """Σ over the row: row factors leave the sum, known sums are not summed."""
        total: Terms = {}
        weights: dict[tuple[Product, Product], Terms] = {}  # by vectors of columns, and of the row
        for product, coefficient in terms.items():
            elements, rows = tm.split(self._within(self._named(product)))
            vectors, numbers = tm.split_vectors(elements)
            if vectors and not any(tm.column_of(n) for n, _ in numbers):
                beside, row_numbers = tm.split_vectors(rows)
                own = weights.get((vectors, beside), {})
                one = {tm.times(numbers, row_numbers): coefficient}
                weights[vectors, beside] = tm.plus(own, one)
                continue
            summed = self._total(elements)
            rows = unless_nothing(rows, elements, summed)
            total = tm.plus(total, tm.scaled(summed, coefficient, tm.apart(rows)))
        for (vectors, beside), weight in weights.items():
            total = tm.plus(total, tm.scaled(self._weighted(vectors, weight), Fraction(1), beside))
        return total

    def _within(self, product: Product) -> Product:
        """The product with choices of all that is not 0, unless the text has its sum at hand."""
        chosen = tm.times(product, nothing_outside(product))
        elements, _ = tm.split(product)
        if chosen == product or any(g.is_vector(n) for n, _ in elements):
            return chosen
        inner = self._product(elements, Fraction(1))
        total = builder().add(g.Reduce(g.Fold.SUM, inner, here())).node
        return product if total in self.known else chosen

    def _weighted(self, vectors: Product, weight: Terms) -> Terms:
        """Σ weight · vector: one sum, however many terms its weight has."""
        if not weight:
            return {}
        outside = tm.split(tm.common(weight))[1]
        sizes = {abs(c) for c in weight.values()}
        scale = sizes.pop() if len(sizes) == 1 else Fraction(1)
        number = self.write({tm.without(p, outside): c / scale for p, c in weight.items()})
        each = Value(self._product(vectors, Fraction(1)))
        if not tm.is_number(number, 1.0):
            each = Value(number) * each
        total = builder().add(g.Reduce(g.Fold.SUM, each.node, here())).node
        found, masked = tm.of(total), frozenset(f for p in weight for f in p)
        return tm.scaled(found, scale, tm.apart(unless_nothing(outside, masked, found)))

    # ---- sums over the index of vectors ----

    def inner_sum(self, terms: Terms, like: g.Node) -> Terms:
        """Σ over the index of vectors as long as those of `like`: numbers leave the sum."""
        total: Terms = {}
        for product, coefficient in terms.items():
            vectors, numbers = tm.split_vectors(self._named(product))
            each = self._product(vectors, Fraction(1)) if vectors else tm.filled(1.0, like).node
            inner = tm.of(builder().add(g.Inner(each, here())).node)
            total = tm.plus(total, tm.scaled(inner, coefficient, tm.apart(numbers)))
        return total

    def _total(self, elements: Product) -> Terms:
        if not elements:
            return tm.of(builder().add(g.Length(here())).node)
        hot = next((n for n, _ in self._ranked(elements) if tm.column_of(n)), None)
        if hot is not None:
            return self._picked(hot, elements - {(hot, 1)})
        if len(elements) == 1:
            ((node, e),) = elements
            if e == 1 and tm.sums_to_zero(node):
                return {}
            if e == 1 and tm.sums_to_one(node):
                return {ONE: Fraction(1)}
        inner = self._product(self._guarded(elements), Fraction(1))
        return tm.of(builder().add(g.Reduce(g.Fold.SUM, inner, here())).node)

    def _picked(self, hot: g.Node, rest: Product) -> Terms:
        """Σ [column = i] · rest is rest at column i: no sum at all."""
        column = tm.column_of(hot)
        assert column is not None
        found: Terms = {ONE: Fraction(1)}
        for part in tm.split_vectors(rest):
            if part:
                inner = self._product(self._guarded(part), Fraction(1))
                taken = builder().add(g.Take(inner, column, here())).node
                found = tm.scaled(found, Fraction(1), frozenset({(taken, 1)}))
        absence = g.operands(hot)[2]
        return found if rest else tm.of((Value(absence) + 1.0).node)

    # ---- words ----

    def _named(self, product: Product) -> Product:
        """The product with the forward text's own values in it."""
        product = self._with_means(product)
        words = [word for factor, _ in product for word in self.words.get(factor, ())]
        for word, node in sorted(words, key=lambda w: (-tm.size(w[0]), builder().made[w[1]])):
            while tm.divides(word, product):
                product = tm.times(tm.without(product, word), frozenset({(node, 1)}))
        return product

    def _with_means(self, product: Product) -> Product:
        """Σ e / n as the mean of e, unless the text has the sum at hand."""
        powers = dict(product)
        length = next((n for n in powers if isinstance(n, g.Length)), None)
        for node, e in self._ranked(product):
            if length is None or powers[length] > 0 or e < 0 or node in self.known:
                continue
            if isinstance(node, g.Reduce) and node.fold is g.Fold.SUM:
                mean = builder().add(g.Reduce(g.Fold.MEAN, node.arg, here())).node
                part: Product = frozenset({(node, 1), (length, -1)})
                return self._with_means(tm.times(tm.without(product, part), frozenset({(mean, 1)})))
        return product

    def _guarded(self, product: Product) -> Product:
        """a·log(b) as xlogy: where a probability is 0, so is its logarithm's share."""
        elements, rows = tm.split(product)
        logs = [n for n, e in elements if e == 1 and _is_element_log(n)]
        others = frozenset(f for f in elements if f[0] not in logs and not tm.is_choice(f[0]))
        if len(logs) != 1 or not others:
            return product
        weight = self._product(others, Fraction(1))
        guarded = fg.xlogy(Value(weight), Value(g.operands(logs[0])[0])).node
        kept = frozenset(f for f in elements - others if f[0] not in logs)
        return kept | rows | {(guarded, 1)}

    def _ranked(self, product: Product) -> list[tuple[g.Node, int]]:
        """Factors in the order in which the text made them."""
        rank = builder().made
        return sorted(product, key=lambda factor: rank[factor[0]])


def _number(size: Fraction, *, whole: bool) -> int | float:
    """The coefficient as a literal; a whole one stays an integer where it may."""
    if whole and size.denominator == 1:
        return int(size)
    try:
        return float(size)
    except OverflowError:
        return math.inf


def _multiplied(values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = total * value
    return total


def _is_element_log(node: g.Node) -> bool:
    return isinstance(node, g.Map) and node.op == "log" and g.extent(node) is g.Extent.ELEMENT
