"""The merge of states as C++: bytes to State, ⊕ as it is printed everywhere, State to bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusegen.backend.cpu.emit.dialect import C_TYPES, CpuDialect
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.scope import RowScope
from fusegen.backend.cpu.emit.state import Field as FieldView
from fusegen.backend.cpu.emit.state import StateView, anchor_text, state_view
from fusegen.ir.expr import rename, variables
from fusegen.ir.kernel import Kernel, Sweep
from fusegen.ir.monoid import Monoid, Pivot
from fusegen.ir.state_layout import Field, StateLayout, state_layout


@dataclass(frozen=True)
class ListView:
    """A K-best list in the bytes of a state."""

    name: str
    type: str
    values: int  # offsets
    columns: int


@dataclass(frozen=True)
class MergeView:
    """Everything the templates print for a merge: its state has no lists, which merge as bytes."""

    name: str
    layout: StateLayout
    sweep: SweepState
    loads: tuple[str, ...]
    stores: tuple[str, ...]
    lists: tuple[ListView, ...]
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
        given=tuple(FieldView(C_TYPES[p.dtype.name], p.name, "") for p in kernel.params
                    if p.shape == "scalar"),
    )


def _members(monoid: Monoid) -> Iterator[tuple[str, str]]:
    """Fields, and the members of the state that hold them."""
    for name in [*(f.name for f in monoid.folded), *(m.name for m in monoid.moving)]:
        yield name, f"state.{name}"
    for o in monoid.own:
        for field in o.operator.fields:
            yield f"{o.name}.{field.name}", f"state.{o.name}.{field.name}"
    for b in monoid.best:
        yield b.value, f"state.{b.name}.value"
        yield b.name, f"state.{b.name}.column"


def _loads(monoid: Monoid, layout: StateLayout, dialect: CpuDialect) -> Iterator[str]:
    at = {f.name: f for f in layout.fields}
    for name, member in _members(monoid):
        yield f"{member} = {fg('field')}<{_type(at[name])}>(bytes, {at[name].offset});"
    for p in monoid.pivots:
        yield f"state.{p.anchor} = {anchor_text(_of_state(p), dialect)};"


def _of_state(pivot: Pivot) -> Pivot:
    return replace(pivot, value=rename(pivot.value, {
        n: f"state.{n}" for n in variables(pivot.value)}))


def _stores(monoid: Monoid, layout: StateLayout) -> Iterator[str]:
    at = {f.name: f for f in layout.fields}
    unset = {b.value: f"state.{b.name}.column < 0 ? 0 : " for b in monoid.best}
    for name, member in _members(monoid):
        value = f"{unset.get(name, '')}{member}"
        fg("field")  # which brings its twin
        yield f"{fg('set_field')}<{_type(at[name])}>(bytes, {at[name].offset}, {value});"


def _type(field: Field) -> str:
    return "bool" if field.dtype.kind == "bool" else C_TYPES[field.dtype.name]


def _lists(monoid: Monoid, layout: StateLayout, dialect: CpuDialect) -> Iterator[ListView]:
    at = {f.name: f for f in layout.fields}
    for c in monoid.lists:
        made = f"{fg('best_of_states')}<{dialect.type_of(c.kind)}, {c.k}>"
        yield ListView(c.name, made, at[c.value].offset, at[c.column].offset)
