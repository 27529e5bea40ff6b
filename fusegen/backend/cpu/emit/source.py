"""A whole program as one C++ translation unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from fusegen.backend.cpu.emit.absorb import AbsorbPrinter, Gathered, Phase, can_be_partial
from fusegen.backend.cpu.emit.dialect import C_TYPES, KNOWN, ROW, CpuDialect
from fusegen.backend.cpu.emit.finish import FinishPrinter
from fusegen.backend.cpu.emit.helpers import helpers_for
from fusegen.backend.cpu.emit.memory import pointer, row_address
from fusegen.backend.cpu.emit.merge import merge_view
from fusegen.backend.cpu.emit.names import fg, noted_names
from fusegen.backend.cpu.emit.scope import RowScope
from fusegen.backend.cpu.emit.state import Field, StateView, state_view
from fusegen.backend.cpu.schedule import AHEAD_COLUMNS, LIST_AHEAD_COLUMNS, CpuSchedule
from fusegen.backend.emit.banner import Facts, banner_lines
from fusegen.backend.emit.lines import Line, uses_of
from fusegen.backend.emit.render import render
from fusegen.backend.emit.widths import check_widths
from fusegen.backend.host.chunks import PIECE_COLUMNS
from fusegen.ir.kernel import FIRST_COLUMN, Kernel, Param, Program, Sweep, names_in


@dataclass(frozen=True)
class SweepView:
    """Everything the templates print for one sweep."""

    kernel: str
    number: int
    title: str
    state: StateView | None
    row_values: tuple[Line, ...]
    phases: tuple[Phase, ...]
    partly: bool  # may the last vector be part of one?
    finish: tuple[Line, ...]
    lists: tuple[Gathered, ...]  # those too long to be kept in order
    prefetched: tuple[str, ...]  # arrays
    awaited: tuple[Param, ...]  # arrays of lists that it stores
    reads_known: bool  # do its elements meet values of earlier sweeps?
    has_known: bool  # does its kernel hand values on?

    # Parameters and arguments of the functions of a sweep: its state if it has one, the row, and
    # the known values where they are needed.

    @property
    def visits(self) -> bool:
        """Does it go over the row at all?"""
        return bool(self.phases or self.lists)

    @property
    def absorb_params(self) -> list[str]:
        known = ["const Known& known"] if self.reads_known else []
        return [*(["State& state"] if self.state else []), "const Row& row", *known]

    @property
    def absorb_args(self) -> list[str]:
        return self._args("state", known=self.reads_known)

    @property
    def part_args(self) -> list[str]:
        return self._args("part", known=self.reads_known)

    @property
    def finish_params(self) -> list[str]:
        row = ["const Row& row"] if self._finish_uses(ROW) else []
        known = ["Known& known"] if self._finish_uses(KNOWN) else []
        return [*(["State& state"] if self.state else []), *row, *known]

    @property
    def finish_args(self) -> list[str]:
        row = ["row"] if self._finish_uses(ROW) else []
        known = ["known"] if self._finish_uses(KNOWN) else []
        return [*(["state"] if self.state else []), *row, *known]

    def _finish_uses(self, what: str) -> bool:
        return what in uses_of(self.finish)

    @property
    def run_params(self) -> list[str]:
        states = ["State* states"] if self.state else []
        return ["const Row& row", *(["Known& known"] if self.has_known else []), *states]

    @property
    def run_args(self) -> list[str]:
        states = [f"static_cast<sweep_{self.number}::State*>(scratch)"] if self.state else []
        return ["row", *(["known"] if self.has_known else []), *states]

    @property
    def merge_row(self) -> str:
        return ", row" if self.state and self.state.merge_needs_row else ""

    def _args(self, state: str, *, known: bool) -> list[str]:
        return [*([state] if self.state else []), "row", *(["known"] if known else [])]

    # C entry points take untyped pointers; those that a sweep has no use for stay unnamed.

    @property
    def fold_known(self) -> str:
        return "const void* known_values" if self.reads_known else "const void*"

    @property
    def fold_state(self) -> str:
        return "void* own_state" if self.state else "void*"

    @property
    def fold_casts(self) -> list[str]:
        known = "const Known& known = *static_cast<const Known*>(known_values);"
        state = f"auto& state = *static_cast<sweep_{self.number}::State*>(own_state);"
        return [*([known] if self.reads_known else []), *([state] if self.state else [])]

    @property
    def finish_pieces(self) -> str:
        return "int64_t pieces" if self.state else "int64_t"

    @property
    def finish_known(self) -> str:
        return "void* known_values" if self._finish_uses(KNOWN) else "void*"

    @property
    def finish_state(self) -> str:
        return "void* states" if self.state else "void*"

    @property
    def finish_casts(self) -> list[str]:
        row = "const Row row = row_of(*arrays, r);"
        known = "Known& known = *static_cast<Known*>(known_values);"
        state = f"auto& state = *static_cast<sweep_{self.number}::State*>(states);"
        return [
            *([row] if self.finish_needs_row else []),
            *([known] if self._finish_uses(KNOWN) else []),
            *([state] if self.state else []),
        ]

    @property
    def finish_needs_row(self) -> bool:
        return self._finish_uses(ROW) or bool(self.merge_row)

    @property
    def finish_arrays(self) -> str:
        """The first parameters of the entry point."""
        table = f"const {self.kernel}::Arrays*"
        return f"{table} arrays, int64_t r" if self.finish_needs_row else f"{table}, int64_t"


@dataclass(frozen=True)
class KernelView:
    """Everything the templates print for one launch."""

    name: str
    arrays: tuple[Field, ...]
    members: tuple[Field, ...]
    addresses: tuple[str, ...]
    known: tuple[Field, ...]
    prelude: tuple[Line, ...]
    sweeps: tuple[SweepView, ...]
    numbered: bool  # do columns have the numbers of a whole row, of which this is a piece?

    @property
    def known_arg(self) -> str:
        return ", known" if self.known else ""

    @property
    def known_out(self) -> str:
        return ", Known& known" if self.known else ""

    @property
    def known_param(self) -> str:
        return "void* known_values" if self.known else "void*"

    @property
    def known_cast(self) -> str:
        return ", *static_cast<Known*>(known_values)" if self.known else ""

    @property
    def scratch(self) -> str:
        return "void* scratch" if any(s.state for s in self.sweeps) else "void*"


def cpu_source(program: Program, schedule: CpuSchedule) -> str:
    """The program as C++17; the same program and schedule give the same bytes."""
    check_widths(program, "CPU kernels")
    compute = program.kernels[0].compute
    real = C_TYPES[compute.name]
    values: dict[str, object] = {
        "real": real, "suffix": "f" if real == "float" else "",
        "lanes": schedule.lanes, "vector_bytes": schedule.target.vector_bytes,
        "chunk": schedule.chunk, "piece": PIECE_COLUMNS,
        "list_block": schedule.list_block, "network_slots": schedule.network_slots,
        "ahead": AHEAD_COLUMNS, "list_ahead": LIST_AHEAD_COLUMNS, "vectorised": schedule.chunk > 1,
        "masks": schedule.masks,
        **dict.fromkeys(("live_type", "live_param", "live_arg"), ""),
    }
    if schedule.target.vector_bytes == 64:
        values |= {"live_type": ", typename L = every", "live_param": ", L live = {}",
                   "live_arg": ", live"}
    values["fg"] = fg
    with noted_names() as names:
        if program.role == "merge":
            made = [_merge(kernel, values) for kernel in program.kernels]
        else:
            made = [_kernel(kernel, values) for kernel in program.kernels]
    helpers = helpers_for(names, values)
    banner = banner_lines(program, _facts(program, schedule))
    return render(
        "cpu/program.cpp.j2",
        {**values, "banner": banner, "headers": helpers.headers, "helpers": helpers.texts,
         "kernels": [body for body, _ in made], "entries": [entry for _, entry in made]},
    )


def _facts(program: Program, schedule: CpuSchedule) -> Facts:
    """What the banner says of how it runs."""
    shape, tree = schedule.describe(), schedule.algorithm
    if program.role in ("merge", "finish"):
        shape = "rows one after the other"
        tree = "one state at a time" if program.role == "merge" else ""
    return Facts(target=schedule.target.name, tree=tree, schedule=shape)


def _kernel(kernel: Kernel, values: Mapping[str, object]) -> tuple[str, str]:
    """A kernel's functions, and its entry points."""
    found = {**values, "kernel": _kernel_view(kernel, masks=bool(values["masks"]))}
    return (render("cpu/kernel.cpp.j2", found), render("cpu/partials/entries.cpp.j2", found))


def _merge(kernel: Kernel, values: Mapping[str, object]) -> tuple[str, str]:
    """Likewise, of a merge of states."""
    view = merge_view(kernel, kernel.sweeps[0])
    found = {**values, **{f.name: getattr(view, f.name) for f in fields(view)}}
    return (render("cpu/roles/merge.cpp.j2", found), render("cpu/roles/merge_rows.cpp.j2", found))


def _kernel_view(kernel: Kernel, *, masks: bool) -> KernelView:
    leaders = frozenset(b.name for s in kernel.sweeps for b in s.monoid.best)
    row = CpuDialect(kernel.compute, lanes=False, leaders=leaders)
    lanes = CpuDialect(kernel.compute, lanes=True)
    scope = RowScope(kernel, row)
    finishes = FinishPrinter(kernel, scope, row)
    return KernelView(
        name=kernel.name,
        arrays=tuple(f for p in kernel.params for f in _array_fields(p)),
        members=tuple(Field(pointer(p), p.name, _extent(p)) for p in kernel.params),
        addresses=tuple(row_address(p) for p in kernel.params),
        known=tuple(Field(row.type_of(kind), name, "") for name, kind in scope.known.items()),
        prelude=tuple(finishes.prelude()) if kernel.prelude else (),
        sweeps=tuple(
            _sweep_view(kernel, sweep, scope, row,
                        replace(lanes, partly=masks and can_be_partial(sweep)), finishes)
            for sweep in kernel.sweeps
        ),
        numbered=FIRST_COLUMN.name in names_in(kernel),
    )


def _sweep_view(
    kernel: Kernel, sweep: Sweep, scope: RowScope, row: CpuDialect, lanes: CpuDialect,
    finishes: FinishPrinter,
) -> SweepView:
    absorb = AbsorbPrinter(kernel, sweep, scope, row, lanes)
    row_values, phases = absorb.row_values(), tuple(absorb.phases())
    finish = tuple(finishes.finish(sweep))
    state = None if sweep.monoid.is_empty else state_view(sweep, scope, row)
    return SweepView(
        kernel=kernel.name, number=sweep.number,
        title=f"reads {', '.join(sweep.reads) or 'nothing'}",
        state=state, row_values=row_values, phases=phases, finish=finish,
        partly=lanes.partly, lists=absorb.gathered(),
        prefetched=_prefetched(kernel, sweep),
        awaited=tuple(kernel.param(s.param) for s in sweep.list_stores),
        reads_known=KNOWN in uses_of(row_values), has_known=bool(scope.known),
    )


def _prefetched(kernel: Kernel, sweep: Sweep) -> tuple[str, ...]:
    """Elements that come from memory: the row's first sweep over them."""
    before = {n for s in kernel.sweeps if s.number < sweep.number for n in s.streams}
    return tuple(
        n for n in sweep.streams if n not in before and kernel.param(n).shape == "element"
    )


def _array_fields(param: Param) -> list[Field]:
    fields = [Field(pointer(param), param.name, "")]
    if param.shape in ("element", "row"):
        fields.append(Field("int64_t", f"{param.name}_stride", "elements between rows"))
    return fields


def _extent(param: Param) -> str:
    return {
        "element": "n_cols elements", "per_column": "n_cols elements, the same in every row",
        "row": "one value", "list": f"{param.k} entries", "states": "the first state",
    }[param.shape]
