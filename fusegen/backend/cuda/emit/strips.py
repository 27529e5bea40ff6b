"""Rows that lie side by side as one CUDA translation unit: vectors across rows, chunks down them.

Sweeps are those of any other layout: `sweepN_fold` and `sweepN_map` take one row's items, and here
those are every kWidth-th element of the thread's vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import CudaDialect
from fusegen.backend.cuda.emit.headers import maths, meet_headers, strip_headers, toolkit_headers
from fusegen.backend.cuda.emit.kernels import home_arrays
from fusegen.backend.cuda.emit.own import own_view
from fusegen.backend.cuda.emit.places import array_name, pointer_type
from fusegen.backend.cuda.emit.source import operators, state_names
from fusegen.backend.cuda.emit.strip_rows import ROW_VALUES, RowScopes, StripSweepPrinter
from fusegen.backend.cuda.emit.views import SweepView
from fusegen.backend.cuda.schedule.assumptions import facts
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.digits import is_narrow, rough_quotients
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.backend.cuda.schedule.levels import Strip
from fusegen.backend.cuda.schedule.strips import stash_groups
from fusegen.backend.emit.banner import banner_lines
from fusegen.backend.emit.lines import Line, uses_of
from fusegen.backend.emit.render import render
from fusegen.backend.emit.source import Source
from fusegen.ir.kernel import ROW, Program


@dataclass(frozen=True)
class StripKernelView:
    """One `__global__` function."""

    symbol: str
    params: tuple[str, ...]
    rows: tuple[tuple[str, str, str], ...]  # pointer type, name of the array, its pointer
    has_values: bool  # are there values of rows that last?
    keeps: tuple[str | Line, ...]  # statements that bring on chip what stays there
    refill: tuple[str, ...]  # likewise, of the next strip, into registers that this one has left
    refill_group: tuple[str, ...]  # and into shared memory
    prelude: tuple[Line, ...]  # statements for one row
    scopes: tuple[tuple[Line, ...], ...]  # likewise, after each sweep
    sweeps: tuple[SweepView, ...]
    splits: bool
    together: bool
    first_meeting: int  # number of the first sweep after which blocks meet

    @property
    def numbers_rows(self) -> bool:
        """Is a row's number asked for?"""
        scopes = (self.prelude, *self.scopes)
        return any(ln.declares == ROW.name for lines in scopes for ln in lines)


def strip_source(program: Program, schedule: CudaSchedule) -> Source:
    """The program as CUDA C++; the same program and schedule give the same bytes."""
    assert schedule.strip is not None
    dialect = CudaDialect(program.kernels[0].compute, narrow=is_narrow(program))
    dialect.rough = rough_quotients(program.kernels, narrow=dialect.narrow)
    names = state_names(program)
    printers = {
        sweep.number: StripSweepPrinter(kernel, sweep, schedule, dialect, names[sweep.number])
        for kernel in program.kernels for sweep in kernel.sweeps
    }
    views = {number: printer.view() for number, printer in printers.items()}
    scopes = [RowScopes(n, printers, views, dialect) for n in launches(program, schedule)]
    kernels = [_kernel_view(s, schedule) for s in scopes]
    owns = [own_view(c, dialect) for c in operators(program)]
    context = {
        **_facts(schedule, schedule.strip, dialect),
        "list_ways": set(),
        "folds": any(v.folds for v in views.values()), "maps": _maps(schedule, kernels, views),
        "used": dialect.used, "merges": True,
        "row_fields": tuple(dict.fromkeys(f for s in scopes for f in s.fields)),
        "owns": owns,
        "sweeps": list(views.values()),
        "kernels": kernels,
    }
    return Source(
        body=render("cuda/strips.cu.j2", context),
        banner=tuple(banner_lines(program, facts(program, schedule))),
        system=toolkit_headers(program),
        headers=(*maths(dialect.used), *strip_headers([*views.values()], schedule),
                 *meet_headers([*views.values()], schedule)),
    )


def _maps(
    schedule: CudaSchedule, kernels: list[StripKernelView], views: dict[int, SweepView]
) -> bool:
    """Are chunks on the way from the chip to memory, or back into registers?"""
    tiers = schedule.tiers
    unfolded = any(v.visits and not v.folds for v in views.values())
    return (bool(tiers.held or tiers.stashed) and unfolded) or any(k.refill for k in kernels)


def _facts(schedule: CudaSchedule, strip: Strip, dialect: CudaDialect) -> dict[str, object]:
    """The schedule's numbers, as the templates name them."""
    tiers = schedule.tiers
    return {
        "strips": True, "exchanges": True, "real": dialect.real, "bits": dialect.bits,
        "column_type": "long long" if schedule.wide_columns else "int",
        "one_warp": False,
        "team_arrives": schedule.team.arrive, "team_is_here": schedule.team.is_here,
        "threads": schedule.threads, "blocks": schedule.blocks, "across": strip.across,
        "width": schedule.width, "vectors": schedule.vectors, "held": tiers.held,
        "stashed": tiers.stashed, "rest": tiers.rest, "mapped": tiers.mapped,
        "groups": stash_groups(schedule),
        "resident": strip.resident,
    }


# ---- kernels ----


def _kernel_view(scopes: RowScopes, schedule: CudaSchedule) -> StripKernelView:
    launch, kernel = scopes.launch, scopes.kernel
    numbers = [s.number for s in kernel.sweeps]
    meetings = [n for n in numbers if scopes.views[n].state]
    home, kept = schedule.home, home_arrays(launch, schedule)
    later = kept if launch.together else ()
    sweeps = tuple(scopes.views[s.number] for s in kernel.sweeps)
    prelude = tuple(scopes.prelude())
    after = tuple(tuple(scopes.after(i)) for i in range(len(kernel.sweeps)))
    uses = uses_of(ln for lines in (prelude, *after) for ln in lines)
    moved = {ld.name for v in sweeps for ld in v.loads if not ld.kept or schedule.tiers.rest}
    moved |= {param for v in sweeps for _, param, _, _ in v.stores}  # to and from memory
    return StripKernelView(
        symbol=launch.symbol, params=tuple(scopes.params),
        rows=tuple((pointer_type(p), p.name, array_name(p)) for p in kernel.elements
                   if p.name in moved or f"{p.name}_rows" in uses),
        has_values=scopes.has_values or ROW_VALUES in uses,
        keeps=home.enter(kept), refill=home.next_row(later), refill_group=home.next_group(later),
        prelude=prelude, scopes=after, sweeps=sweeps,
        splits=launch.splits, together=launch.together,
        first_meeting=meetings[0] if meetings else 0,
    )
