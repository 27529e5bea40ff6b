"""Top-K lists and leaders, exhaustively, on short rows: the merge is that of the union.

For all disjoint sets A and B of columns, fold(A) ⊕ fold(B) must hold what the NumPy reference
picks from the union. By induction that covers every split into two, three or more pieces,
contiguous or not, in every order and tree. Order: NaN first, then the greater value (for argmin the
lesser), then the lower column.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from fusegen.ir.errors import LawViolation
from fusegen.ir.expr import Var
from fusegen.ir.kernel import FromMemory, Kernel, Sweep
from fusegen.ir.monoid import Best, KBest, Monoid
from fusegen.oracle.replay import Folder, State
from fusegen.oracle.rows import top_columns

MAX_K, MAX_COLUMNS = 3, 5
_ALPHABETS = ((0.0, 1.0, np.nan), (-np.inf, 0.0, 1.0))

Letters = tuple[int, ...]
"""A piece of a row: an index into the alphabet for each column, −1 where it has none."""


def try_orders(kernel: Kernel, n_cols: int = MAX_COLUMNS) -> int:
    """How many merges were tried. Raises LawViolation with the first counterexample."""
    parts: dict[object, Best | KBest] = {}
    for sweep in kernel.sweeps:
        for best in sweep.monoid.best:
            parts["best", best.largest] = Best("best", best.largest, Var("value"), "float")
        for top in sweep.monoid.lists:
            k = min(top.k, MAX_K)
            parts["list", k] = KBest("list", k, Var("value"), "float")
    return sum(exhaust(kernel.name, part, n_cols, alphabet)
               for part in parts.values() for alphabet in _ALPHABETS)


def exhaust(
    name: str, part: Best | KBest, n_cols: int, alphabet: tuple[float, ...]
) -> int:
    """Every pair of disjoint pieces of every row over the alphabet."""
    monoid = Monoid(best=(part,)) if isinstance(part, Best) else Monoid(lists=(part,))
    source = FromMemory("value")
    sweep = Sweep(number=1, loads=(source,), lets=(), monoid=monoid)
    folder = Folder(sweep, {}, {"value": np.empty(n_cols)})
    states = dict(_states(sweep, n_cols, alphabet))
    wanted = dict(_wanted(part, n_cols, len(alphabet), alphabet))
    letter = range(len(alphabet))
    one_column = [(-1, -1), *((i, -1) for i in letter), *((-1, i) for i in letter)]
    tried = 0
    for pair in itertools.product(one_column, repeat=n_cols):
        a, b = tuple(p[0] for p in pair), tuple(p[1] for p in pair)
        union = tuple(max(p) for p in pair)
        found = _columns(part, folder.merge(states[a], states[b]))
        tried += 1
        if found != wanted[union]:
            raise LawViolation(
                f"{name}: the merge of {_what(part)} is not that of the union",
                why=f"Values by column {_shown(a, alphabet)} ⊕ {_shown(b, alphabet)}: "
                f"got columns {found}, the best are {wanted[union]}.",
                fix="Please report this: the order of pairs or their merge is wrong.",
            )
    return tried


def _states(
    sweep: Sweep, n_cols: int, alphabet: tuple[float, ...]
) -> Iterator[tuple[Letters, State]]:
    for letters in itertools.product((-1, *range(len(alphabet))), repeat=n_cols):
        row = np.array([alphabet[max(i, 0)] for i in letters])
        columns = [c for c, i in enumerate(letters) if i >= 0]
        yield letters, Folder(sweep, {}, {"value": row}).fold(columns)


def _wanted(
    part: Best | KBest, n_cols: int, size: int, alphabet: tuple[float, ...]
) -> Iterator[tuple[Letters, list[int]]]:
    """What the reference picks from every piece; all pieces of the same columns at once."""
    for held in itertools.product((False, True), repeat=n_cols):
        columns = np.flatnonzero(held)
        choices = list(itertools.product(range(size), repeat=len(columns)))
        if len(columns) == 0:
            yield (-1,) * n_cols, []
            continue
        rows = np.array(alphabet)[np.array(choices)]
        if isinstance(part, KBest):
            best = top_columns(rows, min(part.k, len(columns)))
        else:
            best = (np.argmax if part.largest else np.argmin)(rows, axis=1)[:, None]
        for choice, row in zip(choices, best, strict=True):
            letters = np.full(n_cols, -1)
            letters[columns] = choice
            yield tuple(letters.tolist()), columns[row].tolist()


def _columns(part: Best | KBest, state: State) -> list[int]:
    if isinstance(part, KBest):
        return [int(c) for _, c in state.lists["list"]]
    pair = state.best["best"]
    return [] if pair is None else [int(pair[1])]


def _what(part: Best | KBest) -> str:
    return f"top {part.k}" if isinstance(part, KBest) else "argmax" if part.largest else "argmin"


def _shown(letters: Letters, alphabet: tuple[float, ...]) -> dict[int, float]:
    return {c: alphabet[i] for c, i in enumerate(letters) if i >= 0}
