"""What rows cost that are not long: instructions and waves of shared memory beside bytes.

Where a row has few elements, what is done once a row counts as much as the elements themselves, and
lanes without elements as much as others. All schedules are priced alike, whoever owns a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from fusegen.backend.cuda.schedule.bands import Rows
from fusegen.backend.cuda.schedule.banks import waves
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures, ShortRows
from fusegen.backend.cuda.schedule.instructions import effort
from fusegen.backend.cuda.schedule.occupancy import resident
from fusegen.backend.cuda.schedule.price import price_of
from fusegen.backend.cuda.schedule.work import Price, Work
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Kernel, Program

MOST_COLUMNS = 4096  # of a row that what is done once a row still counts for
_HELD = 64  # elements that a lane has room for
_PIECE = 32  # bytes of memory that come together
_SHARP = 3  # how little what takes less adds to what takes most


@dataclass(frozen=True, slots=True)
class Short:
    """A program's rows, bytes of every array's element, bytes of the row's values."""

    program: Program
    rows: Rows
    sizes: tuple[int, ...]
    values: int

    @classmethod
    def of(cls, program: Program, rows: Rows) -> Short | None:
        """None of rows that are longer."""
        if rows.columns > MOST_COLUMNS:
            return None
        heaviest = max(program.kernels, key=_row_bytes)
        values = sum(p.dtype.itemsize for p in program.outputs if p.shape == "row")
        return cls(program, rows, tuple(p.dtype.itemsize for p in heaviest.elements), values)


def price_of_short(
    one: CudaSchedule, work: Work, short: Short, figures: Figures = FIGURES
) -> Price:
    """Price of a schedule for rows that are not long. For few rows, as that of any other."""
    price = price_of(one, work, figures)
    if price.adds or not short.sizes:
        return price
    f, target, n_cols = figures.short_rows, one.target, short.rows.columns
    moved = n_cols * sum(short.sizes) + short.values
    memory = moved / (target.bandwidth / target.multiprocessors)
    issue = effort(short.program, one).of_row(one, n_cols) / f.rate * _thin(one, work, f)
    busy = waves_of_row(one, short) / f.waves
    whole = (1.0 + (issue / memory) ** _SHARP + (busy / memory) ** _SHARP) ** (1 / _SHARP)
    kept = [(name, n) for name, n in price.parts if name not in ("merges", "fit", "registers")]
    held = one.items * len(short.sizes) / _HELD
    return Price((*kept, ("registers", 1.0 + f.held * max(0.0, held - 1.0)),
                  ("row ends", _ends(one, work, short, f)), ("instructions", whole)), adds=False)


def _thin(one: CudaSchedule, work: Work, f: ShortRows) -> float:
    """How much longer a multiprocessor issues where it has fewer warps than it takes to be busy."""
    if work.rows is None:
        return 1.0
    blocks = -(-work.rows // one.block_rows) * one.blocks / one.target.multiprocessors
    warps = min(resident(one, work), blocks) * one.threads / WARP
    return max(1.0, f.warps / warps)


def waves_of_row(one: CudaSchedule, short: Short) -> float:
    """Of shared memory, for a row that passes through it on its way to lanes."""
    if not one.home.band_rows:
        return 0.0
    each = [fmean(waves(d, size, one.lanes, one.width, one.home.rows_apart)
                  for d in short.rows.distances(one.team_items, size)) for size in short.sizes]
    return _vectors(one, short) * sum(each) * one.lanes / WARP


def _ends(one: CudaSchedule, work: Work, short: Short, f: ShortRows) -> float:
    """Rows that begin and end inside pieces of memory: of every access, as many lanes as own a row
    reach for one piece more than they fill."""
    apart = one.in_warp and one.home.of_threads and not one.home.band_rows and work.stores
    if not apart or one.load == "aligned":
        return 1.0
    return 1.0 + f.ends * _PIECE / (one.lanes * one.width * min(short.sizes))


def _row_bytes(kernel: Kernel) -> int:
    return sum(p.dtype.itemsize for p in kernel.elements)


def _vectors(one: CudaSchedule, short: Short) -> int:
    """Of a lane that has most of them."""
    return -(-max(1, short.rows.columns // one.width) // one.lanes)
