"""The merge of states as C++: bytes to State, ⊕ as it is printed everywhere, State to bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fusegen.backend.cpu.emit.dialect import C_TYPES, CpuDialect
from fusegen.backend.cpu.emit.each import each
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.scope import RowScope
from fusegen.backend.cpu.emit.state import Field as FieldView
from fusegen.backend.cpu.emit.state import StateView, anchor_text, state_view
from fusegen.ir.expr import rename, variables
from fusegen.ir.kernel import Kernel, Sweep
from fusegen.ir.monoid import Folded, Monoid, Moving, Pivot
from fusegen.ir.state_layout import Field, StateLayout, state_layout


@dataclass(frozen=True)
class ListView:
    """A K-best list in the bytes of a state."""

    name: str
    type: str
    values: int  # offsets
    columns: int


@dataclass(frozen=True)
class VectorView:
    """A component that holds a vector."""

    type: str
    name: str
    width: int


@dataclass(frozen=True)
class MergeView:
    """Everything the templates print for a merge: its state has no lists, which merge as bytes."""

    name: str
    layout: StateLayout
    sweep: SweepState
    loads: tuple[str, ...]
    stores: tuple[str, ...]
    lists: tuple[ListView, ...]
    vectors: tuple[VectorView, ...]
    given: tuple[FieldView, ...]  # numbers of the call


@dataclass(frozen=True)
class SweepState:
    """What the partial of a state asks of a sweep."""

    state: StateView | None


def merge_view(kernel: Kernel, sweep: Sweep) -> MergeView:
    """What is printed of a merge; helpers that it calls are noted."""
    monoid = sweep.monoid
    leaders = frozenset(b.name for b in monoid.best)
    dialect = CpuDialect(kernel.compute, lanes=False, leaders=leaders)
    layout = state_layout(monoid, kernel.compute)
    scalars = replace(sweep, monoid=replace(monoid, lists=()))
    state = None
    if monoid.has_scalars:
        state = state_view(scalars, RowScope(kernel, dialect), dialect)
    return MergeView(
        name=kernel.name, layout=layout, sweep=SweepState(state),
        loads=tuple(_loads(monoid, layout, dialect)), stores=tuple(_stores(monoid, layout)),
        lists=tuple(_lists(monoid, layout, dialect)),
        vectors=tuple(VectorView(dialect.type_of(c.kind), c.name, c.width)
                      for c in _plain(monoid) if c.width > 1),
        given=tuple(FieldView(C_TYPES[p.dtype.name], p.name, "") for p in kernel.params
                    if p.shape == "scalar"),
    )


def _plain(monoid: Monoid) -> tuple[Folded | Moving, ...]:
    """Components that are a number or a vector."""
    return (*monoid.folded, *monoid.moving)


def _members(monoid: Monoid) -> Iterator[tuple[str, str]]:
    """Fields, and the members of the state that hold them; of vectors, number `i`."""
    for c in _plain(monoid):
        yield c.name, f"state.{each(c).name}"
    for o in monoid.own:
        for field in o.operator.fields:
            yield f"{o.name}.{field.name}", f"state.{o.name}.{field.name}"
    for b in monoid.best:
        yield b.value, f"state.{b.name}.value"
        yield b.name, f"state.{b.name}.column"


def _loads(monoid: Monoid, layout: StateLayout, dialect: CpuDialect) -> Iterator[str]:
    at, loops = {f.name: f for f in layout.fields}, _loops(monoid)
    for name, member in _members(monoid):
        field = f"{fg('field')}<{_type(at[name])}>(bytes, {_offset(at[name], loops[name])})"
        yield f"{loops[name]}{member} = {field};"
    for p in monoid.pivots:
        yield f"state.{p.anchor} = {anchor_text(_of_state(p), dialect)};"


def _of_state(pivot: Pivot) -> Pivot:
    return replace(pivot, value=rename(pivot.value, {
        n: f"state.{n}" for n in variables(pivot.value)}))


def _stores(monoid: Monoid, layout: StateLayout) -> Iterator[str]:
    at, loops = {f.name: f for f in layout.fields}, _loops(monoid)
    unset = {b.value: f"state.{b.name}.column < 0 ? 0 : " for b in monoid.best}
    for name, member in _members(monoid):
        value = f"{unset.get(name, '')}{member}"
        fg("field")  # which brings its twin
        offset = _offset(at[name], loops[name])
        yield f"{loops[name]}{fg('set_field')}<{_type(at[name])}>(bytes, {offset}, {value});"


def _loops(monoid: Monoid) -> Mapping[str, str]:
    """Over the numbers of fields that are vectors; "" for the others."""
    return defaultdict(str, {c.name: each(c).loop for c in _plain(monoid)})


def _offset(field: Field, loop: str) -> str:
    return f"{field.offset} + i * {field.dtype.itemsize}" if loop else str(field.offset)


def _type(field: Field) -> str:
    return "bool" if field.dtype.kind == "bool" else C_TYPES[field.dtype.name]


def _lists(monoid: Monoid, layout: StateLayout, dialect: CpuDialect) -> Iterator[ListView]:
    at = {f.name: f for f in layout.fields}
    for c in monoid.lists:
        made = f"{fg('best_of_states')}<{dialect.type_of(c.kind)}, {c.k}>"
        yield ListView(c.name, made, at[c.value].offset, at[c.column].offset)
