"""A whole program as one CUDA translation unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from fusegen.emit.banner import banner_lines
from fusegen.emit.cuda.chip import ChipPrinter
from fusegen.emit.cuda.dialect import C_TYPES, CudaDialect
from fusegen.emit.cuda.elements import pair_facts
from fusegen.emit.cuda.list_facts import list_facts
from fusegen.emit.cuda.meeting import meeting_lanes
from fusegen.emit.cuda.own import own_view
from fusegen.emit.cuda.rows import array_name, body_of, early_steps, pointer_of, step_lines
from fusegen.emit.cuda.sweep import SweepPrinter
from fusegen.emit.cuda.unused import without_unused
from fusegen.emit.cuda.views import SweepView
from fusegen.emit.render import render
from fusegen.kernel import Param, Program
from fusegen.monoid import Own
from fusegen.schedule.cuda import CudaSchedule
from fusegen.schedule.launch import Launch, launches
from fusegen.schedule.target import WARP


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
    home: str
    rows: tuple[tuple[str, str, str], ...]  # declared type, row pointer, initial value
    phase: str  # what the head is measured on, in elements; "" if rows are whole vectors
    bodies: tuple[tuple[str, str, str], ...]  # likewise, pointers to the first whole vector
    has_edge: str  # condition on this thread's block or row, with its "&&"
    span: tuple[str, ...]  # statements that say which vectors of the row are this thread's
    keeps: tuple[str, ...]  # statements that bring on chip what stays there
    first_fetch: tuple[str, ...]  # likewise, of a team's first row
    refill: tuple[str, ...]  # and of its next one, in registers
    refill_group: tuple[str, ...]  # and in shared memory
    prelude: tuple[str, ...]
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
    def head(self) -> str:
        return "head + " if self.phase else ""


HELPERS = (
    "divisor", "exp_narrow", "exp_times", "greater_of", "lesser_of", "zero_wins", "square",
    "xlogy", "sign", "sigmoid", "to_int", "clamped", "shift_anchor", "scale_anchor", "above",
    "below", "mirror",
)  # fmt: skip
"""C++ functions that a program gets if it calls them, one partial each."""


def cuda_source(program: Program, schedule: CudaSchedule) -> str:
    """The program as CUDA C++; the same program and schedule give the same bytes."""
    dialect = CudaDialect(program.kernels[0].compute, narrow=is_narrow(program))
    several = sum(s.monoid.has_scalars for s in program.sweeps) > 1
    views = {
        sweep.number: SweepPrinter(
            kernel, sweep, schedule, dialect, f"State{sweep.number}" if several else "State"
        ).view()
        for kernel in program.kernels for sweep in kernel.sweeps
    }  # fmt: skip
    for kernel in program.kernels:
        for this, after in pairwise(kernel.sweeps):
            views[this.number] = replace(
                views[this.number], ahead_next=views[after.number].ahead
            )
    launched = launches(program, schedule)
    kernels = [_kernel_view(n, views, schedule, dialect) for n in launched]
    sweeps = list(views.values())
    owns = [own_view(c, dialect) for c in operators(program)]
    used = with_needs(dialect.used | structural(sweeps))
    context = {
        **_facts(schedule, dialect),
        "banner": banner_lines(program, schedule.target.name, schedule.shape, schedule.algorithm),
        "headers": headers(program),
        "used": used,
        "helpers": [h for h in HELPERS if h in used],
        **list_facts(sweeps),
        "loads": {ld.loader for v in sweeps for ld in v.loads},
        "narrow": any(v.repacks for v in sweeps),
        **pair_facts(program, sweeps),
        "stored": any(v.stores for v in sweeps),
        "splits": any(k.splits for k in kernels),
        "together": any(n.together for n in launched),
        "meets_again": any(k.loops and not k.parity for k in kernels)
        or any(s.monoid.ordered for s in program.sweeps),
        "owns": owns,
        "sweeps": sweeps,
        "kernels": kernels,
    }  # fmt: skip
    return without_unused(render("cuda/program.cu.j2", context))


def is_narrow(program: Program) -> bool:
    """Have all floating inputs and outputs 16 bits?"""
    kinds = [p.dtype for p in (*program.inputs, *program.outputs) if p.dtype.kind == "float"]
    return program.kernels[0].compute.itemsize == 4 and all(d.itemsize == 2 for d in kinds)


def operators(program: Program) -> list[Own]:
    """The user's own monoids, each once."""
    return list({c.type: c for s in program.sweeps for c in s.monoid.operators}.values())


def _facts(schedule: CudaSchedule, dialect: CudaDialect) -> dict[str, object]:
    """The schedule's numbers, as the templates name them."""
    lanes = schedule.team == "lanes"
    return {
        "real": dialect.real, "bits": bits(dialect),
        "column_type": "long long" if schedule.wide_columns else "int",
        "team_kind": schedule.team, "team": schedule.team_threads,
        "runtime_team": not (lanes or schedule.fixed),
        "one_warp": lanes and schedule.lanes == WARP,
        "partial_warps": lanes and schedule.lanes < WARP,
        "meeting_lanes": meeting_lanes(schedule),
        "rows_per_block": schedule.rows_per_block, "most_threads": schedule.most_threads,
        "least_blocks": schedule.least_blocks,
        "vectors": schedule.vectors, "width": schedule.width, "wide": schedule.width > 1,
        "past_l1": schedule.past_l1,
        "stages": schedule.stages,
        "step": "kRestVectors" if schedule.home == "chip" else "kVectors",
        "cluster": schedule.team == "cluster", "blocks": schedule.blocks,
        "sliced": schedule.team in ("cluster", "grid"),
        "exp": "exp_narrow" if dialect.narrow else f"exp{dialect.suffix}",
        "lowest": "-3.402823466e38f" if dialect.real == "float" else "-1.7976931348623157e308",
        "strips": schedule.strip is not None,
        "reduces": schedule.target.ampere,
        "nan_max": dialect.real == "float" and schedule.target.ampere,
    }  # fmt: skip


def _kernel_view(
    launch: Launch, views: dict[int, SweepView], schedule: CudaSchedule, dialect: CudaDialect
) -> KernelView:
    kernel = launch.kernel
    elements = [p for p in launch.params if p.shape == "element"]
    phase, bodies = "", []
    if schedule.load == "peeled" and elements:
        first = elements[0]
        address = f"reinterpret_cast<unsigned long long>({pointer_of(first)})"
        phase = f"({address} / sizeof({C_TYPES[first.dtype.name]}))"
        bodies = [(pointer_type(p), body_of(p, schedule), f"{pointer_of(p)} + head")
                  for p in elements]  # fmt: skip
    sliced = schedule.team in ("cluster", "grid")
    partial = schedule.team == "lanes" and schedule.lanes < WARP
    chip = ChipPrinter(launch, schedule)
    return KernelView(
        symbol=launch.symbol, params=tuple(kernel_params(launch, views)),
        first_row=_first_row(schedule), row_step=_row_step(schedule), loops=launch.limited,
        steady=launch.steady, splits=launch.splits, home=schedule.home,
        rows=tuple(
            (pointer_type(p), pointer_of(p), f"{array_name(p)} + row * {p.name}_stride")
            for p in elements
        ),
        phase=phase, bodies=tuple(bodies),
        has_edge="slice == 0 && " if sliced else "mine < n_rows && " if partial else "",
        span=chip.span, keeps=chip.keeps, first_fetch=chip.first_fetch, refill=chip.refill,
        refill_group=chip.refill_group,
        prelude=(
            *_row_values(launch, dialect),
            *step_lines((*kernel.prelude, *early_steps(kernel)), kernel, dialect),
        ),
        sweeps=tuple(views[s.number] for s in kernel.sweeps),
        writes_rows="rank == 0" + (
            " && slice == 0" if sliced and not launch.splits else " && mine < n_rows" if partial
            else ""
        ),
    )  # fmt: skip


def _first_row(schedule: CudaSchedule) -> str:
    if schedule.team in ("cluster", "grid"):
        return "blockIdx.x / blocks"
    if schedule.rows_per_block == 1:
        return "blockIdx.x"
    return "static_cast<long long>(blockIdx.x) * kRowsPerBlock + team"


def _row_step(schedule: CudaSchedule) -> str:
    if schedule.team in ("cluster", "grid"):
        return "gridDim.x / blocks"
    rows = " * kRowsPerBlock" if schedule.rows_per_block > 1 else ""
    return f"static_cast<long long>(gridDim.x){rows}"


_SCALARS = {"n_cols": "n_cols_wide"}


def kernel_params(launch: Launch, views: dict[int, SweepView]) -> list[str]:
    """The C++ parameter list; runtime/cuda/geometry.py passes arguments in this very order."""
    lines = []
    for p in launch.params:
        const = "" if p.output else "const "
        lines.append(f"{const}{C_TYPES[p.dtype.name]}* __restrict__ {array_name(p)}")
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


def pointer_type(param: Param) -> str:
    """An array's C type."""
    return f"{'' if param.output else 'const '}{C_TYPES[param.dtype.name]}*"


def _row_values(launch: Launch, dialect: CudaDialect) -> list[str]:
    return [
        f"const {dialect.type_of(p.dtype.kind)} {p.name} = "
        f"{dialect.load(f'{array_name(p)}[row]', p.dtype)};"
        for p in launch.params if p.shape == "row" and not p.output
    ]  # fmt: skip


def headers(program: Program) -> list[str]:
    """What the program's types include."""
    names = {p.dtype.name for k in program.kernels for p in k.params}
    return [h for d, h in (("float16", "cuda_fp16.h"), ("bfloat16", "cuda_bf16.h")) if d in names]


def bits(dialect: CudaDialect) -> dict[str, str]:
    """Values without a literal, by their bits."""
    if dialect.real == "float":
        return {"inf": "__int_as_float(0x7f800000)", "nan": "__int_as_float(0x7fc00000)"}
    return {
        "inf": "__longlong_as_double(0x7ff0000000000000LL)",
        "nan": "__longlong_as_double(0x7ff8000000000000LL)",
    }


def structural(sweeps: list[SweepView]) -> set[str]:
    """Helpers that the structure itself needs."""
    found: set[str] = set()
    if any(c.way == "streamed" for v in sweeps for c in v.lists):
        found.add("lists")
    fields = [f for v in sweeps if v.state for f in v.state.fields]
    found |= {f.identity.lstrip("-") for f in fields if f.identity.lstrip("-").startswith("k")}
    found |= {c.worst.lstrip("-") for v in sweeps for c in v.lists}
    if any(v.state for v in sweeps):
        found.add("states")
    return found


_NEEDS: dict[str, set[str]] = {
    "above": {"kNoColumn"}, "below": {"kNoColumn"}, "mirror": {"kInfinity", "kNaN"},
}


def with_needs(used: set[str]) -> set[str]:
    """Helpers, and those that they call."""
    return used | {n for u in used for n in _NEEDS.get(u, set())}
