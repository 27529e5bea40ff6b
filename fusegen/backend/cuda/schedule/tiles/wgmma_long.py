"""The wgmma engine over vectors that are too long to lie in shared memory (sm_90a): which kernels
it serves, in tiles of what size, and how their columns are dealt out.

Chunks of 64 numbers of both sides pass through shared memory; the scores of a tile stay in
registers over all of them, and are folded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusegen.backend.cuda.schedule.tiles.grouped import MOST_BEST
from fusegen.backend.cuda.schedule.tiles.groups import CHUNK, GROUP_ROWS, GroupTiles
from fusegen.backend.cuda.schedule.tiles.mma import Shape
from fusegen.backend.cuda.schedule.tiles.wgmma import MOST_LENGTH
from fusegen.backend.emit.vector_sums import vector_sums
from fusegen.ir.kernel import FromVectors, Kernel, Param
from fusegen.ir.monoid import KBest

FEW = 64  # rows: no more is one warpgroup's work, and reading the columns' vectors takes the time
GROUPED = 64  # tiles of rows that go over the same columns at a time, which the cache then has
READ_ONCE = 32  # rows: columns' vectors leave the cache first (16: 255 µs, not 268; 64: 282, 280)
_ITEM = 0.05  # what an item costs beside its tiles of columns, in tiles
_LARGE, _TALL, _SMALL = (2, 256, 4), (2, 128, 6), (1, 128, 8)  # warpgroups, columns, stages


@dataclass(frozen=True, slots=True)
class LongPair:
    """A long vector per row, and one per column."""

    row: Param
    column: Param

    @property
    def operand(self) -> Literal["float16", "bfloat16"]:
        return "float16" if self.row.dtype.number.name == "float16" else "bfloat16"


def long_pair_of(kernel: Kernel) -> LongPair | None:
    """None: the engine does not serve the kernel. It does where one sweep folds dots of two long
    vectors of 16 bits into numbers, or stores what it makes of them."""
    if len(kernel.sweeps) != 1 or kernel.compute.itemsize != 4:
        return None
    (sweep,) = kernel.sweeps
    made = [s for s in sweep.loads if isinstance(s, FromVectors)]
    if len(made) != 1 or not made[0].is_dot:
        return None
    if bool(sweep.element_stores) != sweep.monoid.is_empty:  # elements are stored, or folded
        return None
    if sweep.monoid.own or (sweep.monoid.lists and not grouped_list(kernel)):
        return None
    if vector_sums(kernel, sweep) or sweep.only is not None or sweep.span != (None, None):
        return None
    row, column = kernel.param(made[0].rows[0]), kernel.param(made[0].columns[0])
    kinds = {row.dtype.number.name, column.dtype.number.name}
    if len(kinds) > 1 or not kinds <= {"float16", "bfloat16"}:
        return None
    served = row.k > MOST_LENGTH and row.k % 8 == 0  # rows begin at multiples of 16 bytes
    return LongPair(row, column) if served else None


def grouped_list(kernel: Kernel) -> KBest | None:
    """The list that is found among maxima of groups, if the kernel has that one alone. See
    schedule/tiles/grouped.py."""
    (sweep,) = kernel.sweeps
    given = any(p.shape == "list" and not p.output for p in kernel.params)
    match sweep.monoid.lists:
        case (best,) if best.kind == "float" and best.k <= MOST_BEST and not given:
            return best
    return None


def long_mapped(kernel: Kernel) -> tuple[Param, ...]:
    """Arrays that the engine copies by tensor maps."""
    pair = long_pair_of(kernel)
    assert pair
    return (pair.row, pair.column)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTiles(GroupTiles):
    """Stages are of chunks of both sides."""

    columns: int

    @property
    def shared_bytes(self) -> int:
        """Chunks, and 1 KiB of barriers and items behind them."""
        return self.stages * (self.rows + self.columns) * CHUNK * 2 + 1024


def long_tiles(kernel: Kernel, shape: Shape) -> LongTiles:
    """The engine's sizes for a kernel that it serves."""
    pair = long_pair_of(kernel)
    assert pair
    return LongTiles(warpgroups=shape.rows // GROUP_ROWS, columns=shape.columns,
                     stages=shape.stages, length=pair.row.k)


def long_sizes(batch_rows: int | None) -> tuple[int, int, int]:
    """(warpgroups, columns, stages) for so many rows that share columns; None: for any number."""
    if batch_rows is None or batch_rows > 2 * FEW:
        return _LARGE
    return _SMALL if batch_rows <= FEW else _TALL  # more, smaller tiles end together


def long_splits(row_tiles: int, column_tiles: int, multiprocessors: int) -> int:
    """Items of a tile of rows, each of some columns: they are dealt out as blocks are done, and the
    last ones are to end together."""

    def cost(splits: int) -> tuple[float, int]:
        waves = -(-row_tiles * splits // multiprocessors)
        share = column_tiles / splits
        return waves * (share + _ITEM) + (-share) % 1, splits

    most = max(1, min(column_tiles, multiprocessors))
    return min(range(1, most + 1), key=cost)
