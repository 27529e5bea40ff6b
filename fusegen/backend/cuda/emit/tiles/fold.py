"""What a tile's scores become: members of a row's state, weights of vectors, stored elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from fusegen.backend.cuda.emit.elements import ElementPrinter
from fusegen.backend.cuda.emit.places import load_line, pointer_of
from fusegen.backend.cuda.emit.sources import SourceView
from fusegen.backend.cuda.emit.state import state_view
from fusegen.backend.cuda.emit.tiles.exponents import Exponents
from fusegen.backend.cuda.emit.tiles.reference import ReferencePrinter, ReferenceView
from fusegen.backend.cuda.emit.tiles.scaled import ScaledPrinter
from fusegen.backend.cuda.emit.tiles.scope import Scope
from fusegen.backend.cuda.emit.tiles.spans import live_lines, possible_lines, span_lines
from fusegen.backend.cuda.emit.tiles.sums import SumPrinter
from fusegen.backend.cuda.emit.tiles.views import FoldView, LevelView, PeakView
from fusegen.backend.cuda.schedule.tiles.mma import has_products
from fusegen.backend.cuda.schedule.tiles.short import beside_vectors, made_at_items
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.vector_sums import VectorSum, vector_sums
from fusegen.ir.expr import Expr, Var
from fusegen.ir.expressions import convert
from fusegen.ir.kernel import COLUMN, ElementStore, FromVectors, Kernel, Source, Sweep
from fusegen.ir.monoid import Best, Moving

AT = "4 * (i / 2) + 2 * kSlot + i % 2"
"""Of item i of a row, in what a lane has of a tile."""


class FoldPrinter:
    """Prints how one sweep goes over tiles."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, scope: Scope, state: str, most_numbers: int
    ) -> None:
        exponents = Exponents()
        if scope.dialect.real == "float":
            sweep = exponents.sweep(sweep)
        self.most_numbers = most_numbers  # of a vector, that a block holds
        self.kernel, self.sweep, self.scope = kernel, sweep, scope
        self.dialect, self.monoid = scope.dialect, sweep.monoid
        self.sums = vector_sums(kernel, sweep)
        numbers = replace(sweep, monoid=replace(sweep.monoid.numbers, lists=()))
        self.state = state_view(numbers, state, self.dialect, "column_t") \
            if numbers.monoid.has_scalars else None
        tile = scope.launch.tile  # rows of a warp take the quick way together, or none does
        self.one_tree = tile is not None and tile.one_tree
        self.direct = tile is not None and tile.engine == "fma" and made_at_items(kernel, sweep)
        self.beside = beside_vectors(kernel, sweep) if self.direct else ()
        sources = {s.name: self._source(s) for s in sweep.loads}
        self.peaked = [b for b in numbers.monoid.best if b.kind == "float"]
        others = tuple(b for b in numbers.monoid.best if b not in self.peaked)
        numbers = replace(numbers, monoid=replace(numbers.monoid, best=others))
        self.elements = ElementPrinter(kernel, numbers, sources, self.dialect, self.state,
                                       paired=False)
        self.scaled = ScaledPrinter(kernel, numbers, self.elements)
        rest = tuple(f for f in numbers.monoid.folded if f not in self.scaled.maxima)
        numbers = replace(numbers, monoid=replace(numbers.monoid, folded=rest))
        self.folds = ElementPrinter(kernel, numbers, sources, self.dialect, self.state,
                                    paired=False)
        self.factors = [self.dialect.let(let.name, let.expr) for let in exponents.lets]

    def view(self, sum_lines: dict[str, tuple[Line, ...]]) -> FoldView:
        """sum_lines: of sums of vectors that are folded one by one."""
        lines = self.folds.fold_lines(())
        early = self._put(self._early(), [])
        for more in (self.scaled.greatest_lines(), self._peak_lines(), early):
            known = {ln.declares for ln in lines if ln.declares}
            lines += [ln for ln in more if ln.declares not in known]
        search = self._search()
        reference = self._reference()
        levels = tuple(self._levels(quick=reference is None and not self.one_tree))
        live = tuple(live_lines(self.sweep, self.elements))
        level_lines = [ln for v in levels for ln in (*v.divisors, *v.lines)]
        quick = [v.quick for v in levels if v.quick]
        level_lines += [ln for q in quick for ln in (*q.opened, *q.lines)]
        printed = [*self.factors, *self.scaled.uses(), *lines, *search, *live, *level_lines]
        given = Line("", frozenset(self.monoid.held))
        sums = SumPrinter(self.kernel, self.sweep, self.scope, self.elements, self.most_numbers)
        moves, factors = sums.factors()
        masked = self.sweep.only is not None
        stores_opened, stores = self._stores()
        return FoldView(
            number=self.sweep.number, real=self.dialect.real, state=self.state,
            scores=tuple(s.name for s in self.sweep.loads if isinstance(s, FromVectors)),
            sums=tuple(sums.view(s, sum_lines) for s in self.sums),
            opened=(*self.scope.declared([*printed, given]), *self.factors), live=live,
            lines=tuple(lines), early=tuple(w.name for s in self._early() for w in s.weights),
            shared=tuple(sums.shared()), moves=moves, factors=factors,
            greatest=self.scaled.greatest(), peaks=tuple(map(self._peak, self.peaked)),
            search=tuple(search),
            levels=levels, stores_opened=stores_opened, stores=stores,
            span=tuple(span_lines(self.sweep, self.scope)), masked=masked,
            possible=tuple(possible_lines(self.sweep, self.scope)), reference=reference,
            direct=self.direct,
        )

    # ---- items ----

    def _source(self, source: Source) -> SourceView:
        if isinstance(source, FromVectors):
            kind = source.value.kind  # sums are made in floats, also those of whole numbers
            made = convert(Var(f"{source.name}_scores[{AT}]", "float", varying=True), kind)
            item = Line(f"const {self.dialect.type_of(kind)} {source.name} = "
                        f"{self.dialect.text(made)};", frozenset(), source.name, source.note)
        else:
            param = self.kernel.param(source.param)
            place = f"{pointer_of(param)}[column]"
            if param in self.beside:
                (score,) = (s.name for s in self.sweep.loads if isinstance(s, FromVectors))
                place = f"{score}_scores.beside(i, {self.beside.index(param)})"
                item = load_line(param, place, self.dialect)
                return SourceView(source.name, item, item)
            lists = bool(self.sweep.monoid.lists)  # tiles are narrow; else registers are too few
            if lists and param.shape == "columns" and param.dtype.itemsize >= 4:  # for both rows
                place = f"__ldg({pointer_of(param)} + column)"
            item = load_line(param, place, self.dialect, pointer_of(param))
        return SourceView(source.name, item, item)

    def _early(self) -> list[VectorSum]:
        """Sums that need no pivot."""
        late = {m.name for m in self.monoid.moving if m.pivots}
        return [s for s in self.sums if s.name not in late]

    # ---- the best item ----

    def _peak(self, best: Best) -> PeakView:
        first = self.dialect.number(-math.inf if best.largest else math.inf)
        order = "<" if best.largest else ">"
        name = f"{best.name}_peak"
        reaches = f"!({name} {order} state.{best.value})"  # NaN is the best
        return PeakView(name, first, reaches, f"chunk.{best.value}")

    def _peak_lines(self) -> list[Line]:
        if not self.peaked:
            return []
        lines = self.elements.item_lines([b.lift for b in self.peaked])
        for b in self.peaked:
            joined = self.dialect.use("greater_of" if b.largest else "lesser_of")
            value = f"{joined}({b.name}_peak, {self.dialect.text(b.lift)})"
            lines.append(self.dialect.line(f"{b.name}_peak = {value};", b.lift))
        return lines

    def _search(self) -> list[Line]:
        if not self.peaked:
            return []
        lines = self.elements.item_lines([b.lift for b in self.peaked])
        for b in self.peaked:
            value = self.dialect.text(b.lift)
            test = f"{value} == {b.name}_peak || isnan({value})"
            lines.append(self.dialect.line(f"if ({test}) chunk.{b.name} = column;", b.lift, COLUMN))
        return lines

    def _put(self, sums: Sequence[VectorSum], moving: Sequence[Moving]) -> list[Line]:
        put = self._places(sums)
        return self.elements.lift_lines(moving, put) if put or moving else []

    @staticmethod
    def _places(sums: Sequence[VectorSum]) -> list[tuple[str, Expr]]:
        return [(f"{w.name}[{AT}]", w.value) for s in sums for w in s.weights]

    def _levels(self, *, quick: bool) -> Iterator[LevelView]:
        views = self.state.levels if self.state else ()
        declared: set[str] = set()
        for level, view in zip(self.monoid.levels, views, strict=True):
            names = {m.name for m in level.moving}
            sums = [s for s in self.sums if s.name in names]
            moving = [m for m in level.moving if m.width == 1]
            lines, divisors = self.dialect.divided(partial(self._put, sums, moving))
            yield LevelView(
                tag=f"{view.tag}{{}}" if view.tag else "", about=view.about, lines=tuple(lines),
                divisors=tuple(d for d in divisors if d.declares not in declared),
                anchors=tuple((p.anchor, f"{p.anchor}_of(state)") for p in level.pivots),
                weights=tuple(w.name for s in sums for w in s.weights),
                quick=self.scaled.quick(level, self._places(sums)) if quick else None)
            declared |= {d.declares for d in divisors}

    # ---- sums about a reference ----

    def _reference(self) -> ReferenceView | None:
        """Of the engine whose other folds are for rows that it loses."""
        tile = self.scope.launch.tile
        if tile is None or tile.engine == "fma" or tile.in_rounds or tile.chunked:
            return None
        if not has_products(self.kernel):
            return None
        return ReferencePrinter(self.scaled, self.sweep).view(
            self.sums, AT, live_lines(self.sweep, self.elements), self._opened)

    def _opened(self, lines: Sequence[Line]) -> tuple[Line, ...]:
        factors = [f for f in self.factors if any(f.declares in ln.uses for ln in lines)]
        return (*self.scope.declared([*lines, *factors]), *factors)

    def _stores(self) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
        """Declarations, and statements of an item."""
        stores = self.sweep.element_stores
        lines, divisors = self.dialect.divided(partial(self._store_lines, stores))
        factors = [f for f in self.factors if any(f.declares in ln.uses for ln in lines)]
        opened = [*self.scope.declared([*factors, *divisors, *lines]), *factors, *divisors]
        return (tuple(opened), tuple(lines)) if stores else ((), ())

    def _store_lines(self, stores: Sequence[ElementStore]) -> list[Line]:
        lines = self.elements.item_lines([s.value for s in stores])
        for s in stores:
            param = self.kernel.param(s.param)
            value = self.dialect.stored(s.value, param.dtype)
            pointer = pointer_of(param)
            lines.append(Line(f"{pointer}[column] = {value};",
                              self.dialect.uses(s.value) | {pointer}, note=s.note))
        return lines
