"""One sweep of a kernel over tiles: what it brings, what it calls with what."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.places import array_name
from fusegen.backend.cuda.emit.tiles.fold import FoldPrinter
from fusegen.backend.cuda.emit.tiles.lists import ListPrinter, ListView
from fusegen.backend.cuda.emit.tiles.mma import MmaPrinter, MmaView
from fusegen.backend.cuda.emit.tiles.rows import FinishView, RowPrinter
from fusegen.backend.cuda.emit.tiles.scope import Scope
from fusegen.backend.cuda.emit.tiles.views import FoldView, SumView
from fusegen.backend.cuda.schedule.launch import Launch
from fusegen.backend.cuda.schedule.tiles.filters import Filter
from fusegen.backend.cuda.schedule.tiles.mma import has_products
from fusegen.backend.cuda.schedule.tiles.tile import (
    Table,
    TileSchedule,
    at_once,
    parts_of,
    tables_of,
    weights_at,
)
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.vector_sums import vectors_of
from fusegen.ir.expr import Var, substitute, variables
from fusegen.ir.expressions import convert
from fusegen.ir.kernel import FromVectors


@dataclass(frozen=True)
class TableView:
    """Vectors that come to shared memory."""

    name: str
    at: int
    count: int
    depth: int
    pitch: int
    start: str  # the first vector's numbers
    stride: str
    there: str  # how many vectors there are
    numbers: str  # of each, from there on
    read: str


@dataclass(frozen=True)
class BesideView:
    """Numbers of columns that come with a table's vectors."""

    table: TableView
    at: int  # in place of this number of a vector
    start: str


@dataclass(frozen=True)
class SourceTiles:
    """Elements that are made of vectors."""

    name: str
    note: str
    length: int
    depth: int
    pitch: int
    brought: tuple[TableView, ...]  # tile by tile
    beside: tuple[BesideView, ...]
    rows: tuple[str, ...]  # C++: this lane's first row's numbers
    columns: tuple[str, ...]
    has_rows: str
    term: str


@dataclass(frozen=True)
class SweptView:
    """What the kernel template prints of a sweep."""

    number: int
    fold: FoldView
    finish: FinishView
    visits: bool
    folds: bool
    asks: bool  # is it asked of a tile whether it has columns that count for a row?
    looks: bool  # is it asked of vectors whether they are finite?
    at_once: bool  # are all numbers of vectors that elements are made of brought at once?
    tables: tuple[TableView, ...]
    resident: tuple[TableView, ...]
    summed: tuple[TableView, ...]
    sources: tuple[SourceTiles, ...]
    lists: tuple[ListView, ...]
    list_lines: tuple[Line, ...]  # what a warp does for a row, once its lists are complete
    mma: MmaView | None  # where tensor cores make its products
    masked_late: bool  # is it known when it runs alone whether items of a tile are to be asked?
    weights_at: int  # where this block's weights lie, in numbers; 0: there are none
    tile_params: tuple[str, ...]
    tile_args: tuple[str, ...]
    fold_args: tuple[str, ...]  # by slot
    map_args: tuple[str, ...]
    finish_args: tuple[str, ...]

    @property
    def filtered(self) -> bool:
        """Are its lists found among rounded scores?"""
        return any(c.filtered for c in self.lists)


def _masked_late(
    fold: FoldView, lists: tuple[ListView, ...], mma: MmaView | None
) -> bool:
    """Do whole tiles and others differ in nothing but scores that become −∞?"""
    about = fold.reference if mma else None
    return about is not None and about.vanishes and not lists


class SweepPrinter:
    """Builds the view of sweep `index` of a launch's kernel."""

    def __init__(
        self, launch: Launch, index: int, scope: Scope, rows: RowPrinter, fold: FoldPrinter,
        schedule: TileSchedule, found: Filter | None,
    ) -> None:
        self.found = found
        self.kernel, self.sweep = launch.kernel, launch.kernel.sweeps[index]
        self.index, self.scope, self.rows, self.fold = index, scope, rows, fold
        self.schedule = schedule
        self.dialect: CudaDialect = scope.dialect
        self._by_mma = schedule.engine == "mma" and has_products(self.kernel)
        self.tables = () if self._by_mma else tables_of(self.kernel, schedule, index)

    def view(self) -> SweptView:
        pitches = {t.array: t.pitch for t in self.tables if t.name.endswith("_summed")}
        fold = self.fold.view({s.name: self.rows.sum_lines(s, pitches) for s in self.fold.sums
                               if not s.array})
        fold = replace(fold, sums=tuple(map(self._with_table, fold.sums)))
        mma = MmaPrinter(self.kernel, self.sweep, self.schedule, self.dialect).view(
            fold, self.fold.sums) if self._by_mma else None
        printer = ListPrinter(self.kernel, self.sweep, self.scope, self.fold.elements,
                              self.schedule, self.found)
        lists = tuple(printer.views())
        finish = self.rows.finish(self.sweep, self.fold.sums, printer)
        views = {t.name: self._table(t) for t in self.tables}
        sources = tuple(self._source(s, views) for s in self.sweep.loads
                        if isinstance(s, FromVectors) and not self._by_mma)
        folds = bool(fold.state or fold.weights)
        return SweptView(
            number=self.sweep.number, fold=fold, finish=finish,
            visits=bool(folds or fold.stores or fold.sums or lists), folds=folds,
            asks=bool(fold.possible) or self.sweep.span != (None, None),
            looks=self.sweep.counted is not None and not fold.masked and self._weighs,
            at_once=at_once(self.tables),
            lists=lists, list_lines=self.rows.finish_lists(self.sweep, printer) if lists else (),
            tables=tuple(views.values()),
            resident=tuple(v for t, v in zip(self.tables, views.values(), strict=True)
                           if self._stays(t)),
            summed=tuple(v for n, v in views.items() if n.endswith("_summed")),
            sources=sources, weights_at=weights_at(self.kernel, self.schedule, self.index),
            mma=mma, masked_late=_masked_late(fold, lists, mma), **self._calls(fold, lists, mma),
        )

    @property
    def _weighs(self) -> bool:
        return any(s.array for s in self.fold.sums) and not self._by_mma

    # ---- calls ----

    def _calls(
        self, fold: FoldView, lists: tuple[ListView, ...], mma: MmaView | None
    ) -> dict[str, tuple[str, ...]]:
        n, real = self.sweep.number, self.dialect.real
        scores = [f"{s}_scores" for s in fold.scores]
        state = [f"state{n}"] if fold.state else []
        sums = [f"{s.name}_sum" for s in fold.sums]
        references = [f"references{n}"] if mma and mma.refers else []
        late = _masked_late(fold, lists, mma)
        columns = "kColumns / 2"
        params = [
            *(f"{fold.state.name} (&{s})[2 * kRowTiles]" for s in state if fold.state),
            *(f"Reference (&{s})[2 * kRowTiles]" for s in references),
            *(f"{real} (&{s.name}_sum)[kRowTiles][{s.held} / 2]" for s in fold.sums),
            *(f"const Scores& {s}" if fold.direct
              else f"{'' if references else 'const '}{real} (&{s})[kRowTiles][{columns}]"
              for s in scores),
            *(f"const {real}* {t.array}_summed" for t in self.tables
              if t.name.endswith("_summed")),
            *([f"{real}* own_weights"] if self._weighs else []),
            *([f"const {mma.type}* at"] if mma else []),
            *(f"{c.list_type} (&{c.name}_lists)[2 * kRowTiles]" for c in lists),
            *(f"const {c.keys}& {c.name}_keys" for c in lists),
            "const Row (&rows)[2 * kRowTiles]", "const bool (&here)[2 * kRowTiles]",
            "column_t begin", "int first_number", "const Given& given",
            *(["bool masked"] if late else []),
        ]
        args = [*state, *references, *sums, *scores,
                *(f"{t.name} + (begin - first) * {t.pitch}" for t in self.tables
                  if t.name.endswith("_summed")),
                *(["own_weights"] if self._weighs else []), *(["at"] if mma else []),
                *(f"{c.name}_lists" for c in lists),
                *(f"{c.name}_keys" for c in lists), "rows", "here", "begin", "first_number",
                "given", *(["!whole"] if late else [])]
        return {"tile_params": tuple(params), "tile_args": tuple(args),
                **{f"{kind}_args": tuple(", ".join(make(fold, slot)) for slot in (0, 1))
                   for kind, make in (("fold", self._fold_args), ("map", self._map_args),
                                      ("finish", self._finish_args))}}

    def _fold_args(self, fold: FoldView, slot: int) -> list[str]:
        row = f"2 * row_tile + {slot}"
        return [*([f"state{self.sweep.number}[{row}]"] if fold.state else []),
                *(f"{s}_scores[row_tile]" for s in fold.scores),
                *(f"{w}[row_tile]" for w in fold.weights),
                *(f"{s.name}_factor[{row}]" for s in fold.moving), f"rows[{row}]",
                "begin + first_column_of_lane()", "given"]

    def _map_args(self, fold: FoldView, slot: int) -> list[str]:
        return [*(f"{s}_scores[row_tile]" for s in fold.scores), f"rows[2 * row_tile + {slot}]",
                "begin + first_column_of_lane()", "given"]

    def _finish_args(self, fold: FoldView, slot: int) -> list[str]:
        row = f"2 * row_tile + {slot}"
        return [*([f"state{self.sweep.number}[{row}]"] if fold.state else []),
                *(f"{s.found}[row_tile]" for s in fold.sums), f"rows[{row}]", f"here[{row}]",
                f"here[{row}] && leads", "first_number", "given"]

    # ---- vectors ----

    def _stays(self, table: Table) -> bool:
        """Does the block bring it once?"""
        rows = self.kernel.param(table.array).shape == "row_vector"
        return rows and table.resident

    def _table(self, table: Table) -> TableView:
        param = self.kernel.param(table.array)
        array, name = f"given.{array_name(param)}", param.name
        numbers = str(table.length)
        if param.shape == "row_vector":
            start, there = f"{array} + block.row * given.{name}_stride", "block.row_end - block.row"
        else:
            start = f"{array} + first * given.{name}_stride"
            there = "given.n_cols - first"
        if table.name.endswith("_summed") and parts_of(self.kernel, self.schedule) > 1:
            start += f" + block.part * {self.schedule.most_numbers}"
            numbers += f" - block.part * {self.schedule.most_numbers}"
        kind = C_TYPES[param.dtype.name]
        read = f"[]({kind} stored) {{ return {self.dialect.load('stored', param.dtype)}; }}"
        return TableView(table.name, table.at, table.count, table.depth, table.pitch, start,
                         f"given.{name}_stride", there, numbers, read)

    def _source(self, source: FromVectors, views: dict[str, TableView]) -> SourceTiles:
        vectors = vectors_of(self.kernel)
        rows = [views[f"{source.name}_{n}"] for n in source.rows]
        columns = [views[f"{source.name}_{n}"] for n in source.columns]
        first = (rows or columns)[0]
        stays = {t.name for t in self.tables if self._stays(t)}
        lane_row = f"(warp_row + first_row_of_lane()) * {first.pitch}"
        length = vectors[(*source.rows, *source.columns)[0]].k
        lane_column = f"(begin - first + first_column_of_lane()) * {first.pitch}"
        return SourceTiles(
            name=source.name, note=source.note,
            length=length, depth=first.depth, pitch=first.pitch,
            brought=tuple(t for t in (*rows, *columns) if t.name not in stays),
            beside=tuple(BesideView(columns[0], length + i, f"given.{array_name(p)} + first")
                         for i, p in enumerate(self.fold.beside)),
            rows=tuple(f"{t.name} + {lane_row}" for t in rows) or (f"{columns[0].name}",),
            columns=tuple(f"{t.name} + {lane_column}" for t in columns),
            has_rows="true" if rows else "false", term=self._term(source),
        )

    def _term(self, source: FromVectors) -> str:
        if source.is_dot:
            return "ProductTerm{}"
        vectors, real = vectors_of(self.kernel), self.dialect.real
        places = {n: Var(f"row[{i}]", "float", True) for i, n in enumerate(source.rows)}
        places |= {n: Var(f"column[{i}]", "float", True) for i, n in enumerate(source.columns)}
        places |= {n: Var(f"given.{n}", v.kind) for n, v in variables(source.value).items()
                   if n not in vectors}
        text = self.dialect.text(convert(substitute(source.value, places), "float"))
        return (f"[&]({real} so_far, const {real} (&row)[{max(1, len(source.rows))}], "
                f"const {real} (&column)[{len(source.columns)}]) {{ return so_far + ({text}); }}")

    def _with_table(self, one: SumView) -> SumView:
        table = next((t for t in self.tables if t.name == f"{one.array}_summed"), None)
        share = self.schedule.share(one.held)
        return replace(
            one, pitch=table.pitch if table else 0, share=share,
            offset=f"threadIdx.x / 32 * {share}" if self.schedule.together else "0",
            found=f"{one.name}_share" if self.schedule.together else f"{one.name}_sum")
