"""The letters of an argument: u for moved elements, δ and ρ for moves, S for kept sums, n."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusegen.algebra.proof.notation import Relation, numbered
from fusegen.ir.derivation import Basis, Dependent, Derivation, Shifted
from fusegen.ir.expr import Expr, Lit, Var, call, substitute, variables
from fusegen.ir.monoid import Action, move_name


@dataclass(frozen=True, slots=True)
class Motion:
    """How an action reads: u from element and pivot, the move, and u at the new pivot."""

    letter: str
    put: Callable[[Expr, Expr], Expr]
    move: Callable[[Expr, Expr], Expr]
    moved: Callable[[Expr, Expr], Expr]


ACTIONS: dict[Action, Motion] = {
    "shift": Motion("δ", put=lambda x, p: call("sub", x, p), move=lambda p, q: call("sub", p, q),
                    moved=lambda u, d: call("add", u, d)),
    "scale": Motion("ρ", put=lambda x, p: call("div", x, p), move=lambda p, q: call("div", p, q),
                    moved=lambda u, r: call("mul", r, u)),
    "same": Motion("κ", put=lambda x, p: _is(x, p), move=lambda p, q: _is(p, q),
                   moved=lambda u, k: call("mul", k, u)),
}
"""One row for each kind of pivot."""


def _is(a: Expr, b: Expr) -> Expr:
    """[a = b]: 1 or 0."""
    return call("where", call("eq", a, b), Lit(1.0), Lit(0.0))


def primed(symbol: Var) -> Var:
    """The symbol after the pivot moved."""
    return Var(f"{symbol.name}′")


def together(shifts: tuple[Shifted, ...]) -> list[list[Shifted]]:
    """Those that move together."""
    found: dict[tuple[str, str, str], list[Shifted]] = {}
    for shift in shifts:
        found.setdefault((shift.pivot, shift.action, shift.unit), []).append(shift)
    return list(found.values())


class Symbols:
    """Letters that no name of the user's text has; equal sums share one."""

    def __init__(self, derivation: Derivation) -> None:
        sums = [e for e in derivation if isinstance(e, Dependent)]
        taken = {d.name for d in derivation.definitions}
        taken |= {v for d in derivation.definitions for v in variables(d.formula)}
        self.count = Var("n" if "n" not in taken else "n₁")
        shifts = {s.name: s for e in sums for s in e.shifts}
        self._u = _letters("u", list(shifts), taken)
        self._moves: dict[str, Var] = {}
        moves = [m for s in shifts.values() for m in _moves_of(s)]
        for action, motion in ACTIONS.items():
            names = [name for name, by in moves if by == action]
            self._moves |= _letters(motion.letter, list(dict.fromkeys(names)), taken)
        lifts = dict.fromkeys(b.lift for e in sums for b in e.basis if b.lift != Lit(1.0))
        self._sums = {lift: Var(numbered("S", i)) for i, lift in enumerate(lifts, 1)}

    def u(self, shift: Shifted) -> Var:
        return self._u[shift.name]

    def put(self, shift: Shifted) -> Relation:
        """What u is."""
        value = ACTIONS[shift.action].put(Var(shift.atom), Var(shift.pivot))
        value = call("div", value, Var(shift.unit)) if shift.unit else value
        return Relation(self.u(shift), value)

    def moves(self, shift: Shifted) -> tuple[Relation, ...]:
        """The move of the pivot and, where u has a unit, of the unit."""
        (name, action), *unit = _moves_of(shift)
        pivot = Var(shift.pivot)
        value = ACTIONS[action].move(pivot, primed(pivot))
        if not unit:
            return (Relation(self._moves[name], value),)
        old = Var(shift.unit)
        ratio = Relation(self._moves[unit[0][0]], ACTIONS["scale"].move(old, primed(old)))
        return Relation(self._moves[name], call("div", value, primed(old))), ratio

    def moved(self, shift: Shifted) -> Relation:
        """u at the new pivot, from u at the old one."""
        (name, action), *unit = _moves_of(shift)
        u: Expr = self.u(shift)
        for ratio, by in unit:
            u = ACTIONS[by].moved(u, self._moves[ratio])
        return Relation(primed(self.u(shift)), ACTIONS[action].moved(u, self._moves[name]))

    def sum(self, basis: Basis) -> Var:
        """The letter of Σ basis; the number of elements is n."""
        return self._sums.get(basis.lift, self.count)

    def shown(self, expr: Expr) -> Expr:
        """The expression with letters in place of the names that kernels use."""
        return substitute(expr, {**self._u, **self._moves})


def _moves_of(shift: Shifted) -> list[tuple[str, Action]]:
    """Names of its moves, and how each acts."""
    found = [(move_name(shift.pivot, shift.action, shift.unit), shift.action)]
    return [*found, (move_name(shift.unit, "scale"), "scale")] if shift.unit else found


def _letters(letter: str, names: list[str], taken: set[str]) -> dict[str, Var]:
    """A letter for every name, numbered where there are several."""
    if len(names) == 1 and letter not in taken:
        return {names[0]: Var(letter)}
    return {name: Var(numbered(letter, i)) for i, name in enumerate(names, 1)}
