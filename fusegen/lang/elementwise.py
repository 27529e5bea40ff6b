"""Elementwise operations: the same maths at every position, or of every row, or list entry.

x, a and b are element values (one per position of the row), row values, top-K lists or numbers; the
result has the larger extent of its operands. Elements and lists do not mix.
Types: integers and conditions become the compute type (float32, or float64 if any input has it)
wherever a result is no whole number. Special values as NumPy's: docs/special_values.md.
Each raises TraceError for what is no value of this pipeline, or for an element beside a list.
"""

from __future__ import annotations

from fusegen.ir import graph as g
from fusegen.ir.dtypes import dtype_of
from fusegen.lang.advice import WORDS
from fusegen.lang.lines import here
from fusegen.lang.value import Operand, Value, apply, builder, lift
from fusegen.lang.words import word


def exp(x: Operand) -> Value:
    """e to the x."""
    return apply("exp", x)


def exp2(x: Operand) -> Value:
    """2 to the x."""
    return apply("exp2", x)


def expm1(x: Operand) -> Value:
    """exp(x) − 1, accurate near 0."""
    return apply("expm1", x)


def log(x: Operand) -> Value:
    """Natural logarithm."""
    return apply("log", x)


def log2(x: Operand) -> Value:
    """Logarithm to base 2."""
    return apply("log2", x)


def log1p(x: Operand) -> Value:
    """log(1 + x), accurate near 0."""
    return apply("log1p", x)


def sqrt(x: Operand) -> Value:
    """Square root; NaN below 0."""
    return apply("sqrt", x)


def rsqrt(x: Operand) -> Value:
    """1 / sqrt(x)."""
    return apply("rsqrt", x)


def abs(x: Operand) -> Value:
    """|x|."""
    return apply("abs", x)


def sign(x: Operand) -> Value:
    """−1, 0 or 1; NaN of NaN."""
    return apply("sign", x)


def tanh(x: Operand) -> Value:
    """Hyperbolic tangent."""
    return apply("tanh", x)


def sin(x: Operand) -> Value:
    """Sine, x in radians."""
    return apply("sin", x)


def cos(x: Operand) -> Value:
    """Cosine, x in radians."""
    return apply("cos", x)


def erf(x: Operand) -> Value:
    """Error function."""
    return apply("erf", x)


def sigmoid(x: Operand) -> Value:
    """1 / (1 + exp(−x))."""
    return apply("sigmoid", x)


def floor(x: Operand) -> Value:
    """Greatest whole number ≤ x."""
    return apply("floor", x)


def ceil(x: Operand) -> Value:
    """Least whole number ≥ x."""
    return apply("ceil", x)


def round(x: Operand) -> Value:
    """Nearest whole number, halves to even."""
    return apply("round", x)


def xlogy(a: Operand, b: Operand) -> Value:
    """a·log(b), and 0 where a is 0 (unless b is NaN), as scipy.special.xlogy."""
    return apply("xlogy", a, b)


def where(condition: Operand, a: Operand, b: Operand) -> Value:
    """a where the condition holds, else b."""
    return apply("where", condition, a, b)


def maximum(a: Operand, b: Operand) -> Value:
    """The greater of two; NaN if either is."""
    return apply("maximum", a, b)


def minimum(a: Operand, b: Operand) -> Value:
    """The lesser of two; NaN if either is."""
    return apply("minimum", a, b)


def isnan(x: Operand) -> Value:
    """Is it NaN?"""
    return apply("isnan", x)


def isinf(x: Operand) -> Value:
    """Is it +inf or −inf?"""
    return apply("isinf", x)


def isfinite(x: Operand) -> Value:
    """Is it neither infinite nor NaN?"""
    return apply("isfinite", x)


def cast(x: Operand, dtype: object) -> Value:
    """Convert: to a compute type anywhere, to a narrower type only for a returned result.

    Float → integer rounds toward zero, clamps to the type's range, and takes NaN to 0. Python's
    float, int and bool are float64, int64 and bool, as NumPy has them; float64 anywhere in a text
    makes kernels compute in it.
    """
    return builder().add(g.Cast(dtype_of(dtype), lift(x), here()))


for _name in WORDS & globals().keys():
    globals()[_name] = word(globals()[_name])
