"""A whole program as one C++ translation unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from fusegen.backend.cpu.emit.abreast import abreast_view
from fusegen.backend.cpu.emit.absorb import AbsorbPrinter
from fusegen.backend.cpu.emit.dialect import C_TYPES, KNOWN, CpuDialect
from fusegen.backend.cpu.emit.finish import FinishPrinter
from fusegen.backend.cpu.emit.headers import headers_for
from fusegen.backend.cpu.emit.kept import KEPT_BYTES, Kept, can_be_partial, kept_terms
from fusegen.backend.cpu.emit.memory import pointer, row_address
from fusegen.backend.cpu.emit.merge import merge_view
from fusegen.backend.cpu.emit.names import fg, noted_names
from fusegen.backend.cpu.emit.pairs import pairs_view, row_table
from fusegen.backend.cpu.emit.scope import RowScope
from fusegen.backend.cpu.emit.state import Field, gathers, state_view
from fusegen.backend.cpu.emit.views import AgainView, KernelView, SweepView
from fusegen.backend.cpu.past import writes_rows
from fusegen.backend.cpu.schedule import (
    AHEAD_COLUMNS,
    BLOCK_ROWS,
    BOUND_COLUMNS,
    BOUND_ROWS,
    CHUNKS_IN_FULL,
    LIST_AHEAD_COLUMNS,
    ROWS_TOGETHER,
    TILE_ROWS,
    CpuSchedule,
)
from fusegen.backend.emit.banner import Facts, banner_lines
from fusegen.backend.emit.lines import uses_of
from fusegen.backend.emit.render import render
from fusegen.backend.emit.source import Source
from fusegen.backend.emit.widths import check_widths
from fusegen.ir.kernel import FIRST_COLUMN, FromVectors, Kernel, Param, Program, Sweep
from fusegen.ir.kernel_walk import names_in


def cpu_source(program: Program, schedule: CpuSchedule) -> Source:
    """The program as C++17; the same program and schedule give the same bytes."""
    if not program.has_vectors and program.role != "merge":
        check_widths(program, "CPU kernels")
    compute = program.kernels[0].compute
    real = C_TYPES[compute.name]
    values: dict[str, object] = {
        "real": real, "lanes": schedule.lanes, "vector_bytes": schedule.target.vector_bytes,
        "chunk": schedule.chunk, "piece": schedule.piece, "list_block": schedule.list_block,
        "ahead": AHEAD_COLUMNS, "list_ahead": LIST_AHEAD_COLUMNS, "vectorised": schedule.chunk > 1,
        "together": ROWS_TOGETHER,
        "rows": _rows_at_a_time(program), "tile_rows": TILE_ROWS, "fg": fg,
        "bound_rows": BOUND_ROWS, "bound_columns": BOUND_COLUMNS, "chunks_in_full": CHUNKS_IN_FULL,
    }
    with noted_names() as names:
        if program.role == "merge":
            made = [_merge(kernel, values) for kernel in program.kernels]
        else:
            made = [_kernel(kernel, values, schedule) for kernel in program.kernels]
    body = {"kernels": [text for text, _ in made], "entries": [entry for _, entry in made]}
    return Source(
        body=render("cpu/program.cpp.j2", body), system=("cmath", "cstdint"),
        banner=tuple(banner_lines(program, _facts(program, schedule))),
        given=render("cpu/given.cpp.j2", {**values, "names": names}),
        headers=tuple(headers_for(names)), opening="namespace fg = fusegen;",
    )


def _rows_at_a_time(program: Program) -> int:
    """Of rows over vectors: one tile where each of them gathers candidates, which take room."""
    lists = any(gathers(c, k) for k in program.kernels for s in k.sweeps for c in s.monoid.lists)
    return TILE_ROWS if lists else BLOCK_ROWS


def _facts(program: Program, schedule: CpuSchedule) -> Facts:
    """What the banner says of how it runs."""
    shape, tree = schedule.describe(), schedule.algorithm
    if program.role in ("merge", "finish"):
        shape = "rows one after the other"
        tree = "one state at a time" if program.role == "merge" else ""
    return Facts(target=schedule.target.name, tree=tree, schedule=shape)


def _kernel(
    kernel: Kernel, values: Mapping[str, object], schedule: CpuSchedule
) -> tuple[str, str]:
    """A kernel's functions, and its entry points."""
    found: dict[str, Any] = {**values, "kernel": _kernel_view(kernel, schedule)}
    entries = "cpu/pairs/entries.cpp.j2" if found["kernel"].pairs else "cpu/partials/entries.cpp.j2"
    return (render("cpu/kernel.cpp.j2", found), render(entries, found))


def _merge(kernel: Kernel, values: Mapping[str, object]) -> tuple[str, str]:
    """Likewise, of a merge of states."""
    view = merge_view(kernel, kernel.sweeps[0])
    found = {**values, **{f.name: getattr(view, f.name) for f in fields(view)}}
    return (render("cpu/roles/merge.cpp.j2", found), render("cpu/roles/merge_rows.cpp.j2", found))


def _kernel_view(kernel: Kernel, schedule: CpuSchedule) -> KernelView:
    leaders = frozenset(b.name for s in kernel.sweeps for b in s.monoid.best)
    row = CpuDialect(kernel.compute, lanes=False, leaders=leaders)
    lanes = CpuDialect(kernel.compute, lanes=True)
    scope = RowScope(kernel, row)
    finishes = FinishPrinter(kernel, scope, row)
    pairs, flushes = kernel.has_vectors, schedule.flushes
    wide = schedule.chunk > 1
    keeps = wide and not pairs and schedule.piece % schedule.chunk == 0  # a chunk has one number
    kept = kept_terms(kernel, schedule.chunk, flushes=flushes) if keeps else None
    partly = {s.number: wide and can_be_partial(s, kernel) for s in kernel.sweeps}
    monoids = [s.monoid for s in kernel.sweeps]
    waits = any(m.levels or m.folded or m.lists for m in monoids)
    turns = waits and not pairs and all(partly.values())
    gathered = any(gathers(c, kernel) for m in monoids for c in m.lists)
    return KernelView(
        name=kernel.name,
        arrays=tuple(f for p in kernel.params for f in _array_fields(p)),
        members=tuple(f for p in kernel.params for f in _members(p)),
        addresses=tuple(row_address(p) for p in kernel.params),
        known=tuple(Field(row.type_of(kind), name, "") for name, kind in scope.known.items()),
        prelude=tuple(finishes.prelude()) if kernel.prelude else (),
        sweeps=tuple(
            _sweep_view(kernel, sweep, scope, row,
                        replace(lanes, partly=partly[sweep.number]), finishes, kept, schedule)
            for sweep in kernel.sweeps
        ),
        numbered=FIRST_COLUMN.name in names_in(kernel), writes_rows=writes_rows(kernel),
        kept=kept, kept_columns=KEPT_BYTES // kernel.compute.itemsize,
        short_columns=schedule.short_columns if turns and not gathered else 0,
        abreast=abreast_view(kernel, scope, lanes, schedule),
        pairs=pairs,
        row_tables=tuple(row_table(p, row) for p in _met_by_columns(kernel)),
        batches=tuple(p.name for p in kernel.params if p.shape == "column_vector"),
    )


def _met_by_columns(kernel: Kernel) -> list[Param]:
    """Vectors of rows that elements are made of."""
    met = {n for sweep in kernel.sweeps for s in sweep.loads if isinstance(s, FromVectors)
           for n in s.rows}
    return [p for p in kernel.params if p.name in met]


def _sweep_view(
    kernel: Kernel, sweep: Sweep, scope: RowScope, row: CpuDialect, lanes: CpuDialect,
    finishes: FinishPrinter, kept: Kept | None, schedule: CpuSchedule,
) -> SweepView:
    pairs = kernel.has_vectors
    makes = kept if kept and kept.maker == sweep.number else None
    absorb = AbsorbPrinter(kernel, sweep, scope, row, lanes, makes)
    parts = absorb.parts()
    finish = tuple(finishes.finish(sweep))
    state = None if sweep.monoid.is_empty else state_view(sweep, scope, row)
    if state is not None and pairs:
        state = replace(state, merge=())  # a thread owns whole rows
    return SweepView(
        kernel=kernel.name, number=sweep.number,
        title=f"reads {', '.join(sweep.reads) or 'no elements'}",
        state=state, parts=parts, finish=finish,
        partly=lanes.partly, lists=absorb.gathered(),
        prefetched=_prefetched(kernel, sweep),
        awaited=tuple(kernel.param(s.param) for s in sweep.list_stores),
        reads_known=any(KNOWN in uses_of(p.row_values) for p in parts), has_known=bool(scope.known),
        again=_again_view(kernel, sweep, scope, row, lanes, kept),
        pairs=pairs_view(kernel, sweep, scope, row, lanes, schedule) if pairs else None,
    )


def _again_view(
    kernel: Kernel, sweep: Sweep, scope: RowScope, row: CpuDialect, lanes: CpuDialect,
    kept: Kept | None,
) -> AgainView | None:
    if kept is None or kept.again.number != sweep.number:
        return None
    absorb = AbsorbPrinter(kernel, kept.again, scope, row, lanes)
    return AgainView(absorb.parts(), kept.row_values)


def _prefetched(kernel: Kernel, sweep: Sweep) -> tuple[str, ...]:
    """Elements that come from memory: the row's first sweep over them."""
    before = {n for s in kernel.sweeps if s.number < sweep.number for n in s.streams}
    return tuple(
        n for n in sweep.streams if n not in before and kernel.param(n).shape == "element"
    )


def _array_fields(param: Param) -> list[Field]:
    word = "alignas(8) " if param.shape == "scalar" else ""
    fields = [Field(f"{word}{pointer(param)}", param.name, "")]
    if param.shape == "column_vector":
        fields.append(Field("int64_t", f"{param.name}_step", "elements between columns"))
    if param.shape in ("column_vector", "columns"):
        fields += [Field("int64_t", f"{param.name}_batch", "elements between batches"),
                   Field("int64_t", f"{param.name}_rows", "of a batch")]
    if param.shape in ("element", "row") or (param.shape == "row_vector" and not param.output):
        fields.append(Field("int64_t", f"{param.name}_stride", "elements between rows"))
    return fields


def _members(param: Param) -> list[Field]:
    """What a row knows of the array."""
    fields = [Field(pointer(param), param.name, _extent(param))]
    if param.shape == "column_vector":
        fields.append(Field("int64_t", f"{param.name}_step", "elements between columns"))
    return fields


def _extent(param: Param) -> str:
    return {
        "element": "n_cols elements", "per_column": "n_cols elements, the same in every row",
        "row": "one value", "list": f"{param.k} entries", "states": "the first state",
        "scalar": "the same in every row", "row_vector": f"a vector of {param.k}",
        "column_vector": f"n_cols vectors of {param.k}", "columns": "n_cols elements of its batch",
    }[param.shape]
