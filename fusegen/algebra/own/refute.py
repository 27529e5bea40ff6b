"""Counterexamples to the laws of a monoid: the smallest states first, in exact numbers.

States are those that short lists of small numbers lead to. Lists come by their length, then by the
size of what is in them, so that the first that breaks a law needs no shrinking. After those come
lists of what the text itself speaks of (`seeds`), and long ones of few numbers. How many are looked
at depends on the operator alone: the search is bounded by the operations that it computes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, pairwise, product, takewhile

from fusegen.algebra.numbers import EXACT_DIGITS, Number
from fusegen.algebra.own.exact import evaluate, exact, same, shown, told_apart
from fusegen.algebra.own.reachable import constants_of
from fusegen.ir.derivation import Counterexample
from fusegen.ir.expr import Call, Var, walk
from fusegen.ir.operator import Law, Operator, State
from fusegen.ir.shared import lazy

_POOLS: dict[int, tuple[int, ...]] = {1: (0, 1, -1, 2, -2, 3), 2: (0, 1, -1, 2)}
_LONGEST = {"associative": 5, "commutative": 4, "identity": 3}
_MOST_LISTS = 10_000  # of one length: more are not looked at
_OPERATIONS = 50_000  # of all merges of a search, a few µs each
_SHORT = {"associative": 3, "commutative": 2, "identity": 1}  # lists of seeds: one for each state
_MOST_LITERALS = 8
_LONG, _FEW = 6, 2  # elements, of so few different ones

Element = tuple[Number, ...]
Piece = tuple[Element, ...]


@dataclass
class Search:
    """The states of an operator, and how many of them a law was tried on."""

    operator: Operator
    most: int = _OPERATIONS
    computed: int = 0
    tried: dict[Law, int] = field(default_factory=dict)
    known: dict[Piece, State] = field(default_factory=dict)

    def state(self, piece: Piece) -> State:
        """identity for an empty piece, else lift(x₀) ⊕ lift(x₁) ⊕ …"""
        if piece not in self.known:
            if not piece:
                self.known[piece] = {f.name: exact(f.identity.value) for f in self.operator.fields}
            elif len(piece) == 1:
                env = dict(zip((v.name for v in self.operator.elements), piece[0], strict=True))
                self.known[piece] = {f.name: evaluate(f.lift, env) for f in self.operator.fields}
            else:
                self.known[piece] = self.merge(self.state(piece[:-1]), self.state(piece[-1:]))
        return self.known[piece]

    def merge(self, a: State, b: State) -> State:
        self.computed += self.size
        return self.operator.merge(a, b, evaluate)

    @lazy
    def size(self) -> int:
        """What one merge counts: its operations, and one for every value."""
        exprs = [f.merge for f in self.operator.fields] + [e for _, e in self.operator.steps]
        return len(exprs) + sum(isinstance(e, Call) for expr in exprs for e in walk(expr))

    @lazy
    def pool(self) -> tuple[Element, ...]:
        """Elements to make lists of, the smallest first; NaN and inf where merge asks for them."""
        asked = self.operator.operations
        special = [exact(float("nan"))] if asked & {"isnan", "isfinite"} else []
        special += [exact(float("inf"))] if asked & {"isinf", "isfinite"} else []
        return self._elements([*map(exact, _POOLS.get(len(self.operator.elements), (0, 1))),
                               *special])

    def _elements(self, numbers: Sequence[Number]) -> tuple[Element, ...]:
        choices = [
            [exact(1)] if not v.varying else [False, True] if v.kind == "bool"
            else [n for n in numbers if v.kind == "float" or isinstance(n, float) or n == int(n)]
            for v in self.operator.elements
        ]  # a captured row value is the same for every element
        return tuple(sorted(product(*choices), key=_size))

    def lists(self, law: Law) -> Iterator[Piece]:
        for length in range(_LONGEST[law] + 1):
            if len(self.pool) ** length > _MOST_LISTS:
                return
            for found in sorted(product(self.pool, repeat=length),
                                key=lambda p: sum(map(_size, p))):
                if self.computed > self.most:
                    return
                yield found

    def hard_lists(self, law: Law) -> Iterator[Piece]:
        """Short lists of what the text speaks of; then long ones of few small numbers."""
        pool = self._elements(seeds(self.operator))
        yield from takewhile(lambda _: self.computed <= self.most, _some(pool, _SHORT[law]))
        few = [e for e in self.pool if e != self.pool[0]][:_FEW]
        if law != "identity":
            yield from chain(*(product(few, repeat=n) for n in range(3, _LONG + 1)))

    def counterexample(self, law: Law, *, hard: bool = False) -> Counterexample | None:
        """The smallest states that break the law, if any were found."""
        self.tried.setdefault(law, 0)
        for found in self.hard_lists(law) if hard else self.lists(law):
            for pieces in _cut(found, law):
                self.tried[law] += 1
                broken = self._broken(law, pieces)
                if broken is not None:
                    return broken
        return None

    def _broken(self, law: Law, pieces: tuple[Piece, ...]) -> Counterexample | None:
        states = [self.state(p) for p in pieces]
        match law:
            case "associative":
                a, b, c = states
                ab, bc = self.merge(a, b), self.merge(b, c)
                sides = {"(a ⊕ b) ⊕ c": self.merge(ab, c), "a ⊕ (b ⊕ c)": self.merge(a, bc)}
                parts = {"a ⊕ b": ab, "b ⊕ c": bc}
            case "commutative":
                a, b = states
                sides, parts = {"a ⊕ b": self.merge(a, b), "b ⊕ a": self.merge(b, a)}, {}
            case "identity":
                empty, a = self.state(()), states[0]
                left = {"e ⊕ a": self.merge(empty, a), "a": a}
                right = {"a ⊕ e": self.merge(a, empty), "a": a}
                sides, parts = (right if _equal(*left.values()) else left), {}
        if _equal(*sides.values()):
            return None
        named = dict(zip("abc", states, strict=False))
        if law == "identity":
            named = {"e": self.state(()), **named}
            pieces = ((), *pieces)
        return Counterexample(
            law=law, pieces=dict(zip(named, pieces, strict=True)), states=named, parts=parts,
            sides=sides, text=tuple(_lines(self.operator, named, pieces, parts, sides)),
        )


def seeds(operator: Operator) -> list[Number]:
    """Numbers near which a text may do something else: its own, what stands beside, between and
    beyond them, and fractions."""
    own = [c for c in constants_of(operator) if abs(c) > 1 or c.denominator > 1][:_MOST_LITERALS]
    near = [n for c in own for n in (c, c + 1, c - 1, c / 2, 2 * c)]
    between = [(a + b) / 2 for a, b in pairwise(own)] + [a + b for a, b in pairwise(own)]
    beyond = [10 * max(own, key=abs)] if own else []
    plain = [Fraction(n) for n in (0, 1, -1, 5, -9)] + [Fraction(1, 2), Fraction(-3, 2)]
    return list(dict.fromkeys([*plain, *near, *between, *beyond]))


def _some(pool: Sequence[Element], length: int) -> Iterable[Piece]:
    """Lists of this length, the smallest first: all, or a choice of them that is always the same.

    Each has a number that is not small; the others were tried.
    """
    if len(pool) ** length <= _MOST_LISTS:
        return sorted(product(pool, repeat=length), key=_size)
    pick = random.Random(0).choices
    return sorted((tuple(pick(pool, k=length)) for _ in range(_MOST_LISTS)), key=_size)


def _size(element: object) -> float:
    if isinstance(element, tuple):
        return sum(map(_size, element))
    size = abs(float(element))  # type: ignore[arg-type]
    negative = 0.5 if float(element) < 0 else 0.0  # type: ignore[arg-type]
    return size + negative if size < 100 else 100.0


def _cut(found: Piece, law: Law) -> Iterator[tuple[Piece, ...]]:
    """The list in as many pieces as the law speaks of; none empty but where e itself is meant."""
    n = len(found)
    match law:
        case "identity":
            yield (found,)
        case "commutative":
            yield from ((found[:i], found[i:]) for i in range(1, n))
        case "associative":
            yield from ((found[:i], found[i:j], found[j:])
                        for j in range(2, n) for i in range(1, j))


def _equal(a: State, b: State) -> bool:
    return all(same(a[n], b[n]) for n in a)


# ---- for people ----


def _lines(
    operator: Operator, states: dict[str, State], pieces: tuple[Piece, ...],
    parts: dict[str, State], sides: dict[str, State],
) -> Iterator[str]:
    digits, beside = told_apart(*sides.values())
    for (name, state), piece in zip(states.items(), pieces, strict=True):
        of = f"the state of {show_piece(piece, operator.elements)}" if piece else "the identity"
        yield f"{name} = {show_state(state, digits)}, {of}"
    both = {**parts, **sides}
    told = [f"{n} = {show_state(s, digits)}" for n, s in both.items() if n not in states]
    yield "; ".join([*told, beside] if beside else told)


def show_state(state: State, digits: int) -> str:
    if list(state) == ["value"]:
        return shown(state["value"], digits)
    return f"{{{', '.join(f'{n}: {shown(v, digits)}' for n, v in state.items())}}}"


def show_piece(piece: Piece, elements: tuple[Var, ...]) -> str:
    """Elements as they are: who checks by hand begins with them."""
    told = [[shown(v, EXACT_DIGITS) for v in element] for element in piece]
    if len(elements) == 1:
        return f"[{', '.join(one for one, in told)}]"
    return f"[{', '.join('(' + ', '.join(one) + ')' for one in told)}]"
