"""The merge of states as CUDA C++: bytes to State, ⊕ as it is printed everywhere, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.headers import maths
from fusegen.backend.cuda.emit.own import own_view
from fusegen.backend.cuda.emit.places import declared
from fusegen.backend.cuda.emit.state import (
    StateView,
    held,
    identity_of,
    pivot_view,
    state_view,
    zero_of,
)
from fusegen.backend.cuda.schedule.assumptions import facts
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.backend.emit.banner import banner_lines
from fusegen.backend.emit.folds import taken_in
from fusegen.backend.emit.render import render
from fusegen.backend.emit.source import Source
from fusegen.ir.errors import BackendError
from fusegen.ir.expr import Expr, Lit, Var, substitute, variables
from fusegen.ir.kernel import Program
from fusegen.ir.monoid import Folded, Monoid, Moving
from fusegen.ir.state_layout import Field, StateLayout, state_layout


@dataclass(frozen=True)
class ListView:
    """A K-best list in the bytes of a state."""

    name: str
    k: int
    type: str  # of its values
    values: int  # offsets
    columns: int


@dataclass(frozen=True)
class WideView:
    """A component that holds a vector, in the bytes of a state."""

    name: str
    width: int
    type: str  # of its numbers
    size: int  # bytes of one
    at: int  # offset of the first
    first: str  # a number of no states
    moves: tuple[tuple[str, str], ...]  # names and values that its factor depends on
    factor: str  # by which it moves from the pivots of s to those of `at`; "": it does not
    joined: str  # the statement by which a state's `number` joins `sum`


@dataclass(frozen=True)
class MergeView:
    """What the partial of a state asks of a sweep."""

    number: int
    monoid: Monoid
    state: StateView | None


def merge_source(program: Program, schedule: CudaSchedule) -> Source:
    """A merge as CUDA C++; the same program and schedule give the same bytes."""
    (launch,) = launches(program, schedule)
    context = merge_context(program, schedule)
    params = [*held_params(program, context["real"]),
              *(f"long long {name}" for name in launch.scalars)]
    body = render("cuda/roles/merge.cu.j2", context | {"symbol": launch.symbol, "params": params})
    return Source(
        body=body, banner=tuple(banner_lines(program, facts(program, schedule))),
        headers=merge_headers(context, schedule),
    )


def merge_context(program: Program, schedule: CudaSchedule) -> dict[str, Any]:
    """What is printed of the merge of a row's states."""
    (kernel,), (sweep,) = program.kernels, program.sweeps
    lanes, layout = schedule.lanes, state_layout(sweep.monoid, kernel.compute)
    dialect = CudaDialect(kernel.compute, exact=True)
    wide = tuple(_wide(sweep.monoid, layout, dialect, kernel.name))
    sweep = replace(sweep, monoid=sweep.monoid.numbers)
    monoid = sweep.monoid
    state = state_view(sweep, "State", dialect, "long long") if monoid.has_scalars else None
    return {
        "sweep": MergeView(1, monoid, state), "layout": layout,
        "owns": [own_view(c, dialect) for c in monoid.operators],
        "real": dialect.real, "bits": dialect.bits, "team": lanes, "strips": False,
        "rows_per_block": schedule.rows_per_block, "most_threads": schedule.most_threads,
        "used": dialect.used, "merges": True, "column_type": "long long",
        "exchanges": lanes > 1,
        "loads": [*_loads(monoid, layout)], "stores": [*_stores(monoid, layout)],
        "lists": [*_lists(monoid, layout)], "wide": wide,
    }


def held_params(program: Program, real: str) -> Iterator[str]:
    """A merge's arrays and numbers, in a list of parameters."""
    for p in program.kernels[0].params:
        yield f"{real} {held(p.name)}" if p.shape == "scalar" else declared(p, " __restrict__ ")


def merge_headers(context: Mapping[str, Any], schedule: CudaSchedule) -> tuple[str, ...]:
    """Those that a merge uses."""
    sweep = context["sweep"]
    states = ("best" if sweep.monoid.lists else "field",)
    return ("fusegen/team.cuh", *maths(context["used"]),
            *(f"fusegen/states/{name}.cuh" for name in states),
            *([schedule.merge.header] if sweep.state and schedule.lanes > 1 else []))


def _wide(
    monoid: Monoid, layout: StateLayout, dialect: CudaDialect, kernel: str
) -> Iterator[WideView]:
    """Components that hold vectors. Raises BackendError for a sum that moves with others."""
    at = _fields(layout)
    given: dict[str, Expr] = {n: Var(held(n)) for n in monoid.held}
    components: tuple[Folded | Moving, ...] = (*monoid.folded, *monoid.moving)
    for c in components:
        if c.width == 1:
            continue
        field = at[c.name]
        kind, size = C_TYPES[field.dtype.name], field.dtype.itemsize
        if isinstance(c, Folded):
            yield WideView(c.name, c.width, kind, size, field.offset, identity_of(c, dialect), (),
                           "", taken_in(c, "sum", "number", dialect.use))
            continue
        ((name, factor),) = c.transport if len(c.transport) == 1 else (("", Lit(1.0)),)
        if name != c.name:
            raise BackendError(f"{kernel}: {c.name}, a vector, moves with others when pivots do; "
                               "GPUs do not merge such states yet: give them on the CPU")
        used = variables(factor)
        moves = tuple((p.move, pivot_view(p, monoid, dialect).moved) for p in monoid.pivots
                      if p.move in used)
        value = dialect.text(substitute(factor, given)) if factor != Lit(1.0) else ""
        moved = f"{dialect.use('zero_wins')}(number, factor)" if value else "number"
        yield WideView(c.name, c.width, kind, size, field.offset, zero_of(c.kind, dialect), moves,
                       value, f"sum += {moved};")


def _numbers(monoid: Monoid) -> Iterator[str]:
    """Fields that are members of the state, or members of members, under their own names."""
    yield from (f.name for f in monoid.folded)
    yield from (m.name for m in monoid.moving)
    yield from (f"{o.name}.{f.name}" for o in monoid.own for f in o.operator.fields)


def _fields(layout: StateLayout) -> dict[str, Field]:
    return {f.name: f for f in layout.fields}


def _loads(monoid: Monoid, layout: StateLayout) -> Iterator[str]:
    at = _fields(layout)
    for name in _numbers(monoid):
        yield f"s.{name} = {_loaded(at[name])};"
    for b in monoid.best:
        yield f"if ({_loaded(at[b.name])} >= 0) {{"
        yield f"    s.{b.value} = {_loaded(at[b.value])};"
        yield f"    s.{b.name} = {_loaded(at[b.name])};"
        yield "}"


def _loaded(field: Field) -> str:
    return f"field<{C_TYPES[field.dtype.name]}>(bytes, {field.offset})"


def _stores(monoid: Monoid, layout: StateLayout) -> Iterator[str]:
    at = _fields(layout)
    for name in _numbers(monoid):
        yield _stored(at[name], f"s.{name}")
    for b in monoid.best:
        none = f"s.{b.name} == kNoColumn"
        yield _stored(at[b.value], f"{none} ? 0 : s.{b.value}")
        yield _stored(at[b.name], f"{none} ? -1 : s.{b.name}")


def _stored(field: Field, value: str) -> str:
    return f"set_field<{C_TYPES[field.dtype.name]}>(bytes, {field.offset}, {value});"


def _lists(monoid: Monoid, layout: StateLayout) -> Iterator[ListView]:
    at = _fields(layout)
    for c in monoid.lists:
        values, columns = at[c.value], at[c.column]
        yield ListView(c.name, c.k, C_TYPES[values.dtype.name], values.offset, columns.offset)
