"""A whole program as one CUDA translation unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from fusegen.backend.cuda.emit.asked import elements_used, span_asked
from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.headers import (
    list_headers,
    maths,
    meet_headers,
    pair_headers,
    row_headers,
    toolkit_headers,
)
from fusegen.backend.cuda.emit.own import own_view
from fusegen.backend.cuda.emit.rows import (
    array_name,
    body_of,
    declared,
    early_steps,
    load_line,
    place_in_row,
    pointer_of,
    pointer_type,
    step_lines,
)
from fusegen.backend.cuda.emit.sweep import SweepPrinter
from fusegen.backend.cuda.emit.views import SweepView
from fusegen.backend.cuda.schedule.assumptions import facts
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import Array, Home
from fusegen.backend.cuda.schedule.launch import Launch, kept_params, launches, ring_params
from fusegen.backend.cuda.schedule.topk import FULLEST_BIN
from fusegen.backend.emit.banner import banner_lines
from fusegen.backend.emit.lines import Line, uses_of
from fusegen.backend.emit.render import render
from fusegen.backend.emit.source import Source
from fusegen.backend.target import WARP
from fusegen.ir.kernel import N_COLS, Program
from fusegen.ir.monoid import Own


@dataclass(frozen=True)
class KernelView:
    """One `__global__` function."""

    symbol: str
    params: tuple[str, ...]
    first_row: str  # this team's
    row_step: str  # from one row of a team to its next
    loops: bool  # does a team take several rows?
    steady: bool  # does a team go from row to row?
    splits: bool
    home: Home
    rows: tuple[tuple[str, str, str], ...]  # declared type, row pointer, initial value
    phase: str  # the row that the head is measured on; "" if rows are whole vectors
    bodies: tuple[tuple[str, str, str], ...]  # likewise, pointers to the first whole vector
    has_edge: str  # condition on this thread's block or row
    span: tuple[str | Line, ...]  # statements that say which vectors of the row are this thread's
    keeps: tuple[str | Line, ...]  # statements that bring on chip what stays there
    first_fetch: tuple[str, ...]  # likewise, of a team's first row
    refill: tuple[str, ...]  # and of its next one, in registers
    refill_group: tuple[str, ...]  # and in shared memory
    prelude: tuple[Line, ...]
    sweeps: tuple[SweepView, ...]
    writes_rows: str  # condition: does this thread write the row's values?

    @property
    def parity(self) -> bool:
        """Do rows alternate between two places to meet?"""
        return self.steady and any(s.meeting for s in self.sweeps)

    @property
    def edges(self) -> bool:
        return bool(self.phase)

    @property
    def visits(self) -> bool:
        return any(s.visits for s in self.sweeps)

    @property
    def counts_columns(self) -> bool:
        """Is the length of a row asked for?"""
        lines = [ln for s in self.sweeps for ln in s.at_row_scope]
        return self.visits or N_COLS.name in uses_of([*self.prelude, *lines])

    @property
    def has_team(self) -> bool:
        """Is it asked who owns a row?"""
        lines = [ln for s in self.sweeps for ln in s.at_row_scope]
        return self.visits or "Team" in uses_of([*self.prelude, *lines])

    @property
    def head(self) -> str:
        return "head + " if self.phase else ""


def cuda_source(program: Program, schedule: CudaSchedule) -> Source:
    """The program as CUDA C++; the same program and schedule give the same bytes."""
    dialect = CudaDialect(program.kernels[0].compute, narrow=is_narrow(program),
                          exact=program.role != "call")
    several = sum(s.monoid.has_scalars for s in program.sweeps) > 1
    views = {
        sweep.number: SweepPrinter(
            kernel, sweep, schedule, dialect, f"State{sweep.number}" if several else "State"
        ).view()
        for kernel in program.kernels for sweep in kernel.sweeps
    }
    for kernel in program.kernels:
        for this, after in pairwise(kernel.sweeps):
            views[this.number] = replace(
                views[this.number], ahead_next=views[after.number].ahead
            )
    launched = launches(program, schedule)
    kernels = [_kernel_view(n, views, schedule, dialect) for n in launched]
    sweeps = list(views.values())
    owns = [own_view(c, dialect) for c in operators(program)]
    context = {
        **_facts(schedule, dialect),
        "short_rows": program.role == "fold",  # may they have fewer columns than lists entries?
        "states": any(v.state for v in sweeps),
        "list_ways": {c.way for v in sweeps for c in v.lists}, "full_bin": FULLEST_BIN,
        "splits": any(k.splits for k in kernels),
        "together": any(n.together for n in launched),
        "used": dialect.used, "merges": merges_states(schedule, sweeps),
        "visits": any(v.visits for v in sweeps),
        "has_team": schedule.rows_per_block > 1 or any(k.has_team for k in kernels),
        "has_items": any(v.loads or v.stores for v in sweeps),
        "has_layout": any(v.loads or v.stores or v.streamed_lists for v in sweeps),
        "owns": owns,
        "sweeps": sweeps,
        "kernels": kernels,
    }
    return Source(
        body=render("cuda/program.cu.j2", context),
        banner=tuple(banner_lines(program, facts(program, schedule))),
        system=toolkit_headers(program),
        headers=(*(["fusegen/team.cuh"] if context["has_team"] and not context["visits"] else []),
                 *maths(dialect.used), *row_headers(sweeps, schedule),
                 *pair_headers(program, sweeps),
                 *list_headers(sweeps, schedule), *meet_headers(sweeps, schedule),
                 *(["fusegen/tickets.cuh"] if context["splits"] else [])),
    )


def merges_states(schedule: CudaSchedule, sweeps: list[SweepView]) -> bool:
    """Does the program call ⊕ itself? Lanes and warps merge by what it is made of."""
    lists = any(v.streamed_lists for v in sweeps)
    return any(level.merge.folds(lists) for level in schedule.levels)


def is_narrow(program: Program) -> bool:
    """Have all floating inputs and outputs 16 bits?"""
    kinds = [p.dtype for p in (*program.inputs, *program.outputs) if p.dtype.kind == "float"]
    return program.kernels[0].compute.itemsize == 4 and all(d.itemsize == 2 for d in kinds)


def operators(program: Program) -> list[Own]:
    """The user's own monoids, each once."""
    return list({c.type: c for s in program.sweeps for c in s.monoid.operators}.values())


def _facts(schedule: CudaSchedule, dialect: CudaDialect) -> dict[str, object]:
    """The schedule's numbers, as the templates name them."""
    lanes = schedule.in_warp
    return {
        "real": dialect.real, "bits": dialect.bits,
        "column_type": "long long" if schedule.wide_columns else "int",
        "team": schedule.team_threads, "team_type": _team_type(schedule),
        "team_words": schedule.team.owns,
        "one_warp": lanes and schedule.lanes == WARP,
        "partial_warps": schedule.partial_warps,
        "rows_per_block": schedule.rows_per_block, "most_threads": schedule.most_threads,
        "least_blocks": schedule.least_blocks,
        "vectors": schedule.vectors, "width": schedule.width, "wide": schedule.width > 1,
        "rests": schedule.home.chunk == "kRestVectors",
        "stages": schedule.home.stages, "exchanges": schedule.shuffles,
        "team_enter": schedule.team.enter, "team_is_here": schedule.team.is_here,
        "cluster": schedule.clustered, "blocks": schedule.blocks,
        "sliced": schedule.clustered or schedule.split,
        "strips": schedule.strip is not None,
        "reduces": schedule.target.ampere,
    }


def _team_type(schedule: CudaSchedule) -> str:
    """Of <fusegen/team.cuh>."""
    if schedule.in_warp:
        return f"Lanes<{schedule.team_threads}>"
    return f"Block<{schedule.team_threads}>" if schedule.fixed else "AnyBlock"


def _kernel_view(
    launch: Launch, views: dict[int, SweepView], schedule: CudaSchedule, dialect: CudaDialect
) -> KernelView:
    kernel = launch.kernel
    elements = [p for p in launch.params if p.shape == "element"]
    phase, bodies = "", []
    if schedule.load == "peeled" and elements:
        first = elements[0]
        phase = pointer_of(first)
        sweeps = [views[s.number] for s in kernel.sweeps]
        vectors = {ld.body for v in sweeps for ld in v.loads}
        vectors |= {pointer for v in sweeps for _, _, _, pointer in v.stores}
        bodies = [(pointer_type(p), body_of(p, schedule), f"{pointer_of(p)} + head")
                  for p in elements if body_of(p, schedule) in vectors]
    sliced = schedule.clustered or schedule.split
    used = elements_used(kernel)
    home, kept = schedule.home, home_arrays(launch, schedule)
    return KernelView(
        symbol=launch.symbol, params=tuple(kernel_params(launch, views)),
        first_row=_first_row(schedule), row_step=_row_step(schedule), loops=launch.limited,
        steady=launch.steady, splits=launch.splits, home=schedule.home,
        rows=tuple(
            (pointer_type(p), pointer_of(p), f"{array_name(p)} + row * {p.name}_stride")
            for p in elements if p.name in used or phase
        ),
        phase=phase, bodies=tuple(bodies),
        has_edge="slice == 0" if sliced else "mine < n_rows" if schedule.partial_warps else "",
        span=span_asked(home.span(kept), views, kernel),
        keeps=(*home.enter(kept), *_edges(launch, views, schedule)),
        first_fetch=home.first_row(kept), refill=home.next_row(kept),
        refill_group=home.next_group(kept),
        prelude=(
            *_row_values(launch, dialect),
            *step_lines((*kernel.prelude, *early_steps(kernel)), kernel, dialect),
        ),
        sweeps=tuple(views[s.number] for s in kernel.sweeps),
        writes_rows="rank == 0" + (
            " && slice == 0" if sliced and not launch.splits else ""
        ),
    )


def home_arrays(launch: Launch, schedule: CudaSchedule) -> tuple[Array, ...]:
    """The arrays that a row's home is for: what stays on chip, or comes through a ring."""
    kernel = launch.kernel
    ring = schedule.home.stages > 0
    found = ring_params(kernel, kernel.sweeps[0]) if ring else kept_params(kernel, schedule)
    return tuple(Array(p.name, C_TYPES[p.dtype.name], body_of(p, schedule), array_name(p))
                 for p in found)


def _edges(
    launch: Launch, views: dict[int, SweepView], schedule: CudaSchedule
) -> Iterable[Line]:
    """Elements at the edges of a row, each read once."""
    sweeps = launch.kernel.sweeps if schedule.load == "peeled" else ()
    return dict.fromkeys(ln for s in sweeps for ln in views[s.number].edges)


def _first_row(schedule: CudaSchedule) -> str:
    if schedule.clustered or schedule.split:
        return "blockIdx.x / blocks"
    if schedule.rows_per_block == 1:
        return "blockIdx.x"
    return "static_cast<long long>(blockIdx.x) * kRowsPerBlock + team"


def _row_step(schedule: CudaSchedule) -> str:
    if schedule.clustered or schedule.split:
        return "gridDim.x / blocks"
    rows = " * kRowsPerBlock" if schedule.rows_per_block > 1 else ""
    return f"static_cast<long long>(gridDim.x){rows}"


_SCALARS = {"n_cols": "n_cols_wide"}


def kernel_params(launch: Launch, views: dict[int, SweepView]) -> list[str]:
    """The C++ parameter list; backend/cuda/run/geometry.py passes arguments in this very order."""
    lines = [declared(p, " __restrict__ ") for p in launch.params]
    sweeps = [views[s.number] for s in launch.kernel.sweeps]
    lists = {v.name: v for s in sweeps for v in s.lists}
    for s in launch.scratch:
        if s.kind == "tickets":
            kind = "unsigned long long"
        elif s.kind == "states":
            kind = next(v.state.name for v in sweeps if v.state)
        else:
            kind = lists[s.name.rsplit("_", 1)[0]].key
        lines.append(f"{kind}* __restrict__ {s.name}")
    return lines + [f"long long {_SCALARS.get(name, name)}" for name in launch.scalars]


def _row_values(launch: Launch, dialect: CudaDialect) -> list[Line]:
    return [load_line(p, place_in_row(p), dialect)
            for p in launch.params if p.shape == "row" and not p.output]
