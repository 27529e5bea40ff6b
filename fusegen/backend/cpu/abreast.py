"""Which short rows stand abreast, one in every lane (emit/abreast.py): of how many columns."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cpu.schedule import CpuSchedule
from fusegen.ir.expr import Var
from fusegen.ir.kernel import COLUMN, FIRST_COLUMN, FromMemory, Kernel, Let, Sweep
from fusegen.ir.kernel_walk import is_plain, names_in

COLUMNS, COLUMNS_OF_LISTS = 256, 128
"""The longest of such rows: they are turned into columns in less time than lanes of each are
folded. With lists, of which every column meets every entry, shorter ones."""

LONGEST_LIST, SHORTEST_LIST = 16, 2
"""Longer lists are found row by row; the shortest cost no more than sums, or than wide vectors'
lanes folded one into the other."""

_SHAPES = {False: ("element", "scalar"), True: ("row", "list")}
"""Of arrays that are read, and of those that are written."""


@dataclass(frozen=True)
class Room:
    """For rows abreast."""

    fewest: int  # rows; fewer are folded one by one, where that gives the same bits
    least: int  # columns: lists are filled from them
    most: int


def room_abreast(kernel: Kernel, schedule: CpuSchedule) -> Room | None:
    """None where rows of the kernel cannot stand abreast, or are folded in shorter chunks."""
    if len(kernel.sweeps) != 1 or kernel.prelude or not _fits(kernel, kernel.sweeps[0]):
        return None
    monoid = kernel.sweeps[0].monoid
    entries = sum(c.k for c in monoid.lists)
    beside = bool(monoid.moving) or schedule.target.vector_bytes == 64
    few = not entries or (beside and entries <= SHORTEST_LIST)
    most = COLUMNS if few else COLUMNS_OF_LISTS
    least = max([1, *(c.k for c in monoid.lists)])
    fewest = schedule.lanes // 4 if _selects(kernel.sweeps[0]) else 1
    return Room(fewest, least, most) if schedule.chunk >= most else None


def _selects(sweep: Sweep) -> bool:
    """Are results values that are there, and columns? Nothing is rounded, in whatever order."""
    stored = all(isinstance(s.value, Var) and not s.entries.steps for s in sweep.list_stores)
    return stored and not (sweep.row_stores or sweep.steps or sweep.lets)


def _fits(kernel: Kernel, sweep: Sweep) -> bool:
    monoid = sweep.monoid
    plain = all(p.shape in _SHAPES[p.output] for p in kernel.params)
    tiles = [kernel.param(n) for n in sweep.streams]
    items = all(isinstance(s, FromMemory) for s in sweep.loads) and 0 < len(tiles) <= 2
    kinds = [*(b.kind for b in monoid.best), *(c.kind for c in monoid.lists),
             *(p.dtype.kind for p in tiles)]
    floats = all(kind == "float" for kind in kinds)
    alone = not (monoid.own or monoid.held or sweep.element_stores or sweep.masks)
    numbers = all(c.width == 1 for c in monoid.components)
    short = all(c.k <= LONGEST_LIST for c in monoid.lists)
    steps = all(isinstance(s, Let) for s in sweep.steps) and not any(
        s.takes for s in sweep.row_stores)
    own = {c.name for c in monoid.lists}
    entries = all(s.entries.top in own and is_plain(s) for s in sweep.list_stores)
    placed = {COLUMN.name, FIRST_COLUMN.name} & names_in(sweep)
    return (plain and items and floats and alone and numbers and short and steps and entries
            and not placed)
