"""A program over vectors as one CUDA translation unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from fusegen.backend.cuda.emit.dialect import CudaDialect
from fusegen.backend.cuda.emit.headers import maths, toolkit_headers
from fusegen.backend.cuda.emit.own import own_view
from fusegen.backend.cuda.emit.places import declared
from fusegen.backend.cuda.emit.source import operators, state_names
from fusegen.backend.cuda.emit.tiles.fold import AT, FoldPrinter
from fusegen.backend.cuda.emit.tiles.lists import key_type
from fusegen.backend.cuda.emit.tiles.rounds import HEADERS as ROUNDS_HEADERS
from fusegen.backend.cuda.emit.tiles.rounds import round_view, rounds_view
from fusegen.backend.cuda.emit.tiles.rows import RowPrinter
from fusegen.backend.cuda.emit.tiles.scope import Member, Scope
from fusegen.backend.cuda.emit.tiles.split import split_view
from fusegen.backend.cuda.emit.tiles.sweep import SweepPrinter, SweptView
from fusegen.backend.cuda.emit.tiles.wgmma import HEADERS, WgmmaView, wgmma_view
from fusegen.backend.cuda.emit.tiles.wgmma_long import HEADERS as GROUPED_HEADERS
from fusegen.backend.cuda.emit.tiles.wgmma_long import LongView, long_view
from fusegen.backend.cuda.schedule.digits import is_narrow
from fusegen.backend.cuda.schedule.launch import Launch, best_launch, launches
from fusegen.backend.cuda.schedule.tiles.filters import Filter, filter_of
from fusegen.backend.cuda.schedule.tiles.rounds import ROUNDING_BLOCKS, ROW_THREADS
from fusegen.backend.cuda.schedule.tiles.tile import PAD, TileSchedule, parts_of, scheduled
from fusegen.backend.emit.banner import Facts, banner_lines
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.render import render
from fusegen.backend.emit.source import Source
from fusegen.backend.emit.vector_sums import vector_sums
from fusegen.ir.kernel import N_COLS, Kernel, Program, Sweep


@dataclass(frozen=True)
class TileKernelView:
    """One `__global__` function."""

    symbol: str
    params: tuple[str, ...]
    arguments: tuple[str, ...]
    members: tuple[Member, ...]
    kept: tuple[tuple[str, str], ...]
    prelude: tuple[Line, ...]
    sweeps: tuple[SweptView, ...]
    splits: bool
    parts: int
    batched: tuple[str, ...]
    last_first: bool  # may rows grow, so that the last ones take the longest?
    wgmma: WgmmaView | None
    found: Mapping[int, tuple[str, ...]]  # see `Scope.found`, by sweep
    long: LongView | None

    @property
    def states(self) -> tuple[object, ...]:
        """Sweeps that have one."""
        return tuple(s.fold for s in self.sweeps if s.fold.state)


def tile_source(program: Program, schedule: TileSchedule) -> Source:
    """The program as CUDA C++; the same program and schedule give the same bytes."""
    dialect = _dialect(program, schedule)
    names = state_names(program)
    launched = launches(program, schedule)
    found = filter_of(program.kernels[0]) if schedule.filters else None
    made = [_kernel_view(n, schedule, dialect, names, found) for n in launched
            if n.kernel.sweeps and not (schedule.grouped and n.each == "row")]
    kernels = [view for view, _ in made]
    rounds = rounds_view(launched, found, schedule, made[0][1]) \
        if found and schedule.in_rounds else None
    sweeps = [s for k in kernels for s in k.sweeps]
    wgmma = kernels[0].wgmma
    context = {
        "real": dialect.real, "bits": dialect.bits, "used": dialect.used, "exchanges": True,
        "merges": True, "strips": False, "kernels": kernels,
        "column_type": "long long" if schedule.wide_columns else "int",
        "threads": schedule.threads, "row_tiles": schedule.row_tiles, "rows": schedule.rows,
        "columns": schedule.columns, "stages": schedule.stages, "teams": schedule.teams,
        "brought": schedule.brought * any(s.visits and not s.mma for s in sweeps),
        "warps": schedule.warps, "pad": PAD, "most_numbers": schedule.most_numbers,
        "mma": schedule.engine == "mma", "wgmma": wgmma, "long": kernels[0].long,
        "weighs": any(s.weights_at for s in sweeps), "left_out": dialect.number(-0.0),
        "at": AT, "lists": any(s.lists for s in sweeps),
        "round": round_view(launched, found, schedule, dialect) if found else None,
        "split": split_view(launched, schedule.parts) if schedule.parts else None,
        "rounds": rounds, "rounding_blocks": ROUNDING_BLOCKS, "rounding_threads": ROW_THREADS,
        "owns": [own_view(c, dialect) for c in operators(program)],
    }
    body = render("cuda/tiles/program.cu.j2", context)
    return Source(
        body=body, banner=tuple(banner_lines(program, _facts(program, schedule, launched))),
        system=toolkit_headers(scheduled(program, schedule)),
        headers=(*maths(dialect.used), *_list_headers(sweeps, grouped=schedule.grouped),
                 *_headers(kernels, schedule, in_rounds=rounds is not None)),
    )


def _headers(
    kernels: list[TileKernelView], schedule: TileSchedule, *, in_rounds: bool
) -> Iterator[str]:
    """Of states and of engines."""
    if any(s.fold.state for k in kernels for s in k.sweeps):
        yield "fusegen/meet/lanes.cuh"
    if any(s.fold.reference and s.fold.reference.tangents for k in kernels for s in k.sweeps):
        yield "fusegen/tiles/tangents.cuh"
    if schedule.parts:
        yield "fusegen/tiles/parts.cuh"
    if in_rounds:
        yield from ROUNDS_HEADERS
    elif schedule.engine == "wgmma":
        yield from HEADERS
    else:
        yield from _cores_headers(kernels, schedule)
    if schedule.chunked:
        yield "fusegen/tiles/long_vectors.cuh"
    if schedule.grouped:
        yield from GROUPED_HEADERS


def _dialect(program: Program, schedule: TileSchedule) -> CudaDialect:
    return CudaDialect(program.kernels[0].compute, narrow=is_narrow(program, ()), tiles=True,
                       rows_shared=schedule.chunked,
                       weighs=schedule.engine != "fma" and not schedule.parts and _weighs(program))


def _weighs(program: Program) -> bool:
    """Do elements make weights of sums of vectors, and nothing else? Tensor cores take them in the
    vectors' type."""
    def weighs(kernel: Kernel, sweep: Sweep) -> bool:
        sums = vector_sums(kernel, sweep)
        made = len(sweep.monoid.components) == len(sums) and all(s.array for s in sums)
        return made and not sweep.element_stores

    return all(weighs(k, w) for k in program.kernels for w in k.sweeps)


def _cores_headers(kernels: list[TileKernelView], schedule: TileSchedule) -> tuple[str, ...]:
    splits = any(k.splits for k in kernels)
    return (*(["fusegen/tickets.cuh"] if splits else []),
            f"fusegen/tiles/{'mma' if schedule.engine == 'mma' else 'cores'}.cuh")


def _kernel_view(
    launch: Launch, schedule: TileSchedule, dialect: CudaDialect, names: dict[int, str],
    found: Filter | None,
) -> tuple[TileKernelView, Scope]:
    kernel = launch.kernel
    types = {f"{c.name}_slots": key_type(kernel, c, schedule)
             for w in kernel.sweeps for c in w.monoid.lists}
    types |= {f"{c.name}_greatest": key_type(kernel, c, schedule)
              for w in kernel.sweeps for c in w.monoid.lists}
    scope = Scope(launch, dialect, {"partial_states": names[kernel.sweeps[0].number], **types})
    most = schedule.most_numbers
    rows = RowPrinter(kernel, scope, schedule)
    sweeps = tuple(
        SweepPrinter(launch, i, scope, rows,
                     FoldPrinter(kernel, sweep, scope, names[sweep.number], most), schedule,
                     found).view()
        for i, sweep in enumerate(kernel.sweeps))
    arguments = tuple(f"static_cast<column_t>({n})" if n == N_COLS.name else n
                      for n in (m.name for m in scope.members))
    view = TileKernelView(
        symbol=launch.symbol, params=_params(launch, scope), arguments=arguments,
        members=scope.members, kept=tuple(scope.kept.items()), prelude=tuple(rows.prelude()),
        sweeps=sweeps, splits=launch.splits, parts=parts_of(kernel, schedule),
        batched=tuple(scope.batched()),
        last_first=any(w.span[0] is None and w.span[1] is not None for w in kernel.sweeps),
        wgmma=wgmma_view(kernel, schedule, sweeps[0].fold, dialect)
        if schedule.engine == "wgmma" and not (schedule.in_rounds or schedule.chunked) else None,
        long=long_view(launch, schedule, sweeps[0], _params(best_launch(launch), scope)
                       if schedule.grouped else (), dialect) if schedule.chunked else None,
        found={w.number: scope.found(w.number) for w in kernel.sweeps},
    )
    return view, scope


def _list_headers(sweeps: list[SweptView], *, grouped: bool) -> list[str]:
    lists = [c for s in sweeps for c in s.lists]
    kinds = dict.fromkeys("wide_keys" if c.keys.startswith("Wide") else "packed_keys"
                          for c in lists)
    return [*(f"fusegen/topk/{n}.cuh" for n in kinds),
            *(["fusegen/team.cuh"] if lists else []),
            *(["fusegen/tiles/lists.cuh"] if lists and not grouped else []),
            *(["fusegen/tiles/rounding.cuh"] if any(c.filtered for c in lists) else [])]


def _params(launch: Launch, scope: Scope) -> tuple[str, ...]:
    """The C++ parameter list, in the order of run/arguments.py."""
    pointers = [declared(p, " __restrict__ ") for p in launch.params]
    scratch = [f"{m.type} __restrict__ {m.name}" for m in scope.members
               if any(s.name == m.name for s in launch.scratch)]
    maps = [f"const __grid_constant__ TensorMap {m.array}_map" for m in launch.maps]
    return (*pointers, *scratch, *(f"long long {n}" for n in launch.scalars), *maps)


def _facts(
    program: Program, schedule: TileSchedule, launched: tuple[Launch, ...]
) -> Facts:
    assumes = [f"batch_rows divides n_rows; {schedule.rows} rows of a batch are a tile"]
    if not schedule.wide_columns:
        assumes.append("n_cols ≤ 2^30")
    return Facts(
        target=schedule.target.name, schedule=schedule.shape, tree=schedule.algorithm,
        launch=[f"{n.symbol}<<<{_grid(n)}, {n.threads}, {n.shared_bytes}>>>" for n in launched],
        assumes=assumes,
    )


def _grid(launch: Launch) -> str:
    match launch.each:
        case "vector":
            return str(ROUNDING_BLOCKS)
        case "batch":
            return "batches"
        case "row":
            return f"⌈n_rows / {launch.rows_per_block}⌉"
        case "tile":
            parts = f" · {launch.grid_rows}" if launch.grid_rows > 1 else ""
            return f"batches · ⌈batch_rows / {launch.rows_per_block}⌉ · splits{parts}"
        case _:
            assert_never(launch.each)
