"""Lists of rows that lanes hold, as the templates need them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fusegen.backend.cuda.bring import Bring
from fusegen.backend.cuda.emit.dialect import C_TYPES, PAIR_TYPES, CudaDialect
from fusegen.backend.cuda.emit.places import pointer_of
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.short_lists import ShortPlan, short_plan
from fusegen.backend.emit.lines import Line
from fusegen.ir.expr import Var
from fusegen.ir.kernel import Kernel
from fusegen.ir.monoid import KBest

_PAIRS = {n: f"PairKeys<{C_TYPES[n]}, column_t>" for n in PAIR_TYPES}


@dataclass(frozen=True)
class ShortList:
    """What is only said of lists of short rows."""

    plan: ShortPlan
    keys: str  # C++ type of what makes candidates from values and columns
    items: str  # of a chunk: those that are ranked as they are in memory; "" if none are
    brings: tuple[Line, ...]  # one vector again, at `at`
    edge_lines: tuple[Line, ...]  # from memory to the candidate at `edge`
    edge_value: str
    pointer: str  # to the row of those items, and their C++ type
    type: str


def short_list(
    kernel: Kernel, best: KBest, schedule: CudaSchedule, dialect: CudaDialect, made: str,
    brings: Iterable[Bring], lines: Sequence[Line],
) -> ShortList:
    """The list's part of a sweep; `lines` bring a candidate's value at `column`,
    and a key is `made` of an order and a column."""
    plan = short_plan(kernel, best, schedule)
    paired = schedule.lists in ("sorted", "collected") and bool(plan.pair)
    loaded = best.lift.name if isinstance(best.lift, Var) else ""
    if not paired and plan.pruned:
        dialect.use("greater_of")
    param = kernel.param(loaded) if paired else None
    edge = f"{pointer_of(param)}[edge]" if param else dialect.text(best.lift)
    return ShortList(
        plan=plan, keys=_PAIRS[plan.pair] if paired else f"LaneKeys<{made}>",
        items=f"{loaded}_items" if paired else "",
        brings=tuple(ln for b in brings for ln in b.lines("1", "kWidth")),
        edge_lines=() if paired else (Line("const column_t column = edge;"), *lines),
        edge_value=edge, pointer=pointer_of(param) if param else "",
        type=C_TYPES[param.dtype.name] if param else "",
    )
