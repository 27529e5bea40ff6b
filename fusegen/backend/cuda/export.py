"""Kernels for GPUs in exported libraries: which schedules, in which order they are tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusegen.backend.cuda.emit.host import given_as, host_source
from fusegen.backend.cuda.emit.source import cuda_source
from fusegen.backend.cuda.schedule.assumptions import shortest_row
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.emit.render import render
from fusegen.backend.exported import Image, Part, Place, Text, Unit, Wish
from fusegen.backend.problem import Problem
from fusegen.backend.target import CudaTarget, gpu_named
from fusegen.ir.codec import encoded

LENGTHS = (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)
"""Columns of rows that kernels are chosen for unless others are asked for."""

FEW_ROWS = 16
"""So many rows are few: a kernel is chosen for them that serves up to half as many as the GPU has
multiprocessors, where rows are long."""

_LONG = 16384  # columns from which few rows are cut up
_ANY = 1 << 30  # columns: what takes so many keeps no row on chip


def exported_targets(names: tuple[str, ...]) -> tuple[CudaTarget, ...]:
    """See `Exporting`."""
    found = {n: t for n in names if (t := gpu_named(n)) is not None}
    return tuple(sorted(found.values(), key=lambda t: -int(t.arch[3:])))


def place() -> Place:
    def call(table: str) -> str:
        variant = f"{table.removesuffix('_cuda')}_variant"
        return f"on_gpu(text, {variant}, {table}, given, constants, n_rows, n_cols, stream)"

    return Place(
        name="cuda", header="gpu.hpp", argument="void* stream",
        about=("On the GPU of this thread's CUDA context, the first GPU's where it has none:",
               "queued on the stream (a CUstream or cudaStream_t; null: the default one). Memory",
               "beside the arrays comes from the GPU's own pool."),
        table=lambda name, entries: f"const std::vector<const Code*> {name} = "
                                    f"{{{', '.join(entries)}}};",
        call=call, device=2,
        tensors=lambda table: f"on_gpu_of(device.id, text, [&] {{ return {call(table)}; }})",
        links=("-ldl",),
    )


# ---- which kernels ----


@dataclass(frozen=True, slots=True)
class Class:
    """Rows that one choice is made for; 0: any number. Without `aligned` vectors need a head."""

    n_rows: int | None
    n_cols: int | None
    aligned: bool = True
    in_phase: bool = True

    def schedule(self, text: Text, target: CudaTarget) -> CudaSchedule:
        """The cheapest that takes all rows of the class."""
        program = text.program()
        problem = Problem(dtypes=text.dtypes, n_rows=self.n_rows, n_cols=self.n_cols or _ANY,
                          aligned=self.aligned, in_phase=self.in_phase)
        every = candidates(program, problem, target)
        least = min(shortest_row(text.program(c.schedule.grouping), c.schedule) for c in every)
        return next(c.schedule for c in every if self.n_cols or least ==
                    shortest_row(text.program(c.schedule.grouping), c.schedule))


def classes(lengths: tuple[int, ...]) -> Iterator[Class]:
    """In the order in which their kernels are tried; the last takes rows of any kind."""
    wanted = sorted(lengths or LENGTHS)
    for aligned in (True, False):
        for n in wanted:
            if n >= _LONG:
                yield Class(FEW_ROWS, n, aligned)
        for n in wanted:
            yield Class(None, n, aligned)
        yield Class(None, None, aligned)
    yield Class(None, None, aligned=False, in_phase=False)


@dataclass(frozen=True, slots=True)
class Row:
    """Of the table that a call goes through."""

    most_rows: int
    least_columns: int
    most_columns: int
    kernel: str
    about: str


@dataclass(frozen=True, slots=True)
class KernelView:
    name: str
    symbols: tuple[str, ...]
    image: str
    host: str
    arguments: tuple[str, ...]


def part(text: Text, target: CudaTarget, wish: Wish) -> Part:
    """See `Exporting`."""
    stem = f"{wish.symbols}_{wish.variant}_{target.arch}"
    names: dict[CudaSchedule, str] = {}
    rows = []
    for one in classes(wish.lengths):
        schedule = one.schedule(text, target)
        name = names.setdefault(schedule, f"{stem}_{len(names) + 1}")
        few = 0 if one.n_rows is None else max(FEW_ROWS, target.multiprocessors // 2)
        rows.append(Row(few, _LONG // 2 if few else 0, one.n_cols or 0, name, schedule.shape))
    views, images = [], dict[str, Image]()
    for schedule, name in names.items():
        program = text.program(schedule.grouping)
        source = cuda_source(program, schedule).text()
        image = images.setdefault(source, Image(f"{name}_image", source, target.arch))
        views.append(KernelView(
            name=name, symbols=tuple(n.symbol for n in launches(program, schedule)),
            image=image.name, host=host_source(program, schedule, name, runtime=False),
            arguments=given_as(program, wish.order, wish.scalars)))
    arch = int(target.arch[3:])
    unit = render("export/cuda_entries.cpp.j2", {
        "about": f"{wish.symbols} of {wish.variant} for {target.arch} and newer, by fusegen",
        "kernels": views, "images": [i.name for i in images.values()], "rows": rows,
        "arch": arch, "name": stem})
    holds = tuple(f"{i.name}.{kind}" for i in images.values() for kind in ("code", "ptx"))
    return Part(
        declared=f"extern const fusegen::Code {stem};", entry=f"&{stem}",
        units=(Unit(f"{stem}.cpp", unit, holds=holds),), symbols=(),
        images=tuple(images.values()), needs=f"{target.arch} or newer",
        record={"target": target.arch, "function": f"{wish.symbols}_{wish.variant}_cuda",
                "order": list(wish.order), "constants": list(wish.constants),
                "program": encoded(text.program()).decode()})
