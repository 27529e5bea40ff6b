"""A softmax's probability without a quotient per element, where its numbers are a column's.

exp(a − m) / Σ is exp(a − m) · (1 / Σ), with the inverse of each row made once. Of 16-bit vectors it
is one exponential, exp(a − (m + log Σ)), and one number in place of two: what the rounding of the
logarithm adds, |m + log Σ| units in the last place of float32, is lost beside theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from fusegen.ir import graph as g
from fusegen.lang import lang as fg
from fusegen.lang.value import Value, builder
from fusegen.rewrite.adjoint import terms as tm
from fusegen.rewrite.adjoint.terms import Product, Terms


def normalised(terms: Terms) -> Terms:
    """The terms with such exponentials in the active builder."""
    found: Terms = {}
    for product, coefficient in terms.items():
        found = tm.plus(found, {_normalised(product): Fraction(coefficient)})
    return found


def _normalised(product: Product) -> Product:
    powers: Mapping[g.Node, int] = dict(product)
    for node, power in product:
        match node:
            case g.Map(op="exp", args=(g.Map(op="sub", args=(a, m)),)) if power == 1:
                total = next((n for n, e in powers.items() if e == -1 and _is_sum(n, node)), None)
                if total is None or g.extent(m) is not g.Extent.ROW:
                    continue
                log_sum = Value(m) + fg.log(Value(total))
                builder().labels.setdefault(log_sum.node, "log_sum_exp")
                whole = fg.exp(Value(a) - log_sum).node
                rest = product - {(node, 1), (total, -1)}
                return _normalised(tm.times(rest, frozenset({(whole, 1)})))
    return product


def inverted(terms: Terms) -> Terms:
    """The terms with inverses of row values as values of their own."""
    found: Terms = {}
    for product, coefficient in terms.items():
        one: Terms = {tm.ONE: coefficient}
        for node, power in product:
            below = power < 0 and g.extent(node) is g.Extent.ROW and not g.is_vector(node)
            factor = ((1.0 / Value(node)).node, -power) if below else (node, power)
            one = tm.scaled(one, Fraction(1), frozenset({factor}))
        found = tm.plus(found, one)
    return found


def _is_sum(node: g.Node, element: g.Node) -> bool:
    return isinstance(node, g.Reduce) and node.fold is g.Fold.SUM and node.arg is element
