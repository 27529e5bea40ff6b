"""Which row values a function of a kernel uses, and where it finds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fusegen.backend.cpu.emit.dialect import KNOWN, ROW, CpuDialect
from fusegen.backend.cpu.emit.memory import load
from fusegen.backend.emit.lines import Line
from fusegen.ir.dtypes import Kind
from fusegen.ir.expr import Expr, Var, variables
from fusegen.ir.kernel import Gather, InnerStep, Kernel, Let, ListFold, Step, Sweep
from fusegen.ir.monoid import Monoid
from fusegen.ir.shared import lazy


@dataclass(frozen=True)
class RowScope:
    """Row values of one kernel: its row inputs, and what its prelude and steps compute.

    Values that a later function uses travel in the struct `Known`.
    """

    kernel: Kernel
    dialect: CpuDialect  # of row text

    @lazy  # asked at every row value: a gradient of a list has thousands
    def known(self) -> dict[str, Kind]:
        """Members of `Known` in the order they become known."""
        used: set[str] = set()
        found: dict[str, Kind] = {}
        for sweep in reversed(self.kernel.sweeps):
            own = {s.name: kind_of(s) for s in sweep.steps}
            kept = {n: k for n, k in own.items() if n in used}
            found = {**kept, **found}
            used |= {n for e in sweep_exprs(sweep) for n in variables(e)}
        prelude = {s.name: kind_of(s) for s in self.kernel.prelude}
        return {**{n: k for n, k in prelude.items() if n in used}, **found}

    def locals(self, exprs: Iterable[Expr], own: Iterable[str] = ()) -> list[Line]:
        """Declarations of the row values that `exprs` use, except those in `own`."""
        wanted = {n for e in exprs for n in variables(e)} - set(own)
        inputs = [p for p in self.kernel.params if p.shape == "row" and not p.output]
        lines = []
        for param in inputs:
            if param.name in wanted:
                kind = self.dialect.type_of(param.dtype.kind)
                value = load(param.dtype, f"row.{param.name}", self.dialect)
                text = f"const {kind} {param.name} = {value};"
                lines.append(Line(text, frozenset([ROW]), declares=param.name))
        for param in self.kernel.params:
            if param.shape == "scalar" and param.name in wanted:
                kind = self.dialect.type_of(param.dtype.kind)
                text = f"const {kind} {param.name} = row.{param.name};"
                lines.append(Line(text, frozenset([ROW]), declares=param.name))
        for name, known in self.known.items():
            if name in wanted:
                text = f"const {self.dialect.type_of(known)} {name} = known.{name};"
                lines.append(Line(text, frozenset([KNOWN]), declares=name))
        return lines


def kind_of(step: Step) -> Kind:
    match step:
        case Let(expr=expr):
            return expr.kind
        case Gather(value=value) | ListFold(value=value) | InnerStep(value=value):
            return value.kind


def step_exprs(steps: Iterable[Step]) -> Iterator[Expr]:
    """Every expression of the steps, those inside gathers and folds too."""
    for step in steps:
        match step:
            case Let(expr=expr):
                yield expr
            case Gather(index=index, lets=lets, value=value):
                yield from (index, value, *(let.expr for let in lets))
            case ListFold(entries=entries, value=value):
                yield from (*step_exprs(entries.steps), value)
            case InnerStep(value=value, at=at):
                yield from (value, *(index for _, index in at))


def element_exprs(sweep: Sweep) -> list[Expr]:
    """Every expression over the elements of a row."""
    monoid = sweep.monoid
    found = [let.expr for let in sweep.lets]
    found += [f.lift for f in monoid.folded] + [m.lift for m in monoid.moving]
    found += [lift for o in monoid.own for lift in o.lifts]
    found += [b.lift for b in monoid.best] + [c.lift for c in monoid.lists]
    found += [e for r in monoid.relatives for e in (r.atom, r.factor)]
    found += [p.value for p in monoid.pivots]
    found += [Var(name) for name in monoid.held]
    found += [e for e in (*sweep.span, sweep.only, sweep.counted) if e is not None]
    return found + [s.value for s in sweep.element_stores]


def pivot_exprs(monoid: Monoid) -> list[Expr]:
    """What the first pivots of a chunk are computed from."""
    found = [f.lift for f in monoid.folded] + [p.value for p in monoid.levels[0].pivots]
    return found + [Var(name) for name in monoid.held]


def sum_exprs(sweep: Sweep) -> list[Expr]:
    """What is computed once these pivots are settled."""
    monoid = sweep.monoid
    later = [p.value for level in monoid.levels[1:] for p in level.pivots]
    found = [m.lift for m in monoid.moving]
    found += [e for r in monoid.relatives for e in (r.atom, r.factor)]
    found += [*later, *(s.value for s in sweep.element_stores)]
    return found + [Var(name) for name in monoid.held if later]


def finish_exprs(sweep: Sweep) -> list[Expr]:
    """Every expression evaluated once the row is folded."""
    found = list(step_exprs(sweep.steps)) + [s.value for s in sweep.row_stores]
    found += [take.index for s in sweep.row_stores for take in s.takes]
    for store in sweep.list_stores:
        found += [*step_exprs(store.entries.steps), store.value]
    return found


def sweep_exprs(sweep: Sweep) -> list[Expr]:
    return element_exprs(sweep) + finish_exprs(sweep)
