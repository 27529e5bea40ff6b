"""Budgets of time on any machine: where one is exceeded, how slow the machine is counts."""

from __future__ import annotations

import time
from collections.abc import Callable

_STEPS, _USUAL_SECONDS = 1_000_000, 0.08  # of a loop, on a machine that budgets are set for


def _slowness() -> float:
    start, total = time.process_time(), 0
    for i in range(_STEPS):
        total += i * i
    return (time.process_time() - start) / _USUAL_SECONDS


def within(seconds: float, budget: float, slowness: Callable[[], float] = _slowness) -> bool:
    """Did work take no longer, in processor seconds, than it may on the usual machine? `slowness`:
    how many times as long as there the like of it takes here."""
    return seconds < budget or seconds < budget * slowness()


def ever_within(seconds: Callable[[], float], budget: float) -> bool:
    """The same of work that can be done again, three times at most: others slow a processor down
    for some seconds, and what the loop above takes a moment later does not show it."""
    return any(within(seconds(), budget) for _ in range(3))
