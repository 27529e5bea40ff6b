"""Rows side by side, as the templates print their parts: one row's items, one row's values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from fusegen.emit.comments import code
from fusegen.emit.cuda.dialect import C_TYPES, CudaDialect, divisor_name
from fusegen.emit.cuda.rows import array_name, names_used, step_lines
from fusegen.emit.cuda.source import kernel_params
from fusegen.emit.cuda.sweep import SweepPrinter
from fusegen.emit.cuda.views import LoadView, SweepView
from fusegen.expr import Expr, variables
from fusegen.kernel import Gather, Let, Param, Step, Sweep
from fusegen.schedule.launch import Launch, kept_params


class StripSweepPrinter(SweepPrinter):
    """Builds the view of a sweep whose items are one of a thread's kWidth rows.

    `row_values` and `divisors` name, once there is a view, what its elements need of their row.
    """

    row_values: tuple[str, ...] = ()
    divisors: tuple[str, ...] = ()  # row values that a map divides by

    def view(self) -> SweepView:
        return replace(super().view(), items=self.schedule.vectors)

    def _load(self, param: Param) -> LoadView:
        kept = param in kept_params(self.kernel, self.schedule)
        return LoadView(
            type=C_TYPES[param.dtype.name], name=param.name, pointer=array_name(param), kept=kept,
            narrow=False, loader="load_columns" if param.shape == "per_column" else "load_down",
        )  # fmt: skip

    def _bring(self, load: LoadView) -> list[str]:
        return []  # the templates know the three places where a chunk can come from

    def _held(self, load: LoadView) -> list[str]:
        return []

    def _with_functions(self, view: SweepView) -> SweepView:
        lifted = [ln for lift in view.lifts for ln in (*lift.divisors, *lift.lines)]
        fold = [f"{view.state.name}& state"] if view.state else []
        fold_args = [f"folded{view.number}[r]"] if view.state else []
        used, args, _ = self._used([*view.fold_lines, *lifted], view.fold_columns)
        maps = [f"const Along<{kind}, kCount>& {items}" for kind, _, items, _ in view.stores]
        map_args = [f"along({items}, r)" for _, _, items, _ in view.stores]
        map_used, map_more, _ = self._used(view.store_lines, view.map_column)
        # Few vectors of a row are mapped at a time: their divisor is made once a row.
        self.divisors = tuple(
            n for _, n in self.elements.row_values()
            if any(f"{divisor_name(n)}(" in ln for ln in view.map_divisors)
        )
        for name in map(divisor_name, self.divisors):
            map_used.append(f"const Divisor& {name}")
            map_more.append(f"rows[r].{name}")
        return replace(
            view, fold_params=(*fold, *used), fold_args=", ".join([*fold_args, *args]),
            map_params=(*maps, *map_used), map_args=", ".join([*map_args, *map_more]),
            map_divisors=(),
        )  # fmt: skip

    def _used(
        self, lines: Iterable[str], columns: bool
    ) -> tuple[list[str], list[str], list[str]]:
        """Parameters and arguments; there are no edges."""
        words = set(re.findall(r"\w+", code("\n".join(lines))))
        params, args = [], []
        for name in self.sweep.loads:
            if f"{name}_items" in words:
                param = self.kernel.param(name)
                one = param.shape == "per_column"
                kind = f"{'Items' if one else 'Along'}<{C_TYPES[param.dtype.name]}, kCount>"
                params.append(f"const {kind}& {name}_items")
                args.append(f"{name}_items" if one else f"along({name}_items, r)")
        for kind, name in self.elements.row_values():
            if name in words:
                params.append(f"{kind} {name}")
                args.append(f"rows[r].{name}")
                self.row_values += (name,)
        if "n_cols" in words:
            params.append("column_t n_cols")
            args.append("n_cols")
        if columns:
            params.append("const Columns& column_of")
            args.append("column_of")
        return params, args, []


class RowScopes:
    """What a kernel computes of each of a thread's rows, before the first sweep and after each."""

    def __init__(
        self, launch: Launch, printers: dict[int, StripSweepPrinter], views: dict[int, SweepView],
        dialect: CudaDialect,
    ) -> None:  # fmt: skip
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
        }  # fmt: skip

    @property
    def _row_params(self) -> list[Param]:
        return [p for p in self.launch.params if p.shape == "row" and not p.output]

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Type and name of the row values that one scope leaves for later ones."""
        return [(self.types[n], n) for names in self.defined for n in names if n in self.carried]

    @property
    def gathered(self) -> bool:
        """Are single elements of a row read?"""
        return any(isinstance(s, Gather) for w in self.kernel.sweeps for s in w.steps) or any(
            isinstance(s, Gather) for s in self.kernel.prelude
        )

    def prelude(self) -> list[str]:
        """Statements for row r before the first sweep."""
        loads = []
        for p in self._row_params:
            value = self.dialect.load(f"{array_name(p)}[row]", p.dtype)
            loads.append(f"const {self.types[p.name]} {p.name} = {value};")
        steps = step_lines(self.kernel.prelude, self.kernel, self.dialect)
        return self._scope(0, self.kernel.prelude, [*loads, *steps])

    def after(self, number: int) -> list[str]:
        """Statements for row r after sweep `number` of the kernel, counted from 0."""
        sweep = self.kernel.sweeps[number]
        view = self.views[sweep.number]
        lines = []
        if view.state and any("state" in n for n in self.needs[number + 1]):
            total = f"totals{sweep.number}[across * kWidth + r]"
            lines.append(f"const {view.state.name}& {view.total} = {total};")
        lines += view.steps
        if view.row_stores:
            lines += [f"if ({self._writes(sweep)}) {{",
                      *(f"    {ln}" for ln in view.row_stores), "}"]  # fmt: skip
        return self._scope(number + 1, sweep.steps, lines)

    def _scope(self, place: int, steps: Iterable[Step], lines: list[str]) -> list[str]:
        known = [n for names in self.defined[:place] for n in names if n in self.needs[place]]
        if place < len(self.divisors):
            divided = self.divisors[place]
            lines = [*lines, *(f"const Divisor {divisor_name(v)}({v});" for v in divided)]
        found = [f"const {self.types[n]} {n} = rows[r].{n};" for n in known]
        gathered = {n for s in steps if isinstance(s, Gather) for n in s.loads}
        for name in sorted(gathered):
            kind = C_TYPES[self.kernel.param(name).dtype.name]
            found.append(f"const Strided<{kind}> {name}_row{{{name}_rows + r, {name}_stride}};")
        found += lines
        found += [f"rows[r].{n} = {n};" for n in self.defined[place] if n in self.carried]
        if any("[row]" in code(ln) for ln in found):
            found.insert(0, "const long long row = first_row + r;")
        return found

    def _writes(self, sweep: Sweep) -> str:
        """Does this thread write its rows' values?"""
        alone = self.launch.grid_rows == 1 or (self.launch.splits and not sweep.monoid.is_empty)
        return "down == 0" if alone else "down == 0 && slice == 0"


def _names(steps: Iterable[Step], values: Iterable[Expr]) -> set[str]:
    """Every name that row-scope statements use."""
    found = {n for value in values for n in variables(value)}
    return found.union(*(names_used(step) or () for step in steps))
