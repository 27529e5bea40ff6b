"""Expressions with switches, in sympy: one evaluation per case, none of which has a switch left.

Where a comparison, max, min or abs turns on the sign of a difference that is not known, evaluation
stops, and starts again three times: with the difference above, at and below 0. Where it is linear
in a symbol, that symbol is written as the rest plus a new positive one, so that later comparisons
know it: comparing three numbers meets their 13 weak orders. A case whose conditions contradict one
another is harmless: what is shown there is shown of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import sympy as sp

from fusegen.algebra.own.work import Work
from fusegen.algebra.symbols import apply, number
from fusegen.ir.expr import Call, Expr, Lit, Var

T = TypeVar("T")
Lookup = Callable[[str], sp.Basic]


class Undecided(Exception):
    """Evaluation needs the sign of `difference`, or the truth of a symbol `truth`."""

    def __init__(self, difference: sp.Expr | None = None, truth: sp.Symbol | None = None) -> None:
        self.difference, self.truth = difference, truth
        super().__init__(str(difference if truth is None else truth))


@dataclass(frozen=True)
class Guard:
    """Where the symbol `flag` is `truth`, `number` is `value`."""

    flag: sp.Symbol
    truth: bool
    number: sp.Expr
    value: sp.Expr


@dataclass(frozen=True)
class Case:
    """What is assumed: symbols that stand for something else, signs of other differences, facts
    (values that are ≥ 0) and guards."""

    values: Mapping[sp.Symbol, sp.Expr] = field(default_factory=dict)
    signs: Mapping[sp.Expr, int] = field(default_factory=dict)
    facts: tuple[sp.Expr, ...] = ()
    guards: tuple[Guard, ...] = ()
    whole: bool = False  # leave max and min as they are, without asking which it is
    work: Work = field(default_factory=Work)

    def value(self, of: sp.Expr) -> sp.Expr:
        """A symbol, or an expression of symbols, as this case knows it."""
        return of.xreplace(self.values)

    def expanded(self, value: sp.Expr) -> sp.Expr:
        """A sum of products: a step for every term. Raises OutOfBounds."""
        found = sp.expand(value)
        self.work.spend(len(sp.Add.make_args(found)))
        return found

    def sign(self, difference: sp.Expr) -> int:
        """+1, 0 or −1. Raises Undecided."""
        d = self.expanded(difference)
        known = self.bounds(d)
        if ">" in known or "<" in known:
            return 1 if ">" in known else -1
        if d.is_zero or {"≥", "≤"} <= known:
            return 0
        raise Undecided(difference=d)

    def bounds(self, value: sp.Expr) -> set[str]:
        """Which of > 0, ≥ 0, < 0 and ≤ 0 are known to hold of a value."""
        value = self.expanded(value)
        opposite = self.expanded(-value)
        above, below = self._above(value), self._above(opposite)
        return above | {{">": "<", "≥": "≤"}[s] for s in below}

    def _above(self, value: sp.Expr) -> set[str]:
        """> and ≥, from sympy, from what is assumed, or as a fact plus something ≥ 0."""
        sign = self.signs.get(value, -self.signs.get(self.expanded(-value), 2))  # −2: not assumed
        if value.is_extended_positive or sign == 1:
            return {">", "≥"}
        at_least = value.is_extended_nonnegative or value.is_zero or sign == 0
        found = {"≥"} if at_least else set()
        for fact in map(self.value, self.facts):
            if fact.free_symbols - fact.atoms(sp.Dummy) <= value.free_symbols:  # but for gaps
                rest = self.expanded(value - fact)
                if rest.is_positive:
                    return {">", "≥"}
                found |= {"≥"} if rest.is_nonnegative else set()
        return found

    def truth(self, value: sp.Basic) -> bool:
        """A condition's truth. Raises Undecided for a symbol."""
        if value in (sp.true, sp.false):
            return bool(value)
        raise Undecided(truth=value)


def cases(run: Callable[[Case], T], start: Case, work: Work) -> Iterator[T]:
    """The result of every case that `run` can meet. Raises OutOfBounds when all work is spent."""
    todo = [replace(start, work=work)]
    while todo:
        case = todo.pop()
        work.spend(1)
        try:
            yield run(case)
        except Undecided as undecided:
            todo += _split(case, undecided)


def _split(case: Case, undecided: Undecided) -> list[Case]:
    if undecided.truth is not None:
        both = (_decided(case, undecided.truth, truth) for truth in (True, False))
        return [c for c in both if c is not None]
    d = undecided.difference
    assert d is not None
    known = case.bounds(d)
    possible = {1: "≤" not in known, 0: True, -1: "≥" not in known}
    found = [_where(case, d, sign) for sign, so in possible.items() if so]
    return [c for c in found if not any(c.value(f).is_negative for f in c.facts)]


def _decided(case: Case, flag: sp.Symbol, truth: bool) -> Case | None:
    """The case with the flag, and what it guards; None if that cannot be."""
    case = replace(case, values={**case.values, flag: sp.sympify(truth)})
    for guard in case.guards:
        if guard.flag == flag and guard.truth is truth:
            gap = case.expanded(case.value(guard.number - guard.value))
            if {">", "<"} & case.bounds(gap):
                return None
            case = case if gap == 0 else _where(case, gap, 0)
    return case


def _where(case: Case, difference: sp.Expr, sign: int) -> Case:
    """The case with one more assumption: the difference has this sign."""
    found = _solved(difference, sign)
    if found is None:
        return replace(case, signs={**case.signs, difference: sign})
    symbol, rest, slope = found
    gap = sign * _gap(bool(difference.is_integer)) if sign else sp.S.Zero
    return _with(case, {symbol: case.expanded((gap - rest) / slope)})


def _with(case: Case, put: Mapping[sp.Symbol, sp.Expr]) -> Case:
    values = {s: v.xreplace(put) for s, v in case.values.items()}
    signs = {case.expanded(d.xreplace(put)): s for d, s in case.signs.items()}
    return replace(case, values={**values, **put}, signs=signs)


def _gap(whole: bool) -> sp.Expr:
    """Any number > 0, or any whole one."""
    return 1 + sp.Dummy("t", integer=True, nonnegative=True) if whole else \
        sp.Dummy("t", positive=True)


def _solved(difference: sp.Expr, sign: int) -> tuple[sp.Symbol, sp.Expr, sp.Expr] | None:
    """(symbol, rest, slope) of a difference = slope · symbol + rest, or None.

    Best is a symbol that keeps what is known of it: the greater one as the lesser plus a gap.
    """
    found = []
    for symbol in sorted(difference.free_symbols, key=sp.default_sort_key):
        slope = sp.diff(difference, symbol)
        if not slope.is_number or slope == 0:
            continue
        rest = sp.expand(difference - slope * symbol)
        place = -rest / slope
        bounded = (symbol.is_nonnegative and not place.is_nonnegative) or (
            symbol.is_nonpositive and not place.is_nonpositive
        )
        falls = (slope * sign).is_negative
        found.append(((bool(bounded), bool(falls)), symbol, rest, slope))
    return min(found, key=lambda f: f[0])[1:] if found else None


# ---- evaluation ----


def evaluate(expr: Expr, env: Lookup, case: Case) -> sp.Basic:
    """The expression in one case. Raises Undecided, OutOfBounds."""
    case.work.spend(1)
    match expr:
        case Var(name=name):
            return env(name)
        case Lit(value=value):
            return _literal(value)
        case Call(op="where", args=(condition, then, other)):
            holds = case.truth(evaluate(condition, env, case))
            return evaluate(then if holds else other, env, case)
        case Call(op="and" | "or" as op, args=(left, right)):
            first = case.truth(evaluate(left, env, case))
            return evaluate(right, env, case) if first is (op == "and") else sp.sympify(first)
        case Call(op=op, args=args):
            return _operation(op, [evaluate(a, env, case) for a in args], case)


def _literal(value: float | int | bool) -> sp.Basic:
    if isinstance(value, bool | int):
        return number(value)
    if value != value:
        return sp.nan
    return sp.oo * (1 if value > 0 else -1) if value in (float("inf"), -float("inf")) \
        else number(value)


_COMPARED: dict[str, Callable[[int], bool]] = {
    "lt": lambda s: s < 0, "le": lambda s: s <= 0, "gt": lambda s: s > 0, "ge": lambda s: s >= 0,
    "eq": lambda s: s == 0, "ne": lambda s: s != 0,
}


def _operation(op: str, args: list[sp.Basic], case: Case) -> sp.Basic:
    if op == "not":
        return sp.sympify(not case.truth(args[0]))
    if op in ("isnan", "isinf", "isfinite"):
        (x,) = args
        nan, inf = x is sp.nan, x in (sp.oo, -sp.oo)
        return sp.sympify({"isnan": nan, "isinf": inf, "isfinite": not (nan or inf)}[op])
    if op in ("to_float", "to_int") and (args[0] in (sp.true, sp.false) or _is_truth(args[0])):
        return sp.Integer(case.truth(args[0]))
    if op == "to_float" or (op == "to_int" and args[0].is_integer):
        return args[0]
    if op == "to_bool":
        return sp.sympify(case.sign(args[0]) != 0)
    if op in _COMPARED:
        if sp.nan in args:
            return sp.sympify(op == "ne")
        return sp.sympify(_COMPARED[op](_difference_sign(args, case)))
    if sp.nan in args:
        return sp.nan
    if op in ("maximum", "minimum") and case.whole:
        return apply(op, *args)
    if op in ("maximum", "minimum"):
        return args[0] if (_difference_sign(args, case) > 0) is (op == "maximum") else args[1]
    if op in ("abs", "sign"):
        sign = case.sign(args[0])
        return sp.Integer(sign) if op == "sign" else args[0] * sign
    return apply(op, *args)


def _is_truth(value: sp.Basic) -> bool:
    return isinstance(value, sp.Symbol) and value.is_real is None


def _difference_sign(args: list[sp.Basic], case: Case) -> int:
    left, right = args
    return 0 if left == right else case.sign(left - right)
