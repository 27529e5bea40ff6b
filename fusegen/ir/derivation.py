"""What the algebra found out about each reduction of a pipeline, and how it is known.

Plain data, free of sympy, so that later passes and the cache need not load it. What users get is
a `Proof` (fusegen/proof), which also prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

from fusegen.ir.expr import ONE, Call, Expr, Lit, Var, walk
from fusegen.ir.loc import Loc
from fusegen.ir.monoid import Action
from fusegen.ir.operator import Law, State
from fusegen.ir.witness import Witness

Status = Literal["proved", "not proved", "assumed", "tried"]
"""assumed: the user says so; tried: measured on hard rows, and held there."""

LAGS = "reference"
"""An obligation: another value near it does in a pivot's place."""


@dataclass(frozen=True, slots=True)
class Obligation:
    """One fact that a merged operator stands on."""

    name: str  # pointwise identity, read-out, cocycle, unit, monotone, range, conditioning, …
    statement: str
    status: Status
    seconds: float
    engine: str = "sympy"


class RefusalKind(Enum):
    KINK = "moving kink"
    STUCK_ATOM = "not separable"
    UNBOUNDED = "unbounded correction"
    TOO_MANY_STATES = "too many states"
    MIXED_SIGN = "would cancel"
    RANGE = "would overflow"
    DRIFT = "would drift"
    SPECIAL = "infinities would differ"
    SIMPLER = "simpler over the reals alone"
    NON_MONOTONE = "not monotone"
    ORDER = "needs the finished row"
    UNPROVED = "not proved"
    LATE = "not decided in time"
    DEFECT = "proved, and wrong in floats"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a reduction keeps a sweep of its own."""

    kind: RefusalKind
    loc: Loc
    what: str
    why: str
    fix: str
    witness: Witness | None = None  # a counterexample to check by hand

    def __str__(self) -> str:
        shown = "No small witness was found." if self.witness is None else str(self.witness)
        body = "\n".join((self.why, shown, self.fix)).splitlines()
        return "\n  ".join((f"{self.loc.short}: {self.what}", *body))


@dataclass(frozen=True, slots=True)
class Counterexample:
    """States for which a law of a monoid fails; exact numbers where there are such.

    `pieces`: the elements that each state is made of. `sides`: what the law says is equal, and is
    not; `parts`: what they are computed from.
    """

    law: Law
    pieces: Mapping[str, Sequence[tuple[Any, ...]]]
    states: Mapping[str, State]
    parts: Mapping[str, State]
    sides: Mapping[str, State]
    text: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.text)


@dataclass(frozen=True, slots=True)
class Definition:
    """A line of the user's text: name = fold of formula, or name = formula where fold is ""."""

    name: str
    fold: str  # max, min, sum, mean, prod, argmax, argmin, top 5, or ""
    formula: Expr  # over names of graph nodes
    where: str  # file.py:12


@dataclass(frozen=True, slots=True)
class Base:
    """Depends on no other reduction: a plain monoid."""

    name: str


@dataclass(frozen=True, slots=True)
class Shifted:
    """u = factor · (atom − pivot), atom / pivot, [atom = pivot], or (atom − pivot) / unit.

    atom, pivot and unit are names of graph nodes, and so is the factor, unless it is a number.
    """

    name: str
    atom: str
    pivot: str
    action: Action
    unit: str = ""
    factor: Expr = ONE


@dataclass(frozen=True, slots=True)
class Basis:
    """A basis function h(u) and its row of the transport T."""

    lift: Expr  # over names of Shifted and of graph nodes
    transport: tuple[tuple[int, Expr], ...]  # (basis position, factor over pivots' moves)


@dataclass(frozen=True, slots=True)
class Dependent:
    """Σ f(x; rows), merged: f = Σ_k c_k(rows) · h_k(u), and u's pivot can move."""

    name: str
    depends_on: tuple[str, ...]
    shifts: tuple[Shifted, ...]
    basis: tuple[Basis, ...]
    readout: tuple[Expr, ...]  # c_k over names of row nodes, one per basis function
    obligations: tuple[Obligation, ...]
    known_zero: tuple[int, ...] = ()  # positions of basis functions whose sums are exactly 0
    ordered: tuple[str, ...] = ()  # extremes whose order with the elements was used: not if NaN
    finite: tuple[str, ...] = ()  # extremes whose distance was: only if they are finite
    selections: tuple[int, ...] = ()  # positions of sums that are read out as 0 where they are 0
    taken: int | None = None  # position of the count of what conditions take; 0: so is the sum
    after: tuple[str, ...] = ()  # reductions of earlier sweeps: to it, numbers, as inputs are

    @property
    def lags(self) -> bool:
        """May its sums be about another value near their pivot?"""
        return any(o.name == LAGS and o.status == "proved" for o in self.obligations)

    @property
    def counts(self) -> bool:
        """Does it only count elements that equal an extreme, or do not?"""
        found = {s.name for s in self.shifts if s.action == "same"}
        variables = {e.name for b in self.basis for e in walk(b.lift) if isinstance(e, Var)}
        whole = all(not isinstance(b.lift, Call) or b.lift.op == "sub" for b in self.basis)
        return whole and variables <= found and set(self.readout) <= {Lit(0.0), Lit(1.0)}

    @property
    def without_zeros(self) -> Dependent:
        """Without the known zeros, and what is then needed no more: for moments, the formula of
        Chan, Golub & LeVeque. Equal in exact arithmetic; in floating point the sums that should be
        0 hold what the pivot's own rounding left, and those digits are lost."""
        needed = [k for k, c in enumerate(self.readout) if c != Lit(0.0)]
        needed = [k for k in needed if k not in self.known_zero]
        needed += [self.taken] if self.taken is not None and self.taken not in needed else []
        for k in needed:
            needed += [j for j, _ in self.basis[k].transport
                       if j not in self.known_zero and j not in needed]
        kept = sorted(needed)
        basis = tuple(
            Basis(self.basis[k].lift, tuple((kept.index(j), factor) for j, factor in
                                            self.basis[k].transport if j in kept))
            for k in kept
        )
        return replace(self, basis=basis, readout=tuple(self.readout[k] for k in kept),
                       known_zero=(),
                       selections=tuple(kept.index(k) for k in self.selections if k in kept),
                       taken=None if self.taken is None else kept.index(self.taken))


@dataclass(frozen=True, slots=True)
class Commuted:
    """reduce(f(atom; rows)) = f(reduce(atom)), f proved strictly monotone in atom."""

    name: str
    depends_on: tuple[str, ...]
    atom: str
    increasing: bool
    obligations: tuple[Obligation, ...]
    after: tuple[str, ...] = ()  # reductions of earlier sweeps: see `Dependent.after`


@dataclass(frozen=True, slots=True)
class Refused:
    """Keeps its own sweep. `opens`: it is a plain fold there, about which others may merge."""

    name: str
    depends_on: tuple[str, ...]
    refusal: Refusal
    after: tuple[str, ...] = ()  # reductions of earlier sweeps: see `Dependent.after`
    opens: bool = False


@dataclass(frozen=True, slots=True)
class Own:
    """A monoid of the user's own: laws proved or assumed; `ordered`: merged in row order only."""

    name: str
    depends_on: tuple[str, ...]
    monoid: str
    ordered: bool
    obligations: tuple[Obligation, ...]
    note: str  # why in row order
    refusal: Refusal | None  # why it waits for what it depends on


@dataclass(frozen=True, slots=True)
class Repair:
    """A sum that is read out of sums about another pivot than the text's."""

    name: str
    text: Definition  # as written
    readout: Expr  # without guards, over names of row values
    pivots: tuple[str, ...]  # of the term's own elements; none: it needs none
    why: str  # what is wrong with the text's own
    obligation: Obligation
    after: tuple[str, ...] = ()  # reductions of the text in earlier sweeps: see `Dependent.after`


Entry = Base | Dependent | Commuted | Refused | Own


@dataclass(frozen=True, slots=True)
class Derivation:
    """One entry per reduction of the graph, in topological order."""

    pipeline: str
    entries: tuple[Entry, ...]
    seconds: float
    definitions: tuple[Definition, ...]  # the user's text, in topological order
    repairs: tuple[Repair, ...] = ()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __getitem__(self, name: str) -> Entry:
        return next(e for e in self.entries if e.name == name)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        found = (e.refusal for e in self.entries if isinstance(e, Refused | Own))
        return tuple(r for r in found if r is not None)

    @property
    def obligations(self) -> tuple[Obligation, ...]:
        entries = (e.obligations for e in self.entries if isinstance(e, Dependent | Commuted | Own))
        return (*(r.obligation for r in self.repairs), *(o for found in entries for o in found))

    @property
    def without_zeros(self) -> Derivation:
        """With every merged sum's known zeros left out; see `Dependent.without_zeros`. Not of sums
        that are read out about another row value than their pivot: there a zero is multiplied by
        the distance of the two, and what it holds is not lost in the pivot's own rounding."""
        own = {p for r in self.repairs for p in r.pivots}
        entries = (
            e.without_zeros if isinstance(e, Dependent) and not own & {s.pivot for s in e.shifts}
            else e for e in self.entries
        )
        return replace(self, entries=tuple(entries))

    @property
    def decided(self) -> bool:
        """Was everything settled in time? If not, the next attempt may settle it."""
        return all(r.kind is not RefusalKind.LATE for r in self.refusals)

    @property
    def proved(self) -> bool:
        return all(o.status != "not proved" for o in self.obligations)
