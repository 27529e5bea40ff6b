"""Pairs seen from their columns: the rows of a text become columns, its columns rows.

  a vector, or a number, per row      a vector, or a number, per column; and the other way about
  the column's number                 the row's, and the other way about
  what is known of a whole row        a number, or a vector, per column, which comes as an array

What is left of an element is the same text: k·q is q·k. A sum over the rows of the one text is a
sum over the columns of the other, which every kernel makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fusegen.ir import graph as g
from fusegen.lang.value import builder
from fusegen.rewrite.adjoint import terms as tm
from fusegen.rewrite.adjoint.terms import ONE, Terms
from fusegen.rewrite.build import rebuilt

AXES: Mapping[g.Axis, g.Axis] = {
    g.Axis.ELEMENT: g.Axis.ELEMENT,
    g.Axis.PER_ROW: g.Axis.PER_COLUMN, g.Axis.PER_COLUMN: g.Axis.PER_ROW,
    g.Axis.ROW_VECTOR: g.Axis.COLUMN_VECTOR, g.Axis.COLUMN_VECTOR: g.Axis.ROW_VECTOR,
}
"""What an input is from the other side."""


def asked_of_rows(
    roots: Iterable[g.Node], held: Callable[[g.Node], bool]
) -> tuple[g.Node, ...]:
    """What the elements `roots` are made of that each row is asked for: inputs, and values that
    take a whole row, or what no column knows of it. held: is there an array that holds it? In a
    stable order."""
    return g.outermost(roots, lambda node: _is_asked(node) and held(node))


def _is_asked(node: g.Node) -> bool:
    match node:
        case g.Input(axis=axis):
            return axis is not g.Axis.SCALAR
        case g.Literal() | g.Index() | g.RowNumber():
            return False
        case _:
            return g.extent(node) is g.Extent.ROW and not _is_plain(node)


@g.asked_once
def _is_plain(node: g.Node) -> bool:
    """Is it arithmetic with numbers that come with the row?"""
    match node:
        case g.Input(axis=axis):
            return axis in (g.Axis.PER_ROW, g.Axis.SCALAR)
        case g.Literal() | g.RowNumber():
            return True
        case g.Map() | g.Cast():
            return all(map(_is_plain, g.operands(node)))
        case _:
            return False


def transposed(
    roots: Iterable[g.Node], given: Mapping[g.Node, g.Node], number: g.Node | None = None
) -> dict[g.Node, g.Node]:
    """What every node of the elements `roots` is from the other side, in the active builder.
    given: what stands there for `asked_of_rows`, and for scalars. number: a column's, where it is
    another than that of the row that it becomes."""
    known = dict(given)
    for node in g.topological(roots, known.__contains__):
        match node:
            case g.Index():
                known[node] = number or builder().add(g.RowNumber(node.loc)).node
            case g.RowNumber():
                known[node] = builder().add(g.Index(node.loc)).node
            case _:
                known[node] = rebuilt(node, known.__getitem__)
    return known


def seen_terms(terms: Terms, known: Mapping[g.Node, g.Node]) -> Terms:
    """The terms over what nodes are from the other side."""
    found: Terms = {}
    for product, coefficient in terms.items():
        one: Terms = {ONE: coefficient}
        for node, power in product:
            own, factors = tm.factors(known[node])
            one = tm.scaled(one, own**power, tm.power(factors, power))
        found = tm.plus(found, one)
    return found
