"""The elementwise operations: one row each, and everything about an operation in its row.

Every layer reads its own column: the tracer the name and arity, the reference the NumPy function,
the algebra the sympy name, the printers the C spelling. Adding an operation is adding a row (and,
for a `helper`, its C function in templates/include/fusegen, in math and cpu/maths.hpp).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Rule = Literal["arith", "float", "bool", "logic", "select", "to_float", "to_int", "to_bool"]
"""How the result kind follows from the operands.

arith: float if any operand is, else int.  float: operands and result are float.
bool: numbers in, bool out.  logic: bools in, bool out.  select: (bool, a, b) → kind of a and b.
"""

Spelling = Literal["infix", "prefix", "libm", "helper"]
"""infix/prefix: an operator; libm: a C math function; helper: one of fusegen's own C functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One elementwise operation over numbers."""

    name: str
    arity: int
    rule: Rule
    numpy: Callable[..., Any]
    c: str
    spelling: Spelling = "libm"
    precedence: int = 0  # of an operator, as in C++: larger binds tighter
    sympy: str | None = None  # name in sympy's namespace, None where the algebra has no model


def _sigmoid(x: Any) -> Any:
    t = np.exp(-np.abs(x))
    return np.where(np.less(x, 0), t, np.ones_like(t)) / (1.0 + t)


def _rsqrt(x: Any) -> Any:
    return 1.0 / np.sqrt(x)


def zero_wins(a: Any, b: Any) -> Any:
    """a·b, but 0 wherever a is 0, even against an infinity or NaN in b."""
    return np.where(np.equal(a, 0), 0.0, np.multiply(a, b))


def zeros_win(a: Any, b: Any) -> Any:
    """a·b, but 0 wherever either is 0, even against an infinity; not against a NaN in a."""
    none = np.equal(a, 0) | (np.equal(b, 0) & ~np.isnan(a))
    return np.where(none, 0.0, np.multiply(a, b))


def mirror(x: Any) -> Any:
    """The order of floats turned round, NaN included, which is greatest: the number above −x, −inf
    for NaN and NaN for −inf. It undoes itself, except that −0 comes back as +0."""
    x = np.asarray(x)
    with np.errstate(over="ignore"):  # infinity is above the greatest number
        above = np.nextafter(np.subtract(0.0, x, dtype=x.dtype), np.asarray(np.inf, x.dtype))
    return np.where(np.isnan(x), -np.inf, np.where(np.isneginf(x), np.nan, above)).astype(x.dtype)


def _xlogy(a: Any, b: Any) -> Any:
    return zero_wins(a, np.log(np.where(np.equal(a, 0), 1.0, b))) + np.where(np.isnan(b), b, 0.0)


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


def saturate(x: Any, dtype: np.dtype[Any]) -> Any:
    """A number as an integer of this type: toward zero, clamped to its range, NaN → 0 (as CUDA
    converts)."""
    info = np.iinfo(dtype)
    if np.asarray(x).dtype.kind in "iu":
        return np.clip(x, info.min, info.max).astype(dtype)
    wide = np.nan_to_num(np.trunc(np.asarray(x, np.float64)), nan=0.0)
    inside = np.clip(wide, float(info.min), float(info.max))
    out = np.where(inside >= float(info.max), info.max, np.where(inside <= info.min, info.min, 0))
    middle = (inside < float(info.max)) & (inside > info.min)
    return np.where(middle, np.where(middle, inside, 0).astype(np.int64), out).astype(dtype)


def _to_int(x: Any) -> Any:
    x = np.asarray(x)
    return saturate(x, np.dtype(np.int64)) if x.dtype.kind == "f" else x.astype(np.int64)


def _to_float(x: Any) -> Any:
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(np.float64)


_ROWS = (
    Op(name="add", arity=2, rule="arith", numpy=np.add, c="+", spelling="infix", precedence=12,
       sympy="Add"),
    Op(name="sub", arity=2, rule="arith", numpy=np.subtract, c="-", spelling="infix",
       precedence=12),
    Op(name="mul", arity=2, rule="arith", numpy=np.multiply, c="*", spelling="infix",
       precedence=13, sympy="Mul"),
    Op(name="rounded_mul", arity=2, rule="arith", numpy=np.multiply, c="rounded_product",
       spelling="helper"),  # rounded by itself, whatever is added to it: ir/expressions.py
    Op(name="div", arity=2, rule="float", numpy=np.divide, c="/", spelling="infix",
       precedence=13),
    Op(name="neg", arity=1, rule="arith", numpy=np.negative, c="-", spelling="prefix",
       precedence=15),
    Op(name="pow", arity=2, rule="float", numpy=np.power, c="pow", sympy="Pow"),
    Op(name="square", arity=1, rule="arith", numpy=np.square, c="square", spelling="helper"),
    Op(name="abs", arity=1, rule="arith", numpy=np.abs, c="magnitude", spelling="helper",
       sympy="Abs"),
    Op(name="sign", arity=1, rule="arith", numpy=np.sign, c="sign", spelling="helper",
       sympy="sign"),
    Op(name="maximum", arity=2, rule="arith", numpy=np.maximum, c="greater_of",
       spelling="helper", sympy="Max"),
    Op(name="minimum", arity=2, rule="arith", numpy=np.minimum, c="lesser_of",
       spelling="helper", sympy="Min"),
    Op(name="exp", arity=1, rule="float", numpy=np.exp, c="exp", sympy="exp"),
    Op(name="exp2", arity=1, rule="float", numpy=np.exp2, c="exp2"),
    Op(name="expm1", arity=1, rule="float", numpy=np.expm1, c="expm1"),
    Op(name="log", arity=1, rule="float", numpy=np.log, c="log", sympy="log"),
    Op(name="log2", arity=1, rule="float", numpy=np.log2, c="log2"),
    Op(name="log1p", arity=1, rule="float", numpy=np.log1p, c="log1p"),
    Op(name="sqrt", arity=1, rule="float", numpy=np.sqrt, c="sqrt", sympy="sqrt"),
    Op(name="rsqrt", arity=1, rule="float", numpy=_rsqrt, c="reciprocal_sqrt",
       spelling="helper"),
    Op(name="tanh", arity=1, rule="float", numpy=np.tanh, c="tanh", sympy="tanh"),
    Op(name="sin", arity=1, rule="float", numpy=np.sin, c="sin", sympy="sin"),
    Op(name="cos", arity=1, rule="float", numpy=np.cos, c="cos", sympy="cos"),
    Op(name="erf", arity=1, rule="float", numpy=_erf, c="erf", sympy="erf"),
    Op(name="sigmoid", arity=1, rule="float", numpy=_sigmoid, c="sigmoid", spelling="helper"),
    Op(name="floor", arity=1, rule="float", numpy=np.floor, c="floor", sympy="floor"),
    Op(name="ceil", arity=1, rule="float", numpy=np.ceil, c="ceil", sympy="ceiling"),
    Op(name="round", arity=1, rule="float", numpy=np.rint, c="rint"),
    Op(name="xlogy", arity=2, rule="float", numpy=_xlogy, c="xlogy", spelling="helper"),
    Op(name="zero_wins", arity=2, rule="float", numpy=zero_wins, c="zero_wins",
       spelling="helper"),
    Op(name="zeros_win", arity=2, rule="float", numpy=zeros_win, c="zeros_win",
       spelling="helper"),
    Op(name="mirror", arity=1, rule="float", numpy=mirror, c="mirror", spelling="helper"),
    Op(name="where", arity=3, rule="select", numpy=np.where, c="select", spelling="helper"),
    Op(name="lt", arity=2, rule="bool", numpy=np.less, c="<", spelling="infix", precedence=9,
       sympy="StrictLessThan"),
    Op(name="le", arity=2, rule="bool", numpy=np.less_equal, c="<=", spelling="infix",
       precedence=9, sympy="LessThan"),
    Op(name="gt", arity=2, rule="bool", numpy=np.greater, c=">", spelling="infix", precedence=9,
       sympy="StrictGreaterThan"),
    Op(name="ge", arity=2, rule="bool", numpy=np.greater_equal, c=">=", spelling="infix",
       precedence=9, sympy="GreaterThan"),
    Op(name="eq", arity=2, rule="bool", numpy=np.equal, c="==", spelling="infix", precedence=8,
       sympy="Equality"),
    Op(name="ne", arity=2, rule="bool", numpy=np.not_equal, c="!=", spelling="infix",
       precedence=8, sympy="Unequality"),
    Op(name="isnan", arity=1, rule="bool", numpy=np.isnan, c="is_nan", spelling="helper"),
    Op(name="isinf", arity=1, rule="bool", numpy=np.isinf, c="is_inf", spelling="helper"),
    Op(name="isfinite", arity=1, rule="bool", numpy=np.isfinite, c="is_finite",
       spelling="helper"),
    Op(name="and", arity=2, rule="logic", numpy=np.logical_and, c="&", spelling="infix",
       precedence=7),
    Op(name="or", arity=2, rule="logic", numpy=np.logical_or, c="|", spelling="infix",
       precedence=5),
    Op(name="not", arity=1, rule="logic", numpy=np.logical_not, c="!", spelling="prefix",
       precedence=15),
    Op(name="to_float", arity=1, rule="to_float", numpy=_to_float, c="to_float",
       spelling="helper"),
    Op(name="to_int", arity=1, rule="to_int", numpy=_to_int, c="to_int", spelling="helper"),
    Op(name="to_bool", arity=1, rule="to_bool", numpy=lambda x: np.not_equal(x, 0),
       c="to_bool", spelling="helper"),
)

OPS: dict[str, Op] = {op.name: op for op in _ROWS}

_UFUNCS = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg",
    "power": "pow", "float_power": "pow", "absolute": "abs", "rint": "round", "less": "lt",
    "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
    "logical_and": "and", "logical_or": "or", "logical_not": "not", "bitwise_and": "and",
    "bitwise_or": "or", "bitwise_xor": "ne", "logical_xor": "ne", "invert": "not",
}
_OF_THE_SAME_NAME = """
    add maximum minimum exp exp2 expm1 log log2 log1p sqrt tanh sin cos sign floor ceil isnan
    isinf isfinite
"""
_SAME = frozenset(_OF_THE_SAME_NAME.split())


def of_ufunc(name: str) -> str | None:
    """The operation that one of NumPy's elementwise functions is, None where there is none."""
    return name if name in _SAME else _UFUNCS.get(name)
