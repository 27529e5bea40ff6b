"""Bounded work, counted in steps of our own.

Seconds would make an answer depend on the machine and on what else it does: a law that is proved
while it is idle would be "neither proved nor refuted" while it is busy. Steps belong to the text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


class OutOfBounds(Exception):
    """More steps than an attempt may take."""


@dataclass(eq=False)
class Work:
    """What an attempt may still do; shared by all the cases that it meets."""

    left: float = math.inf

    def spend(self, steps: float) -> None:
        """Raises OutOfBounds."""
        self.left -= steps
        if self.left < 0:
            raise OutOfBounds
