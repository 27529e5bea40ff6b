"""Laws of monoids that are piecewise linear, decided: in every case both sides are the same form.

A case is a mode for each state and an answer to every comparison, so that both sides are linear in
what is unknown. They are equal there if the facts of the states and the answers leave no point
where they differ, which the exact simplex tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from fusegen.algebra.own.linear import Linear, Paths
from fusegen.algebra.own.piecewise import Evaluation, Extreme, Nonlinear, Value, literal
from fusegen.algebra.own.reachable import Joined, Mode, Reachable, State, merged, reachable
from fusegen.algebra.own.work import OutOfBounds, Work
from fusegen.ir import operator as op
from fusegen.ir.operator import Law, Operator
from fusegen.ir.shared import lazy

_STEPS = 200_000  # for facts and laws of an operator: a second or so

_STATES: dict[Law, str] = {"associative": "abc", "identity": "a", "commutative": "ab"}


@dataclass
class Decision:
    """The laws of one operator."""

    operator: Operator
    samples: Sequence[op.State]
    met: int = 0
    known: dict[int, Reachable] = field(default_factory=dict)

    @lazy
    def empty(self) -> State:
        return {f.name: literal(f.identity.value) for f in self.operator.fields}

    def attempt(self, law: Law) -> tuple[Reachable | None, str]:
        """(the states that it is proved for, or None; what was tried, if it is for this at all)."""
        self.met = 0
        for depth in (0, 1, 2, 3):
            work = Work(_STEPS)
            try:
                if depth not in self.known:
                    self.known[depth] = reachable(self.operator, self.samples, work, depth=depth)
                if self._holds(law, self.known[depth], work):
                    return self.known[depth], f"linear in each of {self.met} cases"
            except Nonlinear:
                return None, ""
            except OutOfBounds:
                return None, f"exact linear arithmetic, stopped after {self.met} cases"
        return None, f"exact linear arithmetic, in {self.met} cases"

    def _holds(self, law: Law, states: Reachable, work: Work) -> bool:
        paths = Paths(work)
        for modes in product(states.modes, repeat=len(_STATES[law])):
            for name in (f.name for f in self.operator.fields):
                for pairs in paths.each(self._sides(law, states, paths, modes, name)):
                    self.met += 1
                    if not all(_same(paths, *pair) for pair in pairs):
                        return False
        return law != "identity" or self._two_empty(paths)

    def _two_empty(self, paths: Paths) -> bool:
        """e ⊕ e = e: pieces may be empty, two of them as well."""
        both = merged(self.operator, paths, self.empty, self.empty)
        return all(_same(paths, both[n], v) for n, v in self.empty.items())

    def _sides(
        self, law: Law, known: Reachable, paths: Paths, modes: Sequence[Mode], name: str
    ) -> Callable[[], list[tuple[Value, Value]]]:
        def run() -> list[tuple[Value, Value]]:
            states = [known.state(m, mode) for m, mode in zip("abc", modes, strict=False)]
            for state, mode in zip(states, modes, strict=True):
                known.assume(paths, state, mode)
            return [*map(alike, self._pairs(law, states, name, join))]

        def join(a: State, b: State) -> Joined:
            return Joined(self.operator, paths, a, b)

        def alike(pair: tuple[Value, Value]) -> tuple[Value, Value]:
            """Not the greatest of some forms beside the least of others."""
            left, right = pair
            if isinstance(left, Extreme) and isinstance(right, Extreme) \
                    and left.greatest is not right.greatest:
                return Evaluation(paths, {}).resolved(left), right
            return pair

        return run

    def _pairs(
        self, law: Law, states: list[State], name: str, join: Callable[[State, State], Joined]
    ) -> Iterator[tuple[Value, Value]]:
        match law, states:
            case "associative", (a, b, c):
                yield join(join(a, b), c)[name], join(a, join(b, c))[name]
            case "commutative", (a, b):
                yield join(a, b)[name], join(b, a)[name]
            case "identity", (a,):
                yield join(self.empty, a)[name], a[name]
                yield join(a, self.empty)[name], a[name]


def _same(paths: Paths, left: Value, right: Value) -> bool:
    """Are the two the same at every point of this case? NaN is NaN."""
    if isinstance(left, bool | float) or isinstance(right, bool | float):
        return left == right or (left != left and right != right)
    if isinstance(left, Linear) and isinstance(right, Linear):
        return paths.always(left - right, "=")
    greatest = next(v.greatest for v in (left, right) if isinstance(v, Extreme))
    sides = [v.forms if isinstance(v, Extreme) else (v,) for v in (left, right)]
    return all(_within(paths, f, others, greatest=greatest)
               for forms, others in (sides, sides[::-1]) for f in forms)


def _within(paths: Paths, form: Linear, others: Sequence[Linear], *, greatest: bool) -> bool:
    """Is it never beyond all the others?"""
    return form in others or paths.never([form - o if greatest else o - form for o in others])
