"""From a sweep of the Kernel IR to what the templates print of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from fusegen.emit.comments import code, noted
from fusegen.emit.cuda.dialect import C_TYPES, CudaDialect
from fusegen.emit.cuda.elements import ElementPrinter, needed
from fusegen.emit.cuda.meeting import meeting_arguments, meeting_array, reduce_function
from fusegen.emit.cuda.rows import array_name, body_of, early_steps, pointer_of, step_lines
from fusegen.emit.cuda.short_lists import short_list
from fusegen.emit.cuda.state import lowest, state_view
from fusegen.emit.cuda.views import ListView, LoadView, SweepView
from fusegen.emit.printer import show
from fusegen.kernel import Kernel, Param, Step, Sweep
from fusegen.monoid import KBest
from fusegen.ops import OPS
from fusegen.schedule.cuda import CudaSchedule
from fusegen.schedule.launch import kept_params
from fusegen.schedule.topk import ListPlan, in_device_memory, list_plan


class SweepPrinter:
    """Builds the view of one sweep of one kernel."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, schedule: CudaSchedule, dialect: CudaDialect, state: str
    ) -> None:
        self.kernel, self.sweep, self.schedule, self.dialect = kernel, sweep, schedule, dialect
        several = sum(s.monoid.has_scalars for s in kernel.sweeps) > 1
        self.total = f"state{sweep.number}" if several else "state"
        self.column_type = "long long" if schedule.wide_columns else "int"
        self.state = (
            state_view(sweep, state, dialect, self.column_type)
            if sweep.monoid.has_scalars else None
        )  # fmt: skip
        paired = schedule.strip is None and schedule.width % 2 == 0 and schedule.target.ampere
        self.elements = ElementPrinter(kernel, sweep, dialect, self.state, paired)

    def view(self) -> SweepView:
        sweep = self.sweep
        lists = tuple(self._list(c) for c in sweep.monoid.lists)
        loads = tuple(self._load(self.kernel.param(n)) for n in sweep.loads)
        folded = tuple(self.elements.fold_lines(lists))
        pairs = tuple(self.elements.fold_pairs(lists))
        lifts = tuple(self.elements.lifts())
        stored, map_divisors = self.dialect.divided(self.elements.store_lines)
        found = SweepView(
            number=sweep.number, first=sweep is self.kernel.sweeps[0],
            last=sweep is self._last(),
            items=self.schedule.items, algorithm=sweep.algorithm,
            state=self.state, total=self.total, part=f"part_of_{self.total}",
            reduce=reduce_function(self.schedule),
            meeting=meeting_arguments(self.schedule, sweep.number),
            meeting_array=meeting_array(self.schedule, sweep.number, bool(lists)),
            loads=loads,
            brings=tuple(ln for ld in loads for ln in self._bring(ld) if not self._early(ld)),
            held=tuple(ln for ld in loads for ln in self._held(ld)),
            ahead=tuple(ld for ld in loads if self._early(ld)), ahead_next=(),
            fold_params=(), fold_args="", edge_fold_args="", fold_lines=folded, fold_pairs=pairs,
            lifts=lifts,
            map_params=(), map_args="", edge_map_args="",
            map_divisors=map_divisors, store_lines=tuple(stored),
            stores=tuple(self._stores()), lists=lists, steps=tuple(self._steps(self._late_steps())),
            row_stores=tuple(self._row_stores()),
            list_stores=tuple(self._list_stores({v.name: v for v in lists})),
        )  # fmt: skip
        return self._with_functions(found)

    def _last(self) -> Sweep:
        """The last one that looks at the row; one of them all where none does."""
        sweeps = self.kernel.sweeps
        return ([s for s in sweeps if s.loads or s.element_stores] or [*sweeps])[-1]

    # ---- functions ----

    def _with_functions(self, view: SweepView) -> SweepView:
        """Parameters and arguments of the fold and of the map: only what their lines use."""
        lifted = [ln for lift in view.lifts for ln in (*lift.divisors, *lift.lines)]
        fold = [f"{view.state.name}& state"] if view.state else []
        state = "tile_state" if view.state and view.state.ordered else f"folded{view.number}"
        fold_args = [state] if view.state else []
        peaks = [(f"{t.value_type}& {t.name}_peak_out", f"{t.name}_peak")
                 for t in view.streamed_lists]  # fmt: skip
        fold += [p for p, _ in peaks]
        fold_args += [a for _, a in peaks]
        used, args, edges = self._used(
            [*view.fold_lines, *view.fold_pairs, *lifted], view.fold_columns
        )
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
        words = set(re.findall(r"\w+", code("\n".join(lines))))
        params, args, edges = [], [], []
        for name in self.sweep.loads:
            if f"{name}_items" in words:
                dtype = self.kernel.param(name).dtype
                kind, constant = C_TYPES[dtype.name], "const " if dtype.itemsize >= 4 else ""
                params.append(f"{constant}Items<{kind}, kCount>& {name}_items")
                args.append(f"{name}_items")
                edges.append(f"{name}_edge")
        for kind, name in self.elements.row_values():
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
            edges.append("[&](int) { return edge; }")
        return params, args, edges

    # ---- elements ----

    def _load(self, param: Param) -> LoadView:
        apart = param.shape == "per_column" and self.schedule.load == "peeled"
        kept = param in kept_params(self.kernel, self.schedule)
        brought = {"registers": "", "shared": "fetch_slice", "chip": "fetch_slice"}
        return LoadView(
            type=C_TYPES[param.dtype.name], name=param.name, pointer=pointer_of(param), kept=kept,
            body=body_of(param, self.schedule), narrow=param.dtype.itemsize < 4,
            # Rows may start off a vector boundary; the shared row of columns then does not follow.
            loader=brought[self.schedule.home] if kept else "load_columns" if apart
            else "fetch_chunk" if self.schedule.stages and param.shape == "element"
            else "load_items",
        )  # fmt: skip

    def _early(self, load: LoadView) -> bool:
        """Does a chunk of this array come while the one before it is worked on?"""
        shared = self.kernel.param(load.name).shape == "per_column"
        later = self.sweep is not self.kernel.sweeps[0]
        return self.schedule.ahead and shared and later and load.loader == "load_items"

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
            "fetch_chunk": f"read_items({items}, {load.name}_ring, slot, live)",
        }[load.loader]  # fmt: skip
        return [f"Items<{load.type}, kItems> {items};", f"{filled};"]

    @property
    def _origin(self) -> str:
        """The first vector that is in shared memory."""
        return "rest" if self.schedule.home == "chip" else "begin"

    def _held(self, load: LoadView) -> list[str]:
        """As _bring, of the chunk in registers, where the rest of a row is elsewhere."""
        if self.schedule.home != "chip":
            return []
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
            body = body_of(param, self.schedule)
            yield C_TYPES[param.dtype.name], s.param, f"{s.param}_items", body

    # ---- lists ----

    def _list(self, best: KBest) -> ListView:
        same = next(
            (f for f in self.sweep.monoid.folded if f.fold == "max" and f.lift == best.lift), None
        )
        plan = list_plan(self.kernel, best, self.schedule)
        if plan.groups:
            self.dialect.use("greater_of")
        order: str = plan.key.order
        if order == "FloatOrder":
            order += f"<{plan.key.spare}>"
        lines = tuple(self._candidate_lines(best, ring=False))
        short = None
        if self.schedule.lists != "streamed":
            loads = [self._load(self.kernel.param(n)) for n in needed(self.sweep, [best.lift])[0]]
            brings = [ln for ld in loads for ln in self._bring(ld)]
            short = short_list(self.kernel, best, self.schedule, self.dialect, order, brings, lines)
        return ListView(
            name=best.name, k=best.k, way=self.schedule.lists, plan=plan, short=short,
            value_type=self.dialect.type_of(best.kind),
            key="WideKey" if plan.key.wide else "unsigned long long",
            keys=short.keys if short
            else f"{'WideKeys' if plan.key.wide else 'PackedKeys'}<{order}>",
            peak=f"chunk.{same.name}" if same else f"{best.name}_peak",
            own_peak=same is None and short is None, lines=lines,
            ring_lines=tuple(self._candidate_lines(best, ring=True)),
            item_lines=tuple(self.elements.item_lines([best.lift])),
            vector_lines=tuple(self._vector_lines(best)),
            value=show(best.lift, self.dialect, OPS["lt"].precedence + 1),  # it is compared
            pairs=self.elements.pairs(best.lift),
            spilled=in_device_memory(self.kernel, self.schedule), memory=self._memory(best, plan),
            worst=lowest(best.kind, self.dialect),
            finite=self.dialect.use("kInfinity") if best.kind == "float" else "",
        )  # fmt: skip

    def _memory(self, best: KBest, plan: ListPlan) -> str:
        several = self.schedule.rows_per_block > 1
        owner = f"(blockIdx.x * kRowsPerBlock{' + team' if several else ''})"
        return f"{best.name}_slots + {owner} * {plan.slots}LL"

    def _candidate_lines(self, best: KBest, *, ring: bool) -> list[str]:
        loads, lets = needed(self.sweep, [best.lift])
        lines = []
        for n in loads:
            param = self.kernel.param(n)
            kind = self.dialect.type_of(param.dtype.kind)
            there = ring and param.shape == "element"
            place = f"{n}_ring[place]" if there else f"{pointer_of(param)}[column]"
            raw = self.dialect.load(place, param.dtype)
            lines.append(f"const {kind} {n} = {raw};")
        return lines + [self.elements.let(let) for let in lets]

    def _vector_lines(self, best: KBest) -> list[str]:
        lines = []
        for load in (self._load(self.kernel.param(n)) for n in needed(self.sweep, [best.lift])[0]):
            items, aside = f"{load.name}_items", "<false>" if self.schedule.past_l1 else ""
            lines.append(f"Items<{load.type}, kWidth> {items};")
            if load.loader == "load_columns":
                column_of = "[&](int i) { return first + i; }"
                lines.append(f"load_columns({items}, {load.pointer}, {column_of}, 1);")
            else:
                lines.append(f"load_vector{aside}({items}, 0, {load.body} + vector * kWidth);")
        return lines

    # ---- row scope ----

    def _late_steps(self) -> list[Step]:
        early = early_steps(self.kernel) if self.sweep is self.kernel.sweeps[0] else ()
        return [s for s in self.sweep.steps if s not in early]

    def _steps(self, steps: Iterable[Step]) -> list[str]:
        self.dialect.state = self.total
        return step_lines(steps, self.kernel, self.dialect, self.schedule.lists)

    def _row_stores(self) -> list[str]:
        self.dialect.state = self.total
        lines = []
        for s in self.sweep.row_stores:
            dtype = self.kernel.param(s.param).dtype
            value = self.dialect.store(self.dialect.text(s.value), s.value.kind, dtype)
            array = array_name(self.kernel.param(s.param))
            lines.append(noted(f"{array}[row] = {value};", s.note))
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
            text, divisors = self.dialect.divided(partial(self.dialect.text, s.value))
            lines += [ln for ln in divisors if ln not in lines]
            value = self.dialect.store(text, s.value.kind, dtype)
            array = array_name(self.kernel.param(s.param))
            lines.append(noted(f"{array}[row * {s.entries.k} + entry] = {value};", s.note))
        return [(lists[name], tuple(lines)) for name, lines in grouped.items()]
