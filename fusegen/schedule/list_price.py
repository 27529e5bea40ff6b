"""What a schedule is expected to cost where a row has lists of its K best elements.

Fitted to times of the candidates on an H200, as the other prices are.
"""

from __future__ import annotations

from fusegen.schedule.cuda import CudaSchedule
from fusegen.schedule.price import Price, Work

_MANY = 512  # elements of a list from which on a sample of the row sets the first edge


def price_of_lists(one: CudaSchedule, work: Work, k: int) -> Price:
    """Price of a schedule for lists of up to k elements."""
    if work.rows is not None and work.few(one.target):
        return Price(tuple(_latencies(one, work, work.rows, k)), adds=True)
    factors = [("loads", _loads(one, work)), ("lists", _lists(one, k))]
    if work.rows is not None:
        factors.append(("parallelism", _idle(one, work.rows)))
    return Price(tuple(factors), adds=False)


def _loads(one: CudaSchedule, work: Work) -> float:
    """Loads wait for a tile's candidates, unless they are under way in a ring; that has to fill."""
    return 1.0 + 650 * one.blocks / work.vectors if one.stages else 1.09


def _lists(one: CudaSchedule, k: int) -> float:
    """Work on candidates: blocks of few threads wait less, and lists need the memory of rings."""
    narrow = one.width == 8
    large = 0.04 if one.threads > 128 and narrow and k < _MANY else 0.0
    small = 0.01 if one.stages and one.threads == 128 and not narrow else 0.0
    crowded = 0.12 if one.stages and k >= _MANY else 0.0
    merges = 0.05 * (one.blocks > 1) + 0.02 * one.blocks
    return 1.0 + large + small + crowded + merges


def _idle(one: CudaSchedule, rows: int) -> float:
    """Few blocks keep few loads under way: a ring has two more chunks of them."""
    blocks = rows * one.blocks / one.rows_per_block
    chunks = max(1, one.stages) * one.vectors * one.threads
    return max(1.0, 1.6 * one.target.multiprocessors * 1024 * 3 / (blocks * chunks)) ** 0.5


def _latencies(
    one: CudaSchedule, work: Work, rows: int, k: int
) -> list[tuple[str, float]]:
    """Microseconds of a few rows."""
    beside = -(-rows * one.blocks // one.target.multiprocessors)  # blocks on one multiprocessor
    tiles = work.vectors / one.blocks / (one.team_threads * one.vectors)
    tile = one.team_threads * one.vectors / 2048  # of the largest kind
    each = max(0.8 if one.stages else 1.0, 1.6 * beside * tile)
    gathered = 0.25 * one.blocks * (1 + k / 256) if one.blocks > 1 else 0.0
    start = 9.0 + k / 256 + (0.5 if one.stages else 0.0)
    return [("launch and list", start), ("tiles", tiles * each), ("slices", gathered)]
