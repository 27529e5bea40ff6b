"""Rows that lie side by side as one CUDA translation unit: vectors across rows, chunks down them.

Sweeps are those of any other layout: `sweepN_fold` and `sweepN_map` take one row's items, and here
those are every kWidth-th element of the thread's vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fusegen.emit.banner import banner_lines
from fusegen.emit.cuda.dialect import C_TYPES, CudaDialect
from fusegen.emit.cuda.own import own_view
from fusegen.emit.cuda.rows import array_name, step_lines
from fusegen.emit.cuda.source import (
    HELPERS,
    _bits,
    _headers,
    _is_narrow,
    _operators,
    _params,
    _pointer_type,
    _structural,
    _with_needs,
    _without_unused,
)
from fusegen.emit.cuda.sweep import SweepPrinter
from fusegen.emit.cuda.views import LoadView, SweepView
from fusegen.emit.render import render
from fusegen.expr import Expr, variables
from fusegen.kernel import Gather, Let, Param, Program, Step, Sweep
from fusegen.schedule.cuda import CudaSchedule, Strip
from fusegen.schedule.launch import Launch, kept_params, launches
from fusegen.schedule.strips import STASH_GROUPS, mergers


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


class StripSweepPrinter(SweepPrinter):
    """Builds the view of a sweep whose items are one of a thread's kWidth rows."""

    def view(self) -> SweepView:
        return replace(super().view(), items=self.schedule.vectors)

    def _load(self, param: Param) -> LoadView:
        kept = param in kept_params(self.kernel, self.schedule)
        return LoadView(
            type=C_TYPES[param.dtype.name], name=param.name, pointer=array_name(param), kept=kept,
            narrow=False, loader="load_columns" if param.shape == "per_column" else "load_down",
        )  # fmt: skip

    def _bring(self, load: LoadView) -> list[str]:
        return []  # the templates know the three places where a chunk can come from

    def _with_functions(self, view: SweepView) -> SweepView:
        lifted = [ln for lift in view.lifts for ln in (*lift.divisors, *lift.lines)]
        fold = [f"{view.state.name}& state"] if view.state else []
        fold_args = [f"folded{view.number}[r]"] if view.state else []
        used, args, _ = self._used([*view.fold_lines, *lifted], view.fold_columns)
        maps = [f"const Along<{kind}, kCount>& {items}" for kind, _, items, _ in view.stores]
        map_args = [f"along({items}, r)" for _, _, items, _ in view.stores]
        map_used, map_more, _ = self._used(
            [*view.map_divisors, *view.store_lines], view.map_column
        )
        return replace(
            view, fold_params=(*fold, *used), fold_args=", ".join([*fold_args, *args]),
            map_params=(*maps, *map_used), map_args=", ".join([*map_args, *map_more]),
        )  # fmt: skip

    def _used(
        self, lines: Iterable[str], columns: bool
    ) -> tuple[list[str], list[str], list[str]]:
        """Parameters and arguments; there are no edges."""
        words = set(re.findall(r"\w+", " ".join(lines)))
        params, args = [], []
        for name in self.sweep.loads:
            if f"{name}_items" in words:
                param = self.kernel.param(name)
                one = param.shape == "per_column"
                kind = f"{'Items' if one else 'Along'}<{C_TYPES[param.dtype.name]}, kCount>"
                params.append(f"const {kind}& {name}_items")
                args.append(f"{name}_items" if one else f"along({name}_items, r)")
        for kind, name in self._row_values():
            if name in words:
                params.append(f"{kind} {name}")
                args.append(f"rows[r].{name}")
        if "n_cols" in words:
            params.append("column_t n_cols")
            args.append("n_cols")
        if columns:
            params.append("const Columns& column_of")
            args.append("column_of")
        return params, args, []

    @property
    def row_values(self) -> list[str]:
        """Row values that the sweep's elements need."""
        return [name for _, name in self._row_values()]


def strip_source(program: Program, schedule: CudaSchedule) -> str:
    """The program as CUDA C++; the same program and schedule give the same bytes."""
    assert schedule.strip is not None
    dialect = CudaDialect(program.kernels[0].compute, narrow=_is_narrow(program))
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
    owns = [own_view(c, dialect) for c in _operators(program)]
    used = _with_needs(dialect.used | _structural(list(views.values())))
    context = {
        **_facts(schedule, schedule.strip, dialect),
        "banner": banner_lines(program, schedule.target.name, schedule.shape, schedule.algorithm),
        "headers": _headers(program),
        "used": used,
        "helpers": [h for h in HELPERS if h in used],
        "narrow": False,
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
    return _without_unused(re.sub(r"^ +#pragma", "#pragma", text, flags=re.MULTILINE))


def _facts(schedule: CudaSchedule, strip: Strip, dialect: CudaDialect) -> dict[str, object]:
    """The schedule's numbers, as the templates name them."""
    return {
        "strips": True, "real": dialect.real, "bits": _bits(dialect),
        "column_type": "long long" if schedule.wide_columns else "int",
        "team_kind": "strips", "team": schedule.team, "one_warp": False,
        "threads": schedule.threads, "blocks": schedule.blocks, "across": strip.across,
        "width": schedule.width, "vectors": schedule.vectors, "held": strip.held,
        "stashed": strip.stashed, "rest": strip.rest, "groups": STASH_GROUPS,
        "mergers": mergers(schedule), "resident": strip.resident,
        "mapped": strip.mapped,
        "nan_max": dialect.real == "float" and int(schedule.target.arch[3:]) >= 80,
    }  # fmt: skip


# ---- row scope ----


class RowScopes:
    """What a kernel computes of each of a thread's rows, before the first sweep and after each."""

    def __init__(
        self, launch: Launch, printers: dict[int, StripSweepPrinter], views: dict[int, SweepView],
        dialect: CudaDialect,
    ) -> None:  # fmt: skip
        self.launch, self.kernel, self.dialect = launch, launch.kernel, dialect
        self.views, self.params = views, _params(launch, views)
        self.types = {p.name: dialect.type_of(p.dtype.kind) for p in self._row_params}
        defined = [[*self.types, *(s.name for s in self.kernel.prelude)]]
        needs = [_names(self.kernel.prelude, ())]
        for sweep in self.kernel.sweeps:
            defined.append([s.name for s in sweep.steps])
            needs.append(_names(sweep.steps, [s.value for s in sweep.row_stores]))
        for step in (*self.kernel.prelude, *(s for w in self.kernel.sweeps for s in w.steps)):
            assert isinstance(step, Let | Gather)  # lists take rows whose columns are neighbours
            value = step.expr if isinstance(step, Let) else step.value
            self.types[step.name] = dialect.type_of(value.kind)
        elements = [set(printers[s.number].row_values) for s in self.kernel.sweeps]
        self.defined, self.needs = defined, needs
        self.carried = {
            name for i, names in enumerate(defined) for name in names
            if any(name in used for used in (*elements[i:], *needs[i + 1 :]))
        }  # fmt: skip

    @property
    def _row_params(self) -> list[Param]:
        return [p for p in self.launch.params if p.shape == "row" and not p.output]

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Type and name of the row values that one scope leaves for later ones."""
        return [(self.types[n], n) for names in self.defined for n in names if n in self.carried]

    @property
    def gathered(self) -> bool:
        """Are single elements of a row read?"""
        return any(isinstance(s, Gather) for w in self.kernel.sweeps for s in w.steps) or any(
            isinstance(s, Gather) for s in self.kernel.prelude
        )

    def prelude(self) -> list[str]:
        """Statements for row r before the first sweep."""
        loads = []
        for p in self._row_params:
            value = self.dialect.load(f"{array_name(p)}[row]", p.dtype)
            loads.append(f"const {self.types[p.name]} {p.name} = {value};")
        steps = step_lines(self.kernel.prelude, self.kernel, self.dialect)
        return self._scope(0, self.kernel.prelude, [*loads, *steps])

    def after(self, number: int) -> list[str]:
        """Statements for row r after sweep `number` of the kernel, counted from 0."""
        sweep = self.kernel.sweeps[number]
        view = self.views[sweep.number]
        lines = []
        if view.state and any("state" in n for n in self.needs[number + 1]):
            total = f"totals{sweep.number}[across * kWidth + r]"
            lines.append(f"const {view.state.name}& {view.total} = {total};")
        lines += view.steps
        if view.row_stores:
            lines += [f"if ({self._writes(sweep)}) {{",
                      *(f"    {ln}" for ln in view.row_stores), "}"]  # fmt: skip
        return self._scope(number + 1, sweep.steps, lines)

    def _scope(self, place: int, steps: Iterable[Step], lines: list[str]) -> list[str]:
        known = [n for names in self.defined[:place] for n in names if n in self.needs[place]]
        found = [f"const {self.types[n]} {n} = rows[r].{n};" for n in known]
        gathered = {n for s in steps if isinstance(s, Gather) for n in s.loads}
        for name in sorted(gathered):
            kind = C_TYPES[self.kernel.param(name).dtype.name]
            found.append(f"const Strided<{kind}> {name}_row{{{name}_rows + r, {name}_stride}};")
        found += lines
        found += [f"rows[r].{n} = {n};" for n in self.defined[place] if n in self.carried]
        if any(re.search(r"\[row\]", ln) for ln in found):
            found.insert(0, "const long long row = first_row + r;")
        return found

    def _writes(self, sweep: Sweep) -> str:
        """Does this thread write its rows' values?"""
        alone = self.launch.grid_rows == 1 or (self.launch.splits and not sweep.monoid.is_empty)
        return "down == 0" if alone else "down == 0 && slice == 0"


def _names(steps: Iterable[Step], values: Iterable[Expr]) -> set[str]:
    """Every name that row-scope statements use."""
    exprs = list(values)
    for step in steps:
        match step:
            case Let(expr=expr):
                exprs.append(expr)
            case Gather(index=index, lets=lets, value=value):
                exprs += [index, value, *(let.expr for let in lets)]
    return {n for e in exprs for n in variables(e)}


# ---- kernels ----


def _kernel_view(scopes: RowScopes, schedule: CudaSchedule) -> StripKernelView:
    launch, kernel = scopes.launch, scopes.kernel
    numbers = [s.number for s in kernel.sweeps]
    meetings = [n for n in numbers if scopes.views[n].state]
    return StripKernelView(
        symbol=launch.symbol, params=tuple(scopes.params),
        rows=tuple((_pointer_type(p), p.name, array_name(p)) for p in kernel.elements),
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
