"""K-best lists of rows over vectors: who offers what, and what follows from their entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusegen.backend.cuda.emit.elements import ElementPrinter
from fusegen.backend.cuda.emit.entries import Owners, own_entries
from fusegen.backend.cuda.emit.places import array_name, load_line, place_in_row
from fusegen.backend.cuda.emit.rows import list_stores
from fusegen.backend.cuda.emit.tiles.scope import Scope
from fusegen.backend.cuda.emit.vectors import inner_lines
from fusegen.backend.cuda.schedule.tiles.filters import Filter
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule, list_slots
from fusegen.backend.cuda.schedule.topk import key_plan
from fusegen.backend.emit.lines import Line, inside
from fusegen.ir.expr import Var
from fusegen.ir.kernel import FromVectors, InnerStep, Kernel, ListFold, Step, Sweep
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.monoid import KBest

OWNERS = Owners()
"""All lanes of a warp, one after the other, have a row's entries."""


@dataclass(frozen=True)
class ListView:
    """A K-best list of a sweep."""

    name: str
    keys: str  # type that makes keys
    list_type: str
    key: str  # C++ type of a key
    value: str
    value_type: str
    opened: tuple[Line, ...]
    lines: tuple[Line, ...]  # from item i to its value
    score: tuple[Line, ...]  # of lists found among rounded scores: statements of the text's own
    ranked: str  # of these: what ranks them
    length: int  # of their vectors
    norms: tuple[str, str]  # members of `given`: arrays of the rows' norms

    @property
    def filtered(self) -> bool:
        """Is it found among rounded scores?"""
        return bool(self.score)


class ListPrinter:
    """Prints the lists of one sweep."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, scope: Scope, elements: ElementPrinter,
        schedule: TileSchedule, found: Filter | None,
    ) -> None:
        self.found = found
        self.kernel, self.sweep, self.scope, self.elements = kernel, sweep, scope, elements
        self.dialect, self.schedule = scope.dialect, schedule

    def views(self) -> Iterator[ListView]:
        for best in self.sweep.monoid.lists:
            lines = self.elements.item_lines([best.lift])
            value = self.dialect.line(self.dialect.operand(best.lift), best.lift)  # it is compared
            keys, found = keys_type(self.kernel, best, self.schedule), self.found
            kind = f"RowList<{keys}, {best.k}, {list_slots(best.k, self.schedule)}>"
            yield ListView(
                name=best.name, keys=keys, key=key_type(self.kernel, best, self.schedule),
                list_type=f"Candidates<{kind}>" if found else kind,
                value=value.text, lines=tuple(lines), value_type=self.dialect.type_of(best.kind),
                opened=tuple(self.scope.declared([*lines, value])),
                score=self._score(found) if found else (),
                ranked=found.ranked if found else "",
                length=found.length if found else 0,
                norms=(f"{found.row}_radius_in", f"{found.row}_rest_in") if found else ("", ""))

    def _score(self, found: Filter) -> tuple[Line, ...]:
        """The text's own score of a column, computed by one lane."""
        (source,) = found.exact.loads
        assert isinstance(source, FromVectors)
        step = InnerStep(source.name, source.value, source.rows,
                         tuple((n, Var("column", "int")) for n in source.columns), source.note)
        value = found.best.lift
        lines = [*inner_lines(step, self.kernel, self.dialect),
                 self.dialect.line(f"return {self.dialect.text(value)};", value)]
        return tuple(self.scope.opened(lines))

    @property
    def owners(self) -> Owners:
        """Who has which entries: of lists that a state holds, every lane of the row all."""
        given = [p for p in self.kernel.params if p.shape == "list" and not p.output]
        lines = tuple(load_line(p, place_in_row(p), self.dialect, array_name(p), "entry")
                      for p in given)
        return replace(OWNERS, given=lines)

    def steps(self) -> tuple[list[Step], list[Step]]:
        """Steps that follow from the sweep's lists, and those that do not."""
        if self.owners.given:
            return [], [*self.sweep.steps]
        late: list[Step] = []
        early: list[Step] = []
        found: set[str] = set()
        for step in self.sweep.steps:
            if isinstance(step, ListFold) or found & names_in(step):
                found.add(step.name)
                late.append(step)
            else:
                early.append(step)
        return late, early

    def stores(self) -> list[Line]:
        """Results that are lists: one loop over the entries of each."""
        stores = list_stores(self.sweep.list_stores, self.kernel, self.dialect, self.owners)
        return [ln for (top, k), lines in stores.items() for ln in self._of_entries(top, k, lines)]

    def _of_entries(self, top: str, k: int, lines: list[Line]) -> list[Line]:
        given = self.owners.loaded(top)
        if not given:
            return own_entries(top, k, OWNERS, lines)
        return [Line(f"for (int entry = 0; entry < {k}; ++entry) {{"), *inside([*given, *lines]),
                Line("}")]


def keys_type(kernel: Kernel, best: KBest, schedule: TileSchedule) -> str:
    """What makes keys of values and columns."""
    plan = key_plan(kernel, best, schedule.wide_columns)
    order = f"FloatOrder<{plan.spare}>" if plan.order == "FloatOrder" else plan.order
    return f"{'WideKeys' if plan.wide else 'PackedKeys'}<{order}, column_t>"


def key_type(kernel: Kernel, best: KBest, schedule: TileSchedule) -> str:
    return "WideKey" if key_plan(kernel, best, schedule.wide_columns).wide \
        else "unsigned long long"
