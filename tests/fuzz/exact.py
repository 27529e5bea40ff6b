"""A graph evaluated over the reals, at 70 digits: the text itself, with nothing of the algebra.

Undefined values (log of 0, 0/0) are NaN and spread; callers skip them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp

from fusegen.ir import graph as g
from fusegen.ir.expr import Call, Expr, Lit, Var

DIGITS = 70
mp.mp.dps = DIGITS
NAN = mp.nan
_HUGE = mp.mpf(10) ** 6  # of an exponent: beyond it a number is treated as undefined


class Undefined(Exception):
    """The text has no value here."""


def _exp(a: Any) -> Any:
    return mp.exp(a) if abs(a) < _HUGE else NAN


def _log(a: Any) -> Any:
    return mp.log(a) if a > 0 else NAN


def _sqrt(a: Any) -> Any:
    return mp.sqrt(a) if a >= 0 else NAN


def _div(a: Any, b: Any) -> Any:
    return a / b if b != 0 else NAN


def _pow(a: Any, b: Any) -> Any:
    if b == int(b):
        return a ** int(b) if a != 0 or b >= 0 else NAN
    return a**b if a > 0 or (a == 0 and b > 0) else NAN


def _zero_wins(a: Any, b: Any) -> Any:
    return mp.mpf(0) if a == 0 else a * b


def _trig(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: f(a) if abs(a) < _HUGE else NAN


TABLE: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": _div, "neg": lambda a: -a, "pow": _pow, "square": lambda a: a * a,
    "abs": abs, "sign": mp.sign, "maximum": max, "minimum": min,
    "exp": _exp, "exp2": lambda a: _exp(a * mp.ln2), "expm1": lambda a: _exp(a) - 1,
    "log": _log, "log2": lambda a: _log(a) / mp.ln2, "log1p": lambda a: _log(1 + a),
    "sqrt": _sqrt, "rsqrt": lambda a: _div(mp.mpf(1), _sqrt(a)),
    "tanh": lambda a: mp.tanh(a) if abs(a) < _HUGE else NAN,
    "sin": _trig(mp.sin), "cos": _trig(mp.cos), "erf": mp.erf,
    "sigmoid": lambda a: _div(mp.mpf(1), 1 + _exp(-a)),
    "floor": mp.floor, "ceil": mp.ceil, "round": mp.nint,
    "xlogy": lambda a, b: mp.mpf(0) if a == 0 else a * _log(b),
    "zero_wins": _zero_wins, "zeros_win": _zero_wins, "where": lambda c, a, b: a if c else b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "and": lambda a, b: bool(a) and bool(b), "or": lambda a, b: bool(a) or bool(b),
    "not": lambda a: not a, "isnan": lambda a: False, "isinf": lambda a: False,
    "isfinite": lambda a: True, "to_float": lambda a: mp.mpf(a), "to_int": int,
    "to_bool": bool,
}
_SEES_NAN = {"where", "isnan"}


def is_nan(value: Any) -> bool:
    return bool(isinstance(value, mp.mpf) and value != value)


def apply(op: str, args: Sequence[Any]) -> Any:
    """One operation; NaN in, NaN out, except for what `where` does not choose."""
    if op == "where":
        condition, a, b = args
        return NAN if is_nan(condition) else a if condition else b
    if any(is_nan(a) for a in args):
        return NAN
    return TABLE[op](*args)


def number(value: float | int | bool) -> Any:
    """A literal as the reals see it: 0.7 is 7/10, not the nearest binary fraction."""
    return value if isinstance(value, bool) else mp.mpf(repr(value))


Row = Mapping[str, Sequence[Any]]


@dataclass
class Piece:
    """Some columns of a row; values of graph nodes over them, computed when asked for.

    `length` is what fg.length says: it is known before a row is read, so a piece knows that of the
    whole row, and a set of samples may share one.
    """

    row: Row
    columns: tuple[int, ...]
    length: int
    known: dict[g.Node, Any] = field(default_factory=dict)

    def element(self, node: g.Node) -> list[Any]:
        """One value per column, also of a row value."""
        found = self.value(node)
        return found if g.extent(node) is g.Extent.ELEMENT else [found] * len(self.columns)

    def value(self, node: g.Node) -> Any:
        """A list for elements and top-K lists, a number for row values."""
        if node not in self.known:
            self.known[node] = self._made(node)
        return self.known[node]

    def _made(self, node: g.Node) -> Any:
        match node:
            case g.Input(name=name):
                return [self.row[name][c] for c in self.columns]
            case g.Index():
                return [mp.mpf(c) for c in self.columns]
            case g.Length():
                return mp.mpf(self.length)
            case g.Literal(value=value):
                return number(value)
            case g.Cast(arg=arg):
                return self.value(arg)
            case g.Map(op=op, args=args):
                if g.extent(node) is g.Extent.ROW:
                    return apply(op, [self.value(a) for a in args])
                lists = [self.element(a) for a in args]
                return [apply(op, values) for values in zip(*lists, strict=True)]
            case g.Reduce(fold=fold, arg=arg):
                return folded(fold, self.element(arg), self.columns)
            case g.TopK(arg=arg, k=k):
                return best(self.element(arg), self.columns)[:k]
            case g.Part(top=top, field=which):
                return [pair[which == "indices"] for pair in self.value(top)]
            case _:
                raise NotImplementedError(type(node).__name__)


def best(values: Sequence[Any], columns: Sequence[int]) -> list[tuple[Any, int]]:
    """(value, column), greatest first, ties to the lowest column."""
    return sorted(zip(values, columns, strict=True), key=lambda pair: (-pair[0], pair[1]))


def folded(fold: g.Fold, values: Sequence[Any], columns: Sequence[int]) -> Any:
    """A base reduction of these values; NaN if any is."""
    if any(is_nan(v) for v in values):
        return NAN
    match fold:
        case g.Fold.MAX:
            return max(values)
        case g.Fold.MIN:
            return min(values)
        case g.Fold.SUM:
            return mp.fsum(values)
        case g.Fold.MEAN:
            return mp.fsum(values) / len(values)
        case g.Fold.PROD:
            return mp.fprod(values)
        case g.Fold.ARGMAX:
            return mp.mpf(best(values, columns)[0][1])
        case g.Fold.ARGMIN:
            return mp.mpf(best([-v for v in values], columns)[0][1])


def spoken(expr: Expr, env: Callable[[str], Any]) -> Any:
    """A derived expression at these values of its names."""
    match expr:
        case Var(name=name):
            return env(name)
        case Lit(value=value):
            return number(value)
        case Call(op="zero_wins" | "zeros_win", args=args):
            a, b = (spoken(arg, env) for arg in args)
            return mp.mpf(0) if a == 0 or b == 0 else apply("mul", (a, b))
        case Call(op=op, args=args):
            return apply(op, [spoken(a, env) for a in args])
