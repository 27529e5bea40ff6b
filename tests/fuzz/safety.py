"""Is a separated form safe in floating point? Growth, corrections and cancellation, measured.

A form is unsafe if an exponential among its sums overflows where the text does not, if moving a
pivot can multiply a sum without bound, or if its read-out loses more than `DIGITS` digits beyond
those that the text loses itself. How many digits the text loses is measured too: it is evaluated
with every operation off by a random last bit of float32.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import mpmath as mp

from fusegen.ir import graph as g

from .exact import Piece, is_nan
from .forms import MovingKink, Reader, Stuck
from .polys import Monomial, Poly, monomial_value
from .rounding import text_error
from .rows import DESIGNS, LENGTHS, plain_row

DIGITS = 2
_GROWTH = mp.mpf(10) ** 15  # beyond the greatest number that the text meets
_MOVE = mp.mpf(10) ** -9  # a correction may shrink a sum, not multiply it
_LONG = 40  # columns
_READ_OUT = 5  # range of an exponent that the read-out may multiply by


class Safety(Enum):
    SAFE = "separable and safe"
    UNBOUNDED = "its correction has no bound"
    GROWTH = "its sums overflow where the text does not"
    CANCELS = "its read-out cancels"
    KINK = "its switch moves across the elements"
    NO_FORM = "no form found"


@dataclass(frozen=True, slots=True)
class Sample:
    """A whole row and some pieces of it, by position in the reader's samples."""

    whole: int
    pieces: tuple[int, ...]


def samples_of(
    rng: random.Random, inputs: tuple[str, ...], arg: g.Node
) -> tuple[list[Piece], list[Sample]]:
    """Rows of every design on which the text is defined, each with two pieces of it; a piece on
    which the row values are undefined gives way to the row itself."""
    found: list[Piece] = []
    rows: list[Sample] = []
    length = rng.choice(LENGTHS)
    designs = [(design, 0) for design in (*DESIGNS, "spread", "small", "cluster", "wide")]
    designs += [(design, length) for design in ("cluster", "far cluster", "small", "spread")]
    designs += [("spread", _LONG)]  # sums grow with the row
    for design, n_cols in designs:
        whole = plain_row(rng, inputs, design, n_cols, length)
        if not _defined(whole, arg):
            continue
        sizes = (1, max(1, len(whole.columns) // 2))
        parts = [replace(whole, columns=tuple(rng.sample(whole.columns, size)), known={})
                 for size in sizes]
        start = len(found)
        found += [whole, *(part if _defined(part, arg) else whole for part in parts)]
        rows.append(Sample(start, (start + 1, start + 2)))
    return found, rows


def _defined(piece: Piece, arg: g.Node) -> bool:
    return not any(is_nan(v) for n in g.topological((arg,)) for v in _listed(piece.value(n)))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def judged(graph: g.Graph, node: g.Reduce, known: frozenset[str], seed: int) -> Safety:
    """The safety of a sum, were it merged; NO_FORM where the text does not separate by reading.

    `known`: the reductions whose values over a piece are part of the state.
    """
    rng = random.Random(seed)
    samples, rows = samples_of(rng, tuple(i.name for i in graph.inputs), node.arg)
    if len(rows) < 3:
        return Safety.NO_FORM
    reader = Reader(graph, samples, known)
    try:
        form = reader.settled(reader.poly(node.arg))
    except MovingKink:
        return Safety.KINK
    except Stuck:
        return Safety.NO_FORM
    if not _equals_text(reader, form, node.arg):
        return Safety.NO_FORM
    if any(max(e.values) - min(e.values) > _READ_OUT for e in reader.exponents):
        return Safety.UNBOUNDED
    if any(_unbounded(m, rows) for m in form):
        return Safety.UNBOUNDED
    if any(_outgrows(graph, reader, m, rows) for m in form):
        return Safety.GROWTH
    return Safety.CANCELS if _cancels(node, reader, form, rows, rng) else Safety.SAFE


def _equals_text(reader: Reader, form: Poly, arg: g.Node) -> bool:
    for sample, values in zip(reader.samples, reader.values(form), strict=True):
        for got, want in zip(values, sample.element(arg), strict=True):
            if is_nan(want) or abs(got - want) > mp.mpf(10) ** -30 * (1 + abs(want)):
                return False
    return True


def _unbounded(monomial: Monomial, rows: Sequence[Sample]) -> bool:
    """Do its exponentials grow when the pivots of a piece become those of the row?"""
    moving = [(a, p) for a, p in monomial if a.kind == "exp"]
    for row in rows:
        for piece in row.pieces:
            total = mp.fsum(
                a.rate * p * (a.pivot.values[piece] - a.pivot.values[row.whole])
                for a, p in moving if a.pivot is not None
            )
            if total > _MOVE:
                return True
    return False


def _outgrows(
    graph: g.Graph, reader: Reader, monomial: Monomial, rows: Sequence[Sample]
) -> bool:
    for row in rows:
        piece = reader.samples[row.whole]
        most = max(abs(v) for n in graph.nodes if isinstance(n, g.Map | g.Reduce | g.Input)
                   for v in _numbers(piece.value(n)))
        for j in range(len(piece.columns)):
            if abs(monomial_value(monomial, row.whole, j)) > _GROWTH * (1 + most):
                return True
    return False


def _numbers(value: Any) -> list[Any]:
    return [mp.mpf(v) for v in _listed(value) if not isinstance(v, bool) and not is_nan(v)] or [
        mp.mpf(0)]


def _cancels(
    node: g.Reduce, reader: Reader, form: Poly, rows: Sequence[Sample], rng: random.Random
) -> bool:
    """Do numbers meet, in the read-out or in a transport, that are much larger than the text's?"""
    for row in rows:
        limit = text_error(node, reader.samples[row.whole], rng) * 10**DIGITS
        for piece in (row.whole, *row.pieces):
            if _met(reader, form, row.whole, piece) > limit:
                return True
    return False


def _met(reader: Reader, form: Poly, whole: int, piece: int) -> Any:
    """Σ |c_k| Σ |h_k| over a piece, deviations taken at its own pivots and moved to the row's."""
    columns = reader.samples[whole].columns
    total = mp.mpf(0)
    for monomial, factor in form.items():
        for j, column in enumerate(reader.samples[piece].columns):
            value = abs(factor.values[whole])
            for atom, power in monomial:
                if atom.kind == "dev" and atom.pivot is not None:
                    move = abs(atom.pivot.values[piece] - atom.pivot.values[whole])
                    value *= (abs(atom.values[piece][j]) + move) ** power
                else:
                    value *= abs(atom.values[whole][columns.index(column)]) ** power
            total += value
    return total
