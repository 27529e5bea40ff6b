"""Launches as C++ makes them: a function that checks what the source assumes, and picks grids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import C_TYPES
from fusegen.backend.cuda.emit.places import array_name, declared
from fusegen.backend.cuda.schedule.assumptions import (
    Aligned,
    Assumption,
    Between,
    Divides,
    InPhase,
    Within,
    assumptions,
    said,
)
from fusegen.backend.cuda.schedule.cuda import VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.launch import (
    MOST_BLOCKS,
    RESIDENT_BLOCKS,
    Launch,
    launches,
)
from fusegen.backend.cuda.schedule.tiles.scratch import Scratch
from fusegen.backend.emit.render import render
from fusegen.ir.errors import InternalError
from fusegen.ir.kernel import Param, Program
from fusegen.ir.varying import bounds_of


@dataclass(frozen=True)
class RoomView:
    """An array of the workspace."""

    name: str
    n_bytes: str  # an expression over n_rows, n_cols, n_inner and grids


@dataclass(frozen=True)
class LaunchView:
    """One launch: statements of its grid, and its arguments."""

    symbol: str
    number: int
    teams: str
    at_once: bool  # is the grid what the device holds at once?
    needs_at_once: bool  # must one team's blocks be there at once?
    resident: int  # blocks of a multiprocessor, where those bound the grid; 0: they do not
    blocks: int  # of a team
    threads: int
    shared: int
    cluster: int
    together: bool
    made: tuple[tuple[str, str, str], ...]  # type, value, name of arguments that are not given
    arguments: tuple[str, ...]
    zeroed: tuple[RoomView, ...]  # counters

    @property
    def counts(self) -> bool:
        """Does its grid depend on the number of multiprocessors?"""
        return bool(self.resident) or (self.needs_at_once and self.cluster == 1)

    @property
    def asks(self) -> bool:
        """Does CUDA's runtime have a say?"""
        return self.counts or self.needs_at_once or self.shared > 0 or self.cluster > 8


def host_source(
    program: Program, schedule: CudaSchedule, name: str = "", *, runtime: bool = True
) -> str:
    """C++ to stand behind the program's kernels: `<name>_workspace`, `<name>_unmet` and
    `<name>_launch`. runtime: does it include CUDA's?"""
    found = launches(program, schedule)
    strips = schedule.strip is not None
    rooms = dict(_rooms(program, found, strips))
    assumed = assumptions(program, schedule)
    strides = [s for p in (*program.inputs, *program.outputs) for s in _strides(p, strips)]
    return render("cuda/host.cu.j2", {
        "name": name or program.name, "runtime": runtime,
        "params": [declared(p) for p in (*program.inputs, *program.outputs)],
        "strides": strides,
        "given": [*(array_name(p) for p in (*program.inputs, *program.outputs)), *strides],
        "strips": strips,
        "checks": [*((_condition(a, strips), said(a)) for a in assumed), *_fits(found).items()],
        "aligns": any(isinstance(a, Aligned) for a in assumed),
        "pads": any(p.shape == "element" for p in program.workspace),
        "padding": VECTOR_BYTES,  # elements: rows of arrays between kernels begin on a vector
        "rooms": list(rooms.values()),
        "launches": [_view(i, n, program, strips, rooms) for i, n in enumerate(found)],
    })


def given_as(
    program: Program, order: tuple[str, ...], scalars: tuple[str, ...], strips: bool
) -> tuple[str, ...]:
    """A launcher's arrays and strides, out of structs `Given`: `g`, in this order of names; and its
    scalars, out of doubles: `s`."""
    axes = ("outer", "stride") if strips else ("stride",)
    every = (*program.inputs, *program.outputs)

    def spelled(p: Param) -> str:
        kind = C_TYPES[p.dtype.name]
        if p.shape == "scalar":
            return f"static_cast<{kind}>(s[{scalars.index(p.name)}])"
        array = f"static_cast<const {kind}*>(g[{order.index(p.name)}].at)"
        return f"const_cast<{kind}*>({array})" if p.output else array

    return (*map(spelled, every),
            *(f"g[{order.index(p.name)}].{axis}" for p in every if p.shape == "element"
              for axis in axes))


def _strides(param: Param, strips: bool) -> tuple[str, ...]:
    if param.shape != "element":
        return ()
    axes = ("outer_stride", "stride") if strips else ("stride",)
    return tuple(f"{param.name}_{axis}" for axis in axes)


# ---- what is assumed, as conditions ----


def _condition(assumption: Assumption, strips: bool) -> str:
    """C++ that holds."""
    match assumption:
        case Aligned(array=p, n_bytes=n):
            strides = [f"{s} * {p.dtype.itemsize} % {n} == 0" for s in _strides(p, strips)]
            return " && ".join([f"begins_on({array_name(p)}, {n})", *strides])
        case InPhase(arrays=(first, *others), elements=n):
            return " && ".join(
                f"{_phase(p, n)} == {_phase(first, n)} && "
                f"({p.name}_stride - {first.name}_stride) % {n} == 0" for p in others
            )
        case Divides(number=name, of=n):
            return f"{name} % {n} == 0"
        case Within(scalar=p):
            low, high = bounds_of(p.magnitude)
            return f"{p.name} >= {low!r} && {p.name} <= {high!r}"
        case Between(least=least, most=most):
            return f"n_cols >= {least}LL && n_cols <= {most}LL"
        case _:
            raise InternalError(f"no condition for {assumption}")


def _fits(found: tuple[Launch, ...]) -> dict[str, str]:
    """Conditions that grids have blocks for all teams, where none takes several rows, and what
    they say."""
    most = [(n, MOST_BLOCKS // n.grid_rows) for n in found if not n.limited]
    return {f"{_teams(n)} <= {blocks}LL": f"{_teams(n)} ≤ {blocks}" for n, blocks in most}


def _phase(param: Param, n: int) -> str:
    name = array_name(param)
    return f"reinterpret_cast<uintptr_t>({name}) / sizeof(*{name}) % {n}"


# ---- memory beside the arrays ----


def _rooms(
    program: Program, found: tuple[Launch, ...], strips: bool
) -> Iterator[tuple[str, RoomView]]:
    """Arrays of the workspace by name: between kernels, and each launch's scratch memory."""
    padded = f"padded({'n_inner' if strips else 'n_cols'})"
    whole = f"n_rows / n_inner * n_cols * {padded}" if strips else f"n_rows * {padded}"
    for p in program.workspace:
        size = {"element": whole, "row": "n_rows"}[p.shape]
        yield p.name, RoomView(f"{p.name}_room", f"{size} * {p.dtype.itemsize}")
    for i, launch in enumerate(found):
        for s in launch.scratch:
            owners = {"row": "n_rows", "block": f"found.grid[{i}]",
                      "team": f"found.grid[{i}] * {launch.rows_per_block}LL"}[s.per]
            name = _scratch_name(i, s)
            yield name, RoomView(f"{name}_room", f"{owners} * {s.count * s.entry_bytes}")


def _scratch_name(number: int, scratch: Scratch) -> str:
    return f"{scratch.name}{number}"


def _view(
    number: int, launch: Launch, program: Program, strips: bool, rooms: dict[str, RoomView]
) -> LaunchView:
    pads = f"padded({'n_inner' if strips else 'n_cols'})"
    made = {"blocks_of_a_row": ("long long", str(launch.grid_rows))}
    for p in launch.params:
        if p.name not in rooms:
            continue
        room = f"reinterpret_cast<{C_TYPES[p.dtype.name]}*>(at + found.{rooms[p.name].name})"
        made[array_name(p)] = (f"{C_TYPES[p.dtype.name]}*", room)
        made[f"{p.name}_stride"] = ("long long", pads)
        made[f"{p.name}_outer_stride"] = ("long long", f"n_cols * {pads}")
    for scratch in launch.scratch:
        room = rooms[_scratch_name(number, scratch)].name
        made[scratch.name] = ("char*", f"at + found.{room}")
    arguments = (*map(array_name, launch.params), *(r.name for r in launch.scratch),
                 *launch.scalars)
    bounded = launch.steady or launch.together
    return LaunchView(
        symbol=launch.symbol, number=number, teams=_teams(launch), at_once=bounded,
        needs_at_once=bounded or launch.cluster > 1,
        resident=RESIDENT_BLOCKS if launch.limited and not bounded else 0,
        blocks=launch.grid_rows, threads=launch.threads, shared=launch.shared_bytes,
        cluster=launch.cluster, together=launch.together,
        made=tuple((*made[n], n) for n in arguments if n in made), arguments=arguments,
        zeroed=tuple(rooms[_scratch_name(number, s)] for s in launch.scratch
                     if s.kind == "tickets"),
    )


def _teams(launch: Launch) -> str:
    if launch.strip_rows:
        rows = launch.strip_rows
        return f"n_rows / n_inner * ((n_inner + {rows - 1}) / {rows})"
    if launch.rows_per_block == 1:
        return "n_rows"
    return f"(n_rows + {launch.rows_per_block - 1}) / {launch.rows_per_block}"
