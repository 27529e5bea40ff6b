"""The four identities a merged operator stands on, each proved by sympy on its own.

Theorem. Let p range over a commutative monoid, S over vectors, T over matrices. If the pointwise
identity h(u at q) = T(p→q) h(u at p) holds for every element, with T(p→p) = 1 and
T(q→r) T(p→q) = T(p→r), then (p,S) ⊕ (q,R) = (p·q, T(p→p·q)S + T(q→p·q)R) is associative,
commutative, has the identity (1, 0), and its fold over a row equals the text.

The checks work on x, p and q themselves, not on the substitution that found T.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable

import sympy as sp

from fusegen.algebra.choice import Choice
from fusegen.algebra.domain import conditions_alone, selection_holds, zero_or_one
from fusegen.algebra.limits import OBLIGATION_SECONDS, within
from fusegen.algebra.pivot import Closed, expanded
from fusegen.algebra.setting import Setting
from fusegen.ir.derivation import Obligation, Status

_SIMPLIFY_LIMIT = 150  # operations; beyond it simplify may take seconds


def is_zero(expr: sp.Expr) -> bool:
    """Is the expression identically 0? False means "not shown", never a guess."""
    if expr.has(sp.sin, sp.cos):
        expr = expr.rewrite(sp.exp)
    spread = expanded(expr)
    if spread == 0:
        return True
    merged = sp.powsimp(spread)
    if merged == 0 or sp.expand(sp.together(merged)) == 0:
        return True
    return bool(merged.count_ops() <= _SIMPLIFY_LIMIT and sp.simplify(merged) == 0)


def obligation(name: str, statement: str, prove: Callable[[], bool]) -> Obligation:
    """The statement with its status; what takes too long is not proved."""
    start = time.perf_counter()
    status: Status = "proved" if within(OBLIGATION_SECONDS, prove, False) else "not proved"
    return Obligation(name, statement, status, time.perf_counter() - start)


def _equal(pivot: sp.Symbol, start: str, end: str) -> sp.Symbol:
    return zero_or_one(f"{pivot.name}_{start}_is_{end}")


def _twin(symbol: sp.Symbol, mark: str) -> sp.Symbol:
    kept = ("real", "positive", "nonnegative")
    known = {k: v for k, v in symbol.assumptions0.items() if k in kept and v}
    return sp.Symbol(f"{symbol.name}_{mark}", **known)


class _Places:
    """Three values p, q, r for every pivot, and what u and the moves are there.

    Indicators follow the selection law: [x = q] = [x = p]·[p = q], [p = r] = [p = q]·[q = r].
    """

    def __init__(self, choices: tuple[Choice, ...]) -> None:
        self.same = [c for c in choices if c.action == "same"]
        self.choices = [c for c in choices if c.pivot is not None and c not in self.same]
        self.fixed = {c.u: c.atom for c in choices if c.pivot is None}
        rows = {r.symbol for c in self.choices for r in (c.pivot, c.unit) if r is not None}
        self.place = {m: {s: _twin(s, m) for s in rows} for m in "pqr"}

    def u_at(self, mark: str) -> dict[sp.Symbol, sp.Expr]:
        """Every u by its definition, with the pivots at a place."""
        found = {c.u: c.here.subs(self.place[mark], simultaneous=True) for c in self.choices}
        if mark == "q":
            found |= {c.u: c.moved.subs(c.move, _equal(_symbol(c), "p", "q")) for c in self.same}
        return {**found, **self.fixed}

    def moves(self, start: str, end: str) -> dict[sp.Symbol, sp.Expr]:
        """Every move by its definition."""
        found: dict[sp.Symbol, sp.Expr] = {}
        for c in self.choices:
            p, q = (self.place[mark][_symbol(c)] for mark in (start, end))
            if c.unit is None:
                found[c.move] = p - q if c.action == "shift" else p / q
            else:
                v, w = (self.place[mark][c.unit.symbol] for mark in (start, end))
                found |= {c.move: (p - q) / w, c.ratio: v / w}
        steps = [("p", "q"), ("q", "r")] if (start, end) == ("p", "r") else [(start, end)]
        for c in self.same:
            found[c.move] = sp.Mul(*(_equal(_symbol(c), a, b) for a, b in steps))
        return found

    def still(self) -> dict[sp.Symbol, sp.Integer]:
        """The moves where nothing moves."""
        found = {c.ratio: sp.Integer(1) for c in self.choices if c.unit}
        return found | {
            c.move: sp.Integer(0 if c.action == "shift" else 1) for c in (*self.choices, *self.same)
        }


def _symbol(choice: Choice) -> sp.Symbol:
    assert choice.pivot is not None
    return choice.pivot.symbol


def obligations_of(setting: Setting, closed: Closed) -> tuple[Obligation, ...]:
    """Pointwise identity, read-out, cocycle and unit of a derived transport."""
    choices = closed.candidate.choices
    places = _Places(choices)
    h, t = sp.Matrix(closed.basis), closed.transport

    def pointwise() -> bool:
        new = h.subs(places.u_at("q"), simultaneous=True)
        old = h.subs(places.u_at("p"), simultaneous=True)
        return _all_zero(new - t.subs(places.moves("p", "q"), simultaneous=True) * old)

    def readout() -> bool:
        here = {c.u: c.here for c in choices}
        total = sum(c * a.subs(here, simultaneous=True)
                    for a, c in closed.candidate.terms.items())
        return is_zero(total - setting.f)

    def cocycle() -> bool:
        two_steps = t.subs(places.moves("q", "r"), simultaneous=True) * t.subs(
            places.moves("p", "q"), simultaneous=True
        )
        return _all_zero(two_steps - t.subs(places.moves("p", "r"), simultaneous=True))

    def unit() -> bool:
        return bool(t.subs(places.still()) == sp.eye(t.shape[0]))

    return (
        *_domain(setting),
        obligation(
            "pointwise identity", "h(u at q) = T(p→q) h(u at p) for every x, p, q", pointwise
        ),
        obligation("read-out", "Σ c_k h_k(u) equals the text", readout),
        obligation("cocycle", "T(q→r) T(p→q) = T(p→r)", cocycle),
        obligation("unit", "T(p→p) = 1", unit),
    )


def _domain(setting: Setting) -> tuple[Obligation, ...]:
    """That the text may be replaced by what it is on the domain, and the selection law."""
    found = []
    if setting.f != setting.text:
        known = ", ".join(str(b) for b in setting.bounds) or "the signs of its factors"
        found.append(obligation("domain", f"switches follow from {known}",
                                functools.partial(_agrees, setting)))
    for i in setting.indicators:
        order = "x ≤ p ≤ q" if i.bound.above else "x ≥ p ≥ q"
        law = functools.partial(selection_holds, i.bound.above)
        found.append(obligation("selection", f"[x = q] = [x = p]·[p = q] for {order}", law))
    return tuple(found)


def _agrees(setting: Setting) -> bool:
    """f equals the text with every element at, and strictly inside, each of its bounds."""
    for touching in itertools.product((True, False), repeat=len(setting.bounds)):
        gap = {b: sp.Integer(0) if at else sp.Symbol(f"gap_{k}", positive=True)
               for k, (b, at) in enumerate(zip(setting.bounds, touching, strict=True))}
        place: dict[sp.Expr, sp.Expr] = {}
        for b in setting.bounds:
            if b.element not in place:
                place[b.element] = b.row - gap[b] if b.above else b.row + gap[b]
            else:  # the other extreme, from where the element is now
                there = place[b.element]
                place[b.row] = there + gap[b] if b.above else there - gap[b]
        value = {i.symbol: sp.Integer(int(gap[i.bound] == 0)) for i in setting.indicators}
        value |= {i.contrary: 1 - value[i.symbol] for i in setting.indicators}
        text = _choices_as_symbols(conditions_alone(setting.text.subs(place)))
        if not is_zero(text - _choices_as_symbols(setting.f.subs(value).subs(place))):
            return False
    return True


def _choices_as_symbols(expr: sp.Expr) -> sp.Expr:
    """[c] as an opaque symbol, [not c] as 1 less it."""
    known: dict[sp.Expr, sp.Symbol] = {}

    def symbol(choice: sp.Piecewise) -> sp.Expr:
        condition = choice.args[0][1]
        if choice.args[0][0] == 0:  # [not c]
            return 1 - symbol(sp.Piecewise((1, condition), (0, True)))
        if sp.Not(condition) in known or str(sp.Not(condition)) < str(condition):
            return 1 - known.setdefault(sp.Not(condition), zero_or_one(f"[{sp.Not(condition)}]"))
        return known.setdefault(condition, zero_or_one(f"[{condition}]"))

    def chooses(e: sp.Expr) -> bool:
        return isinstance(e, sp.Piecewise) and [v for v, _ in e.args] in ([1, 0], [0, 1])

    return expr.replace(chooses, symbol)


def _all_zero(matrix: sp.Matrix) -> bool:
    return all(is_zero(e) for e in matrix)
