"""What moving so many bytes takes at least, from plain kernels over a ladder of sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from streams.limits import Limits

SIZES = tuple(1 << k for k in range(14, 30))  # 16 KiB to 512 MiB


@dataclass(frozen=True)
class Floor:
    """Microseconds by bytes that are read, and that are read and written again."""

    reading: Mapping[int, float]
    copying: Mapping[int, float]

    def us(self, read: int, written: int) -> float:
        """What goes both ways takes a copy's time, the rest that of reading; writing alone is no
        faster. The launch counts once."""
        both, rest = min(read, written), abs(read - written)
        return _at(self.copying, both) + _at(self.reading, rest) - _at(self.reading, 0)


def measured(limits: Limits) -> Floor:
    return Floor({n: limits.read(n).us for n in SIZES}, {n: limits.copy(n).us for n in SIZES})


def _at(known: Mapping[int, float], size: int) -> float:
    """Along lines between the sizes that were measured; bytes cost past the last what they cost
    there."""
    sizes = sorted(known)
    if size <= sizes[0]:
        return known[sizes[0]]
    if size >= sizes[-1]:
        return known[sizes[-1]] * size / sizes[-1]
    low = 1 << int(math.log2(size))
    part = (size - low) / low
    return known[low] * (1 - part) + known[low * 2] * part
