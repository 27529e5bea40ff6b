"""A sweep's monoid as C++: the state struct, its identity, rebase and merge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusegen.backend.cpu.emit.dialect import KNOWN, ROW, CpuDialect
from fusegen.backend.cpu.emit.each import each
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.own import OwnView, own_view
from fusegen.backend.cpu.emit.rebase import rebase_lines
from fusegen.backend.cpu.emit.scope import RowScope
from fusegen.backend.emit.folds import folded_into, taken_in
from fusegen.backend.emit.lines import Line, uses_of
from fusegen.backend.host.chunks import LONG_LIST
from fusegen.ir.dtypes import Kind
from fusegen.ir.expr import Lit, Var, text, variables
from fusegen.ir.kernel import Kernel, Sweep
from fusegen.ir.monoid import Best, Folded, KBest, Monoid, Moving, Pivot
from fusegen.ir.monoid_text import merge_text

IN_ORDER_OF_PAIRS = 64
"""As LONG_LIST; longer ones gather candidates and select. Over vectors many rows have their lists
at a time, and elements cost more than to insert a few."""


@dataclass(frozen=True)
class Field:
    type: str
    name: str
    comment: str


@dataclass(frozen=True)
class StateView:
    """What the state partial prints."""

    owns: tuple[OwnView, ...]
    fields: tuple[Field, ...]
    identity: tuple[str, ...]
    law: tuple[str, ...]
    anchors: tuple[str, ...]  # parameters of rebase, and the numbers that moves depend on
    rebase: tuple[str, ...]
    merge: tuple[Line, ...]
    merge_needs: tuple[str, ...]  # "row", "known": values that pivots start from, or move by

    @property
    def merge_params(self) -> list[str]:
        given = [f"const {name.capitalize()}& {name}" for name in self.merge_needs]
        return ["State& state", "State& part", *given]


def state_view(sweep: Sweep, scope: RowScope, dialect: CpuDialect) -> StateView:
    monoid = sweep.monoid
    merge = _merge(monoid, scope, dialect)
    lanes = replace(dialect, lanes=True)
    return StateView(
        owns=tuple(own_view(c, lanes) for c in monoid.operators),
        fields=tuple(_fields(monoid, dict(sweep.notes), scope.kernel, dialect)),
        identity=tuple(_identity(monoid, dialect)),
        law=merge_text(monoid),
        anchors=(*(f"{dialect.real} {p.anchor}" for p in monoid.pivots),
                 *(f"{dialect.real} {name}" for name in monoid.held)),
        rebase=tuple(rebase_lines(monoid, dialect)),
        merge=tuple(merge),
        merge_needs=tuple(name for name in (ROW, KNOWN) if name in uses_of(merge)),
    )


def _fields(
    monoid: Monoid, notes: Mapping[str, str], kernel: Kernel, dialect: CpuDialect
) -> list[Field]:
    def noted(meaning: str, name: str) -> str:
        return f"{meaning}   {notes[name]}" if notes.get(name) else meaning

    found = [
        Field(_held(f, dialect), f.name, noted(f"{f.fold} of {text(f.lift)}", f.name))
        for f in monoid.folded
    ]
    for b in monoid.best:
        which = "greatest" if b.largest else "least"
        comment = f"column of the {which} {text(b.lift)}"
        found.append(Field(leader_type(b, dialect), b.name, noted(comment, b.name)))
    for p in monoid.pivots:
        rest = {"shift": ", or 0", "scale": ", or 1", "same": ""}[p.action]
        of = f"{text(p.value)}{rest} where that is no usable number" if rest else text(p.value)
        found.append(Field(dialect.real, p.anchor, of))
    found += [
        Field(_held(m, dialect), m.name, noted(f"sum of {text(m.lift)}", m.name))
        for m in monoid.moving
    ]
    for o in monoid.own:
        found.append(Field(f"{o.type}<{dialect.real}>", o.name, noted(o.operator.name, o.name)))
    for c in monoid.lists:
        meaning = f"top {c.k} of {text(c.lift)}"
        found.append(Field(list_type(c, kernel, dialect), c.name, noted(meaning, c.name)))
    return found


def _held(component: Folded | Moving, dialect: CpuDialect) -> str:
    """The type of a number, or of where a vector's lie."""
    kind = dialect.type_of(component.kind)
    return kind if component.width == 1 else f"{kind}*"


def leader_type(best: Best, dialect: CpuDialect) -> str:
    order = "descending" if best.largest else "ascending"
    return f"{fg('leader')}<{dialect.type_of(best.kind)}, {fg(order)}>"


def gathers(best: Best | KBest, kernel: Kernel) -> bool:
    """Is it a list that is too long to be kept in order?"""
    longest = IN_ORDER_OF_PAIRS if kernel.has_vectors else LONG_LIST
    return isinstance(best, KBest) and best.k > longest


def list_type(best: KBest, kernel: Kernel, dialect: CpuDialect) -> str:
    kept = "candidates" if gathers(best, kernel) else "best_list"
    return f"{fg(kept)}<{dialect.type_of(best.kind)}, {best.k}>"


def identity_of(folded: Folded, dialect: CpuDialect) -> str:
    whole = folded.kind == "int"
    match folded.fold:
        case "sum":
            return zero_of(folded.kind, dialect)
        case "prod":
            return "1" if whole else dialect.number(1.0)
        case "max":
            return lowest(folded.kind)
        case "min":
            return highest(folded.kind)


def zero_of(kind: Kind, dialect: CpuDialect) -> str:
    """The sum of nothing."""
    return "0" if kind == "int" else dialect.number(0.0)


def lowest(kind: Kind) -> str:
    return "INT64_MIN" if kind == "int" else f"-{fg('infinity')}"


def highest(kind: Kind) -> str:
    return "INT64_MAX" if kind == "int" else fg("infinity")


def _identity(monoid: Monoid, dialect: CpuDialect) -> list[str]:
    lines = [_filled(f, identity_of(f, dialect)) for f in monoid.folded]
    lines += [f"state.{c.name}.clear();" for c in monoid.best]
    for p in monoid.pivots:
        lines.append(f"state.{p.anchor} = {_first_anchor(p, monoid, dialect)};")
    lines += [_filled(m, zero_of(m.kind, dialect)) for m in monoid.moving]
    lines += [f"state.{o.name} = {o.type}<{dialect.real}>::identity();" for o in monoid.own]
    return lines + [f"state.{c.name}.clear();" for c in monoid.lists]


def _filled(component: Folded | Moving, value: str) -> str:
    """A component of no elements."""
    at = each(component)
    return f"{at.loop}state.{at.name} = {value};"


def _first_anchor(pivot: Pivot, monoid: Monoid, dialect: CpuDialect) -> str:
    """The anchor before any element."""
    if pivot.action == "same":
        (name,) = variables(pivot.value)
        return identity_of(next(f for f in monoid.folded if f.name == name), dialect)
    return dialect.number(0.0 if pivot.action == "shift" else 1.0)


# ---- merge ----


def anchor_text(pivot: Pivot, dialect: CpuDialect) -> str:
    """The pivot's anchor as a function of other components."""
    value = dialect.text(pivot.value)
    return value if pivot.action == "same" else f"{fg(pivot.action + '_anchor')}({value})"


def _merge(monoid: Monoid, scope: RowScope, dialect: CpuDialect) -> list[Line]:
    used = {n for p in monoid.pivots for n in variables(p.value)}
    lines: list[Line] = []
    if monoid.pivots:
        own = [f.name for f in monoid.folded] + [m.name for m in monoid.moving]
        given = [Var(name) for name in monoid.held]
        lines += scope.locals([*(p.value for p in monoid.pivots), *given], own=own)
    first = [f for f in monoid.folded if f.name in used]
    for f in first:
        value = folded_into(f, f"state.{f.name}", f"part.{f.name}", fg)
        lines.append(Line(f"const {dialect.type_of(f.kind)} {f.name} = {value};"))
    for number, level in enumerate(monoid.levels):
        lines += [anchor_line(p, dialect) for p in level.pivots]
        for side in ("state", "part"):
            lines.append(Line(f"rebase({side}, {anchors_for(monoid, number, side)});"))
        for m in level.moving:
            if m.name in used:
                total = f"state.{m.name} + part.{m.name}"
                lines.append(Line(f"const {dialect.type_of(m.kind)} {m.name} = {total};"))
    last = [f"state.{f.name} = {f.name};" for f in first]
    for f in monoid.folded:
        if f not in first:
            at = each(f)
            last.append(f"{at.loop}{taken_in(f, f'state.{at.name}', f'part.{at.name}', fg)}")
    for m in monoid.moving:
        at = each(m)
        last.append(f"{at.loop}state.{at.name} += part.{at.name};")
    last += [f"state.{o.name} = merge(state.{o.name}, part.{o.name});" for o in monoid.own]
    ranked = [c.name for c in monoid.best] + [c.name for c in monoid.lists]
    last += [f"state.{name}.merge(part.{name});" for name in ranked]
    return [*lines, *map(Line, last)]


def anchor_line(pivot: Pivot, dialect: CpuDialect) -> Line:
    """The declaration of a pivot's anchor."""
    text = f"const {dialect.real} {pivot.anchor} = {anchor_text(pivot, dialect)};"
    return dialect.line(text, pivot.value, declares=pivot.anchor)


def anchors_for(monoid: Monoid, number: int, side: str) -> str:
    """Arguments of rebase at a level: pivots of later levels stay where that side has them."""
    here = {p.name for level in monoid.levels[: number + 1] for p in level.pivots}
    anchors = (p.anchor if p.name in here else f"{side}.{p.anchor}" for p in monoid.pivots)
    return ", ".join([*anchors, *monoid.held])


def is_ordering(pivot: Pivot, monoid: Monoid) -> bool:
    """Is the pivot made of extremes alone, so that few chunks move it?"""
    folds = {f.name: f.fold for f in monoid.folded}
    return all(folds.get(n, "max") in ("max", "min") for n in variables(pivot.value))


def is_count(folded: Folded) -> bool:
    return folded.fold == "sum" and folded.lift == Lit(1.0)


