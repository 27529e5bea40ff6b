"""What templates/cuda/tiles/wgmma_long*.cuh.j2 print beside a kernel's folds."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import C_TYPES
from fusegen.backend.cuda.emit.tiles.views import FoldView
from fusegen.backend.cuda.emit.wgmma import Wgmma
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule
from fusegen.backend.cuda.schedule.tiles.wgmma_long import (
    GROUPED,
    LongTiles,
    long_pair_of,
    long_tiles,
)
from fusegen.ir.kernel import Kernel


@dataclass(frozen=True)
class LongView:
    """One kernel."""

    tiles: LongTiles
    products: tuple[Wgmma, ...]
    type: str  # of a vector's numbers
    maps: tuple[str, ...]  # parameters: of the rows, of the columns
    column_rows: str  # rows that share the columns' vectors, a member of `given`
    grouped: int
    reads_rows: bool  # do folds ask more of a row than its number?


def long_view(kernel: Kernel, schedule: TileSchedule, fold: FoldView) -> LongView:
    """A kernel that the engine serves."""
    pair, tiles = long_pair_of(kernel), long_tiles(kernel, schedule.words)
    assert pair
    return LongView(
        tiles=tiles, products=(Wgmma("multiply_scores", tiles.columns, pair.operand),),
        type=C_TYPES[pair.operand], maps=tuple(f"{p.name}_map" for p in (pair.row, pair.column)),
        column_rows=f"{pair.column.name}_rows", grouped=GROUPED,
        reads_rows=any("mine" in line.uses for line in fold.opened))
