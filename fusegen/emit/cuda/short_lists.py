"""Lists of rows that lanes hold, as the templates need them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fusegen.emit.cuda.dialect import CudaDialect
from fusegen.emit.cuda.rows import pointer_of
from fusegen.expr import Var
from fusegen.kernel import Kernel
from fusegen.monoid import KBest
from fusegen.schedule.cuda import CudaSchedule
from fusegen.schedule.short_lists import ShortPlan, short_plan

_PAIRS = {"float16": "HalfPairs", "bfloat16": "BfloatPairs"}


@dataclass(frozen=True)
class ShortList:
    """What is only said of lists of short rows."""

    plan: ShortPlan
    keys: str  # C++ type of what makes candidates from values and columns
    items: str  # of a chunk: those that are ranked as they are in memory; "" if none are
    brings: tuple[str, ...]  # one vector again, at `at`
    edge_lines: tuple[str, ...]  # from memory to the candidate at `edge`
    edge_value: str


def short_list(
    kernel: Kernel, best: KBest, schedule: CudaSchedule, dialect: CudaDialect, order: str,
    brings: Iterable[str], lines: Sequence[str],
) -> ShortList:  # fmt: skip
    """The list's part of a sweep; `lines` bring a candidate's value at `column`."""
    plan = short_plan(kernel, best, schedule)
    paired = schedule.lists == "sorted" and bool(plan.pair)
    loaded = best.lift.name if isinstance(best.lift, Var) else ""
    if not paired and (plan.pruned or schedule.lists == "counted"):
        dialect.use("greater_of")
    edge = f"{pointer_of(kernel.param(loaded))}[edge]" if paired else dialect.text(best.lift)
    return ShortList(
        plan=plan, keys=_PAIRS[plan.pair] if paired else f"LaneKeys<{order}>",
        items=f"{loaded}_items" if paired else "",
        brings=tuple(b.replace("live)", "1)").replace("kItems", "kWidth") for b in brings),
        edge_lines=() if paired else ("const column_t column = edge;", *lines), edge_value=edge,
    )  # fmt: skip
