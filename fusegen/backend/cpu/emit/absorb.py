"""One chunk into the state, phase by phase: the text inside the chunk, ⊕ with what came before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.kept import Kept, below_pivots
from fusegen.backend.cpu.emit.memory import store
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.own import lifted
from fusegen.backend.cpu.emit.scope import RowScope, element_exprs
from fusegen.backend.cpu.emit.sources import printed
from fusegen.backend.cpu.emit.state import (
    anchor_line,
    anchors_for,
    gathers,
    identity_of,
    is_count,
    is_ordering,
    zero_of,
)
from fusegen.backend.emit.comments import noted
from fusegen.backend.emit.folds import folded_into, taken_in
from fusegen.backend.emit.lines import Line
from fusegen.ir.expr import Expr, Var, variables
from fusegen.ir.kernel import COLUMN, Kernel, Sweep, used_in
from fusegen.ir.monoid import Best, Folded, KBest, Level, Moving, Own
from fusegen.ir.monoid_text import pivots_text

_ACROSS = {"sum": "total", "prod": "product", "max": "greatest", "min": "least"}
_EXTREME = {"max": "highest", "min": "lowest"}


@dataclass(frozen=True)
class Phase:
    """A numbered step of `absorb`: lines, then a loop over the chunk, then lines."""

    title: str
    before: tuple[str, ...] = ()
    condition: str = ""  # these lines and the loop run only if it holds
    inside: tuple[str, ...] = ()
    loop: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gathered:
    """A list, and the lines of the function that gives its values from `col` on."""

    name: str
    lines: tuple[str, ...]


class AbsorbPrinter:
    """Builds the phases of one sweep."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, scope: RowScope, row: CpuDialect, lanes: CpuDialect,
        kept: Kept | None = None,
    ) -> None:
        self.kernel, self.sweep, self.scope = kernel, sweep, scope
        self.row, self.lanes, self.kept = row, lanes, kept
        self.monoid = sweep.monoid
        short = (c for c in self.monoid.lists if not gathers(c))
        self.ranked: tuple[Best | KBest, ...] = (*self.monoid.best, *short)
        self.notes = dict(sweep.notes)
        self.peaks = {c.name: self._peak(c) for c in self.ranked}

    def row_values(self) -> tuple[Line, ...]:
        """Declarations of the row values that elements meet."""
        own = [f.name for f in self.monoid.folded] + [m.name for m in self.monoid.moving]
        return tuple(self.scope.locals(element_exprs(self.sweep), own))

    def phases(self) -> list[Phase]:
        found = [self._fold()]
        for number, level in enumerate(self.monoid.levels):
            found += [self._pivots(number, level), self._sums(number, level)]
        found += [self._own(c) for c in self.monoid.own]
        found += [self._select(c) for c in self.ranked]
        found.append(self._stores())
        return [p for p in found if p is not None]

    def gathered(self) -> tuple[Gathered, ...]:
        """What long lists are made of."""
        return tuple(
            Gathered(c.name, (*self._items([c.lift]), self._noted(f"return {held};", c.name)))
            for c in self.monoid.lists if gathers(c) for held in [self.lanes.text(c.lift)]
        )

    # ---- phases ----

    def _fold(self) -> Phase | None:
        """Base monoids across the chunk, and the peaks that lists are filtered by."""
        folded = [f for f in self.monoid.folded if not is_count(f)]
        own = [p for p in self.peaks.values() if p is not None]
        if not self.monoid.folded and not own:
            return None
        todo = [*folded, *own]
        before = [self._first(f) for f in todo]
        loop = self._items([f.lift for f in todo])
        loop += [self._noted(self._next(f), f.name) for f in todo]
        shared = {f.name for f in folded if f.name in self._peak_names()}
        after = []
        for f in todo:
            if f in own or f.name in shared:
                after.append(f"const {self.row.type_of(f.kind)} chunk_{f.name} = {_across(f)};")
        if not self.monoid.pivots:
            after += [taken_in(f, f"state.{f.name}", self._of_chunk(f, shared), fg)
                      for f in self.monoid.folded]
        return Phase("What each base monoid makes of the chunk.", tuple(before),
                     loop=tuple(loop) if todo else (), after=tuple(after))

    def _first(self, f: Folded) -> str:
        kind = self.lanes.type_in(f.kind)
        if _is_extreme(f):
            return f"{fg(_EXTREME[f.fold])}<V> {f.name}_lanes;"
        return f"{kind} {f.name}_lanes = {fg('all')}<{kind}>({identity_of(f, self.row)});"

    def _next(self, f: Folded) -> str:
        lift = self._live(self.lanes.text(f.lift), identity_of(f, self.row))
        if _is_extreme(f):
            return f"{f.name}_lanes.take({lift});"
        return taken_in(f, f"{f.name}_lanes", lift, fg)

    def _of_chunk(self, f: Folded, shared: Iterable[str]) -> str:
        """What the whole chunk adds to a base monoid."""
        if is_count(f):
            return f"{self.row.real}(end - begin)"
        return f"chunk_{f.name}" if f.name in shared else _across(f)

    def _pivots(self, number: int, level: Level) -> Phase:
        """The pivots with this chunk in, and the sums so far moved to them."""
        first = number == 0
        shared = self._peak_names()
        lines = [
            f"const {self.row.type_of(f.kind)} {f.name} = "
            f"{folded_into(f, f'state.{f.name}', self._of_chunk(f, shared), fg)};"
            for f in self.monoid.folded if first
        ]
        for p in level.pivots:
            lines.append(str(anchor_line(p, self.row)))
        moved = " || ".join(f"{p.anchor} != state.{p.anchor}" for p in level.pivots)
        if all(is_ordering(p, self.monoid) for p in level.pivots):
            moved = f"{fg('rarely')}({moved})"
        lines.append(f"if ({moved})")
        lines.append(f"    rebase(state, {anchors_for(self.monoid, number, 'state')});")
        lines += [f"state.{f.name} = {f.name};" for f in self.monoid.folded if first]
        if number > 0:
            before = self.monoid.levels[number - 1]
            lines += [f"state.{m.name} = {m.name};" for m in before.moving]
        about = pivots_text(level, self.monoid)
        return Phase(f"The new {about}; the sums so far move there.", tuple(lines))

    def _sums(self, number: int, level: Level) -> Phase | None:
        """Moving sums of the chunk at the pivots' anchors."""
        moving = level.moving
        if not moving:
            return None
        lanes = replace(self.lanes, below=below_pivots(self.monoid))
        before = [self._no_sum(m) for m in moving]
        lifts = [m.lift for m in moving]
        used = {n for e in lifts for n in variables(e)}
        relatives = [r for r in self.monoid.relatives if r.name in used]
        loop = self._items([*lifts, *(r.atom for r in relatives)])
        for r in relatives:
            u = self.monoid.relative(r, lambda n: Var(self.monoid.pivot(n).anchor))
            loop.append(f"const V {r.name} = {self.lanes.text(u)};")
        own = self.kept is not None and self.kept.relative in {r.name for r in relatives}
        kept = self.kept if own else None
        loop += kept.lines(lanes) if kept else []
        for m in moving:
            lift = kept.lift(m.lift) if kept else m.lift
            term = self._live(lanes.text(lift), zero_of(m.kind, self.row))
            loop.append(self._noted(f"{m.name}_lanes += {term};", m.name))
        if number + 1 < len(self.monoid.levels):  # later pivots move the sums so far first
            after = [f"const {self.row.type_of(m.kind)} {m.name} = "
                     f"state.{m.name} + {fg('total')}({m.name}_lanes);" for m in moving]
        else:
            after = [f"state.{m.name} += {fg('total')}({m.name}_lanes);" for m in moving]
        after += kept.note() if kept else []
        return Phase(f"Sums relative to {pivots_text(level, self.monoid)}.", tuple(before),
                     loop=tuple(loop), after=tuple(after))

    def _no_sum(self, moving: Moving) -> str:
        kind = self.lanes.type_in(moving.kind)
        zero = zero_of(moving.kind, self.row)
        return f"{kind} {moving.name}_lanes = {fg('all')}<{kind}>({zero});"

    def _own(self, own: Own) -> Phase:
        """A monoid of the user's own: lane by lane and then over the lanes, or in row order."""
        item, total = f"{own.name}_item", f"{own.name}_lanes"
        loop = self._items(own.lifts) + lifted(own, item, self.lanes)
        loop[-1] = self._noted(loop[-1], own.name)
        over_lanes = f"for (int64_t lane = 0; lane < {fg('width')}<V>; ++lane)"
        if own.ordered:
            joined = f"state.{own.name} = merge(state.{own.name}, {item}.lane(lane));"
            return Phase(f"{own.name}: one element after the other, as the row has them.",
                         loop=(*loop, over_lanes, f"    {joined}"))
        joined = f"state.{own.name} = merge(state.{own.name}, {total}.lane(lane));"
        return Phase(
            f"{own.name}: every lane by itself, then the lanes.",
            before=(f"auto {total} = {own.type}<V>::identity();",),
            loop=(*loop, f"{total} = merge({total}, {item});"),
            after=(over_lanes, f"    {joined}"),
        )

    def _select(self, best: Best | KBest) -> Phase:
        """Candidates for a list or a leader; most chunks hold none."""
        held = self.lanes.text(best.lift)
        loop, inside = self._items([best.lift]), []
        loop.append(self._noted(f"{fg('offer')}(state.{best.name}, {held}, col);", best.name))
        if isinstance(best, KBest):
            fold = self.peaks[best.name] or self._twin(best)
            lanes = f"{fold.name}_lanes{'.so_far' if _is_extreme(fold) else ''}"
            inside.append(f"state.{best.name}.prepare({lanes});")
        rank = "leader" if isinstance(best, Best) or best.k == 1 else f"last of the {best.k}"
        return Phase(
            f"{best.name}: only chunks with something ahead of the {rank} so far are searched.",
            condition=f"{fg('rarely')}(state.{best.name}.admitted({self._peak_of(best)}))",
            inside=tuple(inside), loop=tuple(loop),
        )

    def _stores(self) -> Phase | None:
        stores = self.sweep.element_stores
        if not stores:
            return None
        loop = self._items([s.value for s in stores])
        for s in stores:
            param = self.kernel.param(s.param)
            value = self.lanes.text(s.value)
            line = store(param.dtype, f"row.{s.param} + col", value, self.lanes)
            loop.append(noted(line, s.note))
        return Phase("Elements to memory.", loop=tuple(loop))

    # ---- parts ----

    def _live(self, value: str, otherwise: str) -> str:
        """The value, but where a lane is behind the end of the row."""
        return f"live({value}, {otherwise})" if self.lanes.partly else value

    def _items(self, exprs: Iterable[Expr]) -> list[str]:
        """Sources and lets, in order, that these element expressions use."""
        wanted, lets = used_in(self.sweep, exprs)
        lines = []
        for source in self.sweep.loads:
            if source.name in wanted:
                lines += printed(source, self.kernel, self.lanes)
        if COLUMN.name in wanted:
            lines.append(f"const {fg('whole')}<V> column = {fg('column_numbers')}<V>(col);")
        for let in lets:
            declared = f"const {self.lanes.type_in(let.expr.kind)} {let.name}"
            lines.append(noted(f"{declared} = {self.lanes.text(let.expr)};", let.note))
        return lines

    def _peak(self, best: Best | KBest) -> Folded | None:
        """The fold that finds the chunk's best; None if a folded component is that already."""
        fold: Literal["max", "min"] = "max" if isinstance(best, KBest) or best.largest else "min"
        if any(f.fold == fold and f.lift == best.lift for f in self.monoid.folded):
            return None
        return Folded(f"{best.name}_peak", fold, best.lift, best.kind)

    def _peak_names(self) -> set[str]:
        """Folded components whose value over the chunk alone is needed."""
        return {self._twin(c).name for c in self.ranked if self.peaks[c.name] is None}

    def _twin(self, best: Best | KBest) -> Folded:
        fold = "max" if isinstance(best, KBest) or best.largest else "min"
        return next(f for f in self.monoid.folded if f.fold == fold and f.lift == best.lift)

    def _peak_of(self, best: Best | KBest) -> str:
        """The chunk's own best value, for the filter."""
        own = self.peaks[best.name]
        return f"chunk_{(own or self._twin(best)).name}"

    def _noted(self, line: str, component: str) -> str:
        return noted(line, self.notes.get(component, ""))


def _is_extreme(f: Folded) -> bool:
    """Is NaN to be looked for?"""
    return f.fold in _EXTREME and f.kind == "float"


def _across(f: Folded) -> str:
    if _is_extreme(f):
        return f"{f.name}_lanes.across()"
    return f"{fg(_ACROSS[f.fold])}({f.name}_lanes)"
