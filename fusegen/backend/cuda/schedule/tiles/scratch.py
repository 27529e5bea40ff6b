"""What launches need beside a program's arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Scratch:
    """Device memory a launch needs beside the program's arrays.

    Tickets are 64-bit words by which blocks know turns, whose numbers only ever grow: zero before
    the first launch that uses them, then kept for the launches that follow on the same stream.
    """

    name: str
    kind: Literal["states", "entries", "slots", "tickets", "sums"]
    # A team: the blocks, or part of one, that share a row; a piece: what one of these has of a row;
    # a split: likewise, where there are several; a tile: of a batch's columns; a row_tile: of those
    # of a row.
    per: Literal[
        "row", "team", "block", "split", "piece", "launch", "tile", "row_tile", "batch"]
    count: int  # states, entries, slots, tickets, or numbers of a sum of vectors
    entry_bytes: int


@dataclass(frozen=True, slots=True)
class MapOf:
    """A tensor map of an array of vectors: copies take `box` of them at a time."""

    array: str
    box: int
