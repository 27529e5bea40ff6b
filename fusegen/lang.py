"""The language: what may be written inside a pipeline, besides Python's operators.

x stands for an element value (one per position), m for a row value, lists for top-K results.
Elementwise operations accept any of them and plain numbers; an element and a list do not mix.
"""

from __future__ import annotations

from fusegen import graph as g
from fusegen.advice import WORDS
from fusegen.conditions import is_column
from fusegen.dtypes import INT64, dtype_of
from fusegen.errors import TraceError
from fusegen.positions import element_node, whole
from fusegen.positions import index as index
from fusegen.positions import length as length
from fusegen.positions import ragged as ragged
from fusegen.positions import sections as sections
from fusegen.positions import take as take
from fusegen.value import Operand, Value, apply, builder, counted, here, lift
from fusegen.words import TopK, word


def _reduce(fold: g.Fold, x: Operand) -> Value:
    node = lift(x)
    if fold in (g.Fold.SUM, g.Fold.MEAN):
        node = counted(node)
    if fold in (g.Fold.ARGMAX, g.Fold.ARGMIN) and g.extent(node) is g.Extent.LIST:
        raise TraceError(
            f"{fold.value} of a top-K list", where=here(),
            why="It finds columns of a row; an entry's place in a list is no column.",
            fix="max, min, sum, mean and prod work on lists; so does fg.take(x, indices).",
        )  # fmt: skip
    if g.extent(node) is g.Extent.ROW:
        raise TraceError(
            f"{fold.value} of a row value", where=here(),
            why="It has one value per row already: there is nothing to reduce.",
            fix="Reduce an element value or a top-K list; fg.length(x) counts the columns.",
        )  # fmt: skip
    return builder().add(g.Reduce(fold, node, here()))


def _picked(node: g.Node) -> g.Take | None:
    """Σ_j [j = i]·y_j = y_i, where i is certainly a column of the row."""
    match node:
        case g.Map(op="where", args=(g.Map(op="eq", args=(a, b)), y, g.Literal(value=0))):
            at = b if isinstance(a, g.Index) else a
            other = a if at is b else b
            whole = g.extent(y) is g.Extent.ELEMENT and g.extent(at) is g.Extent.ROW
            if isinstance(other, g.Index) and is_column(at) and whole:
                return g.Take(y, at, here())
    return None


# ---- reductions over the row (or over the K entries of a list) ----


def max(x: Operand) -> Value:
    """Greatest value; NaN if any is NaN."""
    return _reduce(g.Fold.MAX, x)


def min(x: Operand) -> Value:
    """Least value; NaN if any is NaN."""
    return _reduce(g.Fold.MIN, x)


def sum(x: Operand) -> Value:
    """Sum, accumulated in float32 (float64 for float64 inputs, int64 for integers).

    Σ where(index = i, y, 0) with i an argmax or argmin is y at that column: nothing is summed.
    """
    picked = _picked(lift(x))
    return _reduce(g.Fold.SUM, x) if picked is None else builder().add(picked)


def prod(x: Operand) -> Value:
    """Product."""
    return _reduce(g.Fold.PROD, x)


def mean(x: Operand) -> Value:
    """Arithmetic mean, accumulated in float32 (float64 if any input has it), of integers as well.

    Digits beyond float32's are lost: fg.cast(fg.sum(x), "float32") / fg.length(x) divides the
    exact sum of integers, which must fit int64.
    """
    return _reduce(g.Fold.MEAN, x)


def argmax(x: Operand, *, index_dtype: object = "int64") -> Value:
    """Column of the greatest value: NaN counts as greatest, ties go to the lowest column.

    index_dtype: an integer type for the result. A call whose rows are too long for it raises
    ShapeError.
    """
    return _columns(_reduce(g.Fold.ARGMAX, x), index_dtype)


def argmin(x: Operand, *, index_dtype: object = "int64") -> Value:
    """Column of the least value: NaN counts as least, ties go to the lowest column.

    index_dtype: as for argmax.
    """
    return _columns(_reduce(g.Fold.ARGMIN, x), index_dtype)


def _columns(found: Value, index_dtype: object) -> Value:
    """Column numbers as a type of the user's choice."""
    dtype = dtype_of(index_dtype)
    if dtype.kind != "int":
        raise TraceError(f"index_dtype must be an integer type, got {dtype}", where=here(),
                         fix='Choose "int32" or "int64".')  # fmt: skip
    return found if dtype == INT64 else cast(found, dtype)


def count(condition: Value) -> Value:
    """How many elements satisfy the condition (int64)."""
    return sum(where(condition, 1, 0))


def any(condition: Value) -> Value:
    """Does any element satisfy the condition?"""
    return max(where(condition, 1, 0)) > 0


def all(condition: Value) -> Value:
    """Do all elements satisfy the condition?"""
    return min(where(condition, 1, 0)) > 0


def topk(
    x: Operand, k: int, largest: bool = True, *, index_dtype: object = "int64"
) -> TopK:
    """(values, columns) of the K greatest, or with largest=False the K least, best first.

    As torch.topk, a named tuple: NaN counts as greatest, so among the least it comes last; ties go
    to the lowest column. K and `largest` are compile-time constants, 1 ≤ K ≤ n_cols: a call with
    shorter rows raises ShapeError. index_dtype: an integer type for the columns. Both lists work
    in further maths, entry by entry; fg.sum, max, min, mean and prod reduce them to a row value.
    """
    if not isinstance(largest, bool):
        raise TraceError(f"topk's largest must be True or False, got {largest!r}", where=here())
    top = g.TopK(element_node("topk", x), whole("topk's k", k), here(), largest)
    node = builder().add(top).node
    assert isinstance(node, g.TopK)
    parts = (builder().add(g.Part(node, field, top.loc)) for field in ("values", "indices"))
    values, indices = parts
    return TopK(values, _columns(indices, index_dtype))


def logsumexp(x: Operand) -> Value:
    """log Σ exp(x), safely; −inf for a row of −inf, +inf for a row with +inf."""
    m = max(x)
    return where(isinf(m), m, m + log(sum(exp(apply("sub", x, m)))))


def var(x: Operand) -> Value:
    """Variance about the mean, divided by the number of columns (correction 0)."""
    mu = mean(x)
    return mean(apply("sub", x, mu) ** 2)


# ---- elementwise ----


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
