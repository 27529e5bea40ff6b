"""From a sweep of the Kernel IR to what the templates print of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from fusegen.backend.cuda.emit.alike import with_one_text
from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.elements import ElementPrinter, needed, sought
from fusegen.backend.cuda.emit.entries import own_entries
from fusegen.backend.cuda.emit.kept import ITEMS, Keeps
from fusegen.backend.cuda.emit.places import body_of, edge_of, place_in_row
from fusegen.backend.cuda.emit.rows import early_steps, list_stores, owners_of, step_lines
from fusegen.backend.cuda.emit.short_lists import short_list
from fusegen.backend.cuda.emit.sources import Reader, SourceView, printed
from fusegen.backend.cuda.emit.state import lowest, state_view
from fusegen.backend.cuda.emit.views import FunctionView, ListView, SweepView
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.merges import Meeting
from fusegen.backend.cuda.schedule.on_chip import mapped_at_once, pivots_first
from fusegen.backend.cuda.schedule.topk import ListPlan, in_device_memory, list_plan
from fusegen.backend.emit.lines import Line, uses_of
from fusegen.backend.emit.printer import show
from fusegen.backend.emit.terms import TERM
from fusegen.ir.expr import Var
from fusegen.ir.kernel import N_COLS, ROW, Kernel, ListFold, Step, Sweep
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.monoid import KBest
from fusegen.ir.ops import OPS


def found_by_lanes(sweep: Sweep) -> tuple[str, ...]:
    """Members of a state that lanes find once they know the row's best value."""
    best = sought(sweep)
    same = [b.value for b in best if sweep.monoid.folded_as(b)]
    return (*(b.name for b in best), *same)


class SweepPrinter:
    """Builds the view of one sweep of one kernel."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, schedule: CudaSchedule, dialect: CudaDialect,
        state: str, keeps: Keeps | None = None,
    ) -> None:
        self.kernel, self.sweep, self.schedule, self.dialect = kernel, sweep, schedule, dialect
        several = sum(s.monoid.has_scalars for s in kernel.sweeps) > 1
        self.total = f"state{sweep.number}" if several else "state"
        self.column_type = "long long" if schedule.wide_columns else "int"
        self.state = (
            state_view(sweep, state, dialect, self.column_type,
                       found_by_lanes(sweep) if pivots_first(sweep, schedule) else None)
            if sweep.monoid.has_scalars else None
        )
        # Keys of a list are made two at a time, so that elements meet in words anyway.
        meet = schedule.width % 2 == 0 or schedule.lists != "streamed"
        paired = schedule.strip is None and meet and schedule.target.ampere
        reader = Reader(kernel, sweep, schedule, dialect)
        self._owners = owners_of(kernel, schedule, dialect)
        self.edge = edge_of(sweep, kernel, schedule)
        self.sources = {s.name: printed(s, reader) for s in sweep.loads}
        self.keeps = keeps  # what a later sweep needs again
        self.elements = ElementPrinter(kernel, sweep, self.sources, dialect, self.state, paired,
                                       keeps)

    def view(self) -> SweepView:
        sweep = self.sweep
        lists = self._lists()
        sources = tuple(self.sources.values())
        folded, fold_divisors = self.elements.folds(lists)
        lifts = tuple(self.elements.lifts(fold_divisors))
        merge, home = self.schedule.merge, self.schedule.home
        meeting = Meeting(sweep.number, bool(lists), home.steady, self._meets_again())
        waits = bool(lists) or sweep.monoid.ordered
        stored_steps = self._store_steps()
        stored, map_divisors = self.dialect.divided(self.elements.store_lines)
        found = SweepView(
            number=sweep.number, first=sweep is self.kernel.sweeps[0],
            last=sweep is self._last(),
            items=self.schedule.items, keeps=ITEMS if self.keeps else "",
            state=self.state, total=self.total, part=f"part_of_{self.total}",
            visit=home.tiles if home.tiles and waits else home.visit,
            notes=home.notes, meet=merge.meet,
            reduce=merge.function(meeting), meeting=merge.arguments(meeting),
            meeting_array=merge.array(meeting),
            loads=tuple(s.load for s in sources if s.load),
            brings=tuple(b for s in sources if not (s.early or s.asked) for b in s.brings),
            asked=tuple(b for s in sources if s.asked for b in s.brings), asks_next=(),
            held=tuple(b for s in sources for b in s.held),
            stashed=tuple(b for s in sources for b in s.stashed),
            ahead=tuple(s.load for s in sources if s.load and s.early), ahead_next=(),
            edges=tuple(ln for s in sources for ln in s.edge), edge=self.edge,
            fold_params=(), fold_args="", edge_fold_args="", fold_divisors=fold_divisors,
            fold_lines=tuple(folded), fold_pairs=tuple(self.elements.fold_pairs(lists)),
            searches=tuple(self.elements.searches()), find=FunctionView(), lifts=lifts,
            map_params=(), map_args="", edge_map_args="",
            map_divisors=map_divisors, store_lines=tuple(stored),
            stores=tuple(self._stores()), lists=lists,
            at_once=mapped_at_once(sweep, self.kernel, self.schedule),
            steps=tuple(self._steps(s for s in self._late_steps() if s not in stored_steps)),
            store_steps=tuple(self._steps(stored_steps)),
            row_stores=tuple(self._row_stores()),
            list_stores=tuple(self._list_stores()),
        )
        return self._with_functions(found)

    def _meets_again(self) -> bool:
        """Do states meet in one place tile by tile, or row by row?"""
        rows = in_device_memory(self.kernel, self.schedule) and not self.schedule.home.steady
        return rows or self.sweep.monoid.ordered

    def _last(self) -> Sweep:
        """The last one that looks at the row; one of them all where none does."""
        sweeps = self.kernel.sweeps
        return ([s for s in sweeps if s.loads or s.element_stores] or [*sweeps])[-1]

    # ---- functions ----

    def _with_functions(self, view: SweepView) -> SweepView:
        """Parameters and arguments of the fold and of the map: only what their lines use."""
        lifted = [ln for lift in view.lifts for ln in (*lift.divisors, *lift.lines)]
        sought = [ln for s in view.searches for ln in s.lines]
        fold = [f"{view.state.name}& state"] if view.state else []
        state = "tile_state" if view.state and view.state.ordered else f"folded{view.number}"
        fold_args = [view.total if view.pivots_first else state] if view.state else []
        peaks = [(f"{t.value_type}& {t.name}_peak_out", f"{t.name}_peak")
                 for t in view.streamed_lists]
        fold += [p for p, _ in peaks]
        fold_args += [a for _, a in peaks]
        later = [] if view.pivots_first else [*sought, *lifted]
        made = self.keeps is not None and self.keeps.value
        used, args, edges = self._used(
            [*view.fold_divisors, *view.fold_lines, *view.fold_pairs, *later], view.fold_columns,
            view.state.held if view.state else (), [TERM.name] if made else [],
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
            find=self._function(view, sought, columns=True),
            lifts=tuple(replace(ln, call=self._function(view, [*ln.divisors, *ln.lines],
                                                        columns=ln.column)) for ln in view.lifts),
        )

    def _function(self, view: SweepView, lines: Sequence[Line], *, columns: bool) -> FunctionView:
        """Of what is done once lanes know a row's pivots."""
        if not view.pivots_first or view.state is None:
            return FunctionView()
        params, args, edges = self._used(lines, columns)
        if ITEMS in uses_of(lines) and TERM.name not in self.sources:  # it is made here
            params.append(f"Items<{self.dialect.real}, kCount>& {ITEMS}")
            args.append(ITEMS)
            edges.append(f"{TERM.name}_edge")
        return FunctionView((f"{view.state.name}& state", *params), ", ".join([view.total, *args]),
                            ", ".join([view.total, *edges]))

    def _used(
        self, lines: Iterable[Line], columns: bool, held: Iterable[str] = (),
        changed: Collection[str] = (),
    ) -> tuple[list[str], list[str], list[str]]:
        """Parameters, arguments for a chunk, and arguments for an element at the edge."""
        names = uses_of(lines) | {*held}
        params, args, edges = [], [], []
        for load in (s.load for s in self.sources.values() if s.load):
            if f"{load.name}_items" in names:
                constant = "" if load.name in changed else "const "
                params.append(f"{constant}Items<{load.type}, kCount>& {load.name}_items")
                args.append(f"{load.name}_items")
                edges.append(f"{load.name}_{self.edge}")
        for kind, name in self.elements.row_values():
            if name in names:
                params.append(f"{kind} {name}")
                args.append(name)
                edges.append(name)
        if N_COLS.name in names:
            params.append("column_t n_cols")
            args.append("n_cols")
            edges.append("n_cols")
        if columns:
            params.append("const Columns& column_of")
            args.append("column_of")
            edges.append("[&](int) { return edge; }")
        return params, args, edges

    # ---- elements ----

    def _stores(self) -> Iterable[tuple[str, str, str, str]]:
        for s in self.sweep.element_stores:
            param = self.kernel.param(s.param)
            body = body_of(param, self.schedule)
            yield C_TYPES[param.dtype.name], s.param, f"{s.param}_items", body

    # ---- lists ----

    def _lists(self) -> tuple[ListView, ...]:
        found = tuple(self._list(c) for c in self.sweep.monoid.lists)
        one_text = self.schedule.lists == "collected" and self.schedule.blocks == 1
        return with_one_text(self.sweep, found, self.dialect) if one_text else found

    def _list(self, best: KBest) -> ListView:
        same = next(
            (f for f in self.sweep.monoid.folded if f.fold == "max" and f.lift == best.lift), None
        )
        plan = list_plan(self.kernel, best, self.schedule)
        order: str = plan.key.order
        if order == "FloatOrder":
            order += f"<{plan.key.spare}>"
        made, title = f"{order}, column_t", best.name[0].upper() + best.name[1:]
        if title == best.name:
            title += "_"  # no other list's, then
        lines = tuple(self._candidate_lines(best, ring=False))
        short = None
        if self.schedule.lists != "streamed":
            short = short_list(self.kernel, best, self.schedule, self.dialect, made,
                               [b for s in self._used_by(best) for b in s.brings], lines)
        peaks = short is None or (short.plan.pruned and not short.items)
        return ListView(
            name=best.name, k=best.k, way=self.schedule.lists, plan=plan, short=short,
            value_type=self.dialect.type_of(best.kind),
            key="WideKey" if plan.key.wide else "unsigned long long",
            keys=f"{title}Keys", made=short.keys if short
            else f"{'WideKeys' if plan.key.wide else 'PackedKeys'}<{made}>",
            plan_type=f"{title}Plan", list_type=f"{title}List",
            peak=f"chunk.{same.name}" if same else f"{best.name}_peak",
            own_peak=same is None and short is None, lines=lines,
            ring_lines=tuple(self._candidate_lines(best, ring=True)),
            item_lines=tuple(self.elements.item_lines([best.lift])),
            uses=self.dialect.uses(best.lift),
            vector_lines=tuple(ln for s in self._used_by(best) for ln in s.vector),
            value=show(best.lift, self.dialect, OPS["lt"].precedence + 1),  # it is compared
            item_value=self._item_value(best), pairs=self.elements.pairs(best.lift),
            spilled=in_device_memory(self.kernel, self.schedule), memory=self._memory(best, plan),
            worst=lowest(best.kind, self.dialect) if peaks else "",
        )

    def _item_value(self, best: KBest) -> str:
        found = self.sources.get(best.lift.name) if isinstance(best.lift, Var) else None
        return found.value if found else ""

    def _memory(self, best: KBest, plan: ListPlan) -> str:
        several = self.schedule.rows_per_block > 1
        owner = "(blockIdx.x * kRowsPerBlock + team)" if several else "blockIdx.x"
        return f"{best.name}_slots + {owner} * {plan.slots}LL"

    def _used_by(self, best: KBest) -> list[SourceView]:
        """The sources that a candidate's value takes."""
        return [self.sources[n] for n in needed(self.sweep, [best.lift])[0]]

    def _candidate_lines(self, best: KBest, *, ring: bool) -> list[Line]:
        lets = needed(self.sweep, [best.lift])[1]
        found = [s.ring if ring and s.ring else s.alone for s in self._used_by(best)]
        return found + [self.dialect.let(let.name, let.expr, let.note) for let in lets]

    # ---- row scope ----

    def _late_steps(self) -> list[Step]:
        early = early_steps(self.kernel) if self.sweep is self.kernel.sweeps[0] else ()
        return [s for s in self.sweep.steps if s not in early]

    def _store_steps(self) -> list[Step]:
        """Those whose values are only stored. A lane without a row of its own has a state of no
        elements: what follows from that may lie outside of its type."""
        kept = set(names_in(self.kernel.sweeps[self.kernel.sweeps.index(self.sweep) + 1 :]))
        found: list[Step] = []
        for step in reversed(self._late_steps()):
            if step.name in kept or isinstance(step, ListFold):  # lanes fold a list together
                kept |= names_in(step)
            else:
                found.insert(0, step)
        return found if self.schedule.partial_warps else []

    def _steps(self, steps: Iterable[Step]) -> list[Line]:
        self.dialect.state = self.total
        return step_lines(steps, self.kernel, self.dialect, self._owners)

    def _row_stores(self) -> list[Line]:
        self.dialect.state = self.total
        lines = []
        for s in self.sweep.row_stores:
            dtype = self.kernel.param(s.param).dtype
            value = self.dialect.stored(s.value, dtype)
            place = place_in_row(self.kernel.param(s.param))
            line = self.dialect.line(f"{place} = {value};", s.value, ROW, note=s.note)
            lines.append(line)
        return lines

    def _list_stores(self) -> Iterable[Line]:
        """One loop over the entries of each list."""
        self.dialect.state = self.total
        stores = list_stores(self.sweep.list_stores, self.kernel, self.dialect, self._owners)
        for (top, k), lines in stores.items():
            yield from own_entries(top, k, self._owners, lines)
