"""What a sweep does with elements, spelled out: fold, move the sums, lift, map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from fusegen.emit.comments import noted
from fusegen.emit.cuda.dialect import C_TYPES, PAIR_OF_ONE, PAIR_TYPES, CudaDialect
from fusegen.emit.cuda.own import fold_lines as own_lines
from fusegen.emit.cuda.state import StateView, folded_into, lifted
from fusegen.emit.cuda.views import LiftView, ListView, SweepView
from fusegen.expr import Expr, Var, variables
from fusegen.kernel import Kernel, Let, Program, Sweep
from fusegen.monoid import Best, Folded, KBest, Moving, Own, Relative


def needed(sweep: Sweep, exprs: Iterable[Expr]) -> tuple[list[str], list[Let]]:
    """Loads and lets, in order, that these element expressions use."""
    wanted: set[str] = {n for e in exprs for n in variables(e)}
    lets: list[Let] = []
    for let in reversed(sweep.lets):
        if let.name in wanted:
            lets.insert(0, let)
            wanted |= set(variables(let.expr))
    return [n for n in sweep.loads if n in wanted], lets


def pair_facts(program: Program, sweeps: Sequence[SweepView]) -> dict[str, object]:
    """Types of 16 bits that sweeps work on two at a time: C++ name, that of a pair, and the
    function that makes a pair of one value. Do lists, too?"""
    listed = any(c.pairs for v in sweeps for c in v.streamed_lists)
    paired = listed or any(v.fold_pairs for v in sweeps)
    read = {p.dtype.name for p in program.inputs if paired and p.dtype.name in PAIR_TYPES}
    types = [(C_TYPES[n], PAIR_TYPES[n], PAIR_OF_ONE[n]) for n in sorted(read)]
    return {"pair_items": types, "pair_lists": listed}


class ElementPrinter:
    """Lines inside the loops over a chunk's items."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, dialect: CudaDialect, state: StateView | None,
        paired: bool,
    ) -> None:
        self.kernel, self.sweep, self.dialect, self.state = kernel, sweep, dialect, state
        self.paired = paired  # does a register hold neighbouring elements of a row?

    def item_lines(self, exprs: list[Expr]) -> list[str]:
        """The loads and lets that an item needs, as declarations inside the item loop."""
        loads, lets = needed(self.sweep, exprs)
        lines = []
        for n in loads:
            dtype = self.kernel.param(n).dtype
            value = self.dialect.load(f"{n}_items[i]", dtype)
            lines.append(f"const {self.dialect.type_of(dtype.kind)} {n} = {value};")
        return lines + [self.let(let) for let in lets]

    def let(self, let: Let) -> str:
        kind = self.dialect.type_of(let.expr.kind)
        return noted(f"const {kind} {let.name} = {self.dialect.text(let.expr)};", let.note)

    def pairs(self, lift: Expr) -> str:
        """Items of 16 bits, if these values are just what was loaded; or "". Two of them are
        compared at a time."""
        if not isinstance(lift, Var) or lift.name not in self.sweep.loads or not self.paired:
            return ""
        narrow = self.kernel.param(lift.name).dtype.name in PAIR_TYPES
        return f"{lift.name}_items" if narrow and self.dialect.real == "float" else ""

    def fold_pairs(self, lists: tuple[ListView, ...]) -> list[str]:
        """The greatest of a chunk's items, found two at a time."""
        peaks = [(c.lift, v.peak) for c, v in self._own_peaks(lists)]
        maxima = [(f.lift, f"chunk.{f.name}") for f in self.sweep.monoid.folded if f.fold == "max"]
        found = [(place, self.pairs(lift)) for lift, place in (*maxima, *peaks)]
        if any(items for _, items in found):
            self.dialect.use("greater_of")
        return [f"{place} = greatest_item({items}, n_live);" for place, items in found if items]

    def _own_peaks(self, lists: tuple[ListView, ...]) -> list[tuple[KBest, ListView]]:
        both = zip(self.sweep.monoid.lists, lists, strict=True)
        return [(c, v) for c, v in both if v.own_peak]

    def fold_lines(self, lists: tuple[ListView, ...]) -> list[str]:
        monoid = self.sweep.monoid
        peaks = [(c, v) for c, v in self._own_peaks(lists) if not self.pairs(c.lift)]
        folded = [f for f in monoid.folded if f.fold != "max" or not self.pairs(f.lift)]
        read: list[Folded | Best | KBest] = [*folded, *monoid.best, *(c for c, _ in peaks)]
        exprs = [c.lift for c in read] + [lift for o in monoid.own for lift in o.lifts]
        if not exprs:
            return []
        lines = self.item_lines(exprs)
        for f in folded:
            value = lifted(f, self.dialect)
            joined = folded_into(f, f"chunk.{f.name}", value, self.dialect)
            lines.append(f"chunk.{f.name} = {joined};")
        for b in monoid.best:
            order = self.dialect.use("above" if b.largest else "below")
            value = self.dialect.text(b.lift)
            ahead = f"{order}({value}, column, chunk.{b.value}, chunk.{b.name})"
            lines.append(f"if ({ahead}) {{")
            lines.append(f"    chunk.{b.value} = {value};")
            lines.append(f"    chunk.{b.name} = column;")
            lines.append("}")
        notes = dict(self.sweep.notes)
        for o in monoid.own:
            lines += own_lines(o, notes.get(o.name, ""), self.dialect)
        for c, v in peaks:
            joined = f"{self.dialect.use('greater_of')}({v.peak}, {self.dialect.text(c.lift)})"
            lines.append(f"{v.peak} = {joined};")
        return lines

    def lifts(self) -> list[LiftView]:
        """How the chunk's moving sums are made, level by level."""
        monoid = self.sweep.monoid
        views = self.state.levels if self.state else ()
        found: list[LiftView] = []
        declared: set[str] = set()
        for level, view in zip(monoid.levels, views, strict=True):
            lines, divisors = self.dialect.divided(partial(self.lift_lines, level.moving))
            found.append(LiftView(
                suffix=view.suffix, lines=tuple(lines),
                divisors=tuple(d for d in divisors if d not in declared),
                anchors=tuple((p.anchor, f"{p.anchor}_of(state)") for p in level.pivots),
            ))  # fmt: skip
            declared |= set(divisors)
        return found

    def lift_lines(self, moving: Iterable[Moving]) -> list[str]:
        monoid = self.sweep.monoid
        used = {n for m in moving for n in variables(m.lift)}
        relatives = [r for r in monoid.relatives if r.name in used]
        lines = self.item_lines([r.atom for r in relatives] + [m.lift for m in moving])
        for r in relatives:
            u = self.dialect.text(monoid.relative(r, lambda n: Var(monoid.pivot(n).anchor)))
            lines.append(f"const {self.dialect.real} {r.name} = {u};")
        self.dialect.below_zero = frozenset(r.name for r in relatives if self._below_zero(r))
        lines += [f"state.{m.name} += {self.dialect.text(m.lift)};" for m in moving]
        self.dialect.below_zero = frozenset()
        return lines

    def _below_zero(self, relative: Relative) -> bool:
        """Is it the distance from a maximum of the same values?"""
        monoid = self.sweep.monoid
        pivot = monoid.pivot(relative.pivot)
        if pivot.action != "shift" or not isinstance(pivot.value, Var):
            return False
        maxima = {f.name: f.lift for f in monoid.folded if f.fold == "max"}
        return maxima.get(pivot.value.name) == relative.atom

    def store_lines(self) -> list[str]:
        stores = self.sweep.element_stores
        if not stores:
            return []
        lines = self.item_lines([s.value for s in stores])
        for s in stores:
            dtype = self.kernel.param(s.param).dtype
            shown = self.dialect.store(self.dialect.text(s.value), s.value.kind, dtype)
            lines.append(noted(f"{s.param}_items.set(i, {shown});", s.note))
        return lines

    def row_values(self) -> list[tuple[str, str]]:
        """Row values that element expressions use, in order of first use."""
        monoid = self.sweep.monoid
        exprs: list[Expr] = [let.expr for let in self.sweep.lets]
        exprs += [c.lift for c in monoid.components if not isinstance(c, Own)]
        exprs += [lift for o in monoid.own for lift in o.lifts]
        exprs += [r.atom for r in monoid.relatives]
        exprs += [s.value for s in self.sweep.element_stores]
        local = {r.name for r in monoid.relatives} | {let.name for let in self.sweep.lets}
        found: dict[str, str] = {}
        for expr in exprs:
            for var in variables(expr).values():
                if not var.varying and var.name not in local and var.name != "n_cols":
                    found.setdefault(var.name, self.dialect.type_of(var.kind))
        return [(kind, name) for name, kind in found.items()]
