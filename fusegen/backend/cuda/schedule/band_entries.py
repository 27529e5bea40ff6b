"""Lists of a band's rows whose entries wait in shared memory until neighbours have theirs."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cuda.schedule.cuda import IN_REGISTERS, CudaSchedule
from fusegen.ir.dtypes import INT32, DType
from fusegen.ir.expr import Var
from fusegen.ir.kernel import Kernel, Param

_FEW = {1: 2, 2: 8}
"""Lanes of a row, whose entries are far from those of the next row's lanes, and entries that they
write in less time than it takes to wait for the others."""


@dataclass(frozen=True, slots=True)
class WaitingList:
    """A list of K results, and what they are kept as: columns of a row fit 32 bits."""

    param: Param
    k: int
    dtype: DType

    @property
    def row_bytes(self) -> int:
        """In shared memory; an odd number of entries. (<fusegen/topk/band_entries.cuh> has the
        same.)"""
        return (self.k | 1) * self.dtype.itemsize


def waiting_lists(kernel: Kernel, schedule: CudaSchedule) -> tuple[WaitingList, ...]:
    """Those of a kernel."""
    return _of_few_lanes(kernel, schedule) if schedule.home.band_rows else ()


def row_bytes(kernel: Kernel, schedule: CudaSchedule) -> int:
    """Those of a row, if it comes in a band."""
    return sum(w.row_bytes for w in _of_few_lanes(kernel, schedule))


def _of_few_lanes(kernel: Kernel, schedule: CudaSchedule) -> tuple[WaitingList, ...]:
    if schedule.lists not in IN_REGISTERS or schedule.lanes not in _FEW:
        return ()
    found = []
    for store in (store for sweep in kernel.sweeps for store in sweep.list_stores):
        if store.entries.k <= _FEW[schedule.lanes]:
            continue
        param, column = kernel.param(store.param), f"{store.entries.top}_column"
        columns = isinstance(store.value, Var) and store.value.name == column
        found.append(WaitingList(param, store.entries.k, INT32 if columns else param.dtype))
    return tuple(found)
