"""Which columns of their rows states have seen: spans (first, end), rising, that do not meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from fusegen.backend.arrays.columns import MOST
from fusegen.ir.errors import ArgumentError

Spans = tuple[tuple[int, int], ...]


def span(first: int, n_cols: int) -> Spans:
    """Of one piece; none of a piece without columns. Raises ArgumentError for columns that no row
    has: kernels count them in 64 bits, and -1 is none."""
    if first < 0 or n_cols < 0 or first + n_cols > MOST:
        raise ArgumentError(f"columns {first} … {first + n_cols - 1} of a row",
                            why="Columns are numbered from 0 on, and rows have at most 2^62.",
                            fix="Say a piece's first column, and give (first, end) of several.")
    return ((first, first + n_cols),) if n_cols else ()


def together(name: str, parts: Iterable[Spans]) -> Spans:
    """All columns of these. Raises ArgumentError where two have one in common."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(one for spans in parts for one in spans):
        if found and first < found[-1][1]:
            raise ArgumentError(
                f"states of {name} that have seen the same columns: {first} … "
                f"{min(end, found[-1][1]) - 1}",
                why="A merge would count them twice.",
                fix="Say where each piece begins in the whole row: p.states(piece, at=…).")
        if found and first == found[-1][1]:
            found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return tuple(found)


def in_order(name: str, parts: Sequence[Spans]) -> list[int]:
    """The order of these by their columns, for an operator that keeps it. Raises ArgumentError
    where one has columns on both sides of another's."""
    order = sorted(range(len(parts)), key=lambda i: parts[i][:1])
    for left, right in pairwise(order):
        if parts[left] and parts[right] and parts[left][-1][1] > parts[right][0][0]:
            raise ArgumentError(
                f"states of {name} of columns on both sides of others",
                why=f"Its operator keeps the order of the row; one has seen {parts[left]}, "
                f"another {parts[right]}.",
                fix="Merge neighbours first, or all of them in one merge.")
    return order
