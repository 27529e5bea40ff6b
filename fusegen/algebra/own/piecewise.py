"""Piecewise linear expressions, one case at a time: what max, min, where and floor make of states.

A number is a linear form, or an infinity or NaN, which follow IEEE arithmetic. The greatest (or the
least) of several forms stays as it is, without asking which it is, for as long as that goes: sums
and maxima of maxima are maxima of forms. What is not linear in a case (a product of two unknowns,
an exponential) raises Nonlinear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fusegen.algebra.own.exact import computed, exact
from fusegen.algebra.own.linear import Linear, Paths, Relation, Unknown, constant, variable
from fusegen.algebra.own.simplex import Rational, ratio
from fusegen.ir.expr import Call, Expr, Lit, Var
from fusegen.ir.ops import OPS


@dataclass(frozen=True)
class Extreme:
    """The greatest of two or more forms, or the least."""

    forms: tuple[Linear, ...]
    greatest: bool

    def __neg__(self) -> Number:
        return extreme([-f for f in self.forms], greatest=not self.greatest)

    def __mul__(self, factor: Rational) -> Number:
        return extreme([f * factor for f in self.forms], greatest=self.greatest is (factor > 0))

    def __add__(self, other: Linear) -> Number:
        return extreme([f + other for f in self.forms], greatest=self.greatest)


Number = Linear | Extreme | float
"""A float is ±inf or NaN."""

Value = Number | bool


def extreme(forms: Iterable[Linear], *, greatest: bool) -> Linear | Extreme:
    """Of forms that differ by a constant, one is enough."""
    best: dict[tuple[tuple[Unknown, Rational], ...], Rational] = {}
    pick = max if greatest else min
    for f in forms:
        best[f.terms] = pick(f.constant, best.get(f.terms, f.constant))
    found = tuple(Linear(terms, constant) for terms, constant in best.items())
    return found[0] if len(found) == 1 else Extreme(found, greatest)


class Nonlinear(Exception):
    """Not a linear form of the unknowns."""


@dataclass
class Evaluation:
    """Expressions over named values, along the path that is being walked."""

    paths: Paths
    known: dict[str, Value]
    steps: Mapping[str, Expr] = field(default_factory=dict)
    others: Callable[[str], Value] | None = None  # values that are looked up when first needed

    def value(self, expr: Expr) -> Value:
        """Raises Nonlinear, Dead, OutOfBounds."""
        self.paths.work.spend(1)
        match expr:
            case Var(name=name):
                if name not in self.known:
                    self.known[name] = self.value(self.steps[name]) if name in self.steps \
                        else self.others(name)  # type: ignore[misc]
                return self.known[name]
            case Lit(value=value):
                return literal(value)
            case Call(op="where", args=(condition, then, other)):
                return self.value(then if self.value(condition) else other)
            case Call(op="and", args=(left, right)):
                return self.value(left) and self.value(right)
            case Call(op="or", args=(left, right)):
                return self.value(left) or self.value(right)
            case Call(op=op, args=args):
                found = [self.value(a) for a in args]
                return self._applied(op, found if op in _KEEP else [*map(self.resolved, found)])

    def _applied(self, op: str, args: list[Value]) -> Value:
        if op not in _OF_TRUTHS:  # elsewhere, conditions count as 0 and 1
            args = [constant(int(a)) if isinstance(a, bool) else a for a in args]
        if op in _COMPARED:
            return self._compared(op, *args)
        if op in _OF_TRUTHS and isinstance(args[0], bool):
            return not args[0] if op == "not" else args[0] if op == "to_bool" else \
                constant(int(args[0]))
        if op in _LINEAR:
            return _LINEAR[op](self, *args)
        if any(isinstance(a, Linear) and a.terms for a in args) or op not in OPS:
            raise Nonlinear(op)
        return _of_numbers(op, args)

    def resolved(self, value: Value) -> Value:
        """Which form is the greatest, or the least?"""
        if not isinstance(value, Extreme):
            return value
        best, *others = value.forms
        for form in others:
            difference = form - best if value.greatest else best - form
            best = form if self.paths.choose(difference, "≥", "≤") == "≥" else best
        return best

    # ---- conditions ----

    def _compared(self, op: str, left: Any, right: Any) -> bool:
        if isinstance(left, float) or isinstance(right, float):
            a, b = (0.0 if isinstance(v, Linear) else float(v) for v in (left, right))
            return bool(OPS[op].numpy(a, b))  # any finite number is to inf as 0 is
        yes, *no = _COMPARED[op]
        answer = self.paths.choose(left - right, *((yes, *no)))
        return (answer == yes) is (op != "ne")

    def sign(self, value: Linear) -> int:
        return {">": 1, "=": 0, "<": -1}[self.paths.choose(value, ">", "=", "<")]

    # ---- numbers ----

    def add(self, a: Any, b: Any) -> Number:
        if isinstance(a, float) or isinstance(b, float):
            both = isinstance(a, float) and isinstance(b, float)
            return a + b if both else a if isinstance(a, float) else b  # inf − inf is NaN
        if isinstance(a, Extreme) and isinstance(b, Extreme):
            if a.greatest is b.greatest:
                return extreme((f + h for f in a.forms for h in b.forms), greatest=a.greatest)
            a, b = sorted((a, b), key=lambda e: len(e.forms))
            a = self.resolved(a)
        return b + a if isinstance(b, Extreme) else a + b  # type: ignore[no-any-return]

    def neg(self, a: Any) -> Number:
        return -a  # type: ignore[no-any-return]

    def mul(self, a: Any, b: Any) -> Number:
        if isinstance(a, float) and isinstance(b, float):
            return a * b
        if isinstance(a, float):
            a, b = b, a
        if isinstance(b, float):
            sign = self.sign(self.resolved(a))  # type: ignore[arg-type]
            return b * sign if sign else math.nan
        if isinstance(a, Linear) and not a.terms:
            a, b = b, a
        if not isinstance(b, Linear) or b.terms:
            raise Nonlinear("mul")
        return a * b.constant if b.constant else constant(0)

    def div(self, a: Any, b: Any) -> Number:
        if isinstance(b, float):
            return math.nan if isinstance(a, float) or math.isnan(b) else constant(0)
        if not isinstance(b, Linear) or b.terms:
            raise Nonlinear("div")
        if b.constant:
            by = ratio(1, b.constant)
            return a * float(by) if isinstance(a, float) else a * by
        sign: Any = a if isinstance(a, float) else self.sign(self.resolved(a))  # type: ignore[arg-type]
        return math.inf * sign if sign else math.nan

    def maximum(self, a: Any, b: Any) -> Number:
        if isinstance(a, float) or isinstance(b, float):
            if a != a or b != b:
                return math.nan
            special, other = (a, b) if isinstance(a, float) else (b, a)
            return special if special > 0 else other
        forms = [form for v in (a, b) for form in self._greatest(v)]
        return extreme(forms, greatest=True)

    def _greatest(self, value: Any) -> tuple[Linear, ...]:
        """Forms of which it is the greatest."""
        value = value if isinstance(value, Extreme) and value.greatest else self.resolved(value)
        return value.forms if isinstance(value, Extreme) else (value,)

    def minimum(self, a: Any, b: Any) -> Number:
        return -self.maximum(-a, -b)

    def magnitude(self, a: Any) -> Number:
        return abs(a) if isinstance(a, float) else self.maximum(a, -a)

    def direction(self, a: Any) -> Number:
        if isinstance(a, float):
            return a if a != a else constant(1 if a > 0 else -1)
        return constant(self.sign(a))

    def floor(self, a: Any) -> Number:
        """A whole number q of its own, q ≤ a < q + 1."""
        if isinstance(a, float) or a.whole:
            return a  # type: ignore[no-any-return]
        if not a.terms:
            return constant(math.floor(a.constant))
        q = variable(f"⌊{a}⌋", whole=True)
        self.paths.state(a - q, "≥")
        self.paths.state(a - q - constant(1), "<")
        return q

    def truncate(self, a: Any) -> Number:
        """As a cast to whole numbers does; NaN is 0."""
        if isinstance(a, float):
            if math.isinf(a):
                raise Nonlinear("to_int")  # clamps to 64 bits
            return constant(0)
        if a.whole:
            return a  # type: ignore[no-any-return]
        up = self.paths.choose(a, "≥", "<") == "≥"
        return self.floor(a) if up else -self.floor(-a)


def literal(value: float | int | bool) -> Value:
    """Decimals as they are written."""
    if isinstance(value, bool):
        return value
    found = exact(value)
    return found if isinstance(found, float) else constant(ratio(found, 1))


def _of_numbers(op: str, args: list[Value]) -> Value:
    """Any operation where nothing is unknown, if its result is an exact number."""
    numbers = [Fraction(a.constant) if isinstance(a, Linear) else a for a in args]
    found = computed(op, numbers)
    if isinstance(found, bool | float):
        return found
    if not isinstance(found, Fraction):
        raise Nonlinear(op)
    return constant(ratio(found, 1))


_COMPARED: dict[str, tuple[Relation, ...]] = {
    "lt": ("<", "≥"), "le": ("≤", ">"), "gt": (">", "≤"), "ge": ("≥", "<"),
    "eq": ("=", "<", ">"), "ne": ("=", "<", ">"),
}
_KEEP = frozenset({"add", "sub", "neg", "mul", "div", "maximum", "minimum", "to_float"})
_OF_TRUTHS = frozenset({"not", "to_bool", "to_int", "to_float"})
_LINEAR: dict[str, Callable[..., Value]] = {
    "add": Evaluation.add, "sub": lambda e, a, b: e.add(a, -b), "neg": Evaluation.neg,
    "mul": Evaluation.mul, "div": Evaluation.div, "maximum": Evaluation.maximum,
    "minimum": Evaluation.minimum, "abs": Evaluation.magnitude, "sign": Evaluation.direction,
    "floor": Evaluation.floor, "ceil": lambda e, a: -e.floor(-a), "to_float": lambda e, a: a,
    "to_int": Evaluation.truncate,
    "to_bool": lambda e, a: a != 0 if isinstance(a, float) else e.sign(a) != 0,
    "isnan": lambda e, a: isinstance(a, float) and math.isnan(a),
    "isinf": lambda e, a: isinstance(a, float) and math.isinf(a),
    "isfinite": lambda e, a: not isinstance(a, float),
}
