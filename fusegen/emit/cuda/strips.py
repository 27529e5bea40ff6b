"""Rows that lie side by side as one CUDA translation unit: vectors across rows, chunks down them.

Sweeps are those of any other layout: `sweepN_fold` and `sweepN_map` take one row's items, and here
those are every kWidth-th element of the thread's vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fusegen.emit.banner import banner_lines
from fusegen.emit.cuda.dialect import C_TYPES, CudaDialect
from fusegen.emit.cuda.elements import pair_facts
from fusegen.emit.cuda.own import own_view
from fusegen.emit.cuda.rows import array_name
from fusegen.emit.cuda.source import (
    HELPERS,
    bits,
    headers,
    is_narrow,
    operators,
    pointer_type,
    structural,
    with_needs,
)
from fusegen.emit.cuda.strip_rows import RowScopes, StripSweepPrinter
from fusegen.emit.cuda.unused import without_unused
from fusegen.emit.cuda.views import SweepView
from fusegen.emit.render import render
from fusegen.kernel import Param, Program
from fusegen.schedule.cuda import CudaSchedule, Strip
from fusegen.schedule.launch import Launch, kept_params, launches
from fusegen.schedule.strips import mergers, stash_groups


@dataclass(frozen=True)
class StripKernelView:
    """One `__global__` function."""

    symbol: str
    params: tuple[str, ...]
    rows: tuple[tuple[str, str, str], ...]  # pointer type, name of the array, its pointer
    keeps: tuple[str, ...]  # statements that bring on chip what stays there
    refill: tuple[str, ...]  # likewise, of the next strip, into registers that this one has left
    refill_group: tuple[str, ...]  # and into shared memory
    prelude: tuple[str, ...]  # statements for one row
    scopes: tuple[tuple[str, ...], ...]  # likewise, after each sweep
    sweeps: tuple[SweepView, ...]
    splits: bool
    together: bool
    clusters: bool
    first_meeting: int  # number of the first sweep after which blocks meet
    last_visit: int  # number of the last sweep that goes down the strip


def strip_source(program: Program, schedule: CudaSchedule) -> str:
    """The program as CUDA C++; the same program and schedule give the same bytes."""
    assert schedule.strip is not None
    dialect = CudaDialect(program.kernels[0].compute, narrow=is_narrow(program))
    several = sum(s.monoid.has_scalars for s in program.sweeps) > 1
    printers = {
        sweep.number: StripSweepPrinter(
            kernel, sweep, schedule, dialect, f"State{sweep.number}" if several else "State"
        )
        for kernel in program.kernels for sweep in kernel.sweeps
    }  # fmt: skip
    views = {number: printer.view() for number, printer in printers.items()}
    scopes = [RowScopes(n, printers, views, dialect) for n in launches(program, schedule)]
    kernels = [_kernel_view(s, schedule) for s in scopes]
    owns = [own_view(c, dialect) for c in operators(program)]
    used = with_needs(dialect.used | structural(list(views.values())))
    context = {
        **_facts(schedule, schedule.strip, dialect),
        "banner": banner_lines(program, schedule.target.name, schedule.shape, schedule.algorithm),
        "headers": headers(program),
        "used": used,
        "helpers": [h for h in HELPERS if h in used],
        "narrow": False,
        **pair_facts(program, list(views.values())),
        "gathers": any(s.gathered for s in scopes),
        "per_column": any(ld.loader == "load_columns" for v in views.values() for ld in v.loads),
        "stored": any(v.stores for v in views.values()),
        "splits": any(k.splits for k in kernels),
        "together": any(k.together for k in kernels),
        "row_fields": tuple(dict.fromkeys(f for s in scopes for f in s.fields)),
        "owns": owns,
        "sweeps": list(views.values()),
        "kernels": kernels,
    }  # fmt: skip
    text = render("cuda/strips.cu.j2", context)
    return without_unused(re.sub(r"^ +#pragma", "#pragma", text, flags=re.MULTILINE))


def _facts(schedule: CudaSchedule, strip: Strip, dialect: CudaDialect) -> dict[str, object]:
    """The schedule's numbers, as the templates name them."""
    return {
        "strips": True, "real": dialect.real, "bits": bits(dialect),
        "column_type": "long long" if schedule.wide_columns else "int",
        "team_kind": "strips", "team": schedule.team, "one_warp": False,
        "threads": schedule.threads, "blocks": schedule.blocks, "across": strip.across,
        "width": schedule.width, "vectors": schedule.vectors, "held": strip.held,
        "stashed": strip.stashed, "rest": strip.rest, "groups": stash_groups(schedule),
        "mergers": mergers(schedule), "resident": strip.resident,
        "mapped": strip.mapped,
        "exp": "exp_narrow" if dialect.narrow else f"exp{dialect.suffix}",
        "lowest": "-3.402823466e38f" if dialect.real == "float" else "-1.7976931348623157e308",
        "nan_max": dialect.real == "float" and schedule.target.ampere,
    }  # fmt: skip


# ---- kernels ----


def _kernel_view(scopes: RowScopes, schedule: CudaSchedule) -> StripKernelView:
    launch, kernel = scopes.launch, scopes.kernel
    numbers = [s.number for s in kernel.sweeps]
    meetings = [n for n in numbers if scopes.views[n].state]
    return StripKernelView(
        symbol=launch.symbol, params=tuple(scopes.params),
        rows=tuple((pointer_type(p), p.name, array_name(p)) for p in kernel.elements),
        **_chip_lines(launch, schedule), prelude=tuple(scopes.prelude()),
        scopes=tuple(tuple(scopes.after(i)) for i in range(len(kernel.sweeps))),
        sweeps=tuple(scopes.views[s.number] for s in kernel.sweeps),
        splits=launch.splits, together=launch.together,
        clusters=schedule.team == "cluster" and bool(meetings),
        first_meeting=meetings[0] if meetings else 0,
        last_visit=max((n for n in numbers if scopes.views[n].visits), default=0),
    )  # fmt: skip


def _chip_lines(launch: Launch, schedule: CudaSchedule) -> dict[str, tuple[str, ...]]:
    """Statements that bring on chip what stays there: of the first strip, and of every next one."""
    kept, strip = kept_params(launch.kernel, schedule), schedule.strip
    found: dict[str, tuple[str, ...]] = {"keeps": (), "refill": (), "refill_group": ()}
    if strip is None or not kept:
        return found
    keeps, refill, refill_group = [], [], []
    if strip.held:
        keeps.append("const int first_live = live_vectors<kHeld>(first, place.end);")
    for p in kept:
        rows, stride = _rows_at(p, "place"), f"{p.name}_stride"
        if strip.held:
            keeps.append(f"Items<{C_TYPES[p.dtype.name]}, kHeld * kWidth> {p.name}_held;")
            keeps.append(f"load_down({p.name}_held, {rows}, {stride}, first, first_live);")
            later = _rows_at(p, "next")
            refill.append(f"refill({p.name}_held, slot, {later}, {stride}, at, next.end);")
    if strip.stashed:
        fetches = [f"    {_fetch(p, 'place', 'group')}" for p in kept]
        keeps += [*_stashes(kept), "#pragma unroll 1",
                  "for (int group = 0; group < kGroups; ++group) {", *fetches,
                  "    end_group();", "}"]  # fmt: skip
        refill_group = [*(_fetch(p, "next", "slot / kPerGroup") for p in kept), "end_group();"]
    found["keeps"] = tuple(keeps)
    if launch.together:
        found |= {"refill": tuple(refill), "refill_group": tuple(refill_group)}
    return found


def _rows_at(param: Param, place: str) -> str:
    """Pointer to this thread's rows of a strip."""
    return f"{array_name(param)} + {place}.outer * {param.name}_outer_stride + {place}.inner"


def _fetch(param: Param, place: str, group: str) -> str:
    return (f"fetch_group({param.name}_stash, {_rows_at(param, place)}, {param.name}_stride, "
            f"first + kHeld * kStep, {place}.end, {group});")  # fmt: skip


def _stashes(kept: Iterable[Param]) -> list[str]:
    """Declarations of a thread's places in shared memory."""
    lines = ["extern __shared__ __align__(16) unsigned char stash[];"]
    before = "stash"
    for p in kept:
        kind = C_TYPES[p.dtype.name]
        slots = f"reinterpret_cast<{kind}*>({before}) + threadIdx.x * kWidth"
        lines.append(f"{kind}* {p.name}_stash = {slots};")
        before = f"{before} + kStash * kThreads * kWidth * sizeof({kind})"
    return lines
