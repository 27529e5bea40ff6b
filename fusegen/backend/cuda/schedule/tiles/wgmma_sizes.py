"""Of the wgmma engine's tiles, the first of what was fast that fits: the one place that chooses."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.tiles.groups import CHUNK, GROUP_ROWS
from fusegen.backend.cuda.schedule.tiles.wgmma import Pair, WgmmaTiles, sized

_STORED_SPARE = 66  # registers for elements that are on their way from memory
_FEW_COLUMNS = 1024
_OF_PARTS = (2, 80), (2, 64), (1, 64), (1, 32)  # warpgroups and columns
_ONE_GROUP = (1, 128, 3)  # decoding, H200, 537 MB: 121.5 µs; with two warpgroups and stages 123.3


def tiles_of(
    pair: Pair, n_cols: int | None = None, batch_rows: int | None = None, *, brings: bool = False
) -> WgmmaTiles | None:
    """The first of what was fast that fits; brings: see `TileSchedule`."""
    plain = pair.summed and not (pair.again or pair.lists or pair.parts)
    late = _STORED_SPARE if pair.stored and not brings else 0
    if plain and batch_rows is not None and batch_rows <= GROUP_ROWS:
        found = sized(pair, *_ONE_GROUP, brings=brings)  # another would have no rows
        if found.fits(pair, late):
            return found
    shapes = [(w, c, 2) for w in (3, 2, 1) for c in (128, 96, 80, 64)]
    small = max(pair.row.k, pair.numbers) <= CHUNK
    if pair.masked and small:
        shapes.insert(0, (2, 128, 3))
    few = n_cols is not None and n_cols <= _FEW_COLUMNS
    brief = _brief(pair, few) if small else None
    if brief:
        return sized(pair, *brief)
    if brings:  # three warpgroups have too few registers (d 64: 810 us, two 475); one waits
        shapes = [s for s in [*shapes, (2, 48, 2)] if s[0] == 2]
    if pair.both and small and not pair.masked:  # entropy: 612 us, with 192 columns 627, 128: 661
        shapes[:0] = [(2, 208, 2), (2, 192, 2)]
    if not pair.summed:
        shapes = [(4, 128, 4), (4, 128, 3), (4, 128, 2), (3, 128, 2), (2, 128, 2)]
    if pair.again:
        shapes = [(w, c, 2) for w in (2, 1) for c in (128, 96, 64, 32)]
        if not pair.beside:
            shapes.insert(0, (3, 96, 2))
    if pair.lists:
        shapes = [(4, 64, 4), (4, 64, 3), (4, 64, 2), (2, 96, 3), (2, 64, 2), (1, 64, 2)]
    if pair.parts and pair.summed:
        shapes = [(2, 80, 2), (2, 64, 2), (2, 48, 2), (2, 32, 2), (1, 32, 2)]
    elif pair.parts:
        shapes = [(4, 128, 2), (3, 128, 2), (2, 128, 2), *((w, c, 2) for w, c in _OF_PARTS)]
    for spare in (late, 0) if late and pair.summed else (0,):
        for warpgroups, columns, stages in shapes:
            found = sized(pair, warpgroups, columns, stages, brings=brings)
            if found.fits(pair, spare) and (warpgroups < 3 or not pair.numbers or columns == 128):
                return found
    return None


def _brief(pair: Pair, few: bool) -> tuple[int, int, int] | None:
    """Tiles of short vectors where how items begin and end decides."""
    if not pair.summed or pair.others or pair.stored:
        return None
    beside = pair.both and pair.words <= 3 and not (pair.masked or pair.parts)
    if few and (pair.words <= 2 or beside):
        return 4, 64, 4  # entropy, 512 columns: 101 us, tiles of 192 138, of 128 118; 1024: 49, 65
    if pair.words <= 2 and pair.ends and not pair.both:
        return 3, 128, 2  # causal: 331 us, 2 x 128 columns 349
    return None
