"""Refuting a state: two rows that it cannot tell apart, and a continuation that does.

The search runs in float64 over all short rows at once, smallest first, without randomness; what it
finds is confirmed in exact arithmetic before it is believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice, product

import numpy as np

from fusegen.algebra import exact, numbers
from fusegen.algebra.pivot import MAX_BASIS
from fusegen.algebra.short_rows import LONGEST, Results, Rows, ShortRows
from fusegen.ir import graph as g
from fusegen.ir.witness import Confusion, Ratio, Row

_NATURAL = {"exp", "expm1", "log", "log1p", "sigmoid", "xlogy"}
_SWITCHES = {"floor", "ceil", "round", "to_int", "lt", "le", "gt", "ge", "eq", "ne"}
_ROWS, _CONTINUATIONS = 2500, 90
_WORK = 600_000  # values computed at once: rows × columns × nodes
_PROMISING, _CONFIRMED = 3, 9  # candidates looked at exactly: per pair of lengths, in all
_DIFFERENT = 1e-6
_RATIOS = 400  # pairs of rows looked at, in 100 digits each


def confusion(graph: g.Graph, node: g.Reduce | g.TopK) -> Confusion | None:
    """Two rows with equal length, equal values of `node` and of every reduction it depends on,
    that one continuation tells apart: the smallest found, or None."""
    for short in _spaces(graph, node):
        for a, b, then in islice(_candidates(short), _CONFIRMED):
            found = _confirmed(short, short.row(a), short.row(b), short.row(then))
            if found is not None:
                return found
    return None


def _spaces(graph: g.Graph, node: g.Reduce | g.TopK) -> Iterator[ShortRows]:
    """Whole numbers; halves where the text switches; multiples of ln 2 where it takes an exp."""
    ops = {n.op for n in g.topological((node,)) if isinstance(n, g.Map)}
    yield ShortRows(graph, node)
    if ops & _SWITCHES:
        yield ShortRows(graph, node, step=Fraction(1, 2))
    if ops & _NATURAL:
        yield ShortRows(graph, node, "ln 2")


def _candidates(short: ShortRows) -> Iterator[tuple[Rows, Rows, Rows]]:
    """What float64 finds, shortest first."""
    start = short.shortest_of(short.node)
    if start > LONGEST:
        return
    for length in range(start, max(start + 1, 4) + 1):
        rows, first = _alike(short, length)
        for more in (1, 2, 3):
            yield from _told_apart(short, rows, first, more)


def _watched(node: g.Reduce | g.TopK) -> tuple[g.Node, ...]:
    """What the monoid of a reduction holds: of a top-K both lists, of a best column its value."""
    if isinstance(node, g.TopK):
        return tuple(g.Part(node, field, node.loc) for field in ("values", "indices"))
    if node.fold in (g.Fold.ARGMAX, g.Fold.ARGMIN):
        return (node, g.Take(node.arg, node, node.loc))
    return (node,)


def _state(node: g.Reduce | g.TopK) -> tuple[g.Reduce | g.TopK, ...]:
    """The reductions that `node` depends on, however far, and itself last."""
    return tuple(
        n for n in g.topological((node,)) if isinstance(n, g.Reduce | g.TopK) and g.is_reduction(n)
    )


def _alike(short: ShortRows, length: int) -> tuple[Rows, Rows]:
    """Rows that share their state with an earlier one; and that one, for each."""
    rows = short.rows(length, 3, min(_ROWS, _WORK // (length * len(short.needed))))
    watched = tuple(w for r in _state(short.node) for w in _watched(r))
    if not len(rows):
        return rows, rows
    state = np.hstack([v.astype(np.float64) for v in short.values(watched, rows)])
    sound = np.isfinite(state).all(1)
    rows, state = rows[sound], state[sound]
    if not len(rows):
        return rows, rows
    scale = np.maximum(1.0, np.abs(state).max(0))
    _, first, group = np.unique(
        np.round(state / scale, 10) + 0.0, axis=0, return_index=True, return_inverse=True
    )
    earlier = first[group.reshape(-1)]
    later = np.flatnonzero(earlier != np.arange(len(rows)))
    return rows[later], rows[earlier[later]]


def _told_apart(
    short: ShortRows, rows: Rows, first: Rows, more: int
) -> Iterator[tuple[Rows, Rows, Rows]]:
    """(earlier row, row, continuation) with different results in float64, smallest rows first."""
    then = short.rows(more, 6 if more == 1 else 3, _CONTINUATIONS)
    if not (len(rows) and len(then)):
        return
    most = _WORK // (len(then) * (rows.shape[1] + more) * len(short.needed))
    rows, first = rows[:most], first[:most]
    a, b = _continued(short, first, then), _continued(short, rows, then)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b) > _DIFFERENT * (1 + np.abs(a))
    sound = np.isfinite(a) & np.isfinite(b)
    differ = np.any(apart, axis=2) & np.all(sound, axis=2)
    for row in np.flatnonzero(np.any(differ, axis=1))[:_PROMISING]:
        yield first[row], rows[row], then[np.argmax(differ[row])]


def _continued(short: ShortRows, rows: Rows, then: Rows) -> Results:
    """Results for every row followed by every continuation: (rows, continuations, values)."""
    joined = np.concatenate(
        (np.repeat(rows, len(then), axis=0), np.tile(then, (len(rows), 1, 1))), axis=1
    )
    found = np.hstack([v.astype(np.float64) for v in short.values(_watched(short.node), joined)])
    return found.reshape(len(rows), len(then), -1)


def _joined(row: Row, then: Row) -> Row:
    return replace(row, values=tuple(
        (name, a + b) for (name, a), (_, b) in zip(row.values, then.values, strict=True)
    ))


def _flat(values: list[exact.Values]) -> list[numbers.Number]:
    return [x for v in values for x in (v if isinstance(v, list) else [v])]


def _confirmed(short: ShortRows, a: Row, b: Row, then: Row) -> Confusion | None:
    """The candidate in exact arithmetic."""
    state = _state(short.node)
    watched = tuple(w for r in state for w in _watched(r))
    own = _watched(short.node)
    try:
        before = [short.exactly(watched, r) for r in (a, b)]
        after = [short.exactly(own, _joined(r, then)) for r in (a, b)]
    except numbers.Outside:
        return None
    if not all(numbers.same(x, y) for x, y in zip(*map(_flat, before), strict=True)):
        return None
    if all(numbers.apart(x, y) <= _DIFFERENT for x, y in zip(*map(_flat, after), strict=True)):
        return None
    names = (n for r in state for n in _names(short.graph, r))
    shared = tuple((n, _shown(v)) for n, v in zip(names, before[0], strict=True))
    digits = numbers.digits_apart(*map(_flat, after))
    results = [" in columns ".join(_shown(v, digits) for v in values) for values in after]
    return Confusion(a, b, then, short.given, shared, (results[0], results[1]))


def _names(graph: g.Graph, node: g.Reduce | g.TopK) -> tuple[str, ...]:
    """Names of what is watched."""
    name = graph.names[node]
    if isinstance(node, g.TopK):
        return (f"{name} values", f"{name} columns")
    return (name, f"{graph.names[node.arg]}[{name}]")[:len(_watched(node))]


def _shown(value: exact.Values, digits: int = numbers.USUAL_DIGITS) -> str:
    if isinstance(value, list):
        return f"({', '.join(numbers.spelled(v, digits) for v in value)})"
    return numbers.spelled(value, digits)


def ratio(graph: g.Graph, node: g.Reduce | g.TopK) -> Ratio | None:
    """Two terms of the sum that a third element changes by different factors, or None."""
    short = ShortRows(graph, node)
    if short.ordered:
        return None
    for rows, then in islice(product(short.rows(2, 2, 100), short.rows(1, 2, 10)), _RATIOS):
        row, more = short.row(rows), short.row(then)
        try:
            before, after = _terms(short, row), _terms(short, _joined(row, more))
        except numbers.Outside:
            continue
        pairs = [(float(t[0]), float(t[1])) for t in (before, after)]
        found = Ratio(row, more, short.given, pairs[0], pairs[1])
        if all(found.before) and all(found.after) and _unlike(found):
            return replace(found, wider=_wider(short))
    return None


def _terms(short: ShortRows, row: Row) -> list[numbers.Number]:
    """What the reduction sums, by column. Raises numbers.Outside."""
    (terms,) = short.exactly((short.node.arg,), row)
    return terms if isinstance(terms, list) else [terms] * len(row)  # of inputs that are 1


def _unlike(found: Ratio) -> bool:
    a, b = found.factors
    return abs(a - b) > 1e-3 * max(abs(a), abs(b))


def _wider(short: ShortRows) -> tuple[Row, Row] | None:
    """One element more than sums are allowed, and as many continuations, if their terms are
    independent."""
    size = MAX_BASIS + 1
    low = size // 2
    row, then = (short.row(np.repeat(np.arange(a, a + size)[:, None], len(short.elements), axis=1))
                 for a in (-low, size - low))
    continued = [
        _joined(row, replace(then, values=tuple((n, v[k:k + 1]) for n, v in then.values)))
        for k in range(size)
    ]
    try:
        terms = [_terms(short, r)[:size] for r in continued]
    except numbers.Outside:
        return None
    return (row, then) if numbers.independent(terms) else None
