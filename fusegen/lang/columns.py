"""Where elements stand in their row: columns, lengths, sections, and elements picked by column.

x stands for an element value (one per position), m for a row value, lists for top-K results.
"""

from __future__ import annotations

import itertools
import operator
from contextlib import suppress
from typing import SupportsIndex

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.conditions import is_column
from fusegen.ir.errors import TraceError
from fusegen.lang.lines import here
from fusegen.lang.value import Operand, Value, apply, builder, lift


def element_node(what: str, x: Operand) -> g.Node:
    """The node of an element value. Raises TraceError for any other."""
    node = lift(x)
    if g.extent(node) is not g.Extent.ELEMENT:
        raise TraceError(
            f"{what} needs an element value, got a {g.extent(node).value}", where=here(),
            fix="Pass something that has one value per column.",
        )
    return node


def whole(what: str, given: object) -> int:
    """A compile-time whole number ≥ 1, Python's or NumPy's. Raises TraceError."""
    number = 0
    if isinstance(given, SupportsIndex) and not isinstance(given, bool | np.bool_ | Value):
        with suppress(TypeError):  # an array of several numbers says so late
            number = int.__index__(operator.index(given))  # exactly, whatever its class says
    if number < 1:
        fix = ("Make it a keyword-only parameter: def f(x, *, k=5)." if isinstance(given, Value)
               else "Give a whole number of 1 or more: k=5.")
        raise TraceError(f"{what} must be a whole number ≥ 1, got {given!r}", where=here(),
                         why="It is part of the kernel: a constant of the text.", fix=fix)
    return number


def index(x: Operand) -> Value:
    """The column of each element, counted from 0."""
    element_node("index", x)
    return builder().add(g.Index(here()))


def length(x: Operand) -> Value:
    """Number of columns of the row, as a row value."""
    element_node("length", x)
    return builder().add(g.Length(here()))


def take(x: Operand, index: Operand) -> Value:
    """The element of x at column `index` (a row value or a list); NaN where it is out of range."""
    node = element_node("take", x)
    at = lift(index)
    if g.extent(at) is g.Extent.ELEMENT:
        raise TraceError("take needs a row value or a list as index, got an element value",
                         where=here(), why="Gathering a whole row by a permutation is not a "
                         "reduction.", fix="Annotate the index input with fg.PerRow.")
    if g.is_vector(node) and g.extent(at) is g.Extent.LIST:
        raise TraceError("take of vectors at a list's columns", where=here(),
                         why="Its result would be K vectors per row.",
                         fix="Return the columns, and take the vectors there from the array.")
    if g.is_vector(at):
        raise TraceError("take at a vector of columns", where=here(), fix="Take one by one.")
    top = _list_of(at)
    if top is not None and top.arg is node:
        return builder().add(g.Part(top, "values", here()))  # at hand already
    return builder().add(g.Take(node, at, here()))


def _list_of(node: g.Node) -> g.TopK | None:
    """The top-K whose column numbers these are."""
    match node:
        case g.Cast(arg=arg) if is_column(node):
            return _list_of(arg)
        case g.Part(top=top, field="indices"):
            return top
        case _:
            return None


def ragged(x: Operand, lengths: Operand, fill: float = float("-inf")) -> Value:
    """x in the first `lengths` columns of the row, `fill` in those after: rows of several lengths.

    lengths is a row value of whole numbers, usually an fg.PerRow input; lengths ≥ n_cols keep the
    whole row, those ≤ 0 or NaN nothing, and 1.5 the columns below it, 0 and 1: this is
    fg.where(fg.index(x) < lengths, x, fill). What stands behind a row's end is never used, NaN
    included. fill is what the next reduction ignores: −inf for max, topk, argmax, softmax and
    logsumexp, +inf for min and topk(largest=False), 0 for sum, 1 for prod. fg.mean and fg.var
    divide by n_cols: write fg.sum(fg.ragged(x, lengths, 0)) / fg.cast(lengths, "float32").

    Of a row of length 0 nothing is left but fill: with −inf max and logsumexp are −inf, softmax is
    NaN (as torch's of a row of −inf), topk and argmax give −inf and the columns 0, 1, …. So does
    topk behind the entries of a row with fewer than K.
    """
    element_node("ragged", x)
    last = lift(lengths)
    if g.extent(last) is not g.Extent.ROW:
        raise TraceError(
            f"ragged needs one length per row, got a {g.extent(last).value}", where=here(),
            fix="Annotate the lengths with fg.PerRow.",
        )
    return apply("where", apply("lt", index(x), lengths), x, fill)


def sections(x: Operand, count: int, *, least: int = 1) -> tuple[Value, ...]:
    """Which elements are in each of `count` equal runs of neighbouring columns: a condition each.

    As numpy.split, but of conditions: reduce fg.where(condition, x, …). A call whose n_cols is not
    a multiple of `count`, or gives a section fewer than `least` columns, raises ShapeError.
    """
    count = whole("the number of sections", count)
    least = whole("the least number of columns of a section", least)
    element_node("sections", x)
    # column · count against n_cols · i: whole numbers, so exact, and no division.
    scaled = apply("mul", builder().add(g.Index(here(), count, least)), count)
    ends = [apply("mul", length(x), i) for i in range(count + 1)]
    return tuple(
        apply("and", apply("ge", scaled, a), apply("lt", scaled, b))
        for a, b in itertools.pairwise(ends)
    )
