"""A launch as one `__global__` function: whose rows these are, what is on chip, what is swept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fusegen.backend.cuda.bring import Bring
from fusegen.backend.cuda.emit.asked import elements_used, span_asked
from fusegen.backend.cuda.emit.bands import BandView, band_view, row_in_band, row_of_step
from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.places import (
    array_name,
    body_of,
    declared,
    load_line,
    place_in_row,
    pointer_of,
    pointer_type,
)
from fusegen.backend.cuda.emit.rows import early_steps, owners_of, step_lines
from fusegen.backend.cuda.emit.state import StateView
from fusegen.backend.cuda.emit.views import SweepView
from fusegen.backend.cuda.schedule.anchors import anchor, loader_of
from fusegen.backend.cuda.schedule.cuda import IN_REGISTERS, CudaSchedule
from fusegen.backend.cuda.schedule.homes import Array, Home, body_of_row
from fusegen.backend.cuda.schedule.launch import Launch
from fusegen.backend.cuda.schedule.on_chip import folds_as_it_lies, kept_params, margin, ring_params
from fusegen.backend.emit.lines import Line, uses_of
from fusegen.ir.kernel import N_COLS, ROW, Kernel, Param


@dataclass(frozen=True)
class KernelView:
    """One `__global__` function, or one that such a function calls."""

    symbol: str
    within: bool  # does another kernel call it?
    params: tuple[str, ...]
    counts_teams: bool  # does it ask which of the block's teams a thread is in?
    first_row: str  # this team's
    last_row: str  # of a band, that this lane finishes
    row_step: str  # from one row of a team to its next
    loops: bool  # does a team take several rows?
    steady: bool  # does a team go from row to row?
    splits: bool
    home: Home
    band: BandView | None  # rows that come to shared memory together
    rows: tuple[tuple[str, str, str], ...]  # declared type, row pointer, initial value
    phase: str  # the row that the head is measured on; "" if rows are whole vectors
    margin: int  # vectors that count as head and tail on either side
    lies: str  # what says where the words of a slice lie that are folded so; "": none are
    bodies: tuple[tuple[str, str, str], ...]  # likewise, pointers to the first whole vector
    has_edge: str  # condition on this thread's block or row
    has_row: str  # condition: has this team a row of its own?
    span: tuple[str | Line, ...]  # statements that say which vectors of the row are this thread's
    row_span: tuple[str | Line, ...]  # likewise, what differs from row to row of a steady team
    first_phase: str  # as `phase`, of a steady team's first row
    next_phase: str  # and of the one after this
    keeps: tuple[str | Line, ...]  # statements that bring on chip what stays there
    first_fetch: tuple[str, ...]  # likewise, of a team's first row
    refill: tuple[str, ...]  # and of its next one, in registers
    refill_group: tuple[str, ...]  # and in shared memory
    prelude: tuple[Line, ...]
    sweeps: tuple[SweepView, ...]
    writes_rows: str  # condition: does this thread write the row's values?

    @property
    def turns(self) -> bool:
        """Are rows of a band finished together, each by a lane? Where all that is left of them is
        their state."""
        match self.sweeps:
            case [SweepView(state=StateView(), lists=(), stores=(), list_stores=(), steps=()) as s]:
                pointers = {name for _, name, _ in self.rows}
                lines = (*s.store_steps, *s.row_stores)
                alone = not self.prelude and not pointers & uses_of(lines)
                return self.band is not None and alone and bool(s.row_stores)
            case _:
                return False

    @property
    def band_asks(self) -> tuple[Bring, ...]:
        """What all rows of a band share, and lanes keep from the first to the last."""
        if self.band is None:
            return ()
        return tuple(dict.fromkeys(bring for s in self.sweeps for bring in s.asked))

    @property
    def numbers_rows(self) -> bool:
        """Is the number of a band's row asked for before it is finished?"""
        lines = [ln for s in self.sweeps for ln in s.item_lines]
        if not self.turns:
            lines += [*self.prelude, *(ln for s in self.sweeps for ln in s.at_row_scope)]
        return ROW.name in uses_of(lines)

    @property
    def asks_end(self) -> bool:
        """Is it asked where a band's row ends?"""
        sought = any(s.seeks_last or any(c.way == "collected" for c in s.lists)
                     for s in self.sweeps)
        return sought or "end" in uses_of(ln for ln in self.span if isinstance(ln, Line))

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

    @property
    def width_and_margin(self) -> str:
        """What <fusegen/edges.cuh> is told of vectors."""
        return f"kWidth, {self.margin}" if self.margin else "kWidth"


def kernel_view(
    launch: Launch, views: dict[int, SweepView], schedule: CudaSchedule, dialect: CudaDialect,
    *, within: bool = False,
) -> KernelView:
    kernel = launch.kernel
    elements = [p for p in launch.params if p.shape == "element"]
    first = anchor(kernel, schedule.load) if schedule.has_edges else None
    phase = pointer_of(first) if first else ""
    sliced = schedule.clustered or schedule.split
    used = elements_used(kernel)
    home, kept = schedule.home, home_arrays(launch, schedule)
    band = band_view(launch, schedule)
    return KernelView(
        symbol=function_of(launch) if within else launch.symbol, within=within,
        params=tuple(_params_within(launch) if within else kernel_params(launch, views)),
        counts_teams=not within and _counts_teams(kernel, schedule),
        first_row=_TEAM_ROW if within else _first_row(schedule),
        last_row=row_of_step("first + rank", schedule), row_step=_row_step(schedule),
        loops=launch.limited,
        steady=launch.steady, splits=launch.splits, home=schedule.home,
        band=band,
        rows=tuple(_row(p, schedule) for p in elements if p.name in used or phase),
        phase=phase, margin=margin(kernel, schedule),
        lies=next((a.row for a in kept if a.lies), ""),
        bodies=tuple(_bodies(launch, views, schedule) if phase else ()),
        has_row="mine < band_rows" if band else "mine < n_rows",
        has_edge="slice == 0" if sliced else "mine < n_rows" if schedule.partial_warps else "",
        span=span_asked(home.span(kept), views, kernel),
        row_span=span_asked(home.row_span(kept), views, kernel),
        first_phase=f"{array_name(first)} + first_row * {first.name}_stride" if first else "",
        next_phase=f"{phase} + row_step * {first.name}_stride" if first else "",
        keeps=(*home.enter(kept), *_edges(launch, views, schedule), *home.settle(kept)),
        first_fetch=home.first_row(kept), refill=home.next_row(kept),
        refill_group=home.next_group(kept),
        prelude=(*_row_values(launch, dialect), *_early(launch, schedule, dialect)),
        sweeps=tuple(views[s.number] for s in kernel.sweeps),
        writes_rows="rank == 0" + (
            " && slice == 0" if sliced and not launch.splits else ""
        ),
    )


def _row(param: Param, schedule: CudaSchedule) -> tuple[str, str, str]:
    """Declared type, name and value of what points at an array's row."""
    value = f"{array_name(param)} + row * {param.name}_stride"
    if schedule.home.band_rows:
        value = row_in_band(param)
    return pointer_type(param), pointer_of(param), value


def _bodies(
    launch: Launch, views: dict[int, SweepView], schedule: CudaSchedule
) -> Iterable[tuple[str, str, str]]:
    """Declared type, name and value of what says where arrays' whole vectors are."""
    sweeps = [views[s.number] for s in launch.kernel.sweeps]
    vectors = {pointer for v in sweeps for _, _, _, pointer in v.stores}
    # Of what comes in where others leave, only shifts are asked for.
    vectors |= {ld.body for v in sweeps for ld in v.loads if ld.loader != "load_columns"
                and not (launch.steady and ld.kept and schedule.load == "peeled")}
    for p in launch.params:
        if p.shape in ("element", "per_column") and body_of(p, schedule) in vectors:
            loader = loader_of(p, launch.kernel, schedule)
            kind, value = body_of_row(pointer_type(p), loader, pointer_of(p), "head")
            yield kind, body_of(p, schedule), value


def home_arrays(launch: Launch, schedule: CudaSchedule) -> tuple[Array, ...]:
    """The arrays that a row's home is for: what stays on chip, or comes through a ring."""
    kernel = launch.kernel
    ring = schedule.home.stages > 0
    found = ring_params(kernel, kernel.sweeps[0]) if ring else kept_params(kernel, schedule)
    return tuple(Array(p.name, C_TYPES[p.dtype.name], body_of(p, schedule),
                       loader_of(p, kernel, schedule), array_name(p),
                       schedule.has_edges, folds_as_it_lies(kernel, schedule)) for p in found)


def _edges(
    launch: Launch, views: dict[int, SweepView], schedule: CudaSchedule
) -> Iterable[Line]:
    """Elements at the edges of a row, each read once."""
    sweeps = launch.kernel.sweeps if schedule.has_edges else ()
    return dict.fromkeys(ln for s in sweeps for ln in views[s.number].edges)


def _counts_teams(kernel: Kernel, schedule: CudaSchedule) -> bool:
    """Rows of a band that lie apart are found from the warp; sorted lists stay in registers."""
    lists = any(s.monoid.lists for s in kernel.sweeps)
    return schedule.home.rows_apart <= 1 or (lists and schedule.lists not in IN_REGISTERS)


def _first_row(schedule: CudaSchedule) -> str:
    if schedule.clustered or schedule.split:
        return "blockIdx.x / blocks"
    if schedule.home.band_rows:
        return row_of_step("step", schedule)
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
    """The C++ parameter list; backend/cuda/run/arguments.py passes them in this very order."""
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


_TEAM_ROW = "row_of_team"


def function_of(launch: Launch) -> str:
    """What a kernel is called that another one calls."""
    return f"{launch.kernel.name}_row"


def _params_within(launch: Launch) -> list[str]:
    """Of such a function: arrays may be what its caller has just written."""
    return [*map(declared, launch.params),
            *(f"long long {_SCALARS.get(n, n)}" for n in launch.scalars), f"long long {_TEAM_ROW}"]


def _early(launch: Launch, schedule: CudaSchedule, dialect: CudaDialect) -> list[Line]:
    """Row values that wait for no sweep."""
    kernel = launch.kernel
    steps, owners = (*kernel.prelude, *early_steps(kernel)), owners_of(kernel, schedule, dialect)
    return step_lines(steps, kernel, dialect, owners)


def _row_values(launch: Launch, dialect: CudaDialect) -> list[Line]:
    return [load_line(p, place_in_row(p), dialect, ROW.name)
            for p in launch.params if p.shape == "row" and not p.output]
