"""What the template prints of a sweep's monoid: the state struct, rebase, merge."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import CudaDialect
from fusegen.backend.cuda.emit.exchange import exchange
from fusegen.backend.emit.folds import folded_into
from fusegen.backend.emit.render import wrapped
from fusegen.ir.expr import Var, rename, text, variables
from fusegen.ir.kernel import Sweep
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.monoid import Folded, Monoid, Pivot
from fusegen.ir.monoid_text import merge_text, pivots_text

_LINE = 96  # characters of members on one line


@dataclass(frozen=True)
class Field:
    """One member of the state struct."""

    type: str
    name: str
    identity: str
    comment: str


@dataclass(frozen=True)
class PivotView:
    """A pivot's anchor as a function of the state, and its move."""

    function: str
    value: str  # over members of `s`, guarded
    move: str
    moved: str  # the move from the pivot of `s` to that of `at`


@dataclass(frozen=True)
class LevelView:
    """Pivots known together and the sums about them; `suffix` and `tag` tell levels apart."""

    suffix: str
    tag: str  # the last parameter of its rebase, where there are several
    about: str  # the pivots' names
    pivots: tuple[PivotView, ...]
    moves: tuple[PivotView, ...]  # of this and earlier levels, as the sums need them
    moved: tuple[tuple[str, str], ...]  # member, its value at another state's pivots


@dataclass(frozen=True)
class Combined:
    """The members of a ⊕ b that need no pivot, and the others of no elements."""

    choices: tuple[str, ...]  # statements: which side's best is better
    members: tuple[str, ...]  # values of all, in the struct's order

    @property
    def result(self) -> tuple[str, ...]:
        """The statement that ends it."""
        return _returned(self.members)


@dataclass(frozen=True)
class StateView:
    """The scalar part of a sweep's monoid as text."""

    name: str
    fields: tuple[Field, ...]
    combine: Combined | None
    levels: tuple[LevelView, ...]
    exchange: tuple[str, ...]  # lines: how lanes exchange it, a type of <fusegen/meet/lanes.cuh>
    keeps_sides: bool  # do warps merge with the lower lanes on the left?
    ordered: bool  # must the whole team?
    law: tuple[str, ...]
    held: tuple[str, ...]  # numbers of the call or the row that moves depend on
    real: str
    pivots_first: bool  # are a row's pivots known before any sum about them is made?
    counted: tuple[str, ...]  # members that are then known without counting: how many columns

    @property
    def identity(self) -> tuple[str, ...]:
        """The statement that returns the state of no elements."""
        return _returned([f.identity for f in self.fields])

    @property
    def held_params(self) -> str:
        """Parameters of what moves sums, after the others."""
        return "".join(f", {self.real} {held(n)}" for n in self.held)

    @property
    def held_args(self) -> str:
        """Arguments where such a function calls another."""
        return "".join(f", {held(n)}" for n in self.held)

    @property
    def given_args(self) -> str:
        """Arguments where a kernel, or a sweep's fold, calls it."""
        return "".join(f", {n}" for n in self.held)


def _returned(members: Iterable[str]) -> tuple[str, ...]:
    """The statement that returns a struct of them, in as few lines as hold it."""
    first, *more = wrapped(members, _LINE)
    if not more:
        return (f"return {{{first}}};",)
    return ("return {", *(f"    {ln}," for ln in (first, *more)), "};")


def held(name: str) -> str:
    """A number of the call, or of the row, in functions that move sums, and in merges of states: no
    name of the user's."""
    return f"{name}_held"


def state_view(
    sweep: Sweep, name: str, dialect: CudaDialect, column_type: str,
    found: Collection[str] | None = None,
) -> StateView:
    """`found`: members that lanes find once they know all that needs no pivot, where a row's pivots
    are known before its sums; None where sums move."""
    monoid, first = sweep.monoid, found is not None
    notes = dict(sweep.notes)
    fields = _fields(monoid, notes, dialect, column_type)
    counted = tuple(f.name for f in monoid.folded if first and f.counts)
    return StateView(
        name=name, fields=fields, combine=_combine(monoid, fields, dialect, found or ()),
        levels=tuple(_levels(monoid, dialect, _told(sweep), moves=not first)),
        exchange=exchange(name, monoid, (*(found or ()), *counted)),
        keeps_sides=bool(monoid.own), ordered=monoid.ordered,
        law=merge_text(monoid), held=() if first else monoid.held, real=dialect.real,
        pivots_first=first, counted=counted,
    )


def _told(sweep: Sweep) -> frozenset[str]:
    """Pivots about which a row's end takes sums of differences, such as help others to move: it
    moves these to another value itself, from the pivot, and not from one near it."""
    moving = sweep.monoid.moving
    help_others = {n for m in moving for n, _ in m.transport if n != m.name}
    read = names_in((sweep.steps, sweep.element_stores, sweep.row_stores, sweep.list_stores))
    return frozenset(pivot for m in moving if m.name in help_others and f"state.{m.name}" in read
                     for pivot in m.pivots)


def identity_of(folded: Folded, dialect: CudaDialect) -> str:
    match folded.fold:
        case "sum":
            return zero_of(folded.kind, dialect)
        case "prod":
            return "1" if folded.kind == "int" else dialect.number(1.0)
        case "max":
            return lowest(folded.kind, dialect)
        case "min":
            return greatest(folded.kind, dialect)


def zero_of(kind: str, dialect: CudaDialect) -> str:
    """The sum of nothing."""
    return "0" if kind == "int" else dialect.number(0.0)


def lowest(kind: str, dialect: CudaDialect) -> str:
    return dialect.use("kMinInt") if kind == "int" else dialect.number(float("-inf"))


def greatest(kind: str, dialect: CudaDialect) -> str:
    return dialect.use("kMaxInt") if kind == "int" else dialect.number(float("inf"))


def _fields(
    monoid: Monoid, notes: dict[str, str], dialect: CudaDialect, column_type: str
) -> tuple[Field, ...]:
    found = []
    for f in monoid.folded:
        meaning = f"{f.fold} of {text(f.lift)}"
        found.append(
            Field(dialect.type_of(f.kind), f.name, identity_of(f, dialect),
                  _comment(meaning, notes.get(f.name)))
        )
    for b in monoid.best:
        worst = lowest(b.kind, dialect) if b.largest else greatest(b.kind, dialect)
        meaning = f"{'greatest' if b.largest else 'least'} {text(b.lift)}"
        found.append(Field(dialect.type_of(b.kind), b.value, worst, meaning))
        column = _comment("its column", notes.get(b.name))
        found.append(Field(column_type, b.name, dialect.use("kNoColumn"), column))
    for m in monoid.moving:
        meaning = f"sum of {text(m.lift)}"
        found.append(Field(dialect.type_of(m.kind), m.name, zero_of(m.kind, dialect),
                           _comment(meaning, notes.get(m.name))))
    for o in monoid.own:
        found.append(Field(o.type, o.name, f"{o.type}::identity()",
                           _comment(o.operator.name, notes.get(o.name))))
    return tuple(found)


def _comment(meaning: str, note: str | None) -> str:
    return f"{meaning}   {note}" if note else meaning


def _combine(
    monoid: Monoid, fields: tuple[Field, ...], dialect: CudaDialect, found: Collection[str]
) -> Combined | None:
    """None where every member needs a pivot. `found`: those that lanes find in other ways."""
    values = {f.name: folded_into(f, f"a.{f.name}", f"b.{f.name}", dialect.use)
              for f in monoid.folded}
    choices = []
    for b in monoid.best:
        if b.name in found:
            if b.value not in found:
                better = dialect.use("greater_of" if b.largest else "lesser_of")
                values[b.value] = f"{better}(a.{b.value}, b.{b.value})"
            continue
        order, chosen = dialect.use("above" if b.largest else "below"), f"{b.name}_is_a"
        choices.append(
            f"const bool {chosen} = {order}(a.{b.value}, a.{b.name}, b.{b.value}, b.{b.name});"
        )
        values |= {n: f"{chosen} ? a.{n} : b.{n}" for n in (b.value, b.name)}
    values |= {o.name: f"merge(a.{o.name}, b.{o.name})" for o in monoid.own}
    members = tuple(values.get(f.name, f.identity) for f in fields)
    return Combined(tuple(choices), members) if values else None


def pivot_view(
    pivot: Pivot, monoid: Monoid, dialect: CudaDialect, *, moves: bool = True, told: bool = False
) -> PivotView:
    """Where sums do not move, all elements of a row are seen from its pivot as it is: who reads the
    sums asks if it can be used, but for those who read states."""
    # Sums may be kept about any value: one near the pivot, the same for equal states, will do where
    # a row's end need not be told which.
    dialect.roughly = not told
    dialect.counts = frozenset(f"s.{f.name}" for f in monoid.folded if f.counts)
    value = dialect.text(rename(pivot.value, {n: f"s.{n}" for n in variables(pivot.value)}))
    dialect.roughly = False
    if pivot.action != "same" and (moves or dialect.exact):
        value = f"{dialect.use(f'{pivot.action}_anchor')}({value})"
    moved = "" if not moves else dialect.text(pivot.moved(
        lambda n: Var(f"{monoid.pivot(n).anchor}_of(s)"),
        lambda n: Var(f"{monoid.pivot(n).anchor}_of(at)"),
    ))
    return PivotView(function=pivot.anchor, value=value, move=pivot.move, moved=moved)


def _levels(
    monoid: Monoid, dialect: CudaDialect, told: Collection[str], *, moves: bool
) -> list[LevelView]:
    found: list[LevelView] = []
    known: list[PivotView] = []
    given = {n: held(n) for n in monoid.held}
    for number, level in enumerate(monoid.levels):
        own = [pivot_view(p, monoid, dialect, moves=moves, told=p.name in told)
               for p in level.pivots]
        known += own
        needed = {n for m in level.moving for _, factor in m.transport for n in variables(factor)}
        found.append(LevelView(
            suffix=f"_{number + 1}" if number else "",
            tag=f", Level<{number + 1}>" if len(monoid.levels) > 1 else "",
            about=pivots_text(level, monoid), pivots=tuple(own),
            moves=tuple(p for p in known if p.move in needed),
            moved=tuple(
                (m.name, dialect.text(rename(monoid.transported(m, "s"), given)))
                for m in level.moving if moves
            ),
        ))
    return found
