"""Where a sweep's items come from, as CUDA C++: one function for each kind of source.

`printed` is open: a new kind of source registers its function, and nothing else has to know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from fusegen.backend.cuda.bring import SHIFTED, Bring
from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.places import (
    array_name,
    body_of,
    edge_line,
    edge_of,
    load_line,
    loaded_line,
    pointer_of,
)
from fusegen.backend.cuda.schedule.anchors import loader_of
from fusegen.backend.cuda.schedule.caching import Caching
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import PER_VECTOR, as_it_lies
from fusegen.backend.cuda.schedule.on_chip import asks_before, folds_as_it_lies, kept_params
from fusegen.backend.emit.lines import Line
from fusegen.ir.errors import BackendError
from fusegen.ir.expr import Var, substitute
from fusegen.ir.kernel import COLUMN, ROW, FromMemory, Kernel, Layout, Param, Sweep

_CACHING: dict[Caching, str] = {
    "kept": "", "past L1": "<kPastL1>", "first out": "<kFirstOut>",
}


@dataclass(frozen=True)
class LoadView:
    """One array as a sweep reads it."""

    type: str
    name: str
    pointer: str
    kept: bool  # is it on chip from the first sweep on?
    narrow: bool  # are several elements packed into a register?
    loader: str  # the function that brings its items
    body: str = ""  # pointer to the first vector, if copies go to shared memory
    shared: bool = False  # do all rows share it?


@dataclass(frozen=True)
class SourceView:
    """What a sweep prints of a source."""

    name: str
    item: Line  # the value of item i of a chunk
    alone: Line  # the value at `column`, apart from any chunk
    load: LoadView | None = None  # the array that items come from, chunk by chunk
    brings: tuple[Bring, ...] = ()  # how a chunk's items come
    held: tuple[Bring, ...] = ()  # likewise of the chunk in registers, where others are elsewhere
    stashed: tuple[Bring, ...] = ()  # and of a chunk in shared memory, where it is in both
    early: bool = False  # does a chunk come while the one before it is worked on?
    asked: bool = False  # are they asked for while the sweep before looks at the row?
    vector: tuple[Line, ...] = ()  # the items of one `vector`
    ring: Line | None = None  # the value at `place` of a ring in shared memory
    edge: tuple[Line, ...] = ()  # this thread's element at the edges of the row
    value: str = ""  # of item i in one expression


@dataclass(frozen=True)
class Reader:
    """The sweep that a source is printed for."""

    kernel: Kernel
    sweep: Sweep
    schedule: CudaSchedule
    dialect: CudaDialect

    @property
    def first(self) -> bool:
        return self.sweep is self.kernel.sweeps[0]


@singledispatch
def printed(source: object, reader: Reader) -> SourceView:
    """A source as CUDA C++. Raises BackendError for a kind that CUDA kernels do not know."""
    raise BackendError(f"{reader.kernel.name}: CUDA kernels cannot take items from "
                       f"{type(source).__name__}")


@printed.register
def _from_memory(source: FromMemory, reader: Reader) -> SourceView:
    return in_memory(source.param, Layout(), reader)


def in_memory(name: str, layout: Layout, reader: Reader) -> SourceView:
    """Items that are elements of an array, where the layout says."""
    param = reader.kernel.param(name)
    if reader.schedule.strip:
        return _down(param, layout, reader)
    load = _load(param, layout, reader)
    items, pointer = f"{name}_items", load.pointer
    column, uses = place_of(layout, reader.dialect)
    value = reader.dialect.item(items, param.dtype, reader.schedule.width)
    item = loaded_line(param, value, reader.dialect, items)
    alone = load_line(param, f"{pointer}[{column}]", reader.dialect, *uses)
    ring = load_line(param, f"{name}_ring[place]", reader.dialect)
    edge = edge_of(reader.sweep, reader.kernel, reader.schedule)
    brings = _brings(load, layout, reader)
    return SourceView(
        name=name, item=item, value=value, alone=alone, load=load, brings=brings,
        held=_held(load, brings, reader),
        early=load.shared and reader.schedule.home.ahead and not reader.first
        and load.loader == "load_items",
        asked=layout.is_plain and asks_before(param, reader.sweep, reader.kernel, reader.schedule),
        vector=_vector(load, layout, reader), ring=ring if load.loader == "fetch_chunk" else None,
        edge=(edge_line(param, pointer, layout_at(edge, layout, reader.dialect), edge),),
    )


def place_of(layout: Layout, dialect: CudaDialect) -> tuple[str, frozenset[str]]:
    """The column that an item at `column` is found at, and the names that this takes."""
    return dialect.text(layout.column), dialect.uses(layout.column)


def layout_at(column: str, layout: Layout, dialect: CudaDialect) -> str:
    """The column that the item at some column is found at."""
    return dialect.text(substitute(layout.column, {COLUMN.name: Var(column, "int")}))


def columns_of(numbers: str, layout: Layout, dialect: CudaDialect) -> str:
    """A function from a chunk's item to its place, `numbers` that of its column."""
    if layout.is_plain:
        return numbers
    place, _ = place_of(layout, dialect)
    return f"[&](int i) {{ const column_t column = ({numbers})(i); return {place}; }}"


def _load(param: Param, layout: Layout, reader: Reader) -> LoadView:
    schedule, shared = reader.schedule, param.shape == "per_column"
    kept = layout.is_plain and param in kept_params(reader.kernel, schedule)
    return LoadView(
        type=C_TYPES[param.dtype.name], name=param.name, pointer=_pointer(param, layout, reader),
        kept=kept, body=body_of(param, schedule), narrow=param.dtype.itemsize < 4, shared=shared,
        loader=schedule.home.loader if kept else "load_columns" if not layout.is_plain
        else "fetch_chunk" if schedule.home.stages and not shared
        else loader_of(param, reader.kernel, schedule),
    )


def _pointer(param: Param, layout: Layout, reader: Reader) -> str:
    if layout.row == ROW or param.shape != "element":
        return pointer_of(param)
    return f"({param.name} + ({reader.dialect.text(layout.row)}) * {param.name}_stride)"


def _brings(load: LoadView, layout: Layout, reader: Reader) -> tuple[Bring, ...]:
    """How the items of a chunk of this array are fetched; nothing where they just are there."""
    if load.kept:
        if reader.first and folds_as_it_lies(reader.kernel, reader.schedule):
            return (as_it_lies(load.name, load.type),)
        return reader.schedule.home.brings(load.name, load.type)
    if load.loader in SHIFTED:
        return (Bring.from_memory(load.loader, load.name, load.type, f"{load.body}, at"),)
    items = f"{load.name}_items"
    columns = columns_of("column_of", layout, reader.dialect)
    call = {
        "load_items": f"load_items{_cached(load, reader.schedule)}({items}, {load.body}, at",
        "load_columns": f"load_columns({items}, {load.pointer}, {columns}",
        "fetch_chunk": f"read_items({items}, {load.name}_ring, slot",
    }[load.loader]
    return (Bring(items, load.type, call),)


def _cached(load: LoadView, schedule: CudaSchedule) -> str:
    """What is said of caches to a function that loads rows; what all rows share is kept."""
    return "" if load.shared else _CACHING[schedule.caching]


def _held(load: LoadView, brings: tuple[Bring, ...], reader: Reader) -> tuple[Bring, ...]:
    """As `brings`, of the chunk in registers, where the rest of a row is elsewhere."""
    if not load.kept:
        return brings
    maps = not reader.sweep.monoid.has_scalars
    return reader.schedule.home.in_registers(load.name, load.type, maps=maps)


def _vector(load: LoadView, layout: Layout, reader: Reader) -> tuple[Line, ...]:
    """The items of one vector, wherever it lies in the row."""
    items = f"{load.name}_items"
    call = f"load_vector({items}, 0, {load.body} + vector * kWidth);"
    if load.loader == "load_shifted":
        call = f"load_shifted({items}, {load.body}, vector, 1);"
    if load.loader == "load_columns":
        columns = columns_of("[&](int i) { return first + i; }", layout, reader.dialect)
        call = f"load_columns({items}, {load.pointer}, {columns}, 1);"
    return (Line(f"Items<{load.type}, kWidth> {items};", declares=items),
            Line(call, frozenset([items])))


def _down(param: Param, layout: Layout, reader: Reader) -> SourceView:
    """Of rows side by side: in registers, in shared memory, in memory."""
    if not layout.is_plain:
        raise BackendError(f"{reader.kernel.name}: rows side by side take items in order")
    name, home = param.name, reader.schedule.home
    kept = param in kept_params(reader.kernel, reader.schedule)
    load = LoadView(
        type=C_TYPES[param.dtype.name], name=name, pointer=array_name(param), kept=kept,
        narrow=False, loader="load_items", shared=param.shape == "per_column",
    )
    items = f"{name}_items"
    call = f"load_along({items}, {load.pointer}, at" if load.shared else (
        f"load_items{_cached(load, reader.schedule)}({items}, {name}_rows, {name}_stride, at")
    memory = (Bring(items, load.type, call, per="" if load.shared else PER_VECTOR),)
    value = reader.dialect.item(items, param.dtype, reader.schedule.width)
    item = loaded_line(param, value, reader.dialect, items)
    maps = not reader.sweep.monoid.has_scalars
    return SourceView(
        name=name, item=item, alone=item, load=load, brings=memory,
        held=home.in_registers(name, load.type, maps=maps) if kept else memory,
        stashed=home.brings(name, load.type) if kept else memory,
    )
