"""Programs of one role: fold (rows → states), merge (states → states), finish (states → results),
map (states and rows → results).

All of them are made of the program of a call, whose one folding sweep makes the states. A fold is
that sweep with the fields of its state as results, a finish its row values and stores with those
fields as inputs, a map the call's last sweep over a piece of the row as well; so all three are
programs like any other. A merge has the states of a row for columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, assert_never

from fusegen.compile.stateful import (
    OF_ROWS,
    folding_sweep,
    names_of,
    needed,
    of_elements,
    writes_rows,
)
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.dtypes import INT64, UINT8
from fusegen.ir.errors import PipelineError
from fusegen.ir.expr import Expr, Lit, Var, call
from fusegen.ir.forms import Role
from fusegen.ir.kernel import (
    COLUMN,
    ENTRY,
    FIRST_COLUMN,
    N_COLS,
    ElementStore,
    Entries,
    Kernel,
    Let,
    ListStore,
    Param,
    Program,
    RowStore,
    Source,
    Span,
    Step,
    Sweep,
)
from fusegen.ir.kernel_walk import names_in, used_in, with_values
from fusegen.ir.monoid import KBest, Monoid
from fusegen.ir.names import Taken, c_identifier
from fusegen.ir.state_layout import StateLayout, state_layout

STATES, MERGED = "states", "merged"
"""A merge's arrays: what it reads, what it leaves."""


def of_role(program: Program, role: Role, graph: g.Graph, derivation: Derivation) -> Program:
    """The program of a role, made of a call's. Raises PipelineError where there are no states."""
    if role == "call":
        return program
    kernel, sweep = folding_sweep(program, graph, derivation)
    layout = state_layout(sweep.monoid, kernel.compute)
    match role:
        case "fold":
            made = _fold(kernel, sweep, layout)
        case "merge":
            made = _merge(kernel, sweep, layout)
        case "finish":
            made = _finish(kernel, layout, graph)
        case "map":
            made = _map(kernel, layout, graph)
        case _:
            assert_never(role)
    one = replace(made, name=f"{kernel.name}_{role}")
    outputs = tuple(p for p in one.params if p.output)
    return replace(
        program, kernels=(one,), inputs=tuple(p for p in one.params if not p.output),
        outputs=tuple(p for p in program.outputs if p in outputs) or outputs, workspace=(),
        role=role,
    )


def layout_of(merge: Program) -> StateLayout:
    """The layout of the states that a merge takes and leaves."""
    (kernel,), (sweep,) = merge.kernels, merge.sweeps
    return state_layout(sweep.monoid, kernel.compute)


# ---- fold ----


def _fold(kernel: Kernel, sweep: Sweep, layout: StateLayout) -> Kernel:
    """The sweep with its state's fields as results. Columns have the numbers of the whole row."""
    sweep = of_elements(sweep)
    prelude, used = needed(kernel.prelude, sweep)
    inputs = tuple(p for p in kernel.params if not p.output
                   and (p.name in used or p.shape not in OF_ROWS))
    params = _field_params(layout, names_of(kernel), output=True)
    numbered: dict[str, Expr] = {COLUMN.name: call("add", COLUMN, FIRST_COLUMN)}
    monoid = sweep.monoid
    row_stores = [RowStore(params[name].name, value) for name, value in _row_values(monoid)]
    list_stores = [store for top in monoid.lists for store in _list_stores(top, params)]
    one = Sweep(
        number=1, loads=sweep.loads,
        lets=with_values(sweep.lets, numbered), monoid=with_values(monoid, numbered),
        notes=sweep.notes,
        row_stores=tuple(row_stores), list_stores=tuple(list_stores), vectors=sweep.vectors,
        only=with_values(sweep.only, numbered), span=_in_piece(sweep.span),
        counted=with_values(sweep.counted, numbered),
    )
    return replace(kernel, params=(*inputs, *params.values()), prelude=prelude, sweeps=(one,))


def _in_piece(span: Span) -> Span:
    """The same columns, counted from the piece's first."""
    first, end = (None if e is None else call("sub", e, FIRST_COLUMN) for e in span)
    return first, end


def _row_values(monoid: Monoid) -> Iterator[tuple[str, Expr]]:
    """Fields that are numbers or vectors, and what they hold of a piece that has columns."""
    for name, kind in [*((f.name, f.kind) for f in monoid.folded),
                       *((m.name, m.kind) for m in monoid.moving)]:
        yield name, Var(f"state.{name}", kind)
    for b in monoid.best:
        yield b.value, Var(f"state.{b.value}", b.kind)
        yield b.name, call("add", Var(f"state.{b.name}", "int"), FIRST_COLUMN)
    for o in monoid.own:
        for f in o.operator.fields:
            yield f"{o.name}.{f.name}", Var(f"state.{o.name}.{f.name}", f.kind)


def _list_stores(top: KBest, params: Mapping[str, Param]) -> Iterator[ListStore]:
    """A piece may have fewer columns than a list has entries."""
    entries = Entries(top.name, top.k)
    there = call("lt", ENTRY, N_COLS)
    zero = Lit(0, "int") if top.kind == "int" else Lit(0.0, "float")
    value = call("where", there, Var(top.value, top.kind, varying=True), zero)
    column = call("add", Var(top.column, "int", varying=True), FIRST_COLUMN)
    yield ListStore(params[top.value].name, entries, value)
    yield ListStore(params[top.column].name, entries,
                    call("where", there, column, Lit(-1, "int")))


# ---- merge ----


def _merge(kernel: Kernel, sweep: Sweep, layout: StateLayout) -> Kernel:
    """⊕ of the states of a row, which are its columns."""
    states = Param(STATES, UINT8, "states", k=layout.n_bytes)
    merged = Param(MERGED, UINT8, "list", output=True, k=layout.n_bytes)
    one = Sweep(number=1, loads=(), lets=(), monoid=sweep.monoid, notes=sweep.notes)
    given = [p for p in kernel.params if p.name in sweep.monoid.held]
    return replace(kernel, params=(states, *given, merged), prelude=(), sweeps=(one,))


# ---- finish ----


def _finish(kernel: Kernel, layout: StateLayout, graph: g.Graph) -> Kernel:
    """The row values and lists of a call, computed from the fields of a state, and from inputs of
    the row that they need."""
    written = [p for p in kernel.params if p.output and p.shape != "element"]
    if not written:
        raise PipelineError(f"{graph.name} has full rows for results: states alone do not say them",
                            where=graph.loc, fix='role="map" is what reads the row again.')
    params, known = _fields_as_values(kernel, layout)
    one = Sweep(
        number=1, loads=(), lets=(), monoid=Monoid(),
        steps=with_values(_late(kernel), known), row_stores=_stored(kernel, "row_stores", known),
        list_stores=_stored(kernel, "list_stores", known),
    )
    prelude, used = needed(kernel.prelude, one)
    return replace(kernel, params=(*_read(kernel, params, used), *written), prelude=prelude,
                   sweeps=(one,))


def _fields_as_values(
    kernel: Kernel, layout: StateLayout
) -> tuple[dict[str, Param], dict[str, Expr]]:
    """(arrays of a state's fields, what the kernel's values of the state stand for)."""
    (sweep,) = (s for s in kernel.sweeps if not s.monoid.is_empty)
    params = _field_params(layout, names_of(kernel), output=False)
    for top in sweep.monoid.lists:  # an entry has its fields' own names
        params |= {n: replace(params[n], name=n) for n in (top.value, top.column)}
    return params, {f"state.{f.name}": Var(params[f.name].name, f.dtype.kind)
                    for f in layout.fields}


def _late(kernel: Kernel) -> tuple[Step, ...]:
    """What is computed once rows are folded."""
    return tuple(s for sweep in kernel.sweeps for s in sweep.steps)


def _stored(kernel: Kernel, what: str, known: Mapping[str, Expr]) -> Any:
    return with_values(tuple(s for sweep in kernel.sweeps for s in getattr(sweep, what)), known)


def _read(
    kernel: Kernel, fields: Mapping[str, Param], used: Collection[str]
) -> Iterator[Param]:
    """What results are made of: fields, and the kernel's own inputs."""
    own = (p for p in kernel.params if not p.output)
    return (p for p in (*fields.values(), *own) if p.name in used)


# ---- map ----


def _map(kernel: Kernel, layout: StateLayout, graph: g.Graph) -> Kernel:
    """All results of a call, of full rows those of a piece: the row is known before it is read.
    Columns have the numbers of the whole row, and so has their number."""
    if not writes_rows(kernel):
        raise PipelineError(f"{graph.name} has no full rows for results: states say them all",
                            where=graph.loc, fix='role="finish" is what reads states.')
    params, known = _fields_as_values(kernel, layout)
    whole = Param(names_of(kernel).free("whole_cols"), INT64, "scalar", field=N_COLS.name)
    known |= {N_COLS.name: Var(whole.name, "int"),
              COLUMN.name: call("add", COLUMN, FIRST_COLUMN)}
    loads, lets, stores = _of_full_rows(kernel)
    one = Sweep(
        number=1, loads=loads, lets=with_values(lets, known), monoid=Monoid(),
        element_stores=with_values(stores, known),
        row_stores=_stored(kernel, "row_stores", known),
        list_stores=_stored(kernel, "list_stores", known),
    )
    steps = with_values((*kernel.prelude, *_late(kernel)), known)
    prelude, used = needed(steps, one)
    used |= {*one.reads}
    read = (*_read(kernel, params, used), *((whole,) if whole.name in used else ()))
    return replace(kernel, params=(*read, *(p for p in kernel.params if p.output)),
                   prelude=prelude, sweeps=(one,))


def _of_full_rows(
    kernel: Kernel,
) -> tuple[tuple[Source, ...], tuple[Let, ...], tuple[ElementStore, ...]]:
    """(loads, lets, stores) of all sweeps that write full rows, as of one."""
    writing = [s for s in kernel.sweeps if s.element_stores]
    lets: dict[str, Let] = {}
    for sweep in writing:
        _, used = used_in(sweep, [store.value for store in sweep.element_stores])
        lets |= {let.name: let for let in used}
    stores = tuple(store for sweep in writing for store in sweep.element_stores)
    used_names = names_in((tuple(lets.values()), stores))
    loads = dict.fromkeys(s for sweep in writing for s in sweep.loads if s.name in used_names)
    first = writing[0].loads[:1]  # which has the columns, where no value is read
    return tuple(loads) or first, tuple(lets.values()), stores


# ---- fields ----


def _field_params(layout: StateLayout, taken: Taken, *, output: bool) -> dict[str, Param]:
    """An array for every field, by the field's name: a value or a list of each state, in rows that
    are a state apart."""
    return {
        f.name: Param(
            taken.free(c_identifier(f"{f.name}_state")), f.dtype,
            "list" if f.in_list else "row" if f.count == 1 else "row_vector", output=output,
            k=f.count,
            pitch=layout.n_bytes // f.dtype.itemsize, field=f.name)
        for f in layout.fields
    }
