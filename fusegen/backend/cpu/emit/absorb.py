"""One chunk into the state, phase by phase: the text inside the chunk, ⊕ with what came before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.kept import Kept
from fusegen.backend.cpu.emit.lane_lines import LaneLines
from fusegen.backend.cpu.emit.memory import store
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.own import own_phase
from fusegen.backend.cpu.emit.peaks import Peaks
from fusegen.backend.cpu.emit.phases import (
    Gathered,
    Part,
    Phase,
    across,
    is_extreme,
    is_quick,
    joined,
    lanes_of_fold,
    no_sum,
    nothing,
    numbered,
    total,
)
from fusegen.backend.cpu.emit.scope import RowScope, element_exprs, pivot_exprs, sum_exprs
from fusegen.backend.cpu.emit.state import (
    anchor_line,
    anchors_for,
    gathers,
    identity_of,
    is_count,
    is_ordering,
    zero_of,
)
from fusegen.backend.cpu.past import past_caches
from fusegen.backend.emit.comments import noted
from fusegen.backend.emit.folds import folded_into, taken_in
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.terms import below_pivots
from fusegen.backend.emit.vector_sums import Weight, vector_sums
from fusegen.ir.expr import Expr, Var, variables
from fusegen.ir.kernel import Kernel, Sweep
from fusegen.ir.kernel_walk import used_in
from fusegen.ir.monoid import Best, Folded, KBest, Level, Moving
from fusegen.ir.monoid_text import pivots_text


class AbsorbPrinter(LaneLines):
    """Builds the phases of one sweep."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, scope: RowScope, row: CpuDialect, lanes: CpuDialect,
        kept: Kept | None = None,
    ) -> None:
        super().__init__(kernel, sweep, lanes)
        self.scope, self.row, self.kept = scope, row, kept
        self.vectors = {v.name: v for v in vector_sums(kernel, sweep)}
        self.monoid = sweep.monoid
        self.ranked: tuple[Best | KBest, ...] = (
            *self.monoid.best, *(c for c in self.monoid.lists if not gathers(c, kernel)))
        self.peaks = Peaks(self.monoid, self.ranked)
        self.alone = self.peaks.lone and not kernel.has_vectors
        self.folded = [f for f in self.monoid.folded
                       if not (is_count(f) or f.name in self.vectors)]
        self.turns = self._by_turns([f.lift for f in (*self.folded, *self.peaks.owns)])

    def parts(self) -> tuple[Part, ...]:
        """The functions that make up `absorb`: two where pivots are settled before anything is
        added, and nothing else passes from one to the other than the state."""
        found = [self._fold()]
        for number, level in enumerate(self.monoid.levels):
            found += [self._pivots(number, level), self._sums(number, level)]
        found += [own_phase(c, self.items(c.lifts), self.notes.get(c.name, ""), self.lanes)
                  for c in self.monoid.own]
        found += [self._select(c) for c in self.ranked]
        found.append(self._stores())
        phases = tuple(p for p in found if p is not None)
        whole = self.monoid.best or self.monoid.lists or self.kernel.has_vectors
        if whole or not (self.monoid.levels and self.lanes.partly):
            values = self._row_values(element_exprs(self.sweep))
            return numbered([Part("absorb", "", values, phases)])
        first = 1 if found[0] is None else 2
        sums = sum_exprs(self.sweep)
        return numbered([
            Part("settle", "the pivots, and the sums so far moved there",
                 self._row_values(pivot_exprs(self.monoid)), phases[:first]),
            Part("add_up", "sums relative to the pivots",
                 (*self._row_values(sums), *self._settled(sums)), phases[first:]),
        ])

    def _row_values(self, exprs: Iterable[Expr]) -> tuple[Line, ...]:
        """Declarations of the row values that elements meet."""
        own = [f.name for f in self.monoid.folded] + [m.name for m in self.monoid.moving]
        every = [*exprs]
        every += [let.expr for let in used_in(self.sweep, every)[1]]
        return tuple(self.scope.locals(every, own))

    def _settled(self, exprs: Iterable[Expr]) -> Iterator[Line]:
        """Components that `settle` has brought up to date, as `add_up` calls them."""
        used = {n for e in exprs for n in variables(e)}
        for f in self.monoid.folded:
            if f.name in used:
                yield Line(f"const {self.row.type_of(f.kind)} {f.name} = state.{f.name};")
        for p in self.monoid.levels[0].pivots:
            yield Line(f"const {self.row.real} {p.anchor} = state.{p.anchor};")

    def gathered(self) -> tuple[Gathered, ...]:
        """What long lists are made of."""
        return tuple(
            Gathered(c.name, (*self.items([c.lift]), self.noted(f"return {held};", c.name)))
            for c in self.monoid.lists if gathers(c, self.kernel)
            for held in [self.lanes.text(c.lift)]
        )

    # ---- phases ----

    def _fold(self) -> Phase | None:
        """Base monoids across the chunk, and the peaks that lists are filtered by."""
        folded, own = self.folded, [] if self.alone else self.peaks.owns
        weights = [w for f in self.monoid.folded for w in self._weights(f)]
        if not (folded or own or weights or any(map(is_count, self.monoid.folded))):
            return None
        todo, turns = [*folded, *own], self.turns
        lifts = [*(f.lift for f in todo), *(w.value for w in weights)]
        lanes, divisors = self.divided(lifts)
        before = [self._first(f, turns) for f in todo]
        loop = self.items(lifts, lanes)
        loop += [self.noted(self._next(f, turns, lanes), f.name) for f in todo]
        loop += [self._weight(w, lanes) for w in weights]
        shared = {f.name for f in folded if f.name in self.peaks.shared}
        after = []
        for f in todo:
            if f in own or f.name in shared:
                after.append(f"const {self.row.type_of(f.kind)} chunk_{f.name} = "
                             f"{across(f, by_turns=turns)};")
        if not self.monoid.pivots:
            after += [taken_in(f, f"state.{f.name}", self._of_chunk(f, shared, turns), fg)
                      for f in self.monoid.folded if f.name not in self.vectors]
        return Phase("What each base monoid makes of the chunk.", tuple(before), divisors,
                     loop=tuple(loop) if todo or weights else (), by_turns=turns,
                     sums=tuple(f.name for f in todo if f.fold == "sum"), after=tuple(after))

    def _by_turns(self, exprs: Sequence[Expr]) -> bool:
        """Do two folds take turns? Where a part of a vector can be the last one's turn."""
        lets = used_in(self.sweep, exprs)[1]
        return self.lanes.partly and is_quick([*exprs, *(let.expr for let in lets)])

    def _first(self, f: Folded, turns: bool) -> str:
        kind = self.lanes.type_in(f.kind)
        return nothing(f, kind, identity_of(f, self.row), by_turns=turns)

    def _next(self, f: Folded, turns: bool, lanes: CpuDialect) -> str:
        lift = self.live(lanes.text(f.lift), identity_of(f, self.row))
        place = lanes_of_fold(f.name, by_turns=turns)
        return f"{place}.take({lift});" if is_extreme(f) else taken_in(f, place, lift, fg)

    def _of_chunk(self, f: Folded, shared: Iterable[str], turns: bool) -> str:
        """What the whole chunk adds to a base monoid."""
        if is_count(f):
            return f"{self.row.real}(end - begin)"
        return f"chunk_{f.name}" if f.name in shared else across(f, by_turns=turns)

    def _pivots(self, number: int, level: Level) -> Phase:
        """The pivots with this chunk in, and the sums so far moved to them."""
        first = number == 0
        shared = self.peaks.shared
        held = [f for f in self.monoid.folded if f.name not in self.vectors]
        lines = [
            f"const {self.row.type_of(f.kind)} {f.name} = "
            f"{folded_into(f, f'state.{f.name}', self._of_chunk(f, shared, self.turns), fg)};"
            for f in held if first
        ]
        for p in level.pivots:
            lines.append(str(anchor_line(p, self.row)))
        moved = " || ".join(f"{p.anchor} != state.{p.anchor}" for p in level.pivots)
        if all(is_ordering(p, self.monoid) for p in level.pivots):
            moved = f"{fg('rarely')}({moved})"
        lines.append(f"if ({moved})")
        lines.append(f"    rebase(state, {anchors_for(self.monoid, number, 'state')});")
        lines += [f"state.{f.name} = {f.name};" for f in held if first]
        if number > 0:
            before = self.monoid.levels[number - 1]
            lines += [f"state.{m.name} = {m.name};" for m in before.moving
                      if m.name not in self.vectors]
        about = pivots_text(level, self.monoid)
        return Phase(f"The new {about}; the sums so far move there.", tuple(lines))

    def _sums(self, number: int, level: Level) -> Phase | None:
        """Moving sums of the chunk at the pivots' anchors."""
        moving = [m for m in level.moving if m.name not in self.vectors]
        weights = [w for m in level.moving for w in self._weights(m)]
        if not level.moving:
            return None
        lifts = [*(m.lift for m in moving), *(w.value for w in weights)]
        used = {n for e in lifts for n in variables(e)}
        relatives = [r for r in self.monoid.relatives if r.name in used]
        every = [*lifts, *(r.atom for r in relatives)]
        turns = self._by_turns(every)
        apart = [self.monoid.relative(r, lambda n: Var(self.monoid.pivot(n).anchor))
                 for r in relatives]
        plain, divisors = self.divided([*every, *apart])
        before = [no_sum(self.lanes.type_in(m.kind), m.name, by_turns=turns) for m in moving]
        loop = self.items(every, plain)
        loop += [f"const V {r.name} = {plain.text(u)};"
                 for r, u in zip(relatives, apart, strict=True)]
        lanes = replace(plain, below=below_pivots(self.monoid))
        own = self.kept is not None and self.kept.relative in {r.name for r in relatives}
        kept = self.kept if own else None
        loop += kept.lines(lanes) if kept else []
        for m in moving:
            lift = kept.lift(m.lift) if kept else m.lift
            term = self.live(lanes.text(lift), zero_of(m.kind, self.row))
            place = lanes_of_fold(m.name, by_turns=turns)
            loop.append(self.noted(f"{place} += {term};", m.name))
        loop += [self._weight(w, lanes) for w in weights]
        if number + 1 < len(self.monoid.levels):  # later pivots move the sums so far first
            after = [f"const {self.row.type_of(m.kind)} {m.name} = "
                     f"state.{m.name} + {total(m.name)};" for m in moving]
        else:
            after = [f"state.{m.name} += {total(m.name)};" for m in moving]
        after += kept.note() if kept else []
        return Phase(f"Sums relative to {pivots_text(level, self.monoid)}.", tuple(before),
                     divisors, loop=tuple(loop), by_turns=turns,
                     sums=tuple(m.name for m in moving), after=tuple(after))

    def _weights(self, component: Folded | Moving) -> tuple[Weight, ...]:
        """What a sum of vectors is made with."""
        found = self.vectors.get(component.name)
        return () if found is None else found.weights

    def _weight(self, weight: Weight, lanes: CpuDialect) -> str:
        """To the tile, whose rows are whole vectors; behind a row's end it is never read."""
        place = f"row.{weight.name} + (col - row.tile)"
        value = lanes.text(weight.value)
        return store(self.kernel.compute, place, value, replace(self.lanes, partly=False))

    def _select(self, best: Best | KBest) -> Phase:
        """Candidates for a list or a leader; most chunks hold none."""
        held, peak = self.lanes.text(best.lift), self.peaks.of_chunk(best)
        loop, fold = self.items([best.lift]), self.peaks.fold(best)
        if self.alone:
            return Phase(f"{best.name}: what is ahead of the last so far.",
                         search=f"{fg('find')}<V>(state.{best.name}, ",
                         loop=(*loop, self.noted(f"return {held};", best.name)))
        if isinstance(best, KBest):
            lanes = joined(fold, by_turns=self.turns)
            lanes += ".so_far" if is_extreme(fold) else ""
            search = f"{fg('search')}<V>(state.{best.name}, {lanes}, "
            step = f"return {held};"
        else:
            search = f"{fg('until')}<V>("
            held = self.live(held, identity_of(fold, self.row))
            step = f"return {fg('offer_peak')}(state.{best.name}, {held}, {peak}, col);"
        rank = "leader" if isinstance(best, Best) or best.k == 1 else f"last of the {best.k}"
        return Phase(
            f"{best.name}: only chunks with something ahead of the {rank} so far are searched.",
            condition=f"{fg('rarely')}(state.{best.name}.admitted({peak}))",
            search=search, loop=(*loop, self.noted(step, best.name)),
        )

    def _stores(self) -> Phase | None:
        if not (stores := self.sweep.element_stores):
            return None
        lanes, divisors = self.divided([s.value for s in stores])
        loop = self.items([s.value for s in stores], lanes)
        for s in stores:
            param = self.kernel.param(s.param)
            place, value = f"row.{s.param} + col", lanes.text(s.value)
            loop.append(noted(store(param.dtype, place, value, lanes), s.note))
        past = past_caches(self.sweep, self.kernel) if lanes.partly else ()
        return Phase("Elements to memory.", divisors=divisors, loop=tuple(loop), past=past)
