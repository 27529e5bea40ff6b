"""The merged monoid of a sweep: state, identity, lift, merge, project.

A state has four groups of components:

  folded    base monoids of the elements themselves: max, min, sum, prod, and (value, column) bests
  moving    sums of basis functions h(u), where u is the element relative to a *pivot*, a function
            of the folded components: u = x − p (shift) or u = x / p (scale)
  own       states of the user's own monoids, which know nothing of pivots
  lists     the K best (value, column) pairs

When the pivot changes from p to q, h(u at q) = T · h(u at p) with T a function of the move alone,
δ = p − q or ρ = p / q. So with S the vector of moving sums,

  (p, S) ⊕ (q, R) = (p·q, T(p → p·q) S + T(q → p·q) R).

Milakov & Gimelshein 2018, equation 4, is the case u = x − m, h = exp, T = exp(δ).

Guard policy, the only one: a pivot that is no usable number (empty or all −inf rows, ±inf, NaN; for
scale pivots also 0) is *anchored* at 0 (shift) or 1 (scale) while sums are kept, a sum that is 0
stays 0 whatever T is, and when the sweep ends the sums that hang on such a pivot are NaN, which is
what the text gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusegen.dtypes import Kind
from fusegen.expr import Expr, Var, text
from fusegen.operator import Operator

FoldName = Literal["max", "min", "sum", "prod"]
Action = Literal["shift", "scale"]


def move_name(pivot: str, action: Action) -> str:
    """Name of δ = anchor(from) − anchor(to), or ρ = anchor(from) / anchor(to)."""
    return f"{pivot}_{'shift' if action == 'shift' else 'ratio'}"


@dataclass(frozen=True, slots=True)
class Folded:
    """A base monoid: `state.name = fold over elements of lift`."""

    name: str
    fold: FoldName
    lift: Expr  # of element values
    kind: Kind


@dataclass(frozen=True, slots=True)
class Best:
    """The greatest (or least) value and its column; NaN first, ties to the lowest column.

    Fields of the state: `name` (the column) and `name_value`.
    """

    name: str
    largest: bool
    lift: Expr
    kind: Kind

    @property
    def value(self) -> str:
        return f"{self.name}_value"


@dataclass(frozen=True, slots=True)
class Pivot:
    """A row value that moving sums are kept relative to; `value` is over folded components."""

    name: str
    action: Action
    value: Expr

    @property
    def move(self) -> str:
        return move_name(self.name, self.action)

    @property
    def anchor(self) -> str:
        return f"{self.name}_anchor"


@dataclass(frozen=True, slots=True)
class Relative:
    """u: the element value `atom` relative to a pivot's anchor."""

    name: str
    atom: Expr
    pivot: str
    action: Action


@dataclass(frozen=True, slots=True)
class Moving:
    """Σ lift(u); `transport` gives T's row: pairs (component, factor over the pivots' moves)."""

    name: str
    lift: Expr
    transport: tuple[tuple[str, Expr], ...]
    pivots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KBest:
    """The K greatest (value, column) pairs of lift, best first; NaN first, ties to low columns."""

    name: str
    k: int
    lift: Expr
    kind: Kind

    @property
    def value(self) -> str:
        """Name that list expressions give an entry's value."""
        return f"{self.name}_value"

    @property
    def column(self) -> str:
        return f"{self.name}_column"


@dataclass(frozen=True, slots=True)
class Own:
    """A monoid of the user's own: its state is one member, a struct of its operator's fields.

    `ordered`: states must merge in row order, the left one left.
    """

    name: str
    type: str  # of the struct, one per operator of a program
    operator: Operator
    lifts: tuple[Expr, ...]  # of element values, by field
    ordered: bool

    @property
    def identity_text(self) -> str:
        return f"{self.type}({', '.join(text(f.identity) for f in self.operator.fields)})"

    @property
    def merge_text(self) -> tuple[str, ...]:
        """⊕ as a person would write it: steps and fields."""
        lines = [f"{n} = {text(e)}" for n, e in self.operator.steps]
        found = [f"{f.name} = {text(f.merge)}" for f in self.operator.fields]
        return (*lines, *(ln for ln in found if ln not in lines and not _echoes(ln)))


def _echoes(line: str) -> bool:
    left, _, right = line.partition(" = ")
    return left == right


Component = Folded | Best | Moving | KBest | Own


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

    def pivot(self, name: str) -> Pivot:
        return next(p for p in self.pivots if p.name == name)

    @property
    def state_text(self) -> str:
        names = [c.name for c in self.components if not isinstance(c, KBest)]
        names += [f"top {c.k} of {text(c.lift)}" for c in self.lists]
        return f"({', '.join(names)})"

    @property
    def identity_text(self) -> str:
        zero = {"max": "-inf", "min": "+inf", "sum": "0", "prod": "1"}
        parts = [zero[c.fold] for c in self.folded]
        parts += ["none" for _ in self.best] + ["0" for _ in self.moving]
        parts += [c.identity_text for c in self.own]
        parts += ["empty" for _ in self.lists]
        return f"({', '.join(parts)})"

    @property
    def merge_text(self) -> tuple[str, ...]:
        """One line per component: how two states a and b become one."""
        lines = []
        for f in self.folded:
            if f.fold in ("max", "min"):
                lines.append(f"{f.name} = {f.fold}(a.{f.name}, b.{f.name})")
            else:
                lines.append(f"{f.name} = a.{f.name} {'+' if f.fold == 'sum' else '·'} b.{f.name}")
        for b in self.best:
            lines.append(f"{b.name} = column of the {'greater' if b.largest else 'lesser'} value")
        for m in self.moving:
            lines.append(f"{m.name} = {self._moved(m, 'a')} + {self._moved(m, 'b')}")
        for c in self.own:
            order = ", in row order" if c.ordered else ""
            lines.append(f"{c.name} = a.{c.name} ⊕ b.{c.name} of {c.operator.name}{order}:")
            lines += [f"  {line}" for line in c.merge_text]
        lines += [f"{c.name} = best {c.k} of both lists" for c in self.lists]
        return tuple(lines)

    def _moved(self, moving: Moving, side: str) -> str:
        terms = []
        for name, factor in moving.transport:
            shown = text(factor, 2)
            for pivot in self.pivots:
                sign = "-" if pivot.action == "shift" else "/"
                value = text(pivot.value)
                atom = value if isinstance(pivot.value, Var) else f"{pivot.name}"
                bracketed = f"({side}.{atom} {sign} {atom})"
                shown = shown.replace(f"({pivot.move})", bracketed).replace(pivot.move, bracketed)
            terms.append(f"{side}.{name}" if shown == "1" else f"{side}.{name}·{shown}")
        return " + ".join(terms)
