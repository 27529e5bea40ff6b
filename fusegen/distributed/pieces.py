"""How many states a rank sends of its shard, and of which columns: one, or runs of canonical pieces
where bits may not depend on the number of ranks (pipeline/states/pieced.py)."""

from __future__ import annotations

from functools import lru_cache

from fusegen.pipeline.states.columns import Spans


@lru_cache(maxsize=1024)
def runs_of(first: int, end: int, pieces: int | None) -> Spans:
    """The columns of each state that a rank has of the columns first … end - 1: all of them, or
    what the tree of pieces makes of them, known from these numbers alone."""
    if pieces is None or first == end:
        return ((first, end),)
    found: list[tuple[int, int]] = []
    for i in range(first, end, pieces):
        one = i, min(i + pieces, end)
        while found and _are_siblings(found[-1], one, pieces):
            one = found.pop()[0], one[1]
        found.append(one)
    return tuple(found)


def _are_siblings(left: tuple[int, int], right: tuple[int, int], pieces: int) -> bool:
    """Are these the two halves of a run of the tree? The right one may be short, at the row's
    end."""
    count = (left[1] - left[0]) // pieces
    same = count == -(-(right[1] - right[0]) // pieces)
    return same and left[0] // pieces % (2 * count) == 0
