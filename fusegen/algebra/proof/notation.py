"""One walk over formulas, three notations: brackets, powers and signs are decided here alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, assert_never

from fusegen.algebra.proof.terms import factors_of, product_of
from fusegen.ir.expr import Call, Expr, Lit, Var

_RELATIONS = {"lt": "<", "le": "≤", "gt": ">", "ge": "≥", "eq": "=", "ne": "≠",
              "and": "and", "or": "or"}
_WORDS = {"maximum": "max", "minimum": "min"}
_SUM, _PRODUCT, _ATOM = 1, 2, 4  # binding strengths; relations have 0


@dataclass(frozen=True, slots=True)
class Folded:
    """`word` over the elements of a row: Σ, max, mean, top 5."""

    word: str
    of: Expr


@dataclass(frozen=True, slots=True)
class Relation:
    """left = right; `sign` may also be →."""

    left: Expr
    right: Expr | Folded
    sign: str = "="


Math = Expr | Folded | Relation


class Notation(Protocol):
    """How the parts of a formula are put together; every argument is already written."""

    stacked: bool  # fractions and roots group by themselves

    def name(self, name: str) -> str: ...
    def number(self, text: str) -> str: ...
    def infix(self, sign: str, left: str, right: str) -> str: ...
    def minus(self, inner: str) -> str: ...
    def product(self, factors: Sequence[str]) -> str: ...
    def fraction(self, over: str, under: str) -> str: ...
    def power(self, base: str, exponent: str) -> str: ...
    def root(self, inner: str) -> str: ...
    def magnitude(self, inner: str) -> str: ...
    def apply(self, function: str, arguments: Sequence[str]) -> str: ...
    def bracket(self, inner: str) -> str: ...
    def indicator(self, condition: str) -> str: ...
    def fold(self, word: str, inner: str) -> str: ...


def written(math: Math, to: Notation, outer: int = 0) -> str:
    """The formula in a notation, in brackets where `outer` binds more tightly."""
    match math:
        case Relation(left=left, right=right, sign=sign):
            return to.infix(sign, written(left, to), written(right, to))
        case Folded(word=word, of=of):
            # A sum reaches over products but not over sums.
            return to.fold(word, written(of, to, _PRODUCT))
        case Var(name=name):
            return to.name(name)
        case Lit(value=value):
            return _number(value, to, outer)
        case Call():
            body, strength = _call(math, to)
            return to.bracket(body) if strength < outer else body
        case _:
            assert_never(math)


def _number(value: float | int | bool, to: Notation, outer: int) -> str:
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        simple = Fraction(value).limit_denominator(1000)
        if float(simple) == value and len(repr(value)) > 6:
            value = 0.0 if simple == 0 else value
            if simple.denominator > 1:  # 10/7 says more than 1.4285714285714286, and is exact
                body = to.fraction(to.number(str(simple.numerator)),
                                   to.number(str(simple.denominator)))
                return body if to.stacked or outer < _ATOM - 1 else to.bracket(body)
    shown = repr(value).removesuffix(".0").replace("inf", "∞").replace("-", "−")
    return to.bracket(to.number(shown)) if shown[0] == "−" and outer > 0 else to.number(shown)


def _call(expr: Call, to: Notation) -> tuple[str, int]:
    """The call and how tightly it binds."""
    match expr:
        case Call(op="add" | "sub", args=(left, right)):
            return _sum(expr.op, left, right, to), _SUM
        case Call(op="neg" | "mul" | "zero_wins" | "xlogy"):
            return _product(expr, to)
        case Call(op="div", args=(over, under)):
            return _fraction(over, under, to)
        case Call(op="rsqrt", args=(inner,)):
            return _fraction(Lit(1.0), Call("sqrt", (inner,)), to)
        case Call(op="square", args=(inner,)):
            return to.power(written(inner, to, _ATOM), to.number("2")), _ATOM - 1
        case Call(op="pow", args=(base, exponent)):
            above = written(exponent, to, 0 if to.stacked else _ATOM)
            return to.power(written(base, to, _ATOM), above), _ATOM - 1
        case Call(op="sqrt", args=(inner,)):
            return to.root(written(inner, to)), _ATOM
        case Call(op="abs", args=(inner,)):
            return to.magnitude(written(inner, to)), _ATOM
        case Call(op="where", args=(condition, Lit(value=1), Lit(value=0))):
            return to.indicator(written(condition, to)), _ATOM  # Iverson's bracket
        case Call(op="to_float" | "to_int", args=(inner,)):
            return written(inner, to, _ATOM), _ATOM
        case Call(op=op, args=(left, right)) if op in _RELATIONS:
            return to.infix(_RELATIONS[op], written(left, to, _SUM), written(right, to, _SUM)), 0
        case _:
            operands = [written(a, to) for a in expr.args]
            return to.apply(_WORDS.get(expr.op, expr.op), operands), _ATOM


def _sum(op: str, left: Expr, right: Expr, to: Notation) -> str:
    sign, factors = factors_of(right)
    if sign < 0:
        op, right = ("sub" if op == "add" else "add"), product_of(factors)
    tail = _SUM if op == "add" else _PRODUCT
    return to.infix("+" if op == "add" else "−", written(left, to, _SUM), written(right, to, tail))


def _fraction(over: Expr, under: Expr, to: Notation) -> tuple[str, int]:
    if to.stacked:
        return to.fraction(written(over, to), written(under, to)), _PRODUCT
    return to.fraction(written(over, to, _PRODUCT), written(under, to, _PRODUCT + 1)), _PRODUCT


def _product(expr: Call, to: Notation) -> tuple[str, int]:
    sign, factors = factors_of(expr)
    powers: dict[Expr, int] = {}
    for factor in factors:
        powers[factor] = powers.get(factor, 0) + 1
    inside = _PRODUCT if len(powers) > 1 else _PRODUCT + 1
    shown = [
        written(f, to, inside if to.stacked or not _divides(f) else inside + 1) if n == 1
        else to.power(written(f, to, _ATOM), to.number(str(n)))
        for f, n in powers.items()
    ]
    body = to.product(shown) if len(shown) > 1 else shown[0] if shown else to.number("1")
    return (to.minus(body), _SUM) if sign < 0 else (body, _PRODUCT if len(shown) > 1 else _ATOM - 1)


def _divides(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.op in ("div", "rsqrt")


_SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"


def numbered(letter: str, number: int) -> str:
    """A symbol with a subscript, S₁₂: no user name can be like it."""
    return letter + "".join(_SUBSCRIPTS[int(d)] for d in str(number))


def parts_of_name(name: str) -> tuple[str, str, str]:
    """(letters, subscript in plain digits, primes)."""
    bare = name.rstrip("′")
    letters = bare.rstrip(_SUBSCRIPTS)
    digits = "".join(str(_SUBSCRIPTS.index(c)) for c in bare[len(letters):])
    return letters, digits, name[len(bare):]
