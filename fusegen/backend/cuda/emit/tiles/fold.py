"""What a tile's scores become: members of a row's state, weights of vectors, stored elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from fusegen.backend.cuda.emit.elements import ElementPrinter
from fusegen.backend.cuda.emit.places import load_line, pointer_of
from fusegen.backend.cuda.emit.sources import SourceView
from fusegen.backend.cuda.emit.state import identity_of, pivot_view, state_view
from fusegen.backend.cuda.emit.tiles.exponents import Exponents
from fusegen.backend.cuda.emit.tiles.reference import ReferencePrinter, ReferenceView
from fusegen.backend.cuda.emit.tiles.scaled import ScaledPrinter
from fusegen.backend.cuda.emit.tiles.scope import Scope
from fusegen.backend.cuda.emit.tiles.spans import live_lines, possible_lines, span_lines
from fusegen.backend.cuda.emit.tiles.views import FoldView, LevelView, PeakView, SumView
from fusegen.backend.cuda.schedule.tiles.mma import has_products
from fusegen.backend.cuda.schedule.tiles.short import beside_vectors, made_at_items
from fusegen.backend.cuda.schedule.tiles.tile import held_numbers
from fusegen.backend.emit.folds import taken_in
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.vector_sums import VectorSum, vector_sums
from fusegen.ir.errors import BackendError
from fusegen.ir.expr import Call, Expr, Lit, Var, variables
from fusegen.ir.expressions import convert
from fusegen.ir.kernel import COLUMN, ElementStore, FromVectors, Kernel, Source, Sweep
from fusegen.ir.monoid import Best, Moving
from fusegen.ir.shared import lazy

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
        moves, factors = self._factors()
        masked = self.sweep.only is not None
        stores_opened, stores = self._stores()
        return FoldView(
            number=self.sweep.number, real=self.dialect.real, state=self.state,
            scores=tuple(s.name for s in self.sweep.loads if isinstance(s, FromVectors)),
            sums=tuple(self._sum(s, sum_lines) for s in self.sums),
            opened=(*self.scope.declared([*printed, given]), *self.factors), live=live,
            lines=tuple(lines), early=tuple(w.name for s in self._early() for w in s.weights),
            shared=tuple(self._shared()), moves=moves, factors=factors,
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
            value = self.dialect.store(self.dialect.text(s.value), s.value.kind, param.dtype)
            pointer = pointer_of(param)
            lines.append(Line(f"{pointer}[column] = {value};",
                              self.dialect.uses(s.value) | {pointer}, note=s.note))
        return lines

    # ---- pivots of sums of vectors ----

    def _sum(self, one: VectorSum, lines: dict[str, tuple[Line, ...]]) -> SumView:
        first = "0" if one.fold is None else identity_of(one.fold, self.dialect)
        moves = any(m.name == one.name and m.pivots for m in self.monoid.moving)
        return SumView(
            name=one.name, length=one.length, weights=tuple(w.name for w in one.weights),
            array=one.array, first=first, lines=lines.get(one.name, ()), moves=moves,
            zero_wins=moves and one.name not in self.shrinking,
            held=held_numbers(one.length, self.most_numbers),
            before=self._before(lines.get(one.name, ())),
            joined=self._joined(one, moves))

    def _before(self, lines: tuple[Line, ...]) -> tuple[Line, ...]:
        if not lines:
            return ()
        live = live_lines(self.sweep, self.elements)
        return (*self.scope.declared([*live, *lines]), *live)

    def _joined(self, one: VectorSum, moves: bool) -> str:
        if one.fold is not None and not moves:
            return taken_in(one.fold, "sum", "number", self.dialect.use)
        factor = f"{one.name}_factor"
        if one.name not in self.shrinking:
            return f"sum += {self.dialect.use('zero_wins')}(number, {factor});"
        return f"sum += number * {factor};"

    @lazy
    def shrinking(self) -> frozenset[str]:
        """Sums whose factor is never above 1."""
        return frozenset(m.name for m in self.monoid.moving if self._only_shrinks(m))

    def _only_shrinks(self, moving: Moving) -> bool:
        """Is its factor a power of e below 1, but from no elements?"""
        pivots = {n: self.monoid.pivot(n) for n in moving.pivots}
        relatives = [r for r in self.monoid.relatives if r.pivot in pivots]
        exps = [Call("exp", (Var(p.move),)) for p in pivots.values()]
        return [f for _, f in moving.transport] == exps and bool(relatives) and all(
            self.elements.below_zero(r) for r in relatives)

    def _factors(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        factors: list[tuple[str, Expr]] = []
        for m in self.monoid.moving:
            if m.width == 1 or not m.pivots:
                continue
            if [n for n, _ in m.transport] != [m.name]:
                raise BackendError(
                    f"{self.kernel.name}: {m.name}, a vector, moves with others when pivots do; "
                    "GPUs do not keep such sums yet: give arrays on the CPU")
            factors.append((m.name, m.transport[0][1]))
        used = {n for _, f in factors for n in variables(f)}
        moves = tuple((p.move, pivot_view(p, self.monoid, self.dialect).moved)
                      for p in self.monoid.pivots if p.move in used)
        found = []
        for name, factor in factors:
            value = self.dialect.text(factor) if factor != Lit(1.0) else "1"
            found.append((name, f"shrinking({value})" if name in self.shrinking else value))
        return moves, tuple(found)

    def _shared(self) -> Iterator[str]:
        """Lanes have the same pivots where they add up vectors together."""
        pivots = {n for m in self.monoid.moving if m.width > 1 for n in m.pivots}
        folds = {f.name: f.fold for f in self.monoid.folded}
        used = dict.fromkeys(n for p in self.monoid.pivots if p.name in pivots
                             for n in variables(p.value))
        for name in used:
            if folds.get(name) not in ("max", "min"):
                raise BackendError(
                    f"{self.kernel.name}: vectors are summed up about {name}, which is no maximum; "
                    "GPUs do not do that yet: give arrays on the CPU")
            joined = self.dialect.use("greater_of" if folds[name] == "max" else "lesser_of")
            for lane_mask in (1, 2):
                other = f"__shfl_xor_sync(0xffffffffu, next.{name}, {lane_mask})"
                yield f"next.{name} = {joined}(next.{name}, {other});"
