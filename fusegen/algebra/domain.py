"""What the elements of a row are known to satisfy: x ≤ max x, x ≥ min x.

Two uses. A switch that these facts decide is no switch: with x = m − t and t ≥ 0, sympy itself
folds relu(x − m) to 0 and |x − m| to t. And [x = m] is a 0-or-1 quantity of its own, an
*indicator*: while the maximum moves from p to q, [x = q] = [x = p]·[p = q] for every x ≤ p ≤ q.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

_OF_VALUES = (sp.Max, sp.Min, sp.Abs, sp.sign)
_SWITCHES = (*_OF_VALUES, sp.Piecewise, sp.core.relational.Relational)


@dataclass(frozen=True)
class Bound:
    """`row` is the greatest (`above`) or the least value that `element` takes in the row."""

    element: sp.Symbol
    row: sp.Symbol
    above: bool

    @property
    def distance(self) -> sp.Symbol:
        """|element − row| as a symbol of its own, known to be ≥ 0."""
        return sp.Symbol(f"{self.element.name}_from_{self.row.name}", nonnegative=True)

    @property
    def inside(self) -> sp.Expr:
        """The element by its distance from the row value."""
        return self.row - self.distance if self.above else self.row + self.distance

    @property
    def outside(self) -> sp.Expr:
        """The distance by the element."""
        return self.row - self.element if self.above else self.element - self.row

    def __str__(self) -> str:
        return f"{self.element} {'≤' if self.above else '≥'} {self.row}"


@dataclass(frozen=True)
class Indicator:
    """[element = row] and its contrary, each 1 or 0."""

    symbol: sp.Symbol
    bound: Bound

    @property
    def contrary(self) -> sp.Symbol:
        """[element ≠ row], a symbol of its own: sums of either need no difference of sums."""
        return zero_or_one(f"{self.bound.element.name}_is_not_{self.bound.row.name}")


def conditions_alone(f: sp.Expr) -> sp.Expr:
    """f with positive factors taken out of comparisons with 0, and choices written as sums:
    where(c, a, b) = a·[c] + b·[not c]. What c does not depend on then stands outside."""
    for relation in f.atoms(sp.core.relational.Relational):
        factors = sp.Mul.make_args(sp.factor_terms(relation.lhs - relation.rhs))
        kept = sp.Mul(*(a for a in factors if not a.is_positive))
        if len(factors) > 1 and kept.free_symbols:
            f = f.subs(relation, relation.func(kept, 0))
    return f.replace(lambda e: isinstance(e, sp.Piecewise) and len(e.args) == 2, _as_sum)


def _as_sum(choice: sp.Piecewise) -> sp.Expr:
    (a, condition), (b, _) = choice.args
    one, zero = sp.Integer(1), sp.Integer(0)
    # [not c] is what fails c: NaN fails x > 0 and x ≤ 0 alike.
    return a * sp.Piecewise((one, condition), (zero, True)) + b * sp.Piecewise(
        (zero, condition), (one, True))


def zero_or_one(name: str) -> sp.Symbol:
    return sp.Symbol(name, integer=True, nonnegative=True)


def on_domain(
    f: sp.Expr, bounds: tuple[Bound, ...]
) -> tuple[sp.Expr, tuple[Bound, ...], tuple[Bound, ...]]:
    """f with every switch folded that the bounds decide; the bounds that decided one; and those
    that decided one of a difference, x − max x, which is NaN where the extreme is infinite."""
    used, differences = [], []
    for b in bounds:
        if f.has(*_SWITCHES):
            known = f.subs(b.element, b.inside).subs(b.distance, b.outside)
            if len(known.atoms(*_SWITCHES)) < len(f.atoms(*_SWITCHES)):
                if len(known.atoms(*_OF_VALUES)) < len(f.atoms(*_OF_VALUES)):
                    differences.append(b)
                f = known
                used.append(b)
    return f, tuple(used), tuple(differences)


def less_than(f: sp.Expr, bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
    """Bounds that f compares with by < or >, which NaN fails as it fails ≥ and ≤."""
    strict = f.atoms(sp.StrictLessThan, sp.StrictGreaterThan)
    return tuple(b for b in bounds if any(_says_equal(c, b) is False for c in strict))


def with_indicators(
    f: sp.Expr, bounds: tuple[Bound, ...]
) -> tuple[sp.Expr, tuple[Indicator, ...]]:
    """f with the conditions that say element = row value written as indicators.

    A condition c inside f is taken out by cases: f = [c]·f|c + [not c]·f|not c.
    """
    found: dict[sp.Symbol, Indicator] = {}
    for b in bounds:
        symbol = zero_or_one(f"{b.element.name}_is_{b.row.name}")
        holds: dict[sp.Expr, sp.Expr] = {}
        fails: dict[sp.Expr, sp.Expr] = {}
        for condition in f.atoms(sp.core.relational.Relational):
            says = _says_equal(condition, b)
            if says is not None:
                holds[condition] = sp.true if says else sp.false
                fails[condition] = sp.false if says else sp.true
        if holds:
            found[symbol] = Indicator(symbol, b)
            f = symbol * f.subs(holds) + found[symbol].contrary * f.subs(fails)
    return f, tuple(found.values())


def _says_equal(condition: sp.Expr, bound: Bound) -> bool | None:
    """Does the condition mean element = row (True), the contrary (False), or neither (None)?"""
    gap = sp.expand(condition.lhs - condition.rhs)
    distance = bound.outside
    if gap not in (distance, -distance):
        return None
    if isinstance(condition, sp.Eq | sp.Ne):
        return isinstance(condition, sp.Eq)
    # distance ≤ 0 and distance < 0's opposite are equality; the rest the domain has decided.
    falls = gap == -distance
    if isinstance(condition, sp.Ge if falls else sp.Le):
        return True
    return False if isinstance(condition, sp.Lt if falls else sp.Gt) else None


def selection_holds(above: bool) -> bool:
    """[x = q] = [x = p]·[p = q] for every order of x ≤ p ≤ q (all ≥ for a minimum)."""
    ranks = range(3)
    orders = [(x, p, q) for x in ranks for p in ranks for q in ranks
              if (x <= p <= q if above else x >= p >= q)]
    return all((x == q) == ((x == p) and (p == q)) for x, p, q in orders)
