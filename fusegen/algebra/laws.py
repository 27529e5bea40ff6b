"""The four identities a merged operator stands on, each proved by sympy on its own.

Theorem. Let p range over a commutative monoid, S over vectors, T over matrices. If the pointwise
identity h(u at q) = T(p→q) h(u at p) holds for every element, with T(p→p) = 1 and
T(q→r) T(p→q) = T(p→r), then (p,S) ⊕ (q,R) = (p·q, T(p→p·q)S + T(q→p·q)R) is associative,
commutative, has the identity (1, 0), and its fold over a row equals the text.

The checks work on x, p and q themselves, not on the substitution that found T.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import sympy as sp

from fusegen.algebra.pivot import Choice, Closed
from fusegen.algebra.setting import Setting
from fusegen.derivation import Obligation, Status

_SIMPLIFY_LIMIT = 150  # operations; beyond it simplify may take seconds


def is_zero(expr: sp.Expr) -> bool:
    """Is the expression identically 0? False means "not shown", never a guess."""
    spread = sp.expand(sp.expand_log(sp.expand(expr), force=False))
    if spread == 0:
        return True
    merged = sp.powsimp(spread)
    if merged == 0 or sp.expand(sp.together(merged)) == 0:
        return True
    return bool(merged.count_ops() <= _SIMPLIFY_LIMIT and sp.simplify(merged) == 0)


def obligation(name: str, statement: str, prove: Callable[[], bool]) -> Obligation:
    start = time.perf_counter()
    status: Status = "proved" if prove() else "not proved"
    return Obligation(name, statement, status, time.perf_counter() - start)


def _at(choice: Choice, p: sp.Symbol) -> sp.Expr:
    """u with the pivot at p, from its definition."""
    x = choice.element
    return x - p if choice.action == "shift" else x / p


def _move(choice: Choice, p: sp.Symbol, q: sp.Symbol) -> sp.Expr:
    return p - q if choice.action == "shift" else p / q


def _twin(symbol: sp.Symbol, mark: str) -> sp.Symbol:
    known = {k: v for k, v in symbol.assumptions0.items() if k in ("real", "positive") and v}
    return sp.Symbol(f"{symbol.name}_{mark}", **known)


class _Places:
    """Three values p, q, r for every pivot, and what u and the moves are there."""

    def __init__(self, choices: tuple[Choice, ...]) -> None:
        self.choices = [c for c in choices if c.pivot is not None]
        self.fixed = {c.u: c.element for c in choices if c.pivot is None}
        symbols = {c.pivot.symbol for c in self.choices if c.pivot is not None}
        self.place = {m: {s: _twin(s, m) for s in symbols} for m in "pqr"}

    def u_at(self, mark: str) -> dict[sp.Symbol, sp.Expr]:
        found = {c.u: _at(c, self.place[mark][_symbol(c)]) for c in self.choices}
        return {**found, **self.fixed}

    def moves(self, start: str, end: str) -> dict[sp.Symbol, sp.Expr]:
        return {
            c.move: _move(c, self.place[start][_symbol(c)], self.place[end][_symbol(c)])
            for c in self.choices
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
        here = {c.u: _at(c, _symbol(c)) if c.pivot else c.element for c in choices}
        total = sum(c * a.subs(here, simultaneous=True)
                    for a, c in closed.candidate.terms.items())  # fmt: skip
        return is_zero(total - setting.f)

    def cocycle() -> bool:
        two_steps = t.subs(places.moves("q", "r"), simultaneous=True) * t.subs(
            places.moves("p", "q"), simultaneous=True
        )
        return _all_zero(two_steps - t.subs(places.moves("p", "r"), simultaneous=True))

    def unit() -> bool:
        still = {c.move: sp.Integer(0 if c.action == "shift" else 1) for c in places.choices}
        return bool(t.subs(still) == sp.eye(t.shape[0]))

    return (
        obligation(
            "pointwise identity", "h(u at q) = T(p→q) h(u at p) for every x, p, q", pointwise
        ),
        obligation("read-out", "Σ c_k h_k(u) equals the text", readout),
        obligation("cocycle", "T(q→r) T(p→q) = T(p→r)", cocycle),
        obligation("unit", "T(p→p) = 1", unit),
    )  # fmt: skip


def _all_zero(matrix: sp.Matrix) -> bool:
    return all(is_zero(e) for e in matrix)
