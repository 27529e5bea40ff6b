"""The merged monoid of a sweep, built up reduction by reduction; equal components are shared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from fusegen.compile.lower.readout import read_out
from fusegen.ir import graph as g
from fusegen.ir.derivation import Basis, Dependent
from fusegen.ir.errors import InternalError
from fusegen.ir.expr import (
    ONE,
    Call,
    Expr,
    Lit,
    Var,
    call,
    factors_of,
    substitute,
    variables,
    walk,
)
from fusegen.ir.expressions import convert
from fusegen.ir.kernel import N_COLS
from fusegen.ir.monoid import (
    Action,
    Best,
    Folded,
    FoldName,
    KBest,
    Monoid,
    Moving,
    Own,
    Pivot,
    Relative,
    move_name,
)
from fusegen.ir.names import Taken

_PLAIN: dict[g.Fold, FoldName] = {
    g.Fold.MAX: "max", g.Fold.MIN: "min", g.Fold.SUM: "sum", g.Fold.PROD: "prod",
}


def as_field(component: Var) -> Var:
    """A component as row scope sees it after the sweep."""
    return Var(f"state.{component.name}", component.kind)


@dataclass
class StateBuilder:
    """Collects components; names that are `taken` by the graph are not reused for others."""

    taken: Taken
    types: Mapping[str, str]  # of the states of the user's own operators, by the operator's key
    folded: dict[str, Folded] = field(default_factory=dict)
    by_lift: dict[tuple[FoldName, Expr], str] = field(default_factory=dict)  # of `folded`
    best: dict[str, Best] = field(default_factory=dict)
    pivots: dict[str, Pivot] = field(default_factory=dict)
    relatives: dict[str, Relative] = field(default_factory=dict)
    moving: dict[str, Moving] = field(default_factory=dict)
    own: dict[str, Own] = field(default_factory=dict)
    lists: dict[str, KBest] = field(default_factory=dict)
    kept: dict[str, tuple[str, ...]] = field(default_factory=dict)  # merged sum → its components

    @property
    def parts(self) -> tuple[dict[str, Any], ...]:
        """The components by kind; new ones come last."""
        return (self.folded, self.best, self.moving, self.own, self.lists)

    def build(self) -> Monoid:
        return Monoid(
            folded=tuple(self.folded.values()), best=tuple(self.best.values()),
            pivots=tuple(self.pivots.values()), relatives=tuple(self.relatives.values()),
            moving=tuple(self.moving.values()), own=tuple(self.own.values()),
            lists=tuple(self.lists.values()),
        )

    def fold(self, fold: FoldName, lift: Expr, wish: str, *, own: bool) -> Var:
        """The component folding `lift`; `own`: `wish` is the reduction's own name. A sum of 1.0
        where a condition holds is the count that the sweep has, if it has one."""
        known, whole = self.by_lift.get((fold, lift)), _as_count(lift)
        if known is None and whole is not None and (fold, whole) in self.by_lift:
            return Var(self.by_lift[fold, whole], "int")
        if known is None:
            known = wish if own else self.taken.free(wish)
            self.by_lift[fold, lift] = known
            self.folded[known] = Folded(known, fold, lift, lift.kind)
        return Var(known, lift.kind)

    def plain(self, node: g.Reduce, name: str, lift: Expr) -> Expr:
        """A base reduction; its row value over components."""
        if node.fold is g.Fold.MEAN:
            total = convert(as_field(self.total(name, lift)), "float")
            return call("div", total, call("to_float", N_COLS))
        if node.fold in (g.Fold.ARGMAX, g.Fold.ARGMIN):
            return as_field(self.arg(name, lift, largest=node.fold is g.Fold.ARGMAX))
        if lift.kind == "bool":
            lift = convert(lift, "int")  # a sum of conditions counts
        return convert(as_field(self.fold(_PLAIN[node.fold], lift, name, own=True)), lift.kind)

    def so_far(self, node: g.Reduce, name: str, lift: Expr) -> Expr:
        """The reduction's value over the elements seen so far, for pivots; over components."""
        if node.fold is g.Fold.MEAN:
            count = self.fold("sum", ONE, "count", own=False)
            return call("div", convert(self.total(name, lift), "float"), count)
        return convert(self.fold(_PLAIN[node.fold], lift, name, own=True), lift.kind)

    def total(self, name: str, lift: Expr) -> Var:
        return self.fold("sum", convert(lift, "float"), f"{name}_total", own=False)

    def arg(self, name: str, lift: Expr, *, largest: bool) -> Var:
        """A leader. Orders are of numbers: a condition is 0 or 1, whatever its bits are."""
        lift = convert(lift, "float") if lift.kind == "bool" else lift
        for known in self.best.values():
            if known.largest is largest and known.lift == lift:
                return Var(known.name, "int")
        self.best[name] = Best(name, largest, lift, lift.kind)
        return Var(name, "int")

    def top(self, name: str, k: int, lift: Expr) -> KBest:
        self.lists[name] = KBest(name, k, lift, lift.kind)
        return self.lists[name]

    def monoid(self, node: g.Own, name: str, lifts: tuple[Expr, ...], *, ordered: bool) -> Own:
        operator = node.operator
        self.own[name] = Own(name, self.types[operator.key], operator, lifts, ordered)
        return self.own[name]

    def pivot(self, wish: str, action: Action, value: Expr, unit: str = "") -> Pivot:
        """The pivot of this value, action and unit; named after the row value if that is free."""
        for name in (wish, f"{wish}_{action}", f"{wish}_in_{unit}"):
            known = self.pivots.setdefault(name, Pivot(name, action, value, unit))
            if (known.action, known.unit) == (action, unit):
                return known
        raise InternalError(f"no name left for the pivot {wish}")

    def relative(self, name: str, atom: Expr, pivot: Pivot, factor: Expr = ONE) -> Relative:
        return self.relatives.setdefault(name, Relative(name, atom, pivot.name, factor))

    def merged(
        self, entry: Dependent, spell: Callable[[Expr], Expr], given: Mapping[str, Expr], *,
        forgetful: Collection[int] = (), whole: bool = False,
    ) -> Expr:
        """A dependent sum; its read-out over components and row names, NaN on a bad pivot.

        `spell` puts the sweep's own element expressions in place of graph names; `given`: numbers
        that the sums move by, too; `forgetful`: positions of sums that pivots far away leave
        nothing of; `whole`: it counts, in whole numbers.
        """
        put = (lambda e: _whole(spell(e))) if whole else spell
        components = [self._basis(entry, b, put) for b in entry.basis]
        self.kept[entry.name] = tuple(c.name for c in components)
        self._transports(entry, components, given, forgetful)
        held = [as_field(c) if whole else convert(as_field(c), "float") for c in components]
        return read_out(entry, held, whole=whole)

    def counted(self, entry: Dependent) -> Var | None:
        """What counts the elements that the sum's conditions take, where its value hangs on it."""
        if entry.taken is None:
            return None
        return as_field(self._component(self.kept[entry.name][entry.taken]))

    def _component(self, name: str) -> Var:
        return Var(name, (self.folded.get(name) or self.moving[name]).lift.kind)

    def usable(self, entry: Dependent, row: Callable[[str], Expr]) -> Expr | None:
        """Are all the sum's pivots numbers? None if it has none that must be. `row`: row values."""
        tests: dict[str, Expr] = {}
        for shift in entry.shifts:
            pivot = self.pivots[self.relatives[shift.name].pivot]
            if pivot.action != "same":
                tests[pivot.name] = _is_usable(pivot, row(shift.pivot))
            if pivot.unit:
                unit = self.pivots[pivot.unit]
                tests[unit.name] = _is_usable(unit, row(shift.unit))
        for name in entry.ordered:
            known = call("isfinite", row(name)) if name in entry.finite else \
                call("not", call("isnan", row(name)))
            tests.setdefault(name, known)
        return reduce(lambda a, b: call("and", a, b), tests.values()) if tests else None

    def running(self, entry: Dependent, row: Callable[[str], Expr]) -> Expr:
        """A merged sum over the elements so far, for pivots; `row` gives row values so far."""
        used = {n for c in entry.readout for n in variables(c)}
        sums = [convert(self._component(name), "float") for name in self.kept[entry.name]]
        return read_out(entry, sums, {n: row(n) for n in used})

    def _basis(self, entry: Dependent, basis: Basis, spell: Callable[[Expr], Expr]) -> Var:
        lift = spell(basis.lift)
        for known in self.moving.values():  # two texts' sums of equal terms are one
            if known.lift == lift:
                return Var(known.name, known.kind)
        if not any(isinstance(e, Var) and e.name in self.relatives for e in walk(lift)):
            # No pivot is in it: a plain sum, that others of the sweep may have, too.
            wish = "count" if lift == ONE else f"sum_{_formula(lift, self.relatives)}"
            return self.fold("sum", lift, wish, own=False)
        # A component that is the row value, as it stands, has the user's name for it.
        simple = len([c for c in entry.readout if c != Lit(0.0)]) == 1 and ONE in entry.readout
        own = simple and entry.readout.index(ONE) == entry.basis.index(basis)
        wish = f"sum_{_formula(lift, self.relatives)}"
        name = entry.name if own and entry.name not in self.moving else self.taken.free(wish)
        self.moving[name] = Moving(name, lift, (), ())
        return Var(name, lift.kind)

    def _transports(
        self, entry: Dependent, components: list[Var], given: Mapping[str, Expr],
        forgetful: Collection[int],
    ) -> None:
        """How the components of a sum follow its pivots: T(p→q) as rows over components, with the
        derivation's names of moves in place of the sweep's."""
        moves: dict[str, Pivot] = {}
        for s in entry.shifts:
            pivot = self.pivots[self.relatives[s.name].pivot]
            moves[move_name(s.pivot, s.action, s.unit)] = pivot
            if s.unit:
                moves[move_name(s.unit, "scale")] = self.pivots[pivot.unit]
        rename: dict[str, Expr] = {move: Var(pivot.move) for move, pivot in moves.items()}
        rename |= given
        used = tuple(dict.fromkeys(pivot.name for pivot in moves.values()))
        for k, (basis, component) in enumerate(zip(entry.basis, components, strict=True)):
            known = self.moving.get(component.name)
            if known is None or known.transport:
                continue
            rows = tuple(
                (components[j].name, substitute(factor, rename)) for j, factor in basis.transport
            )
            self.moving[component.name] = Moving(component.name, known.lift, rows, used,
                                                 lags=entry.lags, forgets=k in forgetful)


def type_names(graph: g.Graph) -> dict[str, str]:
    """A C++ type for the states of every operator of the user's own, by its key."""
    found: dict[str, str] = {}
    taken = Taken()
    for node in graph.nodes:
        if isinstance(node, g.Own) and node.operator.key not in found:
            words = node.operator.name.split("_")
            wish = "".join(w[:1].upper() + w[1:] for w in (*words, "monoid"))
            found[node.operator.key] = taken.free(wish)
    return found


def _as_count(lift: Expr) -> Expr | None:
    """where(c, 1.0, 0.0) in whole numbers."""
    match lift:
        case Call(op="where", args=(c, Lit(value=1.0), Lit(value=0.0))):
            return call("where", c, Lit(1, "int"), Lit(0, "int"))
        case _:
            return None


def _whole(lift: Expr) -> Expr:
    """A lift that is 0 or 1, as a whole number."""
    if lift == ONE:
        return Lit(1, "int")
    one_or_not = call("where", call("ne", lift, Lit(0.0)), Lit(1, "int"), Lit(0, "int"))
    return _as_count(lift) or one_or_not


def _is_usable(pivot: Pivot, value: Expr) -> Expr:
    """Is the pivot a number that elements can be measured from?"""
    finite = call("isfinite", value)
    return finite if pivot.action == "shift" else call("and", finite, call("ne", value, Lit(0.0)))


def _formula(lift: Expr, relatives: dict[str, Relative]) -> str:
    """A name for Σ lift from its factors: exp, dev2 (a squared deviation), weights."""
    powers: dict[str, int] = {}
    for factor in factors_of(lift):
        match factor:
            case Var(name=name) if name in relatives:
                word = "dev"
            case Var(name=name):
                word = name
            case Call(op=op):
                word = op
            case _:
                continue
        powers[word] = powers.get(word, 0) + 1
    return "_".join(w if n == 1 else f"{w}{n}" for w, n in sorted(powers.items())) or "terms"
