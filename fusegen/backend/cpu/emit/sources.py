"""Where a sweep's items come from, as C++: one function for each kind of source.

`printed` is open: a new kind of source registers its function, and nothing else has to know it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.memory import load
from fusegen.backend.cpu.emit.names import fg
from fusegen.ir.errors import BackendError
from fusegen.ir.expr import Var
from fusegen.ir.expressions import convert
from fusegen.ir.kernel import COLUMN, ROW, FromMemory, FromVectors, Kernel, Layout


@singledispatch
def printed(source: object, kernel: Kernel, lanes: CpuDialect) -> list[str]:
    """Statements that declare the items from column `col` on, a vector of lanes of them. Raises
    BackendError for a kind of source that CPU kernels do not know."""
    raise BackendError(f"{kernel.name}: CPU kernels cannot take items from "
                       f"{type(source).__name__}")


@printed.register
def _from_memory(source: FromMemory, kernel: Kernel, lanes: CpuDialect) -> list[str]:
    return in_memory(source.param, Layout(), kernel, lanes)


@printed.register
def _from_vectors(source: FromVectors, kernel: Kernel, lanes: CpuDialect) -> list[str]:
    place = f"row.{source.name}_tile + (col - row.tile)"  # of a tile, which has whole vectors
    made = Var(load(kernel.compute, place, replace(lanes, partly=False)), "float", varying=True)
    kind = source.value.kind  # sums are made in floats, also those of whole numbers
    return [f"const {lanes.type_in(kind)} {source.name} = {lanes.text(convert(made, kind))};"]


def in_memory(name: str, layout: Layout, kernel: Kernel, lanes: CpuDialect) -> list[str]:
    """Items that are elements of an array's row, where the layout says: as many neighbours as a
    vector has lanes, or one by one."""
    dtype = kernel.param(name).dtype
    kind = lanes.type_in(dtype.kind)
    if layout.is_plain:
        return [f"const {kind} {name} = {load(dtype, f'row.{name} + col', lanes)};"]
    if layout.row != ROW:
        raise BackendError(f"{kernel.name}: CPU kernels take the items of {name} from their row")
    alone = replace(lanes, lanes=False)
    element = load(dtype, f"row.{name} + {alone.text(layout.column)}", alone)
    at = f"[&](int64_t {COLUMN.name}) {{ return {element}; }}"
    return [f"const {kind} {name} = {fg('one_by_one')}<V, {kind}>(col, {at});"]
