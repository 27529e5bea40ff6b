"""How often lanes of a warp meet in the banks of shared memory, where a band's rows lie."""

from __future__ import annotations

from collections import Counter
from functools import cache

from fusegen.backend.target import WARP

_BANKS = 32  # of four bytes each


@cache
def waves(distance: int, size: int, lanes: int, width: int, apart: int = 1) -> int:
    """Times that shared memory is busy until a warp's lanes have a vector each, of rows that are so
    many rows from one another. distance: bytes from a row to the next."""
    n_bytes = width * size
    together = min(WARP, max(1, WARP * 4 // n_bytes))  # lanes that it serves at a time
    total = 0
    for first in range(0, WARP, together):
        words = set()
        for lane in range(first, first + together):
            team, rank = divmod(lane, lanes)
            at = team * apart * distance + rank * width * size
            words |= {*range(at // 4, (at + n_bytes + 3) // 4)}
        total += max(Counter(word % _BANKS for word in words).values())
    return total


@cache
def best_apart(distances: tuple[tuple[int, int], ...], lanes: int, width: int, turns: int) -> int:
    """Rows that teams of a warp have at a time, of a band of so many rows for each of them: a power
    of two, the least that meets in the fewest banks. distances: of every array, with the size of
    its elements."""
    if lanes == WARP:
        return 1
    choices = [1 << k for k in range(turns.bit_length()) if turns % (1 << k) == 0]
    return min(choices, key=lambda d: sum(waves(n, s, lanes, width, d) for n, s in distances))
