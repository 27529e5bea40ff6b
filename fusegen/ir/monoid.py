"""The merged monoid of a sweep: state, identity, lift, merge, project.

A state has four groups of components:

  folded    base monoids of the elements themselves: max, min, sum, prod, and (value, column) bests
  moving    sums of basis functions h(u), where u is the element relative to a *pivot*, a function
            of other components: u = x − p (shift), u = x / p (scale) or u = [x = p] (same)
  own       states of the user's own monoids, which know nothing of pivots
  lists     the K best (value, column) pairs

Every component has a `width`: the numbers it holds of a row, 1 unless it is a vector. Transports
are scalars: they move the numbers of a vector alike.

When the pivot changes from p to q, h(u at q) = T · h(u at p) with T a function of the move,
δ = p − q, ρ = p / q or [p = q], and of numbers of the call. So with S the vector of moving sums,

  (p, S) ⊕ (q, R) = (p·q, T(p → p·q) S + T(q → p·q) R).

Milakov & Gimelshein 2018, equation 4, is the case u = x − m, h = exp, T = exp(δ).

Pivots of the first *level* are functions of folded components; those of the next are functions of
moving sums too (a softmax-weighted mean), and sums about them come after those sums.

Guard policy, the only one; docs/special_values.md says what follows. A pivot is *usable* if it is
finite, and for a scale not 0. While sums are kept, any other (no elements, all −inf, +inf, NaN) is
*anchored* at 0 (shift) or 1 (scale); same compares with it as it is. A sum that is 0 stays 0,
whatever T is; of one that `forgets` nothing is left where T is 0, whatever it was. When the sweep
ends, the sums that hang on a pivot that is not usable are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from fusegen.ir.dtypes import Kind
from fusegen.ir.expr import ONE, Expr, Lit, Var, call, variables
from fusegen.ir.operator import Operator
from fusegen.ir.transport import counted, polynomial, transported

FoldName = Literal["max", "min", "sum", "prod"]
Action = Literal["shift", "scale", "same"]
_MOVES: dict[Action, str] = {"shift": "shift", "scale": "ratio", "same": "same"}

Anchors = Callable[[str], Expr]
"""Where a pivot stands, by its name."""


def move_name(pivot: str, action: Action, unit: str = "") -> str:
    """Name of δ = anchor(from) − anchor(to), ρ = anchor(from) / anchor(to), or [from = to].

    With a unit, δ is divided by the unit's anchor(to)."""
    return f"{pivot}_{_MOVES[action]}{f'_over_{unit}' if unit else ''}"


@dataclass(frozen=True, slots=True)
class Folded:
    """A base monoid: `state.name = fold over elements of lift`."""

    name: str
    fold: FoldName
    lift: Expr  # of element values
    kind: Kind
    width: int = 1

    @property
    def counts(self) -> bool:
        """Is it the number of elements?"""
        return self.fold == "sum" and self.lift == Lit(1.0)


@dataclass(frozen=True, slots=True)
class Best:
    """The greatest (or least) value and its column; NaN first, ties to the lowest column.

    Fields of the state: `name` (the column) and `name_value`.
    """

    name: str
    largest: bool
    lift: Expr
    kind: Kind
    width: int = 1

    @property
    def value(self) -> str:
        return f"{self.name}_value"


@dataclass(frozen=True, slots=True)
class Pivot:
    """A row value that moving sums are kept relative to; `value` is over other components."""

    name: str
    action: Action
    value: Expr
    unit: str = ""  # the scale pivot in whose units elements are measured from this one

    @property
    def move(self) -> str:
        return move_name(self.name, self.action, self.unit)

    @property
    def anchor(self) -> str:
        return f"{self.name}_anchor"

    def moved(self, start: Anchors, end: Anchors) -> Expr:
        """The move between two places."""
        return self.relative(start(self.name), end)

    def relative(self, value: Expr, at: Anchors) -> Expr:
        """A value as seen from the pivot's anchor."""
        seen = _relative(self.action, value, at(self.name))
        return call("div", seen, at(self.unit)) if self.unit else seen


def _relative(action: Action, value: Expr, anchor: Expr) -> Expr:
    match action:
        case "shift":
            return call("sub", value, anchor)
        case "scale":
            return call("div", value, anchor)
        case "same":
            return call("where", call("eq", value, anchor), Lit(1.0), Lit(0.0))


@dataclass(frozen=True, slots=True)
class Relative:
    """u: the element value `atom` relative to a pivot's anchor, times a number of the row."""

    name: str
    atom: Expr
    pivot: str
    factor: Expr = ONE


@dataclass(frozen=True, slots=True)
class Moving:
    """Σ lift(u); `transport` gives T's row: pairs (component, factor over the pivots' moves).

    Counts are whole numbers: their factors are 0 or 1.
    """

    name: str
    lift: Expr
    transport: tuple[tuple[str, Expr], ...]
    pivots: tuple[str, ...]
    width: int = 1
    lags: bool = False  # may it be about another value near its pivot, as is proved?
    forgets: bool = False  # is nothing left of it where its pivot is far away, whatever it was?

    @property
    def kind(self) -> Kind:
        return self.lift.kind


@dataclass(frozen=True, slots=True)
class KBest:
    """The K greatest (value, column) pairs of lift, best first; NaN first, ties to low columns."""

    name: str
    k: int
    lift: Expr
    kind: Kind
    width: int = 1

    @property
    def value(self) -> str:
        """Name that list expressions give an entry's value."""
        return f"{self.name}_value"

    @property
    def column(self) -> str:
        return f"{self.name}_column"


@dataclass(frozen=True, slots=True)
class Own:
    """A monoid of the user's own: its state is one member, a struct of its operator's fields."""

    name: str
    type: str  # of the struct, one per operator of a program
    operator: Operator
    lifts: tuple[Expr, ...]  # of element values, by field
    ordered: bool  # states must merge in row order, the left one left
    width: int = 1


Component = Folded | Best | Moving | KBest | Own


@dataclass(frozen=True, slots=True)
class Level:
    """Pivots that are known together, and the sums that need no later ones."""

    pivots: tuple[Pivot, ...]
    moving: tuple[Moving, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Monoid:
    """All that one sweep keeps of a row."""

    folded: tuple[Folded, ...] = ()
    best: tuple[Best, ...] = ()
    pivots: tuple[Pivot, ...] = ()
    relatives: tuple[Relative, ...] = ()
    moving: tuple[Moving, ...] = ()
    own: tuple[Own, ...] = ()
    lists: tuple[KBest, ...] = ()

    @property
    def components(self) -> tuple[Component, ...]:
        """Every component, in the order of the state."""
        return (*self.folded, *self.best, *self.moving, *self.own, *self.lists)

    @property
    def operators(self) -> tuple[Own, ...]:
        """The user's own monoids, each once however many states it has."""
        return tuple({c.type: c for c in self.own}.values())

    @property
    def ordered(self) -> bool:
        """Must states merge in row order?"""
        return any(c.ordered for c in self.own)

    @property
    def is_empty(self) -> bool:
        return not self.components

    @property
    def has_scalars(self) -> bool:
        return bool(self.folded or self.best or self.moving or self.own)

    @property
    def numbers(self) -> Monoid:
        """Without its vectors."""
        return replace(self, folded=tuple(f for f in self.folded if f.width == 1),
                       moving=tuple(m for m in self.moving if m.width == 1))

    @property
    def held(self) -> tuple[str, ...]:
        """Numbers of the call or the row that moves depend on: every merge has them at hand."""
        moves = {p.move for p in self.pivots}
        used = [n for m in self.moving for _, factor in m.transport for n in variables(factor)]
        return tuple(dict.fromkeys(n for n in used if n not in moves))

    @property
    def levels(self) -> tuple[Level, ...]:
        """Pivots and moving sums in the order in which they become known."""
        found: list[Level] = []
        pivots, moving = list(self.pivots), list(self.moving)
        while pivots:
            waiting = {m.name for m in moving}
            ready = tuple(p for p in pivots if not waiting & set(variables(p.value)))
            pivots = [p for p in pivots if p not in ready]
            late = {p.name for p in pivots}
            done = tuple(m for m in moving if not late & set(m.pivots))
            moving = [m for m in moving if m not in done]
            found.append(Level(ready, done))
        return tuple(found)

    def folded_as(self, best: Best) -> str:
        """The folded extreme that is its value, too; or ""."""
        fold = "max" if best.largest else "min"
        return next((f.name for f in self.folded if f.fold == fold and f.lift == best.lift), "")

    def transported(self, moving: Moving, side: str) -> Expr:
        """Σ of factor · sum, sums as members of `side`."""

        kinds = {f.name: f.kind for f in self.folded} | {m.name: m.kind for m in self.moving}
        held = [Var(f"{side}.{name}", kinds[name]) for name, _ in moving.transport]
        terms = [(h if h.kind == moving.kind else call("to_float", h), f)  # a count beside numbers
                 for h, (_, f) in zip(held, moving.transport, strict=True)]
        if moving.kind == "int":
            return counted(terms)
        for pivot in self.pivots:
            powers = polynomial(pivot.move, terms)
            if powers is not None:
                return powers
        same = frozenset(p.move for p in self.pivots if p.action == "same")
        return transported(terms, same, forgets=moving.forgets)

    def relative(self, relative: Relative, at: Anchors) -> Expr:
        """u of an element, with the pivots at these places."""
        seen = self.pivot(relative.pivot).relative(relative.atom, at)
        return seen if relative.factor == ONE else call("mul", seen, relative.factor)

    def pivot(self, name: str) -> Pivot:
        return next(p for p in self.pivots if p.name == name)
