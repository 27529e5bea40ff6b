"""Full rows of results that go past the caches, by non-temporal stores (results.hpp).

A line that is stored to a cache is read from memory first, and written back later: past the caches
a copy moves two thirds of the bytes. But what is read next should lie in a cache, if it can: others
use the last one, too, and C libraries copy past it from a quarter of it on, as is done here.
"""

from __future__ import annotations

import os
from functools import cache

from fusegen.ir.kernel import Kernel, Sweep

USUAL_BYTES = 32 << 20
"""Of the last cache, where the system does not say."""

SHARE = 4
"""Results fill more than one in so many of its bytes."""


def writes_rows(kernel: Kernel) -> bool:
    """Has it results with an element for each column? Then it is told whether they go past."""
    return column_bytes(kernel) > 0


def past_caches(sweep: Sweep, kernel: Kernel) -> tuple[str, ...]:
    """The arrays that the sweep stores, those of the smallest elements first. No sweep of the
    kernel reads them again."""
    stored = [kernel.param(s.param) for s in sweep.element_stores]
    return tuple(p.name for p in sorted(stored, key=lambda p: p.dtype.itemsize))


def column_bytes(kernel: Kernel) -> int:
    """Of a column of a row, in all arrays of results."""
    return sum(p.dtype.itemsize for p in kernel.params if p.output and p.shape == "element")


def outgrow_caches(n_bytes: int) -> bool:
    """Are results of so many bytes too many for the last cache? The C++ of exported libraries
    (cpu.hpp) asks the same."""
    return SHARE * n_bytes > last_cache()


@cache
def last_cache() -> int:
    """Its bytes."""
    try:
        found = os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system has it, or the name
        found = 0
    return found if found > 0 else USUAL_BYTES
