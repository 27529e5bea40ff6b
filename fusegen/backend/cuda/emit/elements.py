"""What a sweep does with elements, spelled out: fold, move the sums, lift, map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from fusegen.backend.cuda.emit.dialect import C_TYPES, PAIR_TYPES, CudaDialect
from fusegen.backend.cuda.emit.kept import ITEMS, Keeps
from fusegen.backend.cuda.emit.own import fold_lines as own_lines
from fusegen.backend.cuda.emit.sources import SourceView
from fusegen.backend.cuda.emit.state import StateView
from fusegen.backend.cuda.emit.views import LiftView, ListView, SearchView
from fusegen.backend.emit.folds import taken_in
from fusegen.backend.emit.lines import Line, inside, uses_of
from fusegen.backend.emit.terms import TERM, below_pivots, replaced, term_of
from fusegen.ir.expr import Expr, Var, variables
from fusegen.ir.kernel import COLUMN, Kernel, Let, Sweep
from fusegen.ir.kernel_walk import used_in
from fusegen.ir.monoid import Best, Folded, KBest, Moving, Own

_PAIRED = {C_TYPES[n] for n in PAIR_TYPES}


def needed(sweep: Sweep, exprs: Iterable[Expr]) -> tuple[list[str], list[Let]]:
    """Sources, by name, and lets, in order, that these element expressions use."""
    wanted, lets = used_in(sweep, exprs)
    return [s.name for s in sweep.loads if s.name in wanted], lets


def sought(sweep: Sweep) -> list[Best]:
    """Values that were loaded: the best of them is found first, and its column then, which is less
    than to carry a column along."""
    loaded = {s.name for s in sweep.loads}
    return [b for b in sweep.monoid.best if isinstance(b.lift, Var) and b.lift.name in loaded]


class ElementPrinter:
    """Lines inside the loops over a chunk's items."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, sources: Mapping[str, SourceView],
        dialect: CudaDialect, state: StateView | None, paired: bool, keeps: Keeps | None = None,
    ) -> None:
        self.kernel, self.sweep, self.dialect, self.state = kernel, sweep, dialect, state
        self.sources = sources
        self.keeps = keeps or Keeps()  # what stays in registers
        self._sought = sought(sweep)
        self.paired = paired  # does a register hold neighbouring elements of a row?
        # What an element is folded into: its chunk's state, or the row's itself.
        self.into = "state" if state and state.pivots_first else "chunk"

    def item_lines(self, exprs: list[Expr], *, made: bool = False) -> list[Line]:
        """The sources and lets that an item needs, as declarations inside the item loop; `made`:
        a value that is kept is made here."""
        names, lets = needed(self.sweep, exprs)
        if made and self.keeps.value and TERM.name in names:
            return self._made(names, lets)
        return [*(self.sources[n].item for n in names), *map(self._let, lets)]

    def _made(self, names: Sequence[str], lets: Sequence[Let]) -> list[Line]:
        """Likewise, where a value is made that later sweeps need again: all that is loaded, what it
        is made of, the value itself, and then what else there is, which may be made of it."""
        *own, last = self.keeps.value
        loaded = {*names, *self.keeps.loads} - {TERM.name}
        lines = [self.sources[s.name].item for s in self.sweep.loads if s.name in loaded]
        lines += [*map(self._let, own), *self._kept(last.expr, last.note)]
        done = {let.name for let in own}
        return lines + [self._let(let) for let in lets if let.name not in done]

    def _let(self, let: Let) -> Line:
        return self.dialect.let(let.name, let.expr, let.note)

    def _kept(self, value: Expr, note: str = "") -> list[Line]:
        return [self.dialect.let(TERM.name, value, note),
                Line(f"{ITEMS}.set(i, {TERM.name});", frozenset([TERM.name, ITEMS]))]

    def pairs(self, lift: Expr) -> str:
        """Items of 16 bits, if these values are just what was loaded; or "". Two of them are
        compared at a time."""
        source = self.sources.get(lift.name) if isinstance(lift, Var) else None
        if source is None or source.load is None or not self.paired:
            return ""
        narrow = source.load.type in _PAIRED
        return f"{source.name}_items" if narrow and self.dialect.real == "float" else ""

    def fold_pairs(self, lists: tuple[ListView, ...]) -> list[Line]:
        """The greatest of a chunk's items, found two at a time."""
        peaks = [(c.lift, v.peak) for c, v in self._own_peaks(lists)]
        maxima = [(f.lift, f"{self.into}.{f.name}") for f in self.sweep.monoid.folded
                  if f.fold == "max"]
        best = [(b.lift, f"{self.into}.{b.value}") for b in self._sought
                if b.largest and not self.sweep.monoid.folded_as(b)]
        found = [(place, self.pairs(lift)) for lift, place in (*maxima, *best, *peaks)]
        if any(items for _, items in found):
            self.dialect.use("greater_of")
        joins = "greater_of({}, {})" if self.into == "state" else "{1}"
        return [Line(f"{place} = {joins.format(place, f'greatest_item({items}, live)')};",
                     frozenset([items])) for place, items in found if items]

    def _own_peaks(self, lists: tuple[ListView, ...]) -> list[tuple[KBest, ListView]]:
        both = zip(self.sweep.monoid.lists, lists, strict=True)
        return [(c, v) for c, v in both if v.own_peak]

    def folds(self, lists: tuple[ListView, ...]) -> tuple[list[Line], tuple[Line, ...]]:
        """What needs no pivot, and declarations of row values that it divides by."""
        return self.dialect.divided(partial(self.fold_lines, lists))

    def fold_lines(self, lists: tuple[ListView, ...]) -> list[Line]:
        monoid = self.sweep.monoid
        peaks = [(c, v) for c, v in self._own_peaks(lists) if not self.pairs(c.lift)]
        folded = [f for f in monoid.folded if f.fold != "max" or not self.pairs(f.lift)]
        if self.into == "state":
            folded = [f for f in folded if not f.counts]
        valued = [b for b in self._sought
                  if not self.sweep.monoid.folded_as(b) and not (b.largest and self.pairs(b.lift))]
        compared = [b for b in monoid.best if b not in self._sought]
        read: list[Folded | Best | KBest] = [*folded, *valued, *compared, *(c for c, _ in peaks)]
        exprs = [c.lift for c in read] + [lift for o in monoid.own for lift in o.lifts]
        if not exprs:
            return []
        lines = self.item_lines(exprs, made=True)
        for f in folded:
            place, value = f"{self.into}.{f.name}", self.dialect.text(f.lift)
            taken = taken_in(f, place, value, self.dialect.use)
            lines.append(self.dialect.line(taken, f.lift))
        for b in valued:
            better = self.dialect.use("greater_of" if b.largest else "lesser_of")
            value = f"{better}({self.into}.{b.value}, {self.dialect.text(b.lift)})"
            lines.append(self.dialect.line(f"{self.into}.{b.value} = {value};", b.lift))
        for b in compared:
            lines += self._ahead(b)
        notes = dict(self.sweep.notes)
        for o in monoid.own:
            lines += own_lines(o, notes.get(o.name, ""), self.dialect)
        for c, v in peaks:
            joined = f"{self.dialect.use('greater_of')}({v.peak}, {self.dialect.text(c.lift)})"
            lines.append(self.dialect.line(f"{v.peak} = {joined};", c.lift))
        return lines

    # ---- the best item ----
    def searches(self) -> list[SearchView]:
        return [SearchView(
            name=b.name, value=b.value, same=self.sweep.monoid.folded_as(b),
            order="<" if b.largest else ">",
            lines=tuple(self.item_lines([b.lift])), item=self.dialect.text(b.lift),
            pairs=self.pairs(b.lift) if b.largest else "",
        ) for b in self._sought]

    def _ahead(self, best: Best) -> list[Line]:
        """An item takes the place of the chunk's best if it is better."""
        order = self.dialect.use("above" if best.largest else "below")
        value = self.dialect.text(best.lift)
        known = f"{self.into}.{best.value}", f"{self.into}.{best.name}"
        ahead = f"{order}({value}, column, {', '.join(known)})"
        then = [self.dialect.line(f"{known[0]} = {value};", best.lift),
                self.dialect.line(f"{known[1]} = column;", COLUMN)]
        return [self.dialect.line(f"if ({ahead}) {{", best.lift, COLUMN), *inside(then), Line("}")]

    def lifts(self, known_divisors: Iterable[Line]) -> list[LiftView]:
        """How the chunk's moving sums are made, level by level: in one function, with what else is
        folded, or each in one of its own, which then has to know the pivots of earlier ones, too,
        and makes the divisors that it needs."""
        monoid, apart = self.sweep.monoid, self.into == "state"
        views = self.state.levels if self.state else ()
        found: list[LiftView] = []
        declared = {d.declares for d in known_divisors}
        known: list[str] = []
        for level, view in zip(monoid.levels, views, strict=True):
            lines, divisors = self.dialect.divided(partial(self.lift_lines, level.moving))
            own = [p.anchor for p in level.pivots]
            used = uses_of([*lines, *divisors]) if apart else set()
            anchors = [*(name for name in known if name in used), *own]
            found.append(LiftView(
                tag=f"{view.tag}{{}}" if view.tag else "", suffix=view.suffix, about=view.about,
                lines=tuple(lines),
                divisors=tuple(d for d in divisors if apart or d.declares not in declared),
                anchors=tuple((name, f"{name}_of(state)") for name in anchors),
            ))
            declared |= {d.declares for d in divisors}
            known += own
        return found

    def lift_lines(
        self, moving: Sequence[Moving], put: Sequence[tuple[str, Expr]] = ()
    ) -> list[Line]:
        """Items added to sums, and values that are put in places."""
        monoid = self.sweep.monoid
        lifts = [*(m.lift for m in moving), *(value for _, value in put)]
        used = {n for lift in lifts for n in variables(lift)}
        relatives = [r for r in monoid.relatives if r.name in used]
        lines = self.item_lines([*(r.atom for r in relatives), *lifts])
        for r in relatives:
            u = monoid.relative(r, lambda n: Var(monoid.pivot(n).anchor))
            self.dialect.nearly = True  # sums that this goes to are multiplied by the pivot again
            text = f"const {self.dialect.real} {r.name} = {self.dialect.text(u)};"
            self.dialect.nearly = False
            lines.append(self.dialect.line(text, u, declares=r.name))
        summed = [(m.name, m.lift) for m in moving]
        if self.keeps.relative in {r.name for r in relatives}:
            term = term_of(self.keeps.relative)  # with all digits that results need
            lines += self._kept(term)
            summed = [(name, replaced(lift, {term: TERM})) for name, lift in summed]
        with self.dialect.terms(below_pivots(monoid)):
            lines += [self.dialect.line(f"state.{name} += {self.dialect.text(lift)};", lift)
                      for name, lift in summed]
            lines += [self.dialect.line(f"{place} = {self.dialect.text(value)};", value)
                      for place, value in put]
        return lines

    def store_lines(self) -> list[Line]:
        stores = self.sweep.element_stores
        if not stores:
            return []
        lines = self.item_lines([s.value for s in stores])
        for s in stores:
            dtype = self.kernel.param(s.param).dtype
            # A last digit of 24 is seen in one of some thousand results of 8 or 11.
            self.dialect.narrowed = s.value if dtype.name in PAIR_TYPES else None
            shown = self.dialect.stored(s.value, dtype)
            self.dialect.narrowed = None
            text = f"{s.param}_items.set(i, {shown});"
            lines.append(self.dialect.line(text, s.value, note=s.note))
        return lines

    def row_values(self) -> list[tuple[str, str]]:
        """Row values that element expressions use, in order of first use."""
        monoid, lets = self.sweep.monoid, (*self.sweep.lets, *self.keeps.value)
        exprs: list[Expr] = [let.expr for let in lets]
        exprs += [c.lift for c in monoid.components if not isinstance(c, Own)]
        exprs += [lift for o in monoid.own for lift in o.lifts]
        exprs += [e for r in monoid.relatives for e in (r.atom, r.factor)]
        exprs += [s.value for s in self.sweep.element_stores]
        exprs += [Var(name) for name in monoid.held]
        local = {r.name for r in monoid.relatives} | {let.name for let in lets}
        found: dict[str, str] = {}
        for expr in exprs:
            for var in variables(expr).values():
                if not var.varying and var.name not in local and var.name != "n_cols":
                    found.setdefault(var.name, self.dialect.type_of_value(var.name, var.kind))
        return [(kind, name) for name, kind in found.items()]
