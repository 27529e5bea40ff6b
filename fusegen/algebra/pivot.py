"""Pivot and transport: how a sum that depends on a row value can be kept while that value moves.

Write each element relative to a pivot, x = X(u, p) with u = x − p or u = x / p. If
f(x; p) = Σ c_k(p) h_k(u), and the h_k at a moved pivot are combinations of the h_j at the old one,
then the vector of sums Σ h_k(u) moves by a matrix T of the move alone (δ = p − q, ρ = p / q).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import sympy as sp

from fusegen.algebra.choice import Choice, all_choices
from fusegen.algebra.setting import Setting

MAX_BASIS = 7  # sums that one reduction may keep in the state
_MAX_CANDIDATES = 64  # choices of pivots that are tried


@dataclass(frozen=True)
class Candidate:
    """A choice for every element, and f written in it."""

    choices: tuple[Choice, ...]
    terms: dict[sp.Expr, sp.Expr]  # basis function of the u → coefficient
    stuck: tuple[sp.Expr, ...]  # terms in which u and a changing row value do not separate
    score: tuple[int, ...]


@dataclass(frozen=True)
class Closed:
    """A basis closed under moves of the pivot, with its transport.

    taken: position of the sum that counts what the term's conditions take; where it is 0 the sum
    is 0, whatever row values are.
    """

    candidate: Candidate
    basis: tuple[sp.Expr, ...]
    transport: sp.Matrix
    taken: int | None = None

    def counting(self, taken: sp.Expr) -> Closed:
        """With a basis function, which no pivot moves, that counts what is taken."""
        if taken in self.basis:
            return replace(self, taken=self.basis.index(taken))
        still = sp.diag(self.transport, sp.eye(1))
        return replace(self, basis=(*self.basis, taken), transport=still, taken=len(self.basis))


@dataclass(frozen=True)
class NotClosed:
    """Why no basis was found: the term that does not separate, or None if there are too many."""

    candidate: Candidate
    stuck: sp.Expr | None


def spread(expr: sp.Expr) -> sp.Expr:
    """Expand into a sum of products; logarithms split only where the arguments are positive.

    Denominators stay factors of their own: expanded together they would mix what they separate.
    """
    if expr.has(sp.sin, sp.cos):
        expr = sp.expand_trig(expr)
    held: dict[sp.Symbol, sp.Expr] = {}

    def hold(power: sp.Pow) -> sp.Symbol:
        name = sp.Dummy(real=True, positive=power.is_positive or None)
        held[name] = power
        return name

    expr = expr.replace(lambda e: e.is_Pow and e.exp.is_negative and e.base.is_Add, hold)
    expr = expanded(expr)
    while expr.has(*held) if held else False:
        expr = expr.xreplace(held)
    return expr


def expanded(expr: sp.Expr) -> sp.Expr:
    """Products and logarithms multiplied out, as far as the signs known of their factors allow."""
    return sp.expand(sp.expand_log(sp.expand(_scales_outside(expr)), force=False))


def _scales_outside(expr: sp.Expr) -> sp.Expr:
    """max(0, a·u) = a·max(0, u) for a > 0, and likewise min; |a·u| = |a|·|u|."""
    for size in expr.atoms(sp.Abs):
        if isinstance(size.args[0], sp.Mul):
            expr = expr.subs(size, sp.Mul(*(sp.Abs(a) for a in size.args[0].args)))
    for extreme in expr.atoms(sp.Max, sp.Min):
        parts = [{f for f in sp.Mul.make_args(a) if f.is_positive and not f.is_number}
                 for a in extreme.args if a != 0]
        common = sp.Mul(*set.intersection(*parts)) if parts else sp.Integer(1)
        if common != 1:
            inner = extreme.func(*(a / common for a in extreme.args))
            expr = expr.subs(extreme, common * inner)
    return expr


def split(expr: sp.Expr, us: tuple[sp.Symbol, ...]) -> dict[sp.Expr, sp.Expr]:
    """Σ coefficient · atom, atoms being functions of the u alone wherever that is possible."""
    terms: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(spread(expr)):
        coefficient, atom = term.as_independent(*us, as_Add=False)
        scale, atom = atom.as_coeff_Mul()
        terms[atom] = terms.get(atom, sp.Integer(0)) + coefficient * scale
    return {a: sp.powsimp(c) for a, c in terms.items() if c != 0}


def best_candidate(setting: Setting) -> Candidate:
    """The pivots that separate f best; numeric safety first, size second."""
    changing = frozenset(r.symbol for r in setting.changing)
    found: Candidate | None = None
    for choices in itertools.islice(all_choices(setting), _MAX_CANDIDATES):
        candidate = _written(setting, choices, changing)
        if found is None or candidate.score < found.score:
            found = candidate
    assert found is not None
    return found


def _written(
    setting: Setting, choices: tuple[Choice, ...], changing: frozenset[sp.Symbol]
) -> Candidate:
    inverse = {c.element: c.inverse for c in choices}
    us = tuple(dict.fromkeys(c.u for c in choices))
    terms = split(setting.f.subs(inverse, simultaneous=True), us)
    stuck = tuple(a for a in terms if a.free_symbols & changing)
    pivotal = {r.symbol for r in setting.changing if r.pivotal}
    score = (  # the smaller the better, the first difference decides
        len(stuck),
        # Read-outs and sums that may overflow: exponentials of what moves, and of unbounded u.
        sum(_has_exponential_of(c, changing) for c in terms.values()),
        sum(_explodes(a, choices, setting) for a in terms),
        # Coefficients 1/p² and beyond, which leave the range long before p does.
        sum((p.exp + 2).is_nonpositive is True and p.base in pivotal
            for c in terms.values() for p in c.atoms(sp.Pow)),
        # Row values in coefficients: terms about them may cancel when they are read out.
        sum(len(c.free_symbols & pivotal) for c in terms.values()),
        sum(c.pivot is not None and not _wanted(setting, c) for c in choices),
        len(terms),  # then as few sums, and as few pivots, as can be
        sum(c.pivot is not None for c in choices),
    )
    return Candidate(choices, terms, stuck, score)


def _wanted(setting: Setting, choice: Choice) -> bool:
    """Does the text itself form this difference or quotient?"""
    assert choice.pivot is not None
    return bool(setting.f.has(choice.element) and setting.f.has(choice.pivot.symbol))


def _explodes(atom: sp.Expr, choices: tuple[Choice, ...], setting: Setting) -> bool:
    """Can an exponential in the basis function grow without bound?"""
    by_u = {c.u: c for c in choices}
    return any(not _bounded_exponent(e.args[0], by_u, setting) for e in atom.atoms(sp.exp))


def _bounded_exponent(
    exponent: sp.Expr, by_u: dict[sp.Symbol, Choice], setting: Setting
) -> bool:
    for u in exponent.free_symbols & set(by_u):
        choice = by_u[u]
        if choice.pivot is None:
            return False
        if choice.action != "shift":
            continue
        # u ≤ 0 under what dominates it, u ≥ 0 above what it dominates.
        sign = setting.dominated(choice.atom, choice.pivot)
        if sign == 0 or not (sp.diff(exponent, u) * sign).is_positive:
            return False
    return True


def _has_exponential_of(coefficient: sp.Expr, changing: frozenset[sp.Symbol]) -> bool:
    return any(e.free_symbols & changing for e in coefficient.atoms(sp.exp))


def close(candidate: Candidate, changing: frozenset[sp.Symbol]) -> Closed | NotClosed:
    """Extend the basis until every moved basis function is a combination of the basis."""
    us = tuple(dict.fromkeys(c.u for c in candidate.choices))
    moved = {c.u: c.moved for c in candidate.choices}
    moves = {m for c in candidate.choices if c.pivot is not None for m in c.moves}
    basis = sorted(candidate.terms, key=sp.default_sort_key)
    rows: list[dict[sp.Expr, sp.Expr]] = []
    while len(rows) < len(basis):  # what a moved function brings in has to move, too
        row = split(basis[len(rows)].subs(moved, simultaneous=True), us)
        for atom in sorted(row, key=sp.default_sort_key):
            if atom.free_symbols & (moves | changing):
                return NotClosed(candidate, atom)
            if atom not in basis:
                basis.append(atom)
        if len(basis) > MAX_BASIS:
            return NotClosed(candidate, None)
        rows.append(row)
    size = len(basis)
    transport = sp.Matrix(size, size, lambda k, j: rows[k].get(basis[j], sp.Integer(0)))
    return Closed(candidate, tuple(basis), transport)


def joined(parts: list[Closed]) -> Closed:
    """The bases of independent terms side by side; equal basis functions are shared."""
    basis = list(dict.fromkeys(h for p in parts for h in p.basis))
    rows: dict[sp.Expr, dict[sp.Expr, sp.Expr]] = {}
    terms: dict[sp.Expr, sp.Expr] = {}
    for p in parts:
        for k, h in enumerate(p.basis):
            rows.setdefault(h, {p.basis[j]: p.transport[k, j] for j in range(len(p.basis))})
        for h, c in p.candidate.terms.items():
            terms[h] = terms.get(h, sp.Integer(0)) + c
    choices = {c.u: c for p in parts for c in p.candidate.choices}
    candidate = Candidate(tuple(choices.values()), terms, (), ())
    size = len(basis)
    transport = sp.Matrix(
        size, size, lambda k, j: rows[basis[k]].get(basis[j], sp.Integer(0))
    )
    return Closed(candidate, tuple(basis), transport)
