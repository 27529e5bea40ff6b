"""How many registers a thread may use, and how compilers are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RegisterLimit = Literal[32, 40, 48, 56, 64, 72, 80, 128, 255]


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest block of a source, and how many of these shall fit a multiprocessor: compilers
    share its registers out among so many threads."""

    threads: int
    blocks: int = 1


HELD: tuple[RegisterLimit, ...] = (40, 48, 56, 64, 72, 80, 128)
"""Limits where all blocks of a source have one size."""

BOUNDS: dict[RegisterLimit, Bound] = {
    32: Bound(1024, 2), 40: Bound(768, 2), 48: Bound(640, 2), 56: Bound(576, 2),
    64: Bound(1024), 80: Bound(256, 3), 128: Bound(512), 255: Bound(256),
}
