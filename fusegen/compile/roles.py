"""Programs of one role: fold (rows → states), merge (states → states), finish (states → results).

All three are made of the program of a call, whose one folding sweep makes the states. A fold is
that sweep with the fields of its state as results, a finish its row values and stores with those
fields as inputs; so both are programs like any other. A merge has the states of a row for columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, assert_never

from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.dtypes import UINT8
from fusegen.ir.errors import PipelineError
from fusegen.ir.expr import Call, Expr, Lit, Var, call, substitute, variables
from fusegen.ir.forms import Role
from fusegen.ir.kernel import (
    COLUMN,
    ENTRY,
    FIRST_COLUMN,
    N_COLS,
    Entries,
    Gather,
    Kernel,
    ListFold,
    ListStore,
    Param,
    Program,
    RowStore,
    Sweep,
    names_in,
)
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
            made = _finish(kernel, sweep, layout)
        case _:
            assert_never(role)
    one = replace(made, name=f"{kernel.name}_{role}")
    outputs = tuple(p for p in one.params if p.output)
    return replace(
        program, kernels=(one,), inputs=tuple(p for p in one.params if not p.output),
        outputs=program.outputs if role == "finish" else outputs, workspace=(), role=role,
    )


def layout_of(merge: Program) -> StateLayout:
    """The layout of the states that a merge takes and leaves."""
    (kernel,), (sweep,) = merge.kernels, merge.sweeps
    return state_layout(sweep.monoid, kernel.compute)


# ---- fold ----


def _fold(kernel: Kernel, sweep: Sweep, layout: StateLayout) -> Kernel:
    """The sweep with its state's fields as results. Columns have the numbers of the whole row."""
    inputs = tuple(p for p in kernel.params if not p.output)
    params = _field_params(layout, _taken(kernel), output=True)
    numbered: dict[str, Expr] = {COLUMN.name: call("add", COLUMN, FIRST_COLUMN)}
    monoid = sweep.monoid
    row_stores = [RowStore(params[name].name, value) for name, value in _row_values(monoid)]
    list_stores = [store for top in monoid.lists for store in _list_stores(top, params)]
    one = Sweep(
        number=1, loads=sweep.loads,
        lets=_with(sweep.lets, numbered), monoid=_with(monoid, numbered), notes=sweep.notes,
        row_stores=tuple(row_stores), list_stores=tuple(list_stores),
    )
    return replace(kernel, params=(*inputs, *params.values()), sweeps=(one,))


def _row_values(monoid: Monoid) -> Iterator[tuple[str, Expr]]:
    """Fields that are one number each, and what they hold of a piece that has columns."""
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


def _finish(kernel: Kernel, sweep: Sweep, layout: StateLayout) -> Kernel:
    """The row values and results of a call, computed from the fields of a state."""
    params = _field_params(layout, _taken(kernel), output=False)
    for top in sweep.monoid.lists:  # an entry has its fields' own names
        params |= {n: replace(params[n], name=n) for n in (top.value, top.column)}
    known: dict[str, Expr] = {
        f"state.{name}": Var(params[name].name, field.dtype.kind)
        for name, field in {f.name: f for f in layout.fields}.items()
    }
    one = Sweep(
        number=1, loads=(), lets=(), monoid=Monoid(),
        steps=_with(tuple(s for sweep in kernel.sweeps for s in sweep.steps), known),
        row_stores=_with(tuple(s for sweep in kernel.sweeps for s in sweep.row_stores), known),
        list_stores=_with(tuple(s for sweep in kernel.sweeps for s in sweep.list_stores), known),
    )
    used = names_in((kernel.prelude, one))
    scalars = [p for p in kernel.params if p.shape == "scalar"]
    read = [p for p in (*params.values(), *scalars) if p.name in used]
    written = [p for p in kernel.params if p.output]
    return replace(kernel, params=(*read, *written), sweeps=(one,))


# ---- fields ----


def _taken(kernel: Kernel) -> Taken:
    """Every name that the kernel's functions know."""
    names = {p.name for p in kernel.params} | {s.name for s in _steps(kernel)}
    for sweep in kernel.sweeps:
        m = sweep.monoid
        names |= {c.name for c in m.components} | {let.name for let in sweep.lets}
        names |= {p.name for p in m.pivots} | {r.name for r in m.relatives}
    return Taken(names)


def _field_params(layout: StateLayout, taken: Taken, *, output: bool) -> dict[str, Param]:
    """An array for every field, by the field's name: a value or a list of each state, in rows that
    are a state apart."""
    return {
        f.name: Param(
            taken.free(c_identifier(f"{f.name}_state")), f.dtype,
            "list" if f.in_list else "row", output=output, k=f.count,
            pitch=layout.n_bytes // f.dtype.itemsize, field=f.name)
        for f in layout.fields
    }


def _with(part: Any, values: Mapping[str, Expr]) -> Any:
    """A record of the Kernel IR with variables replaced in all its expressions."""
    if isinstance(part, Var | Lit | Call):
        return substitute(part, values)
    if isinstance(part, tuple):
        return tuple(_with(inner, values) for inner in part)
    if is_dataclass(part) and not isinstance(part, type):
        found = {f.name: _with(getattr(part, f.name), values) for f in fields(part)}
        return replace(part, **found)
    return part


# ---- which programs have states ----


def folding_sweep(
    program: Program, graph: g.Graph, derivation: Derivation
) -> tuple[Kernel, Sweep]:
    """The kernel whose one folding sweep makes a state that holds all of a row there is to know.

    Raises PipelineError that says what such a state cannot hold.
    """
    name = graph.name
    for node, label in zip(graph.outputs, graph.output_names, strict=True):
        if g.extent(node) is g.Extent.ELEMENT:
            raise PipelineError(
                f"{name} has no states: its result {label} has a value for every element",
                where=node.loc, why="A state holds what one sweep knows of a row, not the row.",
                fix="Make states of a pipeline that returns row values and lists alone.")
    folding = [(k, s) for k in program.kernels for s in k.sweeps if not s.monoid.is_empty]
    if len(folding) != 1:
        raise _several(graph, derivation, [s for _, s in folding])
    kernel, sweep = folding[0]
    rows = [p.name for p in kernel.params if p.shape == "row" and not p.output]
    if rows:
        raise PipelineError(
            f"{name} has no states: it takes {', '.join(rows)}, one value per row",
            where=graph.loc, why="A state does not hold the inputs of its row.")
    late = next((s for s in _steps(kernel) if isinstance(s, Gather)), None)
    if late is not None:
        raise PipelineError(
            f"{name} has no states: {late.note or late.name} reads elements when the row is known",
            where=graph.loc, why="States are read out where the row is no more.")
    if any(N_COLS.name in variables(e) for e in _of_elements(sweep)):
        raise PipelineError(
            f"{name} has no states: an element is computed from the number of columns",
            where=graph.loc, why="How many there are is known when all pieces have met.")
    return kernel, sweep


def _several(
    graph: g.Graph, derivation: Derivation, folding: list[Sweep]
) -> PipelineError:
    why = "\n".join(str(r) for r in derivation.refusals)
    kept = ", ".join(dict.fromkeys(c.name for s in folding[1:] for c in s.monoid.components))
    what = f"{kept} keeps a sweep of its own" if folding else "it reduces nothing"
    return PipelineError(
        f"{graph.name} has no states: {what}", where=graph.loc,
        why=why or "A state is what one sweep over the row makes.",
        fix="fg.stabilize, or allow_cancellation=True, may merge it; see explain().")


def _steps(kernel: Kernel) -> Iterator[Any]:
    yield from kernel.prelude
    for sweep in kernel.sweeps:
        yield from sweep.steps
        entries = [s.entries for s in sweep.list_stores]
        entries += [s.entries for s in sweep.steps if isinstance(s, ListFold)]
        for one in entries:
            yield from one.steps


def _of_elements(sweep: Sweep) -> Iterator[Expr]:
    m = sweep.monoid
    yield from (let.expr for let in sweep.lets)
    for parts in (m.folded, m.best, m.moving, m.lists):
        yield from (part.lift for part in parts)
    yield from (r.atom for r in m.relatives)
    yield from (lift for own in m.own for lift in own.lifts)
