"""Kernels for GPUs in exported libraries: which schedules, in which order they are tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusegen.backend.cuda.emit import cuda_source
from fusegen.backend.cuda.emit.host import given_as, host_source
from fusegen.backend.cuda.schedule.assumptions import (
    least_vectors,
    longest_row,
    shortest_row,
)
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.cuda.schedule.strips import strip_candidates
from fusegen.backend.emit.render import render
from fusegen.backend.exported import Image, Part, Place, Text, Unit, Wish
from fusegen.backend.problem import Problem
from fusegen.backend.target import CudaTarget, gpu_named
from fusegen.ir.codec import encoded
from fusegen.ir.errors import ArgumentError

LENGTHS = (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)
"""Columns of rows that kernels are chosen for unless others are asked for."""

FEW_ROWS = 16
"""So many rows are few: a kernel is chosen for them that serves up to half as many as the GPU has
multiprocessors, where rows are long."""

STRIP_LENGTHS = (256, 4096)
"""Columns of rows side by side that kernels which keep them on chip are chosen for."""

_INNER = 1024  # rows side by side that strips are chosen for
_LONG = 16384  # columns from which few rows are cut up
_ANY = 1 << 30  # columns: what takes so many keeps no row on chip


def exported_targets(names: tuple[str, ...]) -> tuple[CudaTarget, ...]:
    """See `Exporting`."""
    found = {n: t for n in names if (t := gpu_named(n)) is not None}
    return tuple(sorted(found.values(), key=lambda t: -int(t.arch[3:])))


def place() -> Place:
    def call(table: str) -> str:
        variant = f"{table.removesuffix('_cuda')}_variant"
        return f"on_gpu(text, {variant}, {table}, given, constants, sizes, stream)"

    def side_by_side(table: str) -> str:
        return call(table).replace("on_gpu(", "on_gpu_side_by_side(").replace(
            "sizes", "n_outer, n_cols, n_inner")

    return Place(
        name="cuda", header="gpu.hpp", argument="void* stream",
        about=("On the GPU of this thread's CUDA context, the first GPU's where it has none:",
               "queued on the stream (a CUstream or cudaStream_t; null: the default one). Memory",
               "beside the arrays comes from the GPU's own pool."),
        table=lambda name, entries: f"const std::vector<const Code*> {name} = "
                                    f"{{{', '.join(entries)}}};",
        call=call, device=2,
        tensors=lambda table: f"on_gpu_of(device.id, text, [&] {{ return {call(table)}; }})",
        side_by_side=side_by_side, links=("-ldl",),
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
                          typical=True, aligned=self.aligned, in_phase=self.in_phase,
                          written_in_phase=self.in_phase)
        every = candidates(program, problem, target)
        least = min(shortest_row(text.program(c.schedule.grouping), c.schedule) for c in every)
        return next(c.schedule for c in every if (self.n_cols and not least_vectors(c.schedule))
                    or least == shortest_row(text.program(c.schedule.grouping), c.schedule))


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
class StripClass:
    """The same for rows that lie side by side, so many of them."""

    n_rows: int | None
    n_cols: int
    aligned: bool = True

    def schedule(self, text: Text, target: CudaTarget) -> CudaSchedule:
        """The cheapest; of any length, the cheapest that keeps nothing on chip."""
        problem = Problem(dtypes=text.dtypes, n_rows=self.n_rows, n_cols=self.n_cols,
                          typical=True, aligned=self.aligned, in_phase=self.aligned, inner=_INNER)
        found = (c.schedule for c in strip_candidates(text.program(), problem, target))
        return next(s for s in found if self.n_cols < _ANY or _takes_all(s))


def _takes_all(schedule: CudaSchedule) -> bool:
    return longest_row(schedule) is None and schedule.blocks == 1


def strip_classes(target: CudaTarget) -> Iterator[StripClass]:
    """In the order in which their kernels are tried; the last takes rows of any kind."""
    few = _INNER * (target.multiprocessors // 32)  # rows, of which there is no strip for all
    for aligned in (True, False):
        for n_cols in STRIP_LENGTHS:
            yield StripClass(few, n_cols, aligned)
            yield StripClass(None, n_cols, aligned)
        yield StripClass(None, _ANY, aligned)


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
    inner: str  # the last of its sizes
    arguments: tuple[str, ...]


class _Named:
    """Kernels of a part, and their names: each schedule is one of them, once."""

    def __init__(self, text: Text, wish: Wish, stem: str) -> None:
        self._text, self._wish, self._stem = text, wish, stem
        self._names: dict[CudaSchedule, str] = {}
        self.views: list[KernelView] = []
        self.images: dict[str, Image] = {}  # by their source

    def row(self, schedule: CudaSchedule, most_rows: int, least_columns: int, most_columns: int
            ) -> Row:
        """Of a table, for so many rows and columns; 0: any number."""
        name = self._names.get(schedule)
        if name is None:
            name = self._names[schedule] = f"{self._stem}_{len(self._names) + 1}"
            self._add(schedule, name)
        return Row(most_rows, least_columns, most_columns, name, schedule.shape)

    def _add(self, schedule: CudaSchedule, name: str) -> None:
        program, strips = self._text.program(schedule.grouping), schedule.strip is not None
        source = cuda_source(program, schedule).text()
        image = self.images.setdefault(
            source, Image(f"{name}_image", source, schedule.target.arch))
        self.views.append(KernelView(
            name=name, symbols=tuple(n.symbol for n in launches(program, schedule)),
            image=image.name, host=host_source(program, schedule, name, runtime=False),
            inner=", n.n_inner" if strips else "",
            arguments=given_as(program, self._wish.order, self._wish.scalars, strips)))


def part(text: Text, target: CudaTarget, wish: Wish) -> Part:
    """See `Exporting`. Raises ArgumentError for vectors."""
    if text.program().has_vectors:
        raise ArgumentError(f"a library has no code for GPUs of {text.name}",
                            why="Its rows are made of vectors: grids and tensor maps of such "
                            "kernels are made in Python.",
                            fix="Export it for processors; torch.export keeps its calls on GPUs.")
    stem = f"{wish.symbols}_{wish.variant}_{target.arch}"
    named = _Named(text, wish, stem)
    rows, strips = [], []
    for one in classes(wish.lengths):
        few = 0 if one.n_rows is None else max(FEW_ROWS, target.multiprocessors // 2)
        rows.append(named.row(one.schedule(text, target), few, _LONG // 2 if few else 0,
                              one.n_cols or 0))
    for strip in strip_classes(target) if wish.side_by_side else ():
        strips.append(named.row(strip.schedule(text, target), strip.n_rows or 0, 0,
                                strip.n_cols if strip.n_cols < _ANY else 0))
    views, images = named.views, named.images
    arch = int(target.arch[3:])
    unit = render("export/cuda_entries.cpp.j2", {
        "about": f"{wish.symbols} of {wish.variant} for {target.arch} and newer, by fusegen",
        "kernels": views, "images": [i.name for i in images.values()], "rows": rows,
        "strips": strips, "arch": arch, "name": stem})
    holds = tuple(f"{i.name}.{kind}" for i in images.values() for kind in ("code", "ptx"))
    return Part(
        declared=f"extern const fusegen::Code {stem};", entry=f"&{stem}",
        units=(Unit(f"{stem}.cpp", unit, holds=holds),), symbols=(),
        images=tuple(images.values()), needs=f"{target.arch} or newer",
        record={"target": target.arch, "function": f"{wish.symbols}_{wish.variant}_cuda",
                "side_by_side": wish.side_by_side, "order": list(wish.order),
                "constants": list(wish.constants),
                "program": encoded(text.program()).decode()})
