"""Short rows abreast: one in every lane, so that whatever is computed of a row is computed of a
whole vector of rows, and nothing is folded across lanes.

Their elements are turned into tiles, a vector for each column. A row is folded column by column,
also where it is alone: what it comes to does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fusegen.backend.cpu.abreast import Room, room_abreast
from fusegen.backend.cpu.emit.dialect import C_TYPES, CpuDialect
from fusegen.backend.cpu.emit.memory import load, store
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.peaks import Peaks
from fusegen.backend.cpu.emit.phases import is_extreme, joined, lanes_of_fold, no_sum, nothing
from fusegen.backend.cpu.emit.scope import RowScope, sweep_exprs
from fusegen.backend.cpu.emit.state import anchor_text, identity_of, is_count
from fusegen.backend.cpu.schedule import CpuSchedule
from fusegen.backend.emit.comments import noted
from fusegen.backend.emit.folds import taken_in
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.terms import below_pivots
from fusegen.ir.dtypes import DType
from fusegen.ir.expr import Expr, Var, variables
from fusegen.ir.kernel import N_COLS, Kernel, Let, Sweep
from fusegen.ir.kernel_walk import used_in, with_values
from fusegen.ir.monoid import Best, Folded, KBest, Level


@dataclass(frozen=True)
class Tile:
    """An array whose elements stand in tiles, and how a vector of one row's is read."""

    name: str
    load: str


@dataclass(frozen=True)
class AbreastView:
    """What the partial prints."""

    tiles: tuple[Tile, ...]
    room: Room
    fields: tuple[tuple[str, str], ...]  # of the rows' states: types and names
    lines: tuple[str, ...]


def abreast_view(
    kernel: Kernel, scope: RowScope, lanes: CpuDialect, schedule: CpuSchedule
) -> AbreastView | None:
    """None where rows of the kernel cannot stand abreast, or are folded in shorter chunks."""
    room = room_abreast(kernel, schedule)
    return None if room is None else _Printer(kernel, scope, lanes).view(room)


class _Printer:
    """Statements over vectors of rows. What is one per row varies from lane to lane."""

    def __init__(self, kernel: Kernel, scope: RowScope, lanes: CpuDialect) -> None:
        own = replace(lanes, partly=False, leaders=scope.dialect.leaders)
        self.kernel, self.scope, self.lanes = kernel, scope, own
        # A pivot is the same number where sums are about it and where they are read out.
        self.row = replace(own, exact=True)
        self.sweep = _varying(kernel, kernel.sweeps[0])
        self.monoid = self.sweep.monoid
        self.notes = dict(self.sweep.notes)
        self.ranked: tuple[Best | KBest, ...] = (*self.monoid.best, *self.monoid.lists)
        self.peaks = Peaks(self.monoid, self.ranked)

    def view(self, room: Room) -> AbreastView:
        folds = [*self._folds()]
        for number, level in enumerate(self.monoid.levels):
            folds += self._level(number, level)
        folds += self._ranked()
        lines = [str(ln) for ln in self.scope.locals(sweep_exprs(self.sweep))]
        lines += ["{", *(f"    {line}" for line in folds), "}"]
        lines += [str(self._let(step)) for step in self.sweep.steps if isinstance(step, Let)]
        lines += self._stores()
        return AbreastView(
            tiles=tuple(Tile(n, self._load(n)) for n in self.sweep.streams),
            room=room, fields=tuple(self._fields()),
            lines=tuple(lines),
        )

    def _load(self, name: str) -> str:
        row = replace(self.lanes, partly=True)
        return load(self.kernel.param(name).dtype, f"rows[i].{name} + col", row)

    def _fields(self) -> Iterator[tuple[str, str]]:
        for f in self.monoid.folded:
            yield self.lanes.type_in(f.kind), f.name
        for m in self.monoid.moving:
            yield self.lanes.type_in(m.kind), m.name
        for b in self.monoid.best:
            yield f"{fg('leaders')}<V>", b.name
        for k in self.monoid.lists:
            yield f"{fg('best_lists')}<V, {k.k}>", k.name

    # ---- folds ----

    def _folds(self) -> Iterator[str]:
        folded = [f for f in self.monoid.folded if not is_count(f)]
        todo = [*folded, *self.peaks.owns]
        for f in todo:
            yield nothing(f, self.lanes.type_in(f.kind), identity_of(f, self.scope.dialect),
                          by_turns=True, in_runs="true")
        if todo:
            sums = [f.name for f in folded if f.fold == "sum"]
            yield from self._loop([f.lift for f in todo], map(self._next, todo), sums)
        for f in self.monoid.folded:
            both = joined(f, by_turns=True)
            count = f"{fg('all')}<V>({self.lanes.real}(arrays.n_cols))"
            value = count if is_count(f) else f"{both}.each()" if is_extreme(f) else both
            yield f"const {self.lanes.type_in(f.kind)} {f.name} = state.{f.name} = {value};"

    def _next(self, f: Folded) -> str:
        place, lift = lanes_of_fold(f.name, by_turns=True), self.lanes.text(f.lift)
        taken = f"{place}.take({lift});" if is_extreme(f) else taken_in(f, place, lift, fg)
        return noted(taken, self.notes.get(f.name, ""))

    def _level(self, number: int, level: Level) -> Iterator[str]:
        """Pivots that are known now, and the sums relative to them."""
        for p in level.pivots:
            yield f"const V {p.anchor} = {anchor_text(p, self.row)};"
        if not level.moving:
            return
        lanes = replace(self.lanes, below=below_pivots(self.monoid))
        used = {n for m in level.moving for n in variables(m.lift)}
        relatives = [r for r in self.monoid.relatives if r.name in used]
        for m in level.moving:
            yield no_sum(self.lanes.type_in(m.kind), m.name, by_turns=True, in_runs="true")
        steps = []
        for r in relatives:
            u = self.monoid.relative(r, lambda n: Var(self.monoid.pivot(n).anchor, varying=True))
            steps.append(f"const V {r.name} = {self.lanes.text(u)};")
        for m in level.moving:
            added = f"{lanes_of_fold(m.name, by_turns=True)} += {lanes.text(m.lift)};"
            steps.append(noted(added, self.notes.get(m.name, "")))
        lifts = [m.lift for m in level.moving]
        yield from self._loop([*lifts, *(r.atom for r in relatives)], steps,
                              [m.name for m in level.moving])
        last = number + 1 == len(self.monoid.levels)
        for m in level.moving:
            known = "" if last else f"const {self.lanes.type_in(m.kind)} {m.name} = "
            yield f"{known}state.{m.name} = {m.name}_lanes.each();"

    def _loop(
        self, exprs: Iterable[Expr], steps: Iterable[str], sums: Iterable[str]
    ) -> Iterator[str]:
        """Over the columns, two folds by turns."""
        yield (f"{fg('each_by_turns')}<{self.lanes.real}>(0, arrays.n_cols, "
               "[&](int64_t col, auto, auto turn) {")
        yield from (f"    {line}" for line in (*self._items(exprs), *steps))
        yield f"}}{''.join(f', {name}_lanes' for name in sums)});"

    def _items(self, exprs: Iterable[Expr]) -> Iterator[str]:
        """Sources and lets, in order, that these element expressions use."""
        wanted, lets = used_in(self.sweep, exprs)
        for name in self.sweep.streams:
            if name in wanted:
                yield f"const V {name} = {fg('fetch')}<V>({name}_tile + col * {fg('width')}<V>);"
        yield from (str(self._let(let)) for let in lets)

    def _let(self, let: Let) -> Line:
        return self.row.let(let.name, let.expr, let.note)

    # ---- the best ----

    def _ranked(self) -> Iterator[str]:
        for c in self.ranked:
            peak = joined(self.peaks.fold(c), by_turns=True)
            yield (f"state.{c.name}.find({peak}, together, arrays.n_cols, "
                   "[&](int64_t col) {")
            yield from (f"    {line}" for line in self._items([c.lift]))
            yield "    " + noted(f"return {self.lanes.text(c.lift)};", self.notes.get(c.name, ""))
            yield "});"

    # ---- stores ----

    def _stores(self) -> Iterator[str]:
        for row_store in self.sweep.row_stores:
            yield from self._handed(row_store.param, "", row_store.value, row_store.note)
        for list_store in self.sweep.list_stores:
            top, entries = list_store.entries.top, list_store.entries
            yield f"for (int64_t entry = 0; entry < {entries.k}; ++entry) {{"
            used = {n for e in (list_store.value, *(s.expr for s in entries.steps
                                                    if isinstance(s, Let))) for n in variables(e)}
            best = next(c for c in self.monoid.lists if c.name == top)
            if best.value in used:
                yield f"    const V {best.value} = state.{top}.values[entry];"
            if best.column in used:
                yield f"    const {fg('whole')}<V> {best.column} = state.{top}.columns[entry];"
            yield from (f"    {self._let(s)}" for s in entries.steps if isinstance(s, Let))
            handed = self._handed(list_store.param, "[entry]", list_store.value, list_store.note)
            yield from (f"    {line}" for line in handed)
            yield "}"

    def _handed(self, name: str, entry: str, value: Expr, note: str) -> Iterator[str]:
        """A result to every row that has one."""
        dtype: DType = self.kernel.param(name).dtype
        place = f"rows[i].{name}{entry}" if entry else f"*rows[i].{name}"
        stored = store(dtype, f"{name}_lanes", self.row.text(value), self.row)
        yield from (
            "{", f"    {C_TYPES[dtype.name]} {name}_lanes[{fg('width')}<V>];",
            f"    {noted(stored, note)}", "    for (int64_t i = 0; i < together; ++i)",
            f"        {place} = {name}_lanes[i];", "}",
        )


def _varying(kernel: Kernel, sweep: Sweep) -> Sweep:
    """The sweep with row values that vary as elements do; numbers of the call do not."""
    same = {N_COLS.name, *(p.name for p in kernel.params if p.shape == "scalar")}
    names: dict[str, Expr] = {}
    for e in (*sweep_exprs(sweep), *(p.value for p in sweep.monoid.pivots)):
        for name, var in variables(e).items():
            if name not in same:
                names[name] = replace(var, varying=True)
    found: Sweep = with_values(sweep, names)
    return found
