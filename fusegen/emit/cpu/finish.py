"""What happens once a row is folded: row values, lists, and their stores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from fusegen.dtypes import Kind
from fusegen.emit.comments import noted
from fusegen.emit.cpu.dialect import CpuDialect
from fusegen.emit.cpu.memory import load, store
from fusegen.emit.cpu.scope import RowScope, finish_exprs, kind_of, step_exprs
from fusegen.emit.cpu.state import gathers
from fusegen.expr import Expr, variables
from fusegen.kernel import Entries, Gather, Kernel, Let, ListFold, ListStore, RowStore, Step, Sweep

_FOLD = {
    "sum": "{0} += {1};", "prod": "{0} *= {1};",
    "max": "{0} = fg::greater_of({0}, {1});", "min": "{0} = fg::lesser_of({0}, {1});",
}  # fmt: skip


class FinishPrinter:
    """Scalar statements of one kernel's prelude and of its sweeps' ends."""

    def __init__(self, kernel: Kernel, scope: RowScope, dialect: CpuDialect) -> None:
        self.kernel, self.scope, self.dialect = kernel, scope, dialect
        self.lists = {c.name: c for s in kernel.sweeps for c in s.monoid.lists}

    def prelude(self) -> list[str]:
        """Row values that are known before any sweep."""
        names = [s.name for s in self.kernel.prelude]
        lines = self.scope.locals(step_exprs(self.kernel.prelude), names)
        for step in self.kernel.prelude:
            lines += self._step(step)
        return lines + self._keep(names)

    def finish(self, sweep: Sweep) -> list[str]:
        """Row values that this sweep completes, and what it stores of them."""
        names = [s.name for s in sweep.steps]
        lines = self.scope.locals(finish_exprs(sweep), names)
        lines += [f"state.{c.name}.sort();" for c in sweep.monoid.lists if gathers(c)]
        for step in sweep.steps:
            lines += self._step(step)
        lines += self._keep(names)
        for row_store in sweep.row_stores:
            lines.append(self._row_store(row_store))
        for list_store in sweep.list_stores:
            lines += self._list_store(list_store)
        return lines

    def _keep(self, names: Iterable[str]) -> list[str]:
        """Hand values on to later sweeps."""
        return [f"known.{n} = {n};" for n in names if n in self.scope.known]

    # ---- steps ----

    def _step(self, step: Step) -> list[str]:
        match step:
            case Let():
                return [self._let(step)]
            case Gather():
                return self._gather(step)
            case ListFold():
                return self._list_fold(step)
            case _:
                assert_never(step)

    def _let(self, let: Let) -> str:
        return _declared(let, self.dialect)

    def _gather(self, gather: Gather) -> list[str]:
        kind = kind_of(gather)
        outside = "fg::nan" if kind == "float" else "0"
        at = f"{gather.name}_at"
        lines = [f"{self.dialect.type_of(kind)} {gather.name} = {outside};"]
        lines.append(f"if (const int64_t {at} = {self.dialect.text(gather.index)};")
        lines.append(f"    {at} >= 0 && {at} < row.n_cols) {{")
        for name in gather.loads:
            dtype = self.kernel.param(name).dtype
            value = load(dtype, f"row.{name} + {at}", self.dialect)
            lines.append(f"    const {self.dialect.type_of(dtype.kind)} {name} = {value};")
        lines += [f"    {self._let(let)}" for let in gather.lets]
        value = f"    {gather.name} = {self.dialect.text(gather.value)};"
        return [*lines, noted(value, gather.note), "}"]

    def _list_fold(self, fold: ListFold) -> list[str]:
        kind = kind_of(fold)
        value = self.dialect.text(fold.value)
        first = _first_value(fold, self.dialect)
        line = _FOLD[fold.fold].format(fold.name, value)
        lines = [f"{self.dialect.type_of(kind)} {fold.name} = {first};"]
        return lines + self._over_entries(fold.entries, fold.value, noted(line, fold.note))

    # ---- stores ----

    def _row_store(self, row_store: RowStore) -> str:
        param = self.kernel.param(row_store.param)
        value = self.dialect.text(row_store.value)
        line = store(param.dtype, f"row.{row_store.param}", value, self.dialect)
        return noted(line, row_store.note)

    def _list_store(self, list_store: ListStore) -> list[str]:
        entries = list_store.entries
        together = gathers(self.lists[entries.top]) and _is_plain(entries)
        dialect = replace(self.dialect, lanes=True) if together else self.dialect
        param = self.kernel.param(list_store.param)
        value = dialect.text(list_store.value)
        line = store(param.dtype, f"row.{list_store.param} + entry", value, dialect)
        line = noted(line, list_store.note)
        if together:
            return self._over_vectors(entries, list_store.value, line, dialect)
        return self._over_entries(entries, list_store.value, line)

    def _over_entries(self, entries: Entries, value: Expr, line: str) -> list[str]:
        """A loop over the list, best first, with what an entry's line uses declared."""
        body = self._members(entries, value, self.dialect)
        for step in entries.steps:
            body += self._step(step)
        return [f"for (int64_t entry = 0; entry < {entries.k}; ++entry) {{",
                *(f"    {text}" for text in (*body, line)), "}"]  # fmt: skip

    def _over_vectors(
        self, entries: Entries, value: Expr, line: str, lanes: CpuDialect
    ) -> list[str]:
        """The same, as many entries at a time as a vector has."""
        body = self._members(entries, value, lanes)
        for let in entries.steps:
            if isinstance(let, Let):
                body.append(_declared(let, lanes))
        return [f"fg::over_entries<{entries.k}>([&](auto some, int64_t entry) {{",
                "    typedef decltype(some) V;",
                *(f"    {text}" for text in (*body, line)), "});"]  # fmt: skip

    def _members(self, entries: Entries, value: Expr, dialect: CpuDialect) -> list[str]:
        """What is used of an entry."""
        used = {n for e in (value, *step_exprs(entries.steps)) for n in variables(e)}
        best, lines = self.lists[entries.top], []
        members: list[tuple[str, Kind]] = [(best.value, best.kind), (best.column, "int")]
        for member, kind in members:
            if member in used:
                part = f"state.{entries.top}.{member.removeprefix(entries.top + '_')}"
                part += "<V>" if dialect.lanes else ""
                lines.append(f"const {dialect.type_in(kind)} {member} = {part}(entry);")
        return lines


def _is_plain(entries: Entries) -> bool:
    """Is an entry computed without a look at other arrays?"""
    return all(isinstance(step, Let) for step in entries.steps)


def _declared(let: Let, dialect: CpuDialect) -> str:
    declared = f"const {dialect.type_in(let.expr.kind)} {let.name}"
    return noted(f"{declared} = {dialect.text(let.expr)};", let.note)


def _first_value(fold: ListFold, dialect: CpuDialect) -> str:
    whole = kind_of(fold) == "int"
    match fold.fold:
        case "sum":
            return "0" if whole else dialect.number(0.0)
        case "prod":
            return "1" if whole else dialect.number(1.0)
        case "max":
            return "INT64_MIN" if whole else "-fg::infinity"
        case "min":
            return "INT64_MAX" if whole else "fg::infinity"
