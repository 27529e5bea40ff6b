"""How a row of a transport T is spelled: Σ factor · sum, without 0 · ∞ and without early overflow.

Where a product meets 0 the other side is never looked at. The state of no elements is anchored at 0
(a scale at 1), anywhere from its next pivot, so a factor may be infinite or NaN while the sum is 0.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from fusegen.ir.expr import ONE, Call, Expr, Lit, Var, call, variables

Term = tuple[Expr, Expr]
"""A sum, and its factor over the pivots' moves."""
_ZERO = Lit(0.0)


def counted(terms: Sequence[Term]) -> Expr:
    """A count where every factor is 0 or 1."""
    nothing = Lit(0, "int")
    kept = [
        held if factor == ONE
        else call("where", call("ne", factor, _ZERO), held, nothing)
        for held, factor in terms
    ]
    return functools.reduce(lambda a, b: call("add", a, b), kept)


def transported(terms: Sequence[Term], same: frozenset[str], *, forgets: bool = False) -> Expr:
    """Σ factor · sum; `same` are the moves that are indicators. `forgets`: where a factor is 0,
    nothing is left of a sum that has left the range, either."""
    total: Expr | None = None
    for held, factor in terms:
        if forgets and factor != ONE:
            term = call("zeros_win", held, factor)
        else:
            term = held if factor == ONE else _carried(factor, held, same)
        total = term if total is None else call("add", total, term)
    return _ZERO if total is None else total


def _carried(factor: Expr, held: Expr, same: frozenset[str]) -> Expr:
    """factor · sum: a sum that is 0 stays 0 whatever the factor is, and what an indicator drops is
    0 whatever the sum is.

    Both are asked only of an indicator times an exponential or a quotient. The factor of an
    indicator alone is 0 or 1; without one a factor is 0 only by underflow, and the sum is finite.
    """
    moves = set(variables(factor))
    if not same & moves:
        return call("zero_wins", held, factor)
    carried = call("zero_wins", factor, held)
    if not moves - same:
        return carried
    return call("where", call("eq", held, _ZERO), _ZERO, carried)


def polynomial(move: str, terms: Sequence[Term]) -> Expr | None:
    """Two or more terms with powers of one move as factors, by Horner's rule; None for others."""
    powers = [_power_of(move, factor) for _, factor in terms]
    known = [p for p in powers if p is not None]
    if len(terms) < 2 or len(known) < len(powers):
        return None
    return _horner(Var(move), [
        (scale, degree, held) for (scale, degree), (held, _) in zip(known, terms, strict=True)
    ])


def _power_of(move: str, factor: Expr) -> tuple[float, int] | None:
    """The factor as scale · move^degree, if it is one."""
    match factor:
        case Lit(value=value):
            return float(value), 0
        case Var(name=name) if name == move:
            return 1.0, 1
        case Call(op="mul", args=(a, b)):
            left, right = _power_of(move, a), _power_of(move, b)
            if left is None or right is None:
                return None
            return left[0] * right[0], left[1] + right[1]
        case _:
            return None


def _horner(move: Var, terms: list[tuple[float, int, Expr]]) -> Expr:
    """Σ scale · move^degree · sum, by Horner's rule: no power of the move can overflow alone."""
    total: Expr | None = None
    for degree in range(max(d for _, d, _ in terms), -1, -1):
        if total is not None:
            total = call("zero_wins", move, total)  # what has not moved stays, ±inf too
        for scale, d, held in terms:
            if d == degree:
                term = held if scale == 1.0 else call("mul", Lit(scale), held)
                total = term if total is None else call("add", term, total)
    assert total is not None
    return total
