"""The letters of an argument: u for moved elements, δ and ρ for moves, S for kept sums, n."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusegen.derivation import Basis, Dependent, Derivation, Shifted
from fusegen.expr import Expr, Lit, Var, call, substitute, variables
from fusegen.monoid import Action, move_name
from fusegen.proof.notation import numbered


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
}  # fmt: skip
"""One row for each kind of pivot."""


class Symbols:
    """Letters that no name of the user's text has; equal sums share one."""

    def __init__(self, derivation: Derivation) -> None:
        sums = [e for e in derivation if isinstance(e, Dependent)]
        taken = {d.name for d in derivation.definitions}
        taken |= {v for d in derivation.definitions for v in variables(d.formula)}
        self.count = Var("n" if "n" not in taken else "n₁")
        shifts = {s.name: s for e in sums for s in e.shifts}
        self._u = dict(zip(shifts, _letters("u", len(shifts), taken), strict=True))
        self._moves: dict[str, Var] = {}
        for action, motion in ACTIONS.items():
            pivots = dict.fromkeys(s.pivot for s in shifts.values() if s.action == action)
            letters = _letters(motion.letter, len(pivots), taken)
            self._moves |= {move_name(p, action): v for p, v in zip(pivots, letters, strict=True)}
        lifts = dict.fromkeys(b.lift for e in sums for b in e.basis if b.lift != Lit(1.0))
        self._sums = {lift: Var(numbered("S", i)) for i, lift in enumerate(lifts, 1)}

    def u(self, shift: Shifted) -> Var:
        return self._u[shift.name]

    def move(self, pivot: str, action: Action) -> Var:
        return self._moves[move_name(pivot, action)]

    def sum(self, basis: Basis) -> Var:
        """The letter of Σ basis; the number of elements is n."""
        return self._sums.get(basis.lift, self.count)

    def shown(self, expr: Expr) -> Expr:
        """The expression with letters in place of the names that kernels use."""
        return substitute(expr, {**self._u, **self._moves})


def _letters(letter: str, how_many: int, taken: set[str]) -> list[Var]:
    if how_many == 1 and letter not in taken:
        return [Var(letter)]
    return [Var(numbered(letter, i)) for i in range(1, how_many + 1)]
