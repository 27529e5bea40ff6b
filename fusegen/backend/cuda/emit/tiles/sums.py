"""Sums of vectors of a sweep over tiles: how they begin, and follow their pivots."""

from __future__ import annotations

from collections.abc import Iterator

from fusegen.backend.cuda.emit.elements import ElementPrinter
from fusegen.backend.cuda.emit.state import identity_of, pivot_view
from fusegen.backend.cuda.emit.tiles.scope import Scope
from fusegen.backend.cuda.emit.tiles.spans import live_lines
from fusegen.backend.cuda.emit.tiles.views import SumView
from fusegen.backend.cuda.schedule.tiles.tile import held_numbers
from fusegen.backend.emit.folds import taken_in
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.terms import below_pivots
from fusegen.backend.emit.vector_sums import VectorSum
from fusegen.ir.errors import BackendError
from fusegen.ir.expr import Call, Expr, Lit, Var, variables
from fusegen.ir.kernel import Kernel, Sweep
from fusegen.ir.monoid import Moving
from fusegen.ir.shared import lazy


class SumPrinter:
    """Prints what moves the sums of vectors of one sweep: scalars, for all numbers of a vector."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, scope: Scope, elements: ElementPrinter,
        most_numbers: int,
    ) -> None:
        self.kernel, self.sweep, self.scope, self.elements = kernel, sweep, scope, elements
        self.dialect, self.monoid, self.most_numbers = scope.dialect, sweep.monoid, most_numbers

    def view(self, one: VectorSum, lines: dict[str, tuple[Line, ...]]) -> SumView:
        """lines: of sums that are folded number by number."""
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
            return taken_in(one.fold, "so_far", "number", self.dialect.use)
        factor = f"{one.name}_factor"
        if one.name not in self.shrinking:
            return f"so_far += {self.dialect.use('zero_wins')}(number, {factor});"
        return f"so_far += number * {factor};"

    @lazy
    def shrinking(self) -> frozenset[str]:
        """Sums whose factor is never above 1."""
        return frozenset(m.name for m in self.monoid.moving if self._only_shrinks(m))

    def _only_shrinks(self, moving: Moving) -> bool:
        """Is its factor a power of e below 1, but from no elements?"""
        pivots = {n: self.monoid.pivot(n) for n in moving.pivots}
        relatives = [r for r in self.monoid.relatives if r.pivot in pivots]
        exps = [Call("exp", (Var(p.move),)) for p in pivots.values()]
        return [f for _, f in moving.transport] == exps and bool(relatives) and (
            below_pivots(self.monoid).issuperset(r.name for r in relatives))

    def factors(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """Moves of pivots, and the factor that each sum takes from them: (name, C++)."""
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

    def shared(self) -> Iterator[str]:
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
