"""From a sweep of the Kernel IR to what the templates print of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from fusegen.emit.cuda.dialect import C_TYPES, CudaDialect, divisor_name
from fusegen.emit.cuda.own import fold_lines as own_lines
from fusegen.emit.cuda.rows import array_name, body_of, pointer_of, step_lines
from fusegen.emit.cuda.state import folded_into, lowest, state_view
from fusegen.emit.cuda.views import LiftView, ListView, LoadView, SweepView
from fusegen.expr import Expr, Var, variables
from fusegen.kernel import Kernel, Let, Param, Step, Sweep
from fusegen.monoid import Best, Folded, KBest, Moving, Own
from fusegen.schedule.cuda import CudaSchedule
from fusegen.schedule.launch import in_device_memory, kept_params


def needed(sweep: Sweep, exprs: Iterable[Expr]) -> tuple[list[str], list[Let]]:
    """Loads and lets, in order, that these element expressions use."""
    wanted: set[str] = {n for e in exprs for n in variables(e)}
    lets: list[Let] = []
    for let in reversed(sweep.lets):
        if let.name in wanted:
            lets.insert(0, let)
            wanted |= set(variables(let.expr))
    return [n for n in sweep.loads if n in wanted], lets



class SweepPrinter:
    """Builds the view of one sweep of one kernel."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, schedule: CudaSchedule, dialect: CudaDialect, state: str
    ) -> None:
        self.kernel, self.sweep, self.schedule, self.dialect = kernel, sweep, schedule, dialect
        several = sum(s.monoid.has_scalars for s in kernel.sweeps) > 1
        self.total = f"state{sweep.number}" if several else "state"
        self.column_type = "long long" if schedule.wide_columns else "int"
        self._listed = {n for c in sweep.monoid.lists for n in needed(sweep, [c.lift])[0]}
        self.state = (
            state_view(sweep, state, dialect, self.column_type)
            if sweep.monoid.has_scalars else None
        )  # fmt: skip

    def view(self) -> SweepView:
        sweep = self.sweep
        lists = tuple(self._list(c) for c in sweep.monoid.lists)
        loads = tuple(self._load(self.kernel.param(n)) for n in sweep.loads)
        folded = tuple(self._fold_lines(lists))
        lifts = tuple(self._lifts())
        stored, map_divisors = self._divided(self._store_lines)
        found = SweepView(
            number=sweep.number, first=sweep is self.kernel.sweeps[0],
            last=sweep is [s for s in self.kernel.sweeps if s.loads or s.element_stores][-1],
            items=self.schedule.items, algorithm=sweep.algorithm,
            state=self.state, total=self.total, part=f"part_of_{self.total}",
            reduce=self._reduce(), meeting=self._meeting(), meeting_array=self._meeting_array(),
            loads=loads, brings=tuple(ln for ld in loads for ln in self._bring(ld)),
            held=tuple(ln for ld in loads for ln in self._held(ld)),
            fold_params=(), fold_args="", edge_fold_args="", fold_lines=folded, lifts=lifts,
            map_params=(), map_args="", edge_map_args="",
            map_divisors=map_divisors, store_lines=stored,
            stores=tuple(self._stores()), lists=lists, steps=tuple(self._steps(sweep.steps)),
            row_stores=tuple(self._row_stores()),
            list_stores=tuple(self._list_stores({v.name: v for v in lists})),
        )  # fmt: skip
        return self._with_functions(found)

    # ---- where warps and blocks meet ----

    def _reduce(self) -> str:
        together = self.schedule.steady
        return {
            "lanes": "lanes_reduce<kTeam>", "block": "block_reduce", "cluster": "cluster_reduce",
            "grid": "grid_reduce" if together else "block_reduce",
        }[self.schedule.team]  # fmt: skip

    def _meeting(self) -> str:
        """Arguments of the reduction but the first, each with its comma."""
        if self.schedule.team == "lanes":
            return ""
        steady = self.schedule.steady
        place = f", meeting{self.sweep.number}{'[parity]' if steady else ''}"
        if self.schedule.team != "grid" or not steady:
            return place
        team = "blockIdx.x / blocks"
        return (f"{place}, partial_states + ({team} * 2 + parity) * blocks, "
                f"tickets + {team}, blocks, slice")  # fmt: skip

    def _meeting_array(self) -> str:
        if self.schedule.team == "lanes":
            return ""
        size = "16 * kMostThreads / 32" if self.schedule.team == "cluster" else "kMostThreads / 32"
        rows = "[2]" if self.schedule.steady else ""
        return f"meeting{self.sweep.number}{rows}[{size}]"

    # ---- functions ----

    def _with_functions(self, view: SweepView) -> SweepView:
        """Parameters and arguments of the fold and of the map: only what their lines use."""
        lifted = [ln for lift in view.lifts for ln in (*lift.divisors, *lift.lines)]
        fold = [f"{view.state.name}& state"] if view.state else []
        state = "tile_state" if view.state and view.state.ordered else f"folded{view.number}"
        fold_args = [state] if view.state else []
        peaks = [(f"{t.value_type}& {t.name}_peak_out", f"{t.name}_peak") for t in view.lists]
        fold += [p for p, _ in peaks]
        fold_args += [a for _, a in peaks]
        used, args, edges = self._used([*view.fold_lines, *lifted], view.fold_columns)
        maps = [f"Items<{kind}, kCount>& {items}" for kind, _, items, _ in view.stores]
        map_args = [items for _, _, items, _ in view.stores]
        map_edges = [f"{param}_edge" for _, param, _, _ in view.stores]
        map_used, map_more, map_edge = self._used(
            [*view.map_divisors, *view.store_lines], view.map_column
        )
        return replace(
            view, fold_params=(*fold, *used), fold_args=", ".join([*fold_args, *args]),
            edge_fold_args=", ".join([*fold_args, *edges]),
            map_params=(*maps, *map_used), map_args=", ".join([*map_args, *map_more]),
            edge_map_args=", ".join([*map_edges, *map_edge]),
        )  # fmt: skip

    def _used(
        self, lines: Iterable[str], columns: bool
    ) -> tuple[list[str], list[str], list[str]]:
        """Parameters, arguments for a chunk, and arguments for an element at the edge."""
        words = set(re.findall(r"\w+", " ".join(lines)))
        params, args, edges = [], [], []
        for name in self.sweep.loads:
            if f"{name}_items" in words:
                dtype = self.kernel.param(name).dtype
                kind, constant = C_TYPES[dtype.name], "const " if dtype.itemsize >= 4 else ""
                params.append(f"{constant}Items<{kind}, kCount>& {name}_items")
                args.append(f"{name}_items")
                edges.append(f"{name}_edge")
        for kind, name in self._row_values():
            if name in words:
                params.append(f"{kind} {name}")
                args.append(name)
                edges.append(name)
        if "n_cols" in words:
            params.append("column_t n_cols")
            args.append("n_cols")
            edges.append("n_cols")
        if columns:
            params.append("const Columns& column_of")
            args.append("column_of")
            edges.append("edge_column")
        return params, args, edges

    # ---- elements ----

    def _load(self, param: Param) -> LoadView:
        apart = param.shape == "per_column" and self.schedule.load == "peeled"
        kept = param in kept_params(self.kernel, self.schedule)
        brought = {"registers": "", "shared": "fetch_slice", "chip": "fetch_slice"}
        return LoadView(
            type=C_TYPES[param.dtype.name], name=param.name, pointer=pointer_of(param), kept=kept,
            narrow=param.dtype.itemsize < 4,
            # Rows may start off a vector boundary; the shared row of columns then does not follow.
            loader=brought[self.schedule.home] if kept else "load_columns" if apart
            else "load_items",
        )  # fmt: skip

    def _bring(self, load: LoadView) -> list[str]:
        """Statements that fetch the items of a chunk of this array."""
        items = f"{load.name}_items"
        if not load.loader:  # in registers already
            later = self.sweep is not self.kernel.sweeps[0]
            return [f"{items}.repack();"] if load.narrow and later else []
        once = self.kernel.param(load.name).shape == "element" and self.schedule.past_l1
        shared = "<true>" if once else ""
        filled = {
            "load_items": f"load_items{shared}({items}, {self._body(load)}, at, live)",
            "load_columns": f"load_columns({items}, {load.pointer}, column_of, live)",
            "fetch_slice": f"read_items({items}, {load.name}_slots, at - {self._origin}, live)",
        }[load.loader]  # fmt: skip
        return [f"Items<{load.type}, kItems> {items};", f"{filled};"]

    @property
    def _origin(self) -> str:
        """The first vector that is in shared memory."""
        return "rest" if self.schedule.home == "chip" else "begin"

    def _held(self, load: LoadView) -> list[str]:
        """As _bring, of the chunk in registers."""
        if not load.kept:
            return self._bring(load)
        items = f"{load.name}_items"
        again = load.narrow and self.sweep is not self.kernel.sweeps[0]
        return [f"auto& {items} = {load.name}_held;", *([f"{items}.repack();"] if again else [])]

    def _body(self, load: LoadView) -> str:
        return body_of(self.kernel.param(load.name), self.schedule)

    def _stores(self) -> Iterable[tuple[str, str, str, str]]:
        for s in self.sweep.element_stores:
            param = self.kernel.param(s.param)
            yield C_TYPES[param.dtype.name], s.param, f"{s.param}_items", body_of(param, self.schedule)

    def _item_lines(self, exprs: list[Expr]) -> list[str]:
        """The loads and lets that an item needs, as declarations inside the item loop."""
        loads, lets = needed(self.sweep, exprs)
        lines = []
        for n in loads:
            dtype = self.kernel.param(n).dtype
            value = self.dialect.load(f"{n}_items[i]", dtype)
            lines.append(f"const {self.dialect.type_of(dtype.kind)} {n} = {value};")
        return lines + [self._let(let) for let in lets]

    def _let(self, let: Let) -> str:
        note = f"  // {let.note}" if let.note else ""
        kind = self.dialect.type_of(let.expr.kind)
        return f"const {kind} {let.name} = {self.dialect.text(let.expr)};{note}"

    def _fold_lines(self, lists: tuple[ListView, ...]) -> list[str]:
        monoid = self.sweep.monoid
        peaks = [c for c, v in zip(monoid.lists, lists, strict=True) if v.own_peak]
        read: list[Folded | Best | KBest] = [*monoid.folded, *monoid.best, *peaks]
        exprs = [c.lift for c in read] + [lift for o in monoid.own for lift in o.lifts]
        if not exprs:
            return []
        lines = self._item_lines(exprs)
        for f in monoid.folded:
            value = self.dialect.text(f.lift)
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
        for c, v in zip(monoid.lists, lists, strict=True):
            if v.own_peak:
                self.dialect.use("greater_of")
                joined = f"greater_of({v.peak}, {self.dialect.text(c.lift)})"
                lines.append(f"{v.peak} = {joined};")
        return lines

    def _lifts(self) -> list[LiftView]:
        """How the chunk's moving sums are made, level by level."""
        monoid = self.sweep.monoid
        views = self.state.levels if self.state else ()
        found: list[LiftView] = []
        declared: set[str] = set()
        for level, view in zip(monoid.levels, views, strict=True):
            lines, divisors = self._divided(partial(self._lift_lines, level.moving))
            found.append(LiftView(
                suffix=view.suffix, lines=lines,
                divisors=tuple(d for d in divisors if d not in declared),
                anchors=tuple((p.anchor, f"{p.anchor}_of(state)") for p in level.pivots),
            ))  # fmt: skip
            declared |= set(divisors)
        return found

    def _divided(
        self, make: Callable[[], list[str]]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Lines for elements, and declarations of the row values that they divide by."""
        self.dialect.divisors = {}
        lines = tuple(make())
        values, self.dialect.divisors = self.dialect.divisors, None
        return lines, tuple(f"const Divisor {divisor_name(v)}({v});" for v in values)

    def _lift_lines(self, moving: Iterable[Moving]) -> list[str]:
        monoid = self.sweep.monoid
        used = {n for m in moving for n in variables(m.lift)}
        relatives = [r for r in monoid.relatives if r.name in used]
        lines = self._item_lines([r.atom for r in relatives] + [m.lift for m in moving])
        for r in relatives:
            u = self.dialect.text(monoid.relative(r, lambda n: Var(monoid.pivot(n).anchor)))
            lines.append(f"const {self.dialect.real} {r.name} = {u};")
        lines += [f"state.{m.name} += {self.dialect.text(m.lift)};" for m in moving]
        return lines

    def _store_lines(self) -> list[str]:
        stores = self.sweep.element_stores
        if not stores:
            return []
        lines = self._item_lines([s.value for s in stores])
        for s in stores:
            dtype = self.kernel.param(s.param).dtype
            shown = self.dialect.store(self.dialect.text(s.value), s.value.kind, dtype)
            note = f"  // {s.note}" if s.note else ""
            lines.append(f"{s.param}_items.set(i, {shown});{note}")
        return lines

    def _row_values(self) -> list[tuple[str, str]]:
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

    # ---- lists ----

    def _list(self, best: KBest) -> ListView:
        same = next(
            (f for f in self.sweep.monoid.folded if f.fold == "max" and f.lift == best.lift), None
        )
        slots = self.schedule.slots(best)
        return ListView(
            name=best.name, k=best.k, slots=slots, value_type=self.dialect.type_of(best.kind),
            peak=f"chunk.{same.name}" if same else f"{best.name}_peak", own_peak=same is None,
            lines=tuple(self._candidate_lines(best)),
            item_lines=tuple(self._item_lines([best.lift])), value=self.dialect.text(best.lift),
            seeded=best.k <= self.schedule.team_threads, bitonic=slots > 1024,
            spilled=in_device_memory(self.kernel, self.schedule), memory=self._memory(best, slots),
            worst=lowest(best.kind, self.dialect),
        )  # fmt: skip

    def _memory(self, best: KBest, slots: int) -> str:
        several = self.schedule.rows_per_block > 1
        if not in_device_memory(self.kernel, self.schedule):
            return f"{best.name}_entries[{'team' if several else '0'}]"
        owner = f"(blockIdx.x * kRowsPerBlock{' + team' if several else ''})"
        return f"{best.name}_slots + {owner} * {slots}LL"

    def _candidate_lines(self, best: KBest) -> list[str]:
        loads, lets = needed(self.sweep, [best.lift])
        lines = []
        for n in loads:
            param = self.kernel.param(n)
            kind = self.dialect.type_of(param.dtype.kind)
            raw = self.dialect.load(f"{pointer_of(param)}[column]", param.dtype)
            lines.append(f"const {kind} {n} = {raw};")
        return lines + [self._let(let) for let in lets]

    # ---- row scope ----

    def _steps(self, steps: Iterable[Step]) -> list[str]:
        self.dialect.state = self.total
        return step_lines(steps, self.kernel, self.dialect)

    def _row_stores(self) -> list[str]:
        self.dialect.state = self.total
        lines = []
        for s in self.sweep.row_stores:
            dtype = self.kernel.param(s.param).dtype
            value = self.dialect.store(self.dialect.text(s.value), s.value.kind, dtype)
            note = f"  // {s.note}" if s.note else ""
            lines.append(f"{array_name(self.kernel.param(s.param))}[row] = {value};{note}")
        return lines

    def _list_stores(
        self, lists: dict[str, ListView]
    ) -> Iterable[tuple[ListView, tuple[str, ...]]]:
        """Stores grouped by list: one loop over the entries each."""
        grouped: dict[str, list[str]] = {}
        for s in self.sweep.list_stores:
            lines = grouped.setdefault(s.entries.top, [])
            lines += [ln for ln in self._steps(s.entries.steps) if ln not in lines]
            dtype = self.kernel.param(s.param).dtype
            value = self.dialect.store(self.dialect.text(s.value), s.value.kind, dtype)
            note = f"  // {s.note}" if s.note else ""
            array = array_name(self.kernel.param(s.param))
            lines.append(f"{array}[row * {s.entries.k} + entry] = {value};{note}")
        return [(lists[name], tuple(lines)) for name, lines in grouped.items()]
