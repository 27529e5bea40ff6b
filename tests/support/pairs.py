"""Some of all combinations of several choices, in which any two choices still meet.

A fault of one choice, or of two together, shows in them as in the full product, whose size is that
of all axes multiplied; theirs is hardly more than that of the two longest.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any


def pairwise(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combinations of one choice an axis, for `parametrize`: any choice of any axis stands beside
    any of any other in some of them. The same axes give the same ones, the two longest in order."""
    sizes = [len(axis) for axis in axes]
    first, second = sorted(range(len(axes)), key=lambda n: -sizes[n])[:2]
    missing = {(i, a, j, b) for i, j in itertools.combinations(range(len(axes)), 2)
               for a in range(sizes[i]) for b in range(sizes[j])}
    found = []
    wanted = [{first: a, second: b} for a in range(sizes[first]) for b in range(sizes[second])]
    while wanted or missing:
        if wanted:
            taken = wanted.pop(0)
        else:
            i, a, j, b = min(missing)
            taken = {i: a, j: b}
        for axis in range(len(axes)):
            if axis not in taken:
                taken[axis] = max(range(sizes[axis]), key=lambda choice: _new(
                    missing, taken, axis, choice, len(found)))
        missing -= {(i, taken[i], j, taken[j])
                    for i, j in itertools.combinations(range(len(axes)), 2)}
        found.append(tuple(axis[taken[n]] for n, axis in enumerate(axes)))
    return found


def _new(
    missing: set[tuple[int, int, int, int]], taken: dict[int, int], axis: int, choice: int,
    turn: int,
) -> tuple[int, int]:
    """How many pairs a choice adds; of equals, they take turns."""
    added = sum((i, a, axis, choice) in missing if i < axis else (axis, choice, i, a) in missing
                for i, a in taken.items())
    return added, (choice + turn) % 7
