"""Rows that lanes of a warp own: each lane holds as many vectors as it takes, and no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fusegen.backend.cuda.schedule.bands import FEW_COLUMNS
from fusegen.backend.cuda.schedule.cuda import MAX_WIDTH, CudaSchedule
from fusegen.backend.cuda.schedule.homes import Home
from fusegen.backend.cuda.schedule.levels import Lanes, Thread, tree
from fusegen.backend.target import WARP

_THREADS = 128
_MOST = 10  # vectors of a lane
_MOST_FOLDED_NARROW, _MOST_FOLDED = 16, 24
"""The same of an array of 16 and 32 bits that is only folded, for states whose merges take longer
than elements do: what is done once a row is worth the registers."""
_MOST_OF_SEVERAL = 16  # of several such arrays, and of 64 bits, whose states take more of them
_FEW_ITEMS = 3, 9  # elements of a lane that reads rows out of phase one by one
_FEW_COLUMNS = 64  # likewise, where lanes side by side take less than 32 bytes, of one array
_MANY = 6  # vectors of a lane, beyond which twice as many lanes are better where rows are written


def lane_schedules(
    base: CudaSchedule, held: CudaSchedule, n_vectors: int, n_cols: int, arrays: int,
    passing: Sequence[Home],
) -> Iterator[CudaSchedule]:
    """One for every number of lanes that may own a row of so many arrays; `passing`: where rows are
    that go by, if they are read once, for states whose merges take longer than elements do."""
    folds = bool(passing)
    most = _most(base.width, arrays, folds)
    few = 16 if base.has_edges and base.width > 4 else 8  # of edges a lane takes one element
    for lanes in sorted({few, 2 * few, WARP}):
        vectors = -(-n_vectors // lanes)
        many = most if folds or lanes == WARP else _MANY
        if vectors <= many and lanes <= 2 * n_vectors:  # no more than half are empty
            yield _owned(held, lanes, vectors)
    for home in passing if base.width > 1 else ():  # states meet once a row, in one warp
        for vectors in (4,) if home.next_chunk else (4, 8):
            if n_vectors >= WARP * vectors:
                yield _owned(base.having(home=home), WARP, vectors)
    if base.load == "shifted" and not folds:  # lanes side by side need not know where vectors are
        for lanes in (8, 16, WARP):
            items = -(-n_cols // lanes)
            enough = lanes >= few or (n_cols <= _FEW_COLUMNS and arrays == 1)
            if enough and _FEW_ITEMS[0] <= items <= _FEW_ITEMS[1]:
                yield by_elements(_owned(held, lanes, items), items)
    if base.load == "aligned" and base.width > 1 and n_cols <= FEW_COLUMNS:
        for lanes in (2, 4):  # so few that each reads neighbouring vectors
            vectors = -(-n_vectors // lanes)
            if vectors <= 2 and lanes < 2 * n_vectors:
                yield _owned(held, lanes, vectors)


def _most(width: int, arrays: int, folds: bool) -> int:
    """Vectors of a lane, in each of so many arrays."""
    narrow = width == MAX_WIDTH
    if folds and arrays == 1 and 2 * width >= MAX_WIDTH:
        return _MOST_FOLDED_NARROW if narrow else _MOST_FOLDED
    if folds and not narrow:
        return _MOST_OF_SEVERAL
    return _MOST


def by_elements(one: CudaSchedule, items: int) -> CudaSchedule:
    """The same, without vectors, where rows may begin anywhere."""
    levels = tree(Thread(items, 1), one.threads, one.team, one.home)
    return replace(one, load="scalar", levels=levels)


def _owned(one: CudaSchedule, lanes: int, vectors: int) -> CudaSchedule:
    return one.having(team=Lanes(lanes), threads=_THREADS, vectors=vectors)
