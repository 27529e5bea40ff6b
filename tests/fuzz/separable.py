"""Could a refused entry have been merged? Separation rank and monotony, measured on real rows.

A sum Σ f(x; p) is carried by finitely many sums only if the matrix F[i, j] = f(x_i; p_j) has a rank
that stops growing. Every p_j here is the row values of a real row that contains all the x_i, so
x ≤ max, ties and switches are as they are in data.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import mpmath as mp

from fusegen.ir import graph as g

from .exact import Piece, is_nan

MAX_RANK = 8
_POOL, _SMALLER, _ROWS = 18, 12, 24
_SCALES = (256, 10, 2, 2500)  # of the elements in a pool, in 1/256: switches hide at any scale
_FINE = 500  # digits
_ZERO = mp.mpf(10) ** -50


def sample_rows(rng: random.Random, inputs: tuple[str, ...]) -> list[list[Piece]]:
    """Sets of rows. The rows of a set start with the same elements and differ in the rest, which
    moves maxima, means and weighted means across those elements."""
    return [_rows_of_scale(rng, inputs, scale) for scale in _SCALES]


def _rows_of_scale(rng: random.Random, inputs: tuple[str, ...], scale: int) -> list[Piece]:
    pool = {n: _pool(rng, scale) for n in inputs}
    rows = []
    for j in range(_ROWS):
        size = (0, 1, 2, 3, 5)[j % 5]
        row = {}
        for name in inputs:
            values = list(pool[name])
            if j % 3 == 2:  # many copies of one value pull every mean towards it
                values += [_value(rng, 3 * scale)] * rng.choice((6, 40))
            reach = rng.choice((1, 3, 6, 20)) * scale
            values += [_value(rng, reach) for _ in range(size)]
            row[name] = values
        n_cols = min(len(v) for v in row.values())
        row = {n: v[:n_cols] for n, v in row.items()}
        rows.append(Piece(row, tuple(range(n_cols)), length=_POOL))
    return rows


def _value(rng: random.Random, reach: int) -> Any:
    return mp.mpf(rng.randint(-reach * 16, reach * 16)) / 4096


def _pool(rng: random.Random, scale: int) -> list[Any]:
    values = [_value(rng, 3 * scale) for _ in range(_POOL - 3)]
    values += [mp.mpf(0), values[0], values[1]]  # a zero and two ties
    rng.shuffle(values)
    return values


def separable(arg: g.Node, sets: list[list[Piece]]) -> int | None:
    """The greatest separation rank over the sets, see `separation_rank`."""
    found: int | None = None
    for rows in sets:
        here = separation_rank(arg, rows)
        if here is not None and here > MAX_RANK:
            return here
        found = here if found is None or (here is not None and here > found) else found
    return found


def separation_rank(arg: g.Node, rows: list[Piece]) -> int | None:
    """The rank of f over elements and rows if it stops growing at MAX_RANK or below; a number
    above MAX_RANK if it does not; None where the text has too few values to tell."""
    columns = _defined([row.element(arg)[:_POOL] for row in rows])
    if len(columns) < MAX_RANK + 4 or len(columns[0]) < _SMALLER:
        return None
    whole = rank(columns)
    if whole > MAX_RANK:
        return whole
    part = rank([c[:_SMALLER] for c in columns[: len(columns) // 2]])
    return whole if whole - part < 2 else MAX_RANK + 1


def _defined(columns: list[list[Any]]) -> list[list[Any]]:
    """Without the elements that most rows leave undefined, then without rows that are not whole."""
    undefined = [sum(is_nan(c[i]) for c in columns) for i in range(_POOL)]
    kept = [i for i, count in enumerate(undefined) if count <= len(columns) // 3]
    return [[c[i] for i in kept] for c in columns if not any(is_nan(c[i]) for i in kept)]


def rank(columns: list[list[Any]]) -> int:
    """Numeric rank by elimination with full pivoting, columns scaled to magnitude 1."""
    work = []
    for c in columns:
        size = max(abs(v) for v in c)
        if size > 0:
            work.append([v / size for v in c])
    found = 0
    while work and found <= MAX_RANK + 2:
        column = max(work, key=lambda c: max(abs(v) for v in c))
        i = max(range(len(column)), key=lambda k: abs(column[k]))
        if abs(column[i]) < _ZERO:
            break
        work.remove(column)
        found += 1
        for other in work:
            factor = other[i] / column[i]
            if factor != 0:
                other[:] = [a - factor * b for a, b in zip(other, column, strict=True)]
    return found


def monotone_in(arg: g.Node, rows: list[Piece], *, strict: bool) -> g.Node | None:
    """An element that `arg` follows (or reverses) in order on every row; strict: keeping unequal
    elements unequal. None if there is none."""
    with mp.workdps(_FINE):  # saturating maps bring unequal elements very close together
        finer = [replace(row, known={}) for row in rows]
        for atom in _atoms(arg):
            signs = {_order(row.element(atom), row.element(arg), strict) for row in finer}
            if len(signs - {None}) == 1 and 0 not in signs:
                return atom
    return None


def _atoms(arg: g.Node) -> list[g.Node]:
    """Element values of the argument that no reduction changes, below no reduction."""
    found: dict[g.Node, None] = {}

    def visit(node: g.Node) -> None:
        if g.extent(node) is not g.Extent.ELEMENT or node in found:
            return
        if not g.reductions_of(node):
            found[node] = None
        for operand in g.operands(node):
            visit(operand)

    visit(arg)
    return list(found)


def _order(atoms: list[Any], values: list[Any], strict: bool) -> int | None:
    """+1 or −1 if values go with or against the atoms, ties with ties; 0 if neither; None where
    they cannot tell."""
    if any(is_nan(v) for v in values):
        return None
    pairs = sorted(zip(atoms, values, strict=True), key=lambda pair: pair[0])
    steps = set()
    for (a, v), (b, w) in itertools.pairwise(pairs):
        if (a == b and v != w) or (strict and a != b and v == w):
            return 0
        if v != w:
            steps.add(1 if w > v else -1)
    return (steps.pop() if steps else None) if len(steps) < 2 else 0
