"""What happens once a row is folded: row values, lists, and their stores."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import assert_never

from fusegen.backend.cpu.emit.dialect import KNOWN, ROW, CpuDialect
from fusegen.backend.cpu.emit.memory import load, store
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.scope import RowScope, finish_exprs, kind_of, step_exprs
from fusegen.backend.cpu.emit.state import gathers
from fusegen.backend.cpu.emit.vector_rows import inner_lines, vector_store
from fusegen.backend.emit.folds import taken_in
from fusegen.backend.emit.lines import Line, inside
from fusegen.ir.dtypes import Kind
from fusegen.ir.expr import Expr, variables
from fusegen.ir.kernel import (
    Entries,
    Gather,
    InnerStep,
    Kernel,
    Let,
    ListFold,
    ListStore,
    RowStore,
    Step,
    Sweep,
)
from fusegen.ir.kernel_walk import is_plain


class FinishPrinter:
    """Scalar statements of one kernel's prelude and of its sweeps' ends."""

    def __init__(self, kernel: Kernel, scope: RowScope, dialect: CpuDialect) -> None:
        self.kernel, self.scope, self.dialect = kernel, scope, dialect
        self.lists = {c.name: c for s in kernel.sweeps for c in s.monoid.lists}
        self.widths = {c.name: c.width for s in kernel.sweeps for c in s.monoid.components
                       if c.width > 1}

    def prelude(self) -> list[Line]:
        """Row values that are known before any sweep."""
        names = [s.name for s in self.kernel.prelude]
        lines = self.scope.locals(step_exprs(self.kernel.prelude), names)
        for step in self.kernel.prelude:
            lines += self._step(step)
        return lines + self._keep(names)

    def finish(self, sweep: Sweep) -> list[Line]:
        """Row values that this sweep completes, and what it stores of them."""
        names = [s.name for s in sweep.steps]
        lines = self.scope.locals(finish_exprs(sweep), names)
        lines += [Line(f"state.{c.name}.sort();") for c in sweep.monoid.lists
                  if gathers(c, self.kernel)]
        for step in sweep.steps:
            lines += self._step(step)
        lines += self._keep(names)
        wide = [c.name for c in sweep.monoid.components if c.width > 1]
        for row_store in sweep.row_stores:
            if self.kernel.param(row_store.param).shape == "row_vector":
                lines += vector_store(row_store, self.kernel, wide, self.dialect)
            else:
                lines.append(self._row_store(row_store))
        for list_store in sweep.list_stores:
            lines += self._list_store(list_store)
        return lines

    def _keep(self, names: Iterable[str]) -> list[Line]:
        """Hand values on to later sweeps."""
        return [Line(f"known.{n} = {n};", frozenset([KNOWN, n]))
                for n in names if n in self.scope.known]

    # ---- steps ----

    def _step(self, step: Step) -> list[Line]:
        match step:
            case Let():
                return [self.dialect.let(step.name, step.expr, step.note)]
            case Gather():
                return self._gather(step)
            case ListFold():
                return self._list_fold(step)
            case InnerStep():
                return inner_lines(step, self.kernel, self.widths, self.dialect)
            case _:
                assert_never(step)

    def _gather(self, gather: Gather) -> list[Line]:
        kind, at = kind_of(gather), f"{gather.name}_at"
        outside = fg("nan") if kind == "float" else "0"
        index = f"if (const int64_t {at} = {self.dialect.text(gather.index)};"
        then = []
        for name in gather.loads:
            dtype = self.kernel.param(name).dtype
            value = load(dtype, f"row.{name} + {at}", self.dialect)
            text = f"const {self.dialect.type_of(dtype.kind)} {name} = {value};"
            then.append(Line(text, frozenset([ROW, at]), declares=name))
        then += [self.dialect.let(let.name, let.expr, let.note) for let in gather.lets]
        value = f"{gather.name} = {self.dialect.text(gather.value)};"
        then.append(self.dialect.line(value, gather.value, note=gather.note))
        return [Line(f"{self.dialect.type_of(kind)} {gather.name} = {outside};"),
                self.dialect.line(index, gather.index, declares=at),
                Line(f"    {at} >= 0 && {at} < row.n_cols) {{", frozenset([ROW, at])),
                *inside(then), Line("}")]

    def _list_fold(self, fold: ListFold) -> list[Line]:
        kind = kind_of(fold)
        value = self.dialect.text(fold.value)
        first = _first_value(fold, self.dialect)
        text = taken_in(fold, fold.name, value, fg)
        line = self.dialect.line(text, fold.value, note=fold.note)
        whole = Line(f"{self.dialect.type_of(kind)} {fold.name} = {first};", declares=fold.name)
        return [whole, *self._over_entries(fold.entries, fold.value, line)]

    # ---- stores ----

    def _row_store(self, row_store: RowStore) -> Line:
        param = self.kernel.param(row_store.param)
        value = self.dialect.text(row_store.value)
        text = store(param.dtype, f"row.{row_store.param}", value, self.dialect)
        return self.dialect.line(text, row_store.value, uses=[ROW], note=row_store.note)

    def _list_store(self, list_store: ListStore) -> list[Line]:
        entries = list_store.entries
        together = entries.top in self.lists and is_plain(list_store)
        dialect = replace(self.dialect, lanes=True, partly=True) if together else self.dialect
        param = self.kernel.param(list_store.param)
        value = dialect.text(list_store.value)
        text = store(param.dtype, f"row.{list_store.param} + entry", value, dialect)
        line = dialect.line(text, list_store.value, uses=[ROW], note=list_store.note)
        if together:
            return self._over_vectors(entries, list_store.value, line, dialect)
        return self._over_entries(entries, list_store.value, line)

    def _over_entries(self, entries: Entries, value: Expr, line: Line) -> list[Line]:
        """A loop over the list, best first, with what an entry's line uses declared."""
        body = self._members(entries, value, self.dialect)
        for step in entries.steps:
            body += self._step(step)
        return [Line(f"for (int64_t entry = 0; entry < {entries.k}; ++entry) {{"),
                *inside([*body, line]), Line("}")]

    def _over_vectors(
        self, entries: Entries, value: Expr, line: Line, lanes: CpuDialect
    ) -> list[Line]:
        """The same, as many entries at a time as a vector has."""
        body = self._members(entries, value, lanes)
        for let in entries.steps:
            if isinstance(let, Let):
                body.append(lanes.let(let.name, let.expr, let.note))
        return [Line(f"{fg('over_entries')}<{entries.k}>([&](int64_t entry, auto live) {{"),
                Line(f"    typedef {fg('lanes')} V;"), *inside([*body, line]), Line("});")]

    def _members(self, entries: Entries, value: Expr, dialect: CpuDialect) -> list[Line]:
        """What is used of an entry."""
        used = {n for e in (value, *step_exprs(entries.steps)) for n in variables(e)}
        best = self.lists.get(entries.top)
        if best is None:
            return self._given(used)
        lines = []
        members: list[tuple[str, Kind]] = [(best.value, best.kind), (best.column, "int")]
        for member, kind in members:
            if member in used:
                part = f"state.{entries.top}.{member.removeprefix(entries.top + '_')}"
                part += "<V>" if dialect.lanes else ""
                text = f"const {dialect.type_in(kind)} {member} = {part}(entry);"
                lines.append(Line(text, declares=member))
        return lines

    def _given(self, used: Container[str]) -> list[Line]:
        """Likewise, of lists that are in memory."""
        lines = []
        for p in self.kernel.params:
            if p.shape == "list" and not p.output and p.name in used:
                value = load(p.dtype, f"row.{p.name} + entry", self.dialect)
                text = f"const {self.dialect.type_of(p.dtype.kind)} {p.name} = {value};"
                lines.append(Line(text, frozenset([ROW]), declares=p.name))
        return lines


def _first_value(fold: ListFold, dialect: CpuDialect) -> str:
    whole = kind_of(fold) == "int"
    match fold.fold:
        case "sum":
            return "0" if whole else dialect.number(0.0)
        case "prod":
            return "1" if whole else dialect.number(1.0)
        case "max":
            return "INT64_MIN" if whole else f"-{fg('infinity')}"
        case "min":
            return "INT64_MAX" if whole else fg("infinity")

