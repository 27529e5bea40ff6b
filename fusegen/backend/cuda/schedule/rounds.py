"""Filtered lists where wgmma makes scores: candidates in rounds over more and more columns.

A sample of columns gives a row its first bound: the K-th greatest of the maxima of groups is the
score of K columns or more. A round goes over some tiles of columns and writes down what is not
below the bound; between rounds the bound rises to what the candidates so far say, and those below
are dropped. All blocks have a row's one list, so that a round lets through K·(columns so far) /
(columns before) of any row, whatever the splits are. What is left is scored as the text says.

Tiles are visited in steps prime to their number: any first ones are a fair sample of columns in
whatever order these come. A row whose candidates were more than there is room for is scored in
full.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusegen.backend.cuda.schedule.filters import Filter
from fusegen.backend.cuda.schedule.scratch import MapOf, Scratch
from fusegen.backend.cuda.schedule.wgmma import CHUNK, GROUP, GROUP_ROWS, SHARED_BYTES, STEP
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Kernel

MOST_COLUMNS = 1 << 28  # a column and a row of 16 fit 32 bits
QUEUE = 256  # candidates that a warp holds back: as many as 16 x 16 scores may have
ROW_THREADS = 256  # of a block whose warps have a row each
BOUND_WORDS = 8  # of a row: see RowBound of rounds.cuh
COLUMNS = 128  # of a tile
GROUPS = 4  # of a tile, whose maxima a sample keeps: a lane's columns
MOST_SAMPLED = 256  # tiles
_SAMPLED = 64  # one tile of so many
_PRODUCER_REGISTERS, _ALL_REGISTERS = 32, 65536


def room(k: int) -> int:
    """Candidates of a row that there is room for."""
    return 1024 if k <= 32 else 2048 if k <= 128 else 4096


def rounds_of(k: int) -> int:
    return 3 if k <= 32 else 4


@dataclass(frozen=True, slots=True)
class Visits:
    """Which tiles a launch goes over: those of round `number`, from 1 on; 0: of the sample."""

    k: int
    number: int

    def of(self, tiles: int) -> tuple[int, int]:
        """Their first and end, in the order in which tiles are visited."""
        return self._end(self.number - 1, tiles) if self.number > 1 else 0, \
            self._end(self.number, tiles)

    def _end(self, number: int, tiles: int) -> int:
        sampled = min(tiles, MOST_SAMPLED, max(tiles // _SAMPLED, self.k))
        if number == rounds_of(self.k):
            return tiles
        return math.ceil(sampled * math.pow(tiles / max(1, sampled), number / rounds_of(self.k)))


def spread(tiles: int) -> int:
    """The step from a visit's tile to the next one's."""
    step = max(1, int(tiles * 0.618)) | 1
    while math.gcd(step, tiles) > 1:
        step += 2
    return step % tiles if tiles > 1 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTiles:
    """Sizes of a block's tiles. Row vectors stay while columns' come in stages."""

    warpgroups: int  # that look at scores, of 64 rows each; one more has tiles copied
    stages: int
    length: int

    @property
    def rows(self) -> int:
        return GROUP_ROWS * self.warpgroups

    @property
    def threads(self) -> int:
        return GROUP * (self.warpgroups + 1)

    @property
    def chunks(self) -> int:
        return -(-self.length // CHUNK)

    @property
    def steps(self) -> int:
        """Products that make a tile of scores."""
        return -(-self.length // STEP)

    @property
    def producer_registers(self) -> int:
        return _PRODUCER_REGISTERS

    @property
    def consumer_registers(self) -> int:
        """setmaxnreg waits for ever where all together ask for more than the launch allots."""
        share = _ALL_REGISTERS // self.threads // 8 * 8
        spare = share * (self.warpgroups + 1) - self.producer_registers
        return min(240, spare // self.warpgroups // 8 * 8)

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


# ---- launches ----


@dataclass(frozen=True, slots=True)
class Pass:
    """A launch over what rounding left: of tiles, or of a row for each warp."""

    kernel: Kernel
    scratch: tuple[Scratch, ...]
    visits: Visits | None = None
    maps: tuple[MapOf, ...] = ()


BOUNDS = Scratch("row_bounds", "sums", "row", BOUND_WORDS, 4)
"""What of each row may be among the best: see RowBound of rounds.cuh."""
HALVES = Scratch("column_halves", "sums", "tile", COLUMNS, 4)
"""−½|y|² of every column of whole tiles; 0 where dots are ranked, −∞ where there is no column, ∞
where nothing is known of it."""


def slots_of(kernel: Kernel) -> Scratch:
    """A row's candidates, and behind them the best in order."""
    (best,) = kernel.sweeps[0].monoid.lists
    return Scratch(f"{best.name}_slots", "slots", "row", room(best.k) + best.k, 8)


def passes(kernel: Kernel, found: Filter, norms: Scratch) -> Iterator[Pass]:
    """The launches behind the one that rounds; `kernel` is the last one's."""
    k, slots = found.best.k, slots_of(kernel)
    tiles = round_tiles(found.rounded[0].k)
    row, column = found.rounded
    vectors = tuple(replace(p, output=False) for p in (row, column))
    maps = (MapOf(row.name, tiles.rows), MapOf(column.name, COLUMNS))
    listed = (BOUNDS, slots)

    def one(what: str, visits: Visits | None, *more: Scratch) -> Pass:
        made = replace(kernel, name=f"{kernel.name}_{what}", prelude=(), sweeps=(),
                       params=vectors if what in ("sample", "filter") else ())
        return Pass(made, (*more, *listed), visits, maps if made.params else ())

    yield one("sample", Visits(k, 0), HALVES)
    yield one("bound", Visits(k, 0), norms)
    for number in range(1, rounds_of(k) + 1):
        yield one("filter", Visits(k, number), HALVES)
        if number < rounds_of(k):
            yield one("raise", None)
    yield Pass(kernel, listed)
