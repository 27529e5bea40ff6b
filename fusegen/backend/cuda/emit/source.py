"""A whole program as one CUDA translation unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from fusegen.backend.cuda.emit.dialect import CudaDialect
from fusegen.backend.cuda.emit.headers import (
    list_headers,
    maths,
    meet_headers,
    pair_headers,
    row_headers,
    toolkit_headers,
)
from fusegen.backend.cuda.emit.kept import Keeps, with_kept_terms
from fusegen.backend.cuda.emit.kernels import kernel_view
from fusegen.backend.cuda.emit.own import own_view
from fusegen.backend.cuda.emit.sweep import SweepPrinter
from fusegen.backend.cuda.emit.views import SweepView
from fusegen.backend.cuda.schedule.assumptions import facts
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.digits import is_narrow, rough_quotients
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.backend.cuda.schedule.merges import MAX_CLUSTER
from fusegen.backend.cuda.schedule.topk import FULLEST_BIN
from fusegen.backend.cuda.schedule.wide import as_columns
from fusegen.backend.emit.banner import banner_lines
from fusegen.backend.emit.render import render
from fusegen.backend.emit.source import Source
from fusegen.backend.emit.terms import sums_from_one
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Program
from fusegen.ir.monoid import Own


def _dialect(program: Program) -> CudaDialect:
    found = CudaDialect(program.kernels[0].compute, narrow=is_narrow(program),
                        exact=program.role != "call")
    found.rough = rough_quotients(program.kernels, narrow=found.narrow)
    found.columns = as_columns(program)
    found.near = frozenset[str]().union(*map(sums_from_one, program.sweeps))
    return found


def cuda_source(program: Program, schedule: CudaSchedule, *, within: bool = False) -> Source:
    """As CUDA C++, the same for the same program and schedule. within: as what a kernel calls."""
    dialect = _dialect(program)
    program, keeps = with_kept_terms(program, schedule)
    views = _sweep_views(program, schedule, dialect, keeps)
    launched = launches(program, schedule)
    kernels = [kernel_view(n, views, schedule, dialect, within=within) for n in launched]
    sweeps = list(views.values())
    owns = [own_view(c, dialect) for c in operators(program)]
    context = {
        **_facts(schedule, dialect),
        "team_enter": _entering(schedule, sweeps),
        "states": any(v.state for v in sweeps),
        "list_ways": {c.way for v in sweeps for c in v.lists}, "full_bin": FULLEST_BIN,
        "splits": any(k.splits for k in kernels),
        "together": any(n.together for n in launched),
        "used": dialect.used, "merges": merges_states(schedule, sweeps),
        "visits": any(v.visits for v in sweeps),
        "counts_columns": any(k.counts_columns for k in kernels) or "kNoColumn" in dialect.used,
        "most_blocks": MAX_CLUSTER,
        "meets_in_clusters": any("kMostBlocks" in v.meeting_array for v in sweeps),
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
                 *list_headers(program, sweeps, schedule), *meet_headers(sweeps, schedule),
                 *(["fusegen/tickets.cuh"] if context["splits"] else [])),
    )


def _sweep_views(
    program: Program, schedule: CudaSchedule, dialect: CudaDialect, keeps: Mapping[int, Keeps]
) -> dict[int, SweepView]:
    """Every sweep, by its number."""
    names = state_names(program)
    views = {
        sweep.number: SweepPrinter(kernel, sweep, schedule, dialect, names[sweep.number],
                                   keeps.get(sweep.number)).view()
        for kernel in program.kernels for sweep in kernel.sweeps
    }
    for kernel in program.kernels:
        for this, after in pairwise(kernel.sweeps):
            views[this.number] = replace(
                views[this.number], ahead_next=views[after.number].ahead,
                asks_next=views[after.number].asked,
            )
    return views


def state_names(program: Program) -> dict[int, str]:
    """The C++ type of every sweep's state: numbered where there are several."""
    several = sum(s.monoid.has_scalars for s in program.sweeps) > 1
    return {s.number: f"State{s.number}" if several else "State" for s in program.sweeps}


def _entering(schedule: CudaSchedule, sweeps: list[SweepView]) -> tuple[str, ...]:
    """What a kernel says before its first row: that it is there, and which part is its own."""
    state = next((v.state.name for v in sweeps if v.state), "")
    return (*schedule.team.arrive, *schedule.team.enter, *schedule.top.merge.enter(state))


def merges_states(schedule: CudaSchedule, sweeps: list[SweepView]) -> bool:
    """Does the program call ⊕ itself? Lanes and warps merge by what it is made of."""
    lists = any(v.streamed_lists for v in sweeps)
    return any(level.merge.folds(lists) for level in schedule.levels)


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
        "band": schedule.home if schedule.home.band_rows else None,
        "stages": schedule.home.stages, "exchanges": schedule.shuffles,
        "team_is_here": schedule.team.is_here,
        "cluster": schedule.clustered, "blocks": schedule.blocks,
        "sliced": schedule.clustered or schedule.split, "shifted": schedule.load == "shifted",
        "strips": schedule.strip is not None,
        "reduces": schedule.target.ampere,
    }


def _team_type(schedule: CudaSchedule) -> str:
    """Of <fusegen/team.cuh>."""
    if schedule.in_warp:
        return f"Lanes<{schedule.team_threads}>"
    if schedule.fixed:
        return f"Block<{schedule.team_threads}>"
    return f"AnyBlock<{schedule.most_threads}>"
