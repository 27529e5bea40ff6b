"""A sum and its term taken apart: what the repairs are built of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusegen.algebra.symbols import is_positive
from fusegen.ir import graph as g
from fusegen.ir.derivation import Obligation
from fusegen.ir.loc import Loc
from fusegen.rewrite.build import call_it, fold, literal, name_of, op
from fusegen.rewrite.repair.product import Product, both, multiplied

MAX_POWER = 6

Part = tuple[g.Node, g.Node]
"""(c, S) of a read-out Σ c·S: a factor and a sum."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """The row value in place of a sum. `plain` is the same without guards, for the proof: guards
    act only where a pivot is infinite, a scale is 0, or nothing is selected.

    `parts`: what is added up, where nothing else says that it cannot cancel. `proofs`: of an
    extreme, what shows it; sums are proved equal to the text.
    """

    value: g.Node
    plain: g.Node
    pivots: tuple[g.Node, ...] = ()
    parts: tuple[Part, ...] = ()
    proofs: tuple[Callable[[], Obligation], ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What the text computes, and the range of the numbers that kernels compute in.

    A maximum over nothing is `-most`, below every element, and a number: no sum about it is NaN.
    A scale of nothing is `least`, and can be divided by: what is less is rounded to 0.
    """

    nodes: frozenset[g.Node]
    least: float
    most: float

    def __contains__(self, node: g.Node) -> bool:
        return node in self.nodes

    @classmethod
    def of(cls, total: g.Reduce, *, wide: bool) -> Known:
        """wide: in float64."""
        least, most = (2.2250738585072014e-308, 1.7976931348623157e308) if wide else (
            1.1754943508222875e-38, 3.4028234663852886e38)
        return cls(frozenset(g.topological((total,))), least, most)


@dataclass(frozen=True)
class Sum:
    """Σ or the mean of a product."""

    total: g.Reduce
    term: Product
    known: Known

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
        value = self._times(value, lambda factor: True)
        return self.op("neg", value) if self.term.negative else value

    def read_out(self, value: g.Node) -> g.Node:
        """The same; where conditions take nothing of the row it is 0, whatever the factors are that
        the text has within its choices."""
        within, mask = {*self.term.within}, both(self.term.masks, self.loc)
        if mask is None or all(map(is_positive, within)):
            return self.read(value)
        value = self._some(mask, self._times(value, within.__contains__))
        value = self._times(value, lambda factor: factor not in within)
        return self.op("neg", value) if self.term.negative else value

    def _times(self, value: g.Node, wanted: Callable[[g.Node], bool]) -> g.Node:
        for factor in filter(wanted, self.term.over):
            value = self.op("mul", value, factor)
        for factor in filter(wanted, self.term.under):
            value = self.op("div", value, factor)
        return value

    def guarded(self, value: g.Node) -> g.Node:
        """The value, and 0 where nothing is selected."""
        found = self.selected
        return value if found is None else self._some(found, value)

    def _some(self, condition: g.Node, value: g.Node) -> g.Node:
        """The value, and 0 where the condition holds nowhere."""
        one, zero = self.number(1.0), self.number(0.0)
        some = fold(g.Fold.MAX, self.op("where", condition, one, zero), self.loc)
        return self.op("where", self.op("gt", call_it(some, "selected"), zero), value, zero)


def name_pivot(pivot: g.Node, element: g.Node, what: str) -> None:
    """A pivot that the user's text does not have is named after its element."""
    name = name_of(element)
    call_it(pivot, f"{name}_{what}" if name else f"own_{what}")
