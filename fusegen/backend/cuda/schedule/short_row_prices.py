"""What short rows that lanes own cost: instructions and waves of shared memory beside bytes.

Where a row has few elements, what a lane does once a row counts as much as the elements themselves,
and lanes without elements as much as others. Rough counts of generated code, for texts of few
statistics; every further member of a state takes as much again.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from fusegen.backend.cuda.schedule.cuda import CudaSchedule, LoadMode
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures, ShortRows
from fusegen.backend.cuda.schedule.price import Price, Work, price_of
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Kernel, Program

_BANKS = 32  # of four bytes each
_SHARP = 3  # how little what takes less adds to what takes most


@dataclass(frozen=True, slots=True)
class Short:
    """A program's rows: columns, bytes of an array's element, members of the largest state."""

    n_cols: int
    sizes: tuple[int, ...]
    members: int

    @classmethod
    def of(cls, program: Program, n_cols: int) -> Short:
        members = max(len(s.monoid.components) for s in program.sweeps)
        heaviest = max(program.kernels, key=_row_bytes)
        return cls(n_cols, tuple(p.dtype.itemsize for p in heaviest.elements), members)


def price_of_short(
    one: CudaSchedule, work: Work, short: Short, figures: Figures = FIGURES
) -> Price:
    """Price of a schedule whose rows lanes of a warp own. For few rows, as that of any other."""
    price = price_of(one, work, figures)
    if price.adds or not short.sizes:
        return price
    f, target = figures.short_rows, one.target
    memory = short.n_cols * sum(short.sizes) / (target.bandwidth / target.multiprocessors)
    rows = WARP // one.lanes  # of a warp at a time
    issue = _instructions(one, short, f) / rows / f.rate
    waves = 0.0
    if one.home.band_rows:
        each = [_waves(short.n_cols, size, one.lanes, one.width) for size in short.sizes]
        waves = _vectors(one, short) * sum(each) / rows / f.waves
    whole = (1.0 + (issue / memory) ** _SHARP + (waves / memory) ** _SHARP) ** (1 / _SHARP)
    kept = [(name, n) for name, n in price.parts if name not in ("merges", "fit", "registers")]
    return Price((*kept, ("instructions", whole)), adds=False)


def _row_bytes(kernel: Kernel) -> int:
    return sum(p.dtype.itemsize for p in kernel.elements)


def _vectors(one: CudaSchedule, short: Short) -> int:
    """Of a lane that has most of them."""
    return -(-max(1, short.n_cols // one.width) // one.lanes)


def _instructions(one: CudaSchedule, short: Short, f: ShortRows) -> float:
    """Of a warp, for as many rows as it has at a time."""
    load: LoadMode = one.load
    banded, width = one.home.band_rows > 0, one.width
    item = f.item_apart if load == "shifted" or (width == 1 and not banded) else (
        f.item if width > 1 else f.item_banded)
    row = (f.row_banded if banded else f.row) + (f.edges if one.has_edges else 0.0)
    rounds = math.log2(one.lanes) * f.round
    more = short.members / 2 - 1.0  # beside a pair, of what a pair takes
    return (row * (1.0 + f.more_row * more) + rounds * max(0.5, 1.0 + more)
            + _vectors(one, short) * width * item * (1.0 + f.more_item * more))


def _waves(n_cols: int, size: int, lanes: int, width: int) -> int:
    """Times that shared memory is busy until a warp's lanes have a vector each, of packed rows."""
    n_bytes = width * size
    together = min(WARP, max(1, WARP * 4 // n_bytes))  # lanes that it serves at a time
    total = 0
    for first in range(0, WARP, together):
        words = set()
        for lane in range(first, first + together):
            row, rank = divmod(lane, lanes)
            at = (row * n_cols + rank * width) * size
            words |= {*range(at // 4, (at + n_bytes + 3) // 4)}
        total += max(Counter(word % _BANKS for word in words).values())
    return total
