"""Rows side by side, as the templates print their parts: one row's items, one row's values."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect, divisor, divisor_name
from fusegen.backend.cuda.emit.kernels import kernel_params
from fusegen.backend.cuda.emit.made_once import made_once
from fusegen.backend.cuda.emit.places import array_name, load_line
from fusegen.backend.cuda.emit.rows import names_used, step_lines
from fusegen.backend.cuda.emit.sweep import SweepPrinter
from fusegen.backend.cuda.emit.views import SweepView
from fusegen.backend.cuda.schedule.launch import Launch
from fusegen.backend.emit.lines import Line, inside, uses_of
from fusegen.ir.expr import Expr, variables
from fusegen.ir.kernel import N_COLS, ROW, Gather, Let, Param, Step, Sweep
from fusegen.ir.kernel_walk import gathers_in

ROW_VALUES = "rows"
"""What a thread knows of its rows."""


class StripSweepPrinter(SweepPrinter):
    """Builds the view of a sweep whose items are one of a thread's kWidth rows.

    `row_values` and `divisors` name, once there is a view, what its elements need of their row.
    """

    row_values: tuple[str, ...] = ()
    divisors: tuple[str, ...] = ()  # row values that a map divides by

    def view(self) -> SweepView:
        return replace(super().view(), items=self.schedule.vectors)

    def _with_functions(self, view: SweepView) -> SweepView:
        view = made_once(view, self.sweep, self.dialect.real)
        lifted = [ln for lift in view.lifts for ln in (*lift.divisors, *lift.lines)]
        fold = [f"{view.state.name}& state"] if view.state else []
        fold_args = [f"folded{view.number}[r]"] if view.state else []
        sought = [ln for s in view.searches for ln in s.lines]
        used, args, _ = self._used(
            [*view.fold_divisors, *view.fold_lines, *sought, *lifted], view.fold_columns,
            view.state.held if view.state else ())
        maps = [f"const Along<{kind}, kCount, Layout>& {items}"
                for kind, _, items, _ in view.stores]
        map_args = [f"along({items}, r)" for _, _, items, _ in view.stores]
        map_used, map_more, _ = self._used(view.store_lines, view.map_column)
        # Few vectors of a row are mapped at a time: their divisor is made once a row.
        made = {ln.declares for ln in view.map_divisors}
        self.divisors = tuple(
            n for _, n in self.elements.row_values() if divisor_name(n) in made
        )
        for name in map(divisor_name, self.divisors):
            map_used.append(f"const Divisor& {name}")
            map_more.append(f"rows[r].{name}")
        return replace(
            view, fold_params=(*fold, *used), fold_args=", ".join([*fold_args, *args]),
            map_params=(*maps, *map_used), map_args=", ".join([*map_args, *map_more]),
            map_divisors=(),
        )

    def _used(
        self, lines: Iterable[Line], columns: bool, held: Iterable[str] = (),
        changed: Collection[str] = (),
    ) -> tuple[list[str], list[str], list[str]]:
        """Parameters and arguments; there are no edges."""
        names = uses_of(lines) | {*held}
        params, args = [], []
        for load in (s.load for s in self.sources.values() if s.load):
            items = f"{load.name}_items"
            if items in names:
                kind = f"Items<{load.type}, kCount>" if load.shared else (
                    f"Along<{load.type}, kCount, Layout>")
                params.append(f"const {kind}& {items}")
                args.append(items if load.shared else f"along({items}, r)")
        for kind, name in self.elements.row_values():
            if name in names:
                params.append(f"{kind} {name}")
                given = any(p.name == name and p.shape == "scalar" for p in self.kernel.params)
                args.append(name if given else f"rows[r].{name}")
                self.row_values += () if given else (name,)
        if N_COLS.name in names:
            params.append("column_t n_cols")
            args.append("n_cols")
        if columns:
            params.append("const Columns& column_of")
            args.append("column_of")
        return params, args, []


    def _stores(self) -> Iterable[tuple[str, str, str, str]]:
        for kind, param, items, _ in super()._stores():
            yield kind, param, items, f"{param}_rows, {param}_stride"


class RowScopes:
    """What a kernel computes of each of a thread's rows, before the first sweep and after each."""

    def __init__(
        self, launch: Launch, printers: dict[int, StripSweepPrinter], views: dict[int, SweepView],
        dialect: CudaDialect,
    ) -> None:
        self.launch, self.kernel, self.dialect = launch, launch.kernel, dialect
        self.views, self.params = views, kernel_params(launch, views)
        self.types = {p.name: dialect.type_of(p.dtype.kind) for p in self._row_params}
        defined = [[*self.types, *(s.name for s in self.kernel.prelude)]]
        needs = [_names(self.kernel.prelude, ())]
        for sweep in self.kernel.sweeps:
            defined.append([s.name for s in sweep.steps])
            needs.append(_names(sweep.steps, [s.value for s in sweep.row_stores]))
        for step in (*self.kernel.prelude, *(s for w in self.kernel.sweeps for s in w.steps)):
            assert isinstance(step, Let | Gather)  # lists take rows whose columns are neighbours
            value = step.expr if isinstance(step, Let) else step.value
            self.types[step.name] = dialect.type_of(value.kind)
        self.divisors = [printers[s.number].divisors for s in self.kernel.sweeps]
        self.has_values = any(self.divisors) or any(
            printers[s.number].row_values for s in self.kernel.sweeps)  # that elements take
        for i, values in enumerate(self.divisors):
            defined[i] += map(divisor_name, values)
            needs[i] |= set(values)
            self.types |= dict.fromkeys(map(divisor_name, values), "Divisor")
        elements = [
            {*printers[s.number].row_values, *map(divisor_name, values)}
            for s, values in zip(self.kernel.sweeps, self.divisors, strict=True)
        ]
        self.defined, self.needs = defined, needs
        self.carried = {
            name for i, names in enumerate(defined) for name in names
            if any(name in used for used in (*elements[i:], *needs[i + 1 :]))
        }

    @property
    def _row_params(self) -> list[Param]:
        return [p for p in self.launch.params if p.shape == "row" and not p.output]

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Type and name of the row values that one scope leaves for later ones."""
        return [(self.types[n], n) for names in self.defined for n in names if n in self.carried]

    def prelude(self) -> list[Line]:
        """Statements for row r before the first sweep."""
        loads = []
        for p in self._row_params:
            loads.append(load_line(p, f"{array_name(p)}[row]", self.dialect, ROW.name))
        steps = step_lines(self.kernel.prelude, self.kernel, self.dialect)
        return self._scope(0, self.kernel.prelude, [*loads, *steps])

    def after(self, number: int) -> list[Line]:
        """Statements for row r after sweep `number` of the kernel, counted from 0."""
        sweep = self.kernel.sweeps[number]
        view = self.views[sweep.number]
        lines: list[Line] = []
        if view.state and any(n.startswith("state.") for n in self.needs[number + 1]):
            total = f"{view.total} = totals{sweep.number}[across * kWidth + r];"
            lines.append(Line(f"const {view.state.name}& {total}", declares=view.total))
        lines += view.steps
        if view.row_stores:
            lines += [Line(f"if ({self._writes(sweep)}) {{"), *inside(view.row_stores), Line("}")]
        return self._scope(number + 1, sweep.steps, lines)

    def _scope(self, place: int, steps: tuple[Step, ...], lines: list[Line]) -> list[Line]:
        known = [n for names in self.defined[:place] for n in names if n in self.needs[place]]
        if place < len(self.divisors):
            lines = [*lines, *map(divisor, self.divisors[place])]
        found = [Line(f"const {self.types[n]} {n} = rows[r].{n};", frozenset([ROW_VALUES]),
                      declares=n) for n in known]
        for name in sorted({n for gather in gathers_in(steps) for n in gather.loads}):
            kind = C_TYPES[self.kernel.param(name).dtype.name]
            there = f"{name}_row{{{name}_rows + r, {name}_stride}};"
            found.append(Line(f"const Strided<{kind}> {there}", frozenset([f"{name}_rows"]),
                              declares=f"{name}_row"))
        found += lines
        found += [Line(f"rows[r].{n} = {n};", frozenset([n, ROW_VALUES]))
                  for n in self.defined[place] if n in self.carried]
        if ROW.name in uses_of(found):
            found.insert(0, Line("const long long row = first_row + r;", declares=ROW.name))
        return found

    def _writes(self, sweep: Sweep) -> str:
        """Does this thread write its rows' values?"""
        alone = self.launch.grid_rows == 1 or (self.launch.splits and not sweep.monoid.is_empty)
        return "down == 0" if alone else "down == 0 && slice == 0"


def _names(steps: Iterable[Step], values: Iterable[Expr]) -> set[str]:
    """Every name that row-scope statements use."""
    found = {n for value in values for n in variables(value)}
    return found.union(*(names_used(step) or () for step in steps))
