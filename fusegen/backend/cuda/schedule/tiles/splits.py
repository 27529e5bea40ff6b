"""How many blocks share rows, each with some tiles of their columns."""

from __future__ import annotations

_OVERHEAD_TILES = 2  # what an item costs beside its tiles of columns
_MERGE_TILES = 1  # what it costs more where states of parts are merged


def splits_of(row_tiles: int, column_tiles: int, multiprocessors: int) -> int:
    """Blocks that share a tile of rows, so that all of a device's have as much to do."""

    def cost(splits: int) -> tuple[int, int]:
        waves = -(-row_tiles * splits // multiprocessors)
        overhead = _OVERHEAD_TILES + (_MERGE_TILES if splits > 1 else 0)
        return waves * (-(-column_tiles // splits) + overhead), splits

    most = max(1, min(column_tiles, 2 * multiprocessors))
    return min(range(1, most + 1), key=cost)

