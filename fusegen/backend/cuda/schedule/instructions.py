"""How many machine instructions a schedule takes: for an element, and for a row beside them.

A model of generated code, from Kernel IR: what an operation compiles to, and what surrounds the
elements. tests/test_instructions.py holds it against what ptxas makes of kernels. Where elements
take more instructions than a multiprocessor issues while memory brings them, they are the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from fusegen.backend.cuda.schedule.cuda import CudaSchedule, LoadMode
from fusegen.backend.cuda.schedule.digits import is_narrow_by_itself, rough_quotients
from fusegen.backend.cuda.schedule.figures import FIGURES
from fusegen.backend.cuda.schedule.homes import Registers
from fusegen.backend.cuda.schedule.kept_values import keeps_value, kept_value
from fusegen.backend.cuda.schedule.launch import widest_vector
from fusegen.backend.cuda.schedule.levels import Lanes, Thread, tree
from fusegen.backend.cuda.schedule.on_chip import asks_once, knows_pivots, pivots_first
from fusegen.backend.cuda.schedule.operations import (
    NARROW_EXP,
    NEARLY,
    TERM_EXP,
    of_operation,
    of_value,
)
from fusegen.backend.emit.terms import below_pivots, over_terms, sums_from_one, terms
from fusegen.backend.target import WARP
from fusegen.ir.expr import ONE, Call, Expr, Var
from fusegen.ir.kernel import Kernel, Let, Program, Sweep
from fusegen.ir.kernel_walk import expressions_in, used_in

_FIND = 2  # an element is compared with the best value
_COMPARE = 8  # value and column with the best of both
_FETCH, _PUT = 6 / 16, 8 / 16  # a byte of a band on its way
_VECTOR = 6 / 16  # a byte that comes or goes in vectors
_SHIFT = 1 / 4  # a byte that is shifted, more
_ALONE = 4.5  # an element that comes from memory by itself
_COLUMN = 2  # what all rows share at a column
_STEP, _EDGES = 65, 90  # once a row; where it begins or ends inside a vector
_MOVE = 18  # a pivot moves, once a chunk
_BLOCK = 90  # warps of a block meet
_STORE = 4  # a value of the row


@dataclass(frozen=True, slots=True)
class Effort:
    """Instructions: for an element; for a chunk, whose states move once; once a row, of each warp;
    and to finish a row that is known, where lanes finish a row each."""

    item: float
    chunk: float
    row: float
    finish: float

    def of_row(self, one: CudaSchedule, n_cols: int) -> float:
        """Of all warps, for a row of so many columns."""
        vectors = -(-max(1, n_cols // one.width) // (one.team_threads * one.blocks))
        chunks = 1 if one.home.of_threads else -(-vectors // one.vectors)
        warps = one.blocks * one.team_threads / WARP
        elements = vectors * one.width * self.item + chunks * self.chunk
        return warps * (elements + self.row + self.finish)


def effort(program: Program, one: CudaSchedule) -> Effort:
    """Of all kernels together."""
    found = [_of_kernel(k, one) for k in program.kernels if k.sweeps]
    return Effort(sum(e.item for e in found), sum(e.chunk for e in found),
                  sum(e.row for e in found), sum(e.finish for e in found))


def merging(program: Program) -> float:
    """Of two states that become one, about: their sums move to pivots of both."""
    return sum(30.0 + 8 * len(s.monoid.moving) for s in program.sweeps if s.monoid.has_scalars)


def issue_seconds(program: Program, one: CudaSchedule, elements: int) -> float | None:
    """How long multiprocessors take to issue what has to be done with so many elements, whatever
    the schedule: of rows that lanes hold, in whole vectors, and nothing else. Beside memory's time
    the least that a kernel takes. None where it has lists, whose work depends on the data."""
    if any(s.monoid.lists for s in program.sweeps):
        return None
    levels = tree(Thread(2, widest_vector(program)), 128, Lanes(16), Registers())
    least = effort(program, replace(one, levels=levels, load="aligned")).item
    return least * elements / WARP / (FIGURES.short_rows.slots * one.target.multiprocessors)


def said(program: Program, one: CudaSchedule, n_cols: int) -> str:
    """In words, of a choice."""
    seconds = issue_seconds(program, one, n_cols)
    moved = max(sum(p.dtype.itemsize for p in k.elements) for k in program.kernels) * n_cols
    if seconds is None or not moved:
        return ""
    found = effort(program, one)
    share = seconds / (moved / one.target.bandwidth)
    whole = found.of_row(one, n_cols)
    return (f"about {found.item:.1f} machine instructions an element and {whole:.0f} of warps a "
            f"row; issuing the fewest takes {share:.2f} × as long as moving the bytes")


def _of_kernel(kernel: Kernel, one: CudaSchedule) -> Effort:
    band, width = one.home.band_rows > 0, one.width
    holds = one.in_warp and one.home.of_threads
    keeps = keeps_value(one)
    item, finish, written = _elements(
        kernel, one.in_warp, holds, keeps, band, width, one.load, _column(kernel, one))
    row = _STEP + sum(_meeting(s, one) for s in kernel.sweeps)
    if one.has_edges:
        row += _EDGES + item
    turns = band and len(kernel.sweeps) == 1 and not written
    moves = sum(_moving(s) for s in kernel.sweeps if not pivots_first(s, one))
    return Effort(item, moves, row, finish / one.lanes if turns else finish)


def _column(kernel: Kernel, one: CudaSchedule) -> float:
    """What all rows share, at a column: asked for once, if lanes own several rows of a band."""
    asked = one.home.band_rows and asks_once(kernel, one)
    return _COLUMN * one.rows_per_block / one.block_rows if asked else _COLUMN


@lru_cache(maxsize=256)
def _elements(
    kernel: Kernel, in_warp: bool, holds: bool, keeps: bool, band: bool, width: int,
    load: LoadMode, column: float,
) -> tuple[float, float, bool]:
    """Instructions of an element, and to finish a row; are elements written? `holds`: do lanes of
    a warp hold the row? `keeps`: do threads keep a value that takes long?"""
    value, made = kept_value(kernel) if keeps else None, 0.0
    if value and value.heavy:
        kernel = replace(kernel, sweeps=value.sweeps)
        made = sum(of_value(one.expr) for one in value.lets)
    scope = _Scope(kernel, in_warp, holds, band, width, load, column)
    item = sum(map(scope.item, scope.sweeps)) + scope.moved + made
    return item, scope.finish, scope.written


class _Scope:
    """A kernel's sweeps as a schedule runs them."""

    def __init__(
        self, kernel: Kernel, in_warp: bool, holds: bool, band: bool, width: int, load: LoadMode,
        column: float,
    ) -> None:
        self.kernel, self.in_warp, self.holds, self.column = kernel, in_warp, holds, column
        self.band, self.width, self.load = band, width, load
        self.wide = 2.0 if kernel.compute.itemsize == 8 else 1.0
        self.narrow = is_narrow_by_itself(kernel)
        self.rough = rough_quotients([kernel], narrow=self.narrow)
        self.near = frozenset[str]().union(*map(sums_from_one, kernel.sweeps))
        self.sweeps, self.kept = _with_terms(kernel, holds)
        self.written = any(p.output for p in kernel.elements)

    # ---- elements ----

    def item(self, sweep: Sweep) -> float:
        """Of a sweep: what is folded, what is summed about pivots, what is written."""
        monoid, first = sweep.monoid, self.holds and knows_pivots(sweep)
        below = frozenset() if sweep.number in self.kept else below_pivots(monoid)
        folded = [f for f in monoid.folded if not (first and f.counts)]
        found = self._phase(sweep, [f.lift for f in folded], len(folded))
        for best in monoid.best:
            loaded = isinstance(best.lift, Var)
            found += (_FIND + (not monoid.folded_as(best))) if loaded else _COMPARE
        for level in monoid.levels:
            lifts = [m.lift for m in level.moving]
            used = {v.name for e in lifts for v in expressions_in(e) if isinstance(v, Var)}
            atoms = [r for r in monoid.relatives if r.name in used]
            adds = sum(not (isinstance(e, Call) and e.op == "mul") for e in lifts)
            found += self._phase(sweep, lifts, adds, below, again=first)
            found += sum((1 if monoid.pivot(r.pivot).action == "shift" else NEARLY)
                         + (r.factor != ONE) for r in atoms)
        found += sum(self._own(e) for o in monoid.own for e in expressions_in(o.lifts))
        values = [s.value for s in sweep.element_stores]
        converted = sum(self.kernel.param(s.param).dtype.itemsize < 4 for s in sweep.element_stores)
        share = 0.5 if self.width > 1 else 1.0
        light = self.in_warp and sweep is not self.sweeps[0]
        return (found + self._phase(sweep, values, 0, again=light) + converted * share) * self.wide

    def _phase(
        self, sweep: Sweep, exprs: list[Expr], adds: int, below: frozenset[str] = frozenset(), *,
        again: bool = False,
    ) -> float:
        """A loop over items: what is loaded is converted, unless it was before."""
        if not exprs:
            return 0.0
        names, lets = used_in(sweep, exprs)
        loaded = [p for p in self.kernel.params if p.name in names and p.shape != "scalar"]
        converted = 0 if again else sum(p.dtype.itemsize < 4 for p in loaded)
        seen: set[Expr] = set()
        every = [*(let.expr for let in lets), *exprs]
        return converted + adds + sum(self._cost(e, seen, below) for e in every)

    def _cost(self, expr: Expr, seen: set[Expr], below: frozenset[str]) -> float:
        if not isinstance(expr, Call) or expr in seen:
            return 0.0
        seen.add(expr)
        total = self._own(expr, below)
        if expr.op in ("add", "sub") and any(_is_product(a, seen) for a in expr.args):
            total = 0.0  # the product's instruction adds, too
        return total + sum(self._cost(a, seen, below) for a in expr.args)

    def _own(self, expr: Expr, below: frozenset[str] = frozenset()) -> float:
        match expr:
            case Call(op="exp", args=(Var(name=name),)) if name in below:
                return TERM_EXP
            case Call(op="exp") if self.narrow:
                return NARROW_EXP
            case Call(op="div", args=(_, Var(varying=False, name=name))) if name in self.near:
                return 1
            case Call(op="div") if expr in self.rough:
                return NEARLY
            case Call():
                return of_operation(expr)
            case _:
                return 0.0

    @property
    def moved(self) -> float:
        """Elements on their way to registers and back."""
        found = 0.0
        for p in self.kernel.elements:
            size = p.dtype.itemsize
            if self.band:
                found += (_PUT if p.output else _FETCH) * size
                found += 1 if self.width == 1 else _VECTOR * size
            elif self.width == 1:
                found += _ALONE
            else:
                found += (_VECTOR + (_SHIFT if self.load == "shifted" else 0.0)) * size
        shared = [p for p in self.kernel.params if p.shape == "per_column"]
        alone = self.band or self.load != "aligned"
        return found + sum(self.column if alone else _VECTOR * p.dtype.itemsize for p in shared)

    # ---- rows ----

    @property
    def finish(self) -> float:
        """Values of the row, and what is written of them."""
        seen: set[Expr] = set()
        exprs = [s.expr for sweep in self.sweeps for s in sweep.steps if isinstance(s, Let)]
        exprs += [s.value for sweep in self.sweeps for s in sweep.row_stores]
        stores = sum(len(sweep.row_stores) for sweep in self.sweeps)
        return sum(self._cost(e, seen, frozenset()) for e in exprs) + _STORE * stores


def _moving(sweep: Sweep) -> float:
    """A chunk's state joins a thread's, whose sums move to pivots of both."""
    monoid = sweep.monoid
    known = 2 * len(monoid.folded) + 4 * len(monoid.best)
    return known + sum(_MOVE + 4 * len(level.moving) for level in monoid.levels)


def _meeting(sweep: Sweep, one: CudaSchedule) -> float:
    """Lanes' states become one, and warps'."""
    monoid = sweep.monoid
    if not monoid.has_scalars:
        return 0.0
    rounds = math.log2(min(one.team_threads, WARP))
    sums, best = len(monoid.moving), len(monoid.best)
    if pivots_first(sweep, one):
        known = sum(not f.counts for f in monoid.folded)
        return rounds * 2 * (known + sums + best) + 8 * len(monoid.levels)
    known = len(monoid.folded)
    moves = 12 * len(monoid.levels) + 4 * sums
    blocks = 0.0 if one.in_warp else _BLOCK + 2 * (known + sums + 2 * best)
    return rounds * (2 * known + 2 * sums + 8 * best) + 2 * moves + blocks


def _is_product(expr: Expr, seen: Iterable[Expr]) -> bool:
    return isinstance(expr, Call) and expr.op == "mul" and expr not in seen


def _with_terms(kernel: Kernel, holds: bool) -> tuple[tuple[Sweep, ...], frozenset[int]]:
    """The sweeps with terms that lanes keep, and the numbers of those that make them."""
    for maker, again in _kept(kernel) if holds else ():
        sweeps = tuple(again if s.number == again.number else s for s in kernel.sweeps)
        return sweeps, frozenset([maker.number])
    return kernel.sweeps, frozenset()


def _kept(kernel: Kernel) -> Iterator[tuple[Sweep, Sweep]]:
    for position, maker in enumerate(kernel.sweeps):
        for term in terms(maker) if knows_pivots(maker) else ():
            for sweep in kernel.sweeps[position + 1 :]:
                again = over_terms(sweep, term) if sweep.monoid.is_empty else None
                if again is not None:
                    yield maker, again
