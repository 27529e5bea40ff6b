"""Lists beside long vectors: elements are stored, and with them the greatest of 64 neighbours each.

Tiles of dots of thousands of numbers come so seldom that writing their elements costs little, and
reading them all again would cost more than the list. Of the maxima of groups of neighbours the K
best, ties to the first, are those of the only groups that can have an element of the list: an
element of another group is beaten by K maxima, each an element itself, that is greater, or equal
and of an earlier column. So a second launch, of a block a row, reads the maxima and some K groups.
"""

from __future__ import annotations

from fusegen.backend.cuda.schedule.tiles.scratch import Scratch
from fusegen.ir.monoid import KBest

GROUP_COLUMNS = 64  # neighbours whose greatest is kept
MOST_BEST = 512  # entries of a list; the slots below have room for more than are cut to
MOST_BYTES = 1 << 29  # of elements that are stored
SLOTS = 4096  # candidates in shared memory: the maxima of 262,144 columns
THREADS = 512  # of a block that has a row


def kept(k: int) -> int:
    """Candidates that a cut leaves, at most: also groups that are read."""
    return k + k // 8 + 16


def row_bytes(k: int) -> int:
    """Dynamic shared memory of a block that has a row: candidates, groups, and where they are
    counted."""
    return 8 * SLOTS + 4 * kept(k) + 4096


def stored(best: KBest, columns: int) -> tuple[Scratch, ...]:
    """What a launch over tiles of so many columns leaves of a list: values, and maxima as keys."""
    return (Scratch(f"{best.name}_values", "sums", "row_tile", columns, 4),
            Scratch(f"{best.name}_greatest", "slots", "row_tile", columns // GROUP_COLUMNS, 8))
