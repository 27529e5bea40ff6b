"""Lists of scores that bounds go ahead of: what they leave out is not scored
(fusegen/cpu/bounds.hpp)."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.state import gathers
from fusegen.backend.cpu.schedule import CpuSchedule
from fusegen.backend.emit.ranked import Order, is_turned, only_list, order_of
from fusegen.ir.dtypes import FLOAT32
from fusegen.ir.kernel import FromVectors, Kernel, Sweep
from fusegen.ir.monoid import Best, KBest

LEAST_LENGTH = 8  # of vectors: what is spared of shorter ones is little


@dataclass(frozen=True)
class BoundView:
    """How the scores of a sweep's one list are bounded."""

    row: str  # arrays
    column: str
    length: int
    distances: bool  # or dots
    bar: str  # C++: what the bound of a column must reach that may enter the list


def bound_view(kernel: Kernel, sweep: Sweep, schedule: CpuSchedule) -> BoundView | None:
    """None where a sweep is more than one short list of dots or distances in float32, or where no
    processor has products of bfloat16."""
    best = only_list(sweep.monoid)
    if best is None or kernel.compute != FLOAT32 or not schedule.may_bound:
        return None
    if sweep.only is not None or sweep.span != (None, None) or sweep.element_stores:
        return None
    match sweep.loads, sweep.monoid.components:
        case (FromVectors(rows=(row,), columns=(column,)) as source,), ((Best() | KBest()) as one,):
            order, length = order_of(source, best.lift), kernel.param(row).k
        case _:
            return None
    if order is None or order.turned or length < LEAST_LENGTH or gathers(one, kernel):
        return None
    return BoundView(row, column, length, order.ranked == "nearest", _bar(one, order, length))


def _bar(one: Best | KBest, order: Order, length: int) -> str:
    worst = f"{'-' if is_turned(one.lift) else ''}{fg('last_of')}(state.{one.name})"
    if order.ranked == "dots":
        return f"{fg('dot_bar')}(tiles.squares[r], {worst})"
    squared = f"{fg('squared')}({worst})" if order.rooted else worst
    return f"{fg('distance_bar')}(tiles.squares[r], {squared}, {length})"
