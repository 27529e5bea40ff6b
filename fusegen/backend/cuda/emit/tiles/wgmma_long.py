"""What templates/cuda/tiles/wgmma_long*.cuh.j2 print beside a kernel's folds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.tiles.sweep import SweptView
from fusegen.backend.cuda.emit.wgmma import Wgmma
from fusegen.backend.cuda.schedule.launch import Launch, best_launch
from fusegen.backend.cuda.schedule.tiles.grouped import (
    GROUP_COLUMNS,
    SLOTS,
    THREADS,
    kept,
    row_bytes,
    stored,
)
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule
from fusegen.backend.cuda.schedule.tiles.wgmma_long import (
    GROUPED,
    READ_ONCE,
    LongTiles,
    grouped_list,
    long_pair_of,
    long_tiles,
)

HEADERS = ("fusegen/meet/block.cuh", "fusegen/tiles/groups.cuh")
"""Of lists that are found among maxima of groups."""


@dataclass(frozen=True)
class BestView:
    """A list, and the launch that finds it."""

    symbol: str
    params: tuple[str, ...]
    values: str  # members of `given`
    greatest: str
    lowest: str  # C++: a value that no other is below
    greater: str
    group: int  # columns
    threads: int
    k: int
    slots: int
    kept: int
    cut_at: int
    room: int  # bytes of shared memory


@dataclass(frozen=True)
class LongView:
    """One kernel."""

    tiles: LongTiles
    products: tuple[Wgmma, ...]
    type: str  # of a vector's numbers
    maps: tuple[str, ...]  # parameters: of the rows, of the columns
    column_rows: str  # rows that share the columns' vectors, a member of `given`
    grouped: int
    few: int  # rows that do not keep their columns' vectors in the cache
    reads_rows: bool  # do folds ask more of a row than its number?
    best: BestView | None


def long_view(
    launch: Launch, schedule: TileSchedule, swept: SweptView, params: tuple[str, ...],
    dialect: CudaDialect,
) -> LongView:
    """A kernel that the engine serves. params: the C++ ones of the launch behind it."""
    kernel = launch.kernel
    pair, tiles = long_pair_of(kernel), long_tiles(kernel, schedule.words)
    assert pair
    opened = [*swept.fold.opened, *(ln for c in swept.lists for ln in c.opened)]
    return LongView(
        tiles=tiles, products=(Wgmma("multiply_scores", tiles.columns, pair.operand),),
        type=C_TYPES[pair.operand], maps=tuple(f"{p.name}_map" for p in (pair.row, pair.column)),
        column_rows=f"{pair.column.name}_rows", grouped=GROUPED, few=READ_ONCE,
        reads_rows=any("mine" in line.uses for line in opened),
        best=_best(launch, schedule, params, dialect) if schedule.grouped else None)


def _best(
    launch: Launch, schedule: TileSchedule, params: tuple[str, ...], dialect: CudaDialect
) -> BestView:
    best = grouped_list(launch.kernel)
    assert best
    symbol = best_launch(launch).symbol
    values, greatest = stored(best, schedule.columns)
    return BestView(symbol=symbol, params=params, values=values.name,
                    greatest=greatest.name,
                    lowest=dialect.number(-math.inf), greater=dialect.use("greater_of"),
                    group=GROUP_COLUMNS, threads=THREADS, k=best.k,
                    slots=SLOTS, kept=kept(best.k), cut_at=SLOTS * 3 // 4,
                    room=row_bytes(best.k))
