"""Filtered lists where wgmma makes scores: candidates in rounds over more and more columns.

A sample of columns gives a row its first bound: the K-th greatest of the maxima of groups is the
score of K columns or more. A round goes over some tiles of columns and writes down what is not
below the bound; between rounds the bound rises to what the candidates so far say, and those below
are dropped. All blocks have a row's one list, so that a round lets through K·(columns so far) /
(columns before) of any row, whatever the splits are. What is left is scored as the text says.

Tiles are visited in steps prime to their number: any first ones are a fair sample of tiles. Where
neighbours are alike they are no fair sample of columns, and a row may have more candidates than
there is room for. Those that were kept still bound it, and in the end all such rows go over all
columns once more, with what bounds they have then. A row that has too many even so is scored in
full, and so is one of few columns, which have one round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from fusegen.backend.cuda.schedule.tiles.filters import Filter
from fusegen.backend.cuda.schedule.tiles.groups import (
    CHUNK,
    GROUP,
    SHARED_BYTES,
    STEP,
    GroupTiles,
)
from fusegen.backend.cuda.schedule.tiles.scratch import MapOf, Scratch
from fusegen.backend.cuda.schedule.tiles.splits import splits_of
from fusegen.backend.target import WARP
from fusegen.ir.dtypes import BFLOAT16
from fusegen.ir.kernel import Kernel

MOST_COLUMNS = 1 << 28  # a column and a row of 16 fit 32 bits
COPIED_ROWS = 256  # that are worth a copy of columns that tensor cores could read as they are
SHORT_COLUMNS, SHORT_K = 1024, 16  # of rows that have one round: at least, and at most
SHORT_WORK = 1 << 35  # products of numbers that are worth its launches
QUEUE = 256  # candidates that a warp holds back: as many as 16 x 16 scores may have
ROUNDING_BLOCKS = 640  # of the launch that rounds vectors: what an H200 holds at once
ROW_THREADS = 256  # of a block whose warps have a row each, or a vector
BOUND_WORDS = 8  # of a row: see RowBound of rounds.cuh
COLUMNS = 128  # of a tile
GROUPS = 4  # of a tile, whose maxima a sample keeps: a lane's columns
MOST_SAMPLED = 256  # tiles
_LEAST_AGAIN = 8  # tiles of a block, of rows that lost candidates: most blocks' have none
_FEW = 32  # entries of a list that the fewest rounds find; long ones are worth better bounds


def room(k: int, short: bool) -> int:
    """Candidates of a row that there is room for."""
    if short:
        return 256 if k <= 4 else 512
    return 1024 if k <= _FEW else 2048 if k <= 128 else 4096


def rounds_of(k: int, short: bool) -> int:
    return 1 if short else 3 if k <= _FEW else 5


@dataclass(frozen=True, slots=True)
class Visits:
    """Which tiles a launch goes over: those of round `number`, from 1 on; 0: of the sample."""

    k: int
    number: int
    short: bool = False  # are rows?
    again: bool = False  # all tiles, for rows that lost candidates

    def of(self, tiles: int) -> tuple[int, int]:
        """Their first and end, in the order in which tiles are visited."""
        if self.again:
            return 0, tiles
        return self._end(self.number - 1, tiles) if self.number > 1 else 0, \
            self._end(self.number, tiles)

    def splits(self, row_tiles: int, tiles: int, multiprocessors: int) -> int:
        """Blocks that share a tile of rows: all, where hardly any others are left to go over."""
        first, end = self.of(tiles)
        if self.again:
            return max(1, min(multiprocessors, (end - first) // _LEAST_AGAIN))
        return splits_of(row_tiles, end - first, multiprocessors)

    def _end(self, number: int, tiles: int) -> int:
        rounds = rounds_of(self.k, self.short)
        part = tiles // (8 if self.short else 64 if self.k <= _FEW else 32)
        sampled = min(tiles, MOST_SAMPLED, max(1, part, self.k // 2 if self.short else self.k))
        if number == rounds:
            return tiles
        return math.ceil(sampled * math.pow(tiles / max(1, sampled), number / rounds))


def spread(tiles: int) -> int:
    """The step from a visit's tile to the next one's."""
    step = max(1, int(tiles * 0.618)) | 1
    while math.gcd(step, tiles) > 1:
        step += 2
    return step % tiles if tiles > 1 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTiles(GroupTiles):
    """Row vectors stay while columns' come in stages."""

    @property
    def steps(self) -> int:
        """Products that make a tile of scores."""
        return -(-self.length // STEP)

    @property
    def shared_bytes(self) -> int:
        """Tiles with a number per column, queues, and barriers behind them."""
        column = self.chunks * CHUNK * 2
        tile = COLUMNS * (column + 4)
        queues = self.warpgroups * (GROUP // WARP) * QUEUE * 8
        return self.rows * column + self.stages * tile + queues + 1024


def round_tiles(length: int) -> RoundTiles:
    """The first of what was fast that fits."""
    shapes = [(4, 3), (4, 2), (3, 2), (2, 2), (1, 2)]
    made = (RoundTiles(warpgroups=w, stages=s, length=length) for w, s in shapes)
    return next(t for t in made if t.shared_bytes <= SHARED_BYTES)


def round_sizes(kernel: Kernel, warps: int, stages: int) -> RoundTiles:
    """Of a launch that goes over tiles."""
    length = next(p.k for p in kernel.params if p.dtype == BFLOAT16 and p.shape == "row_vector")
    return RoundTiles(warpgroups=warps * WARP // GROUP, stages=stages, length=length)


# ---- launches ----


Each = Literal["tile", "vector", "row", "batch"]


@dataclass(frozen=True, slots=True)
class Pass:
    """A launch whose blocks have a tile or a batch each, or whose warps have a vector or a row."""

    kernel: Kernel
    each: Each
    scratch: tuple[Scratch, ...]
    visits: Visits | None = None
    maps: tuple[MapOf, ...] = ()


NORMS = Scratch("column_norms", "sums", "launch", 3 * ROUNDING_BLOCKS, 4)
"""The greatest |y − c|, |y − c − y'| and |y − c| + |c| of each block that rounds."""
BARS = Scratch("row_bars", "sums", "row", 1, 4)
"""What some block found to be a row's K-th best rounded score, as an order of floats."""
UNUSUAL = Scratch("unusual", "sums", "launch", ROUNDING_BLOCKS, 4)
"""1 where a block met a column's vector that is not usual: see schedule/tiles/parts.py."""
BOUNDS = Scratch("row_bounds", "sums", "row", BOUND_WORDS, 4)
"""What of each row may be among the best: see RowBound of rounds.cuh."""
HALVES = Scratch("column_halves", "sums", "tile", COLUMNS, 4)
"""What a column's scores begin with, for whole tiles: −∞ where there is no column, ∞ where nothing
is known of it."""


def slots_of(kernel: Kernel, short: bool) -> Scratch:
    """A row's candidates, and behind them the best in order."""
    (best,) = kernel.sweeps[0].monoid.lists
    return Scratch(f"{best.name}_slots", "slots", "row", room(best.k, short) + best.k, 8)


def passes(
    first: Kernel, last: Kernel, found: Filter, in_rounds: bool, short: bool
) -> Iterator[Pass]:
    """All launches but those that go over all tiles: `first` rounds, `last` scores as the text
    says."""
    centres = Scratch("column_centres", "sums", "batch", found.length + 1, 4)
    columns = tuple(p for p in first.params if p.name == found.column)
    yield Pass(replace(first, name=f"{last.name}_centre", params=columns), "batch", (centres,))
    kept = (HALVES, BOUNDS) if in_rounds else (BARS,)
    yield Pass(first, "vector", (centres, NORMS, *kept))
    if in_rounds:
        yield from _rounds(last, found, short)


def _rounds(kernel: Kernel, found: Filter, short: bool) -> Iterator[Pass]:
    k, listed = found.best.k, (BOUNDS, slots_of(kernel, short))
    row, column = (replace(p, output=False) for p in found.rounded)
    maps = (MapOf(row.name, round_tiles(row.k).rows), MapOf(column.name, COLUMNS))

    def one(what: str, visits: Visits | None, *more: Scratch) -> Pass:
        tiles = HALVES in more
        made = replace(kernel, name=f"{kernel.name}_{what}", prelude=(), sweeps=(),
                       params=(row, column) if tiles else ())
        return Pass(made, "tile" if tiles else "row", (*more, *listed), visits,
                    maps if tiles else ())

    yield one("sample", Visits(k, 0, short), HALVES)
    yield one("bound", Visits(k, 0, short), NORMS)
    for number in range(1, rounds_of(k, short) + 1):
        yield one("filter", Visits(k, number, short), HALVES)
        if not short:
            yield one("raise", None)
    if not short:
        yield one("filter", Visits(k, 0, again=True), HALVES)
    yield Pass(kernel, "row", listed)
