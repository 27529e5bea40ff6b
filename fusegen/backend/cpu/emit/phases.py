"""The steps of `absorb` as the template prints them, and how a chunk's lanes become one value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fusegen.backend.cpu.emit.divisors import divisor_line
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.emit.folds import folded_into
from fusegen.backend.emit.lines import Line
from fusegen.ir.expr import Call, Expr, walk
from fusegen.ir.monoid import Folded

_ACROSS = {"sum": "total", "prod": "product", "max": "greatest", "min": "least"}
EXTREME = {"max": "highest", "min": "lowest"}

_QUICK = frozenset((
    "add", "sub", "mul", "rounded_mul", "square", "neg", "abs", "maximum", "minimum", "where",
    "zero_wins", "zeros_win", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "isnan",
    "isinf", "isfinite", "to_float", "to_int", "to_bool",
))
"""Operations that take an instruction or a few."""


@dataclass(frozen=True)
class Phase:
    """A numbered step of `absorb`: lines, then a loop over the chunk, then lines."""

    title: str
    before: tuple[str, ...] = ()
    divisors: tuple[str, ...] = ()  # row values that its loop divides by
    condition: str = ""  # the loop runs only if it holds
    search: str = ""  # the function that visits the chunk, if one does, and its first arguments
    loop: tuple[str, ...] = ()
    by_turns: bool = False  # do vectors go to two folds by turns?
    sums: tuple[str, ...] = ()  # lanes that it adds up, run by run
    after: tuple[str, ...] = ()
    number: int = 0  # in the sweep
    asks: bool = False  # for memory ahead, step by step?
    past: tuple[str, ...] = ()  # arrays that it stores where they may go past the caches

    @property
    def visitor(self) -> str:
        """The function that visits the chunk, and its first arguments."""
        if self.past:
            arrays = ", ".join(f"row.{name}" for name in self.past)
            return f"{fg('each_result')}<V>({fg('past_lines')}(row.past, begin, end, {arrays}), "
        return f"{fg('each_by_turns' if self.by_turns else 'each')}<V>("

    @property
    def ended(self) -> str:
        """What the visitor is told behind the loop: of which lanes a run ends."""
        return "".join(f", {name}_lanes" for name in self.sums)


@dataclass(frozen=True)
class Part:
    """Phases that are a function of their own, so that several rows can take turns with it."""

    name: str
    title: str
    row_values: tuple[Line, ...]
    phases: tuple[Phase, ...]

    @property
    def adds_up(self) -> bool:
        """Is it told whether columns are so many that sums have runs?"""
        return any(phase.sums for phase in self.phases)


@dataclass(frozen=True)
class Gathered:
    """A list, and the lines of the function that gives its values from `col` on."""

    name: str
    lines: tuple[str, ...]


def numbered(parts: Sequence[Part]) -> tuple[Part, ...]:
    """With the numbers of their phases, and divisors where they are first used. The last loop that
    always runs asks for memory ahead, for its steps take longest."""
    parts = [replace(part, phases=tuple(_divided(part.phases))) for part in parts]
    phases = [p for part in parts for p in part.phases]
    loops = [p for p in phases if p.loop and not p.condition]
    told = {id(p): replace(p, number=i, asks=p is loops[-1] if loops else False)
            for i, p in enumerate(phases, 1)}
    return tuple(replace(part, phases=tuple(told[id(p)] for p in part.phases)) for part in parts)


def _divided(phases: Iterable[Phase]) -> Iterator[Phase]:
    known: set[str] = set()
    for phase in phases:
        new = [divisor_line(name) for name in phase.divisors if name not in known]
        known |= {*phase.divisors}
        yield replace(phase, before=(*new, *phase.before))


def is_quick(exprs: Iterable[Expr]) -> bool:
    """Does a vector of these take less time than a fold waits for its own last result? Then two
    folds wait side by side."""
    return all(e.op in _QUICK for x in exprs for e in walk(x) if isinstance(e, Call))


def is_extreme(f: Folded) -> bool:
    """Is NaN to be looked for?"""
    return f.fold in EXTREME and f.kind == "float"


def lanes_of_fold(name: str, *, by_turns: bool) -> str:
    """Where the vector at hand goes."""
    return f"{name}_lanes{'[turn]' if by_turns else ''}"


def nothing(
    f: Folded, kind: str, identity: str, *, by_turns: bool, in_runs: str = "in_runs"
) -> str:
    """The declaration of lanes of this type that no element has been folded into."""
    if f.fold == "sum":
        return no_sum(kind, f.name, by_turns=by_turns, in_runs=in_runs)
    if is_extreme(f):
        return f"{fg(EXTREME[f.fold])}<V> {f.name}_lanes{'[2]' if by_turns else ''};"
    value = f"{fg('all')}<{kind}>({identity})"
    return f"{kind} {f.name}_lanes{f'[2] = {{{value}, {value}}}' if by_turns else f' = {value}'};"


def no_sum(kind: str, name: str, *, by_turns: bool, in_runs: str = "in_runs") -> str:
    """The same of a sum about pivots. in_runs: what says whether there may be many columns."""
    return f"{fg('sums')}<{kind}, {2 if by_turns else 1}, {in_runs}> {name}_lanes;"


def joined(f: Folded, *, by_turns: bool) -> str:
    """The lanes of all turns."""
    if f.fold == "sum":
        return f"{f.name}_lanes.each()"
    one, other = f"{f.name}_lanes[0]", f"{f.name}_lanes[1]"
    if not by_turns:
        return f"{f.name}_lanes"
    return f"{fg('both')}({one}, {other})" if is_extreme(f) else folded_into(f, one, other, fg)


def across(f: Folded, *, by_turns: bool) -> str:
    """One value of the lanes."""
    lanes = joined(f, by_turns=by_turns)
    return f"{lanes}.across()" if is_extreme(f) else f"{fg(_ACROSS[f.fold])}({lanes})"


def total(name: str) -> str:
    """The sum of the lanes."""
    return f"{fg('total')}({name}_lanes.each())"
