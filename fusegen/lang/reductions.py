"""Reductions: a row, or the K entries of a top-K list, to one value.

x is an element value, (…, n_cols) at the call; the result is a row value, (…). Of a list of K
entries it is one value per row as well. Order never matters: ties and NaN are settled by the values
and their columns. Each raises TraceError for a row value, which has nothing to reduce, and for what
is no value of this pipeline.
"""

from __future__ import annotations

from fusegen.ir import graph as g
from fusegen.ir.conditions import is_column
from fusegen.ir.dtypes import INT64, dtype_of
from fusegen.ir.errors import TraceError
from fusegen.lang.advice import WORDS
from fusegen.lang.columns import element_node, length, whole
from fusegen.lang.elementwise import cast, exp, isinf, log, maximum, where
from fusegen.lang.lines import here
from fusegen.lang.value import Operand, Value, apply, builder, counted, lift
from fusegen.lang.vectors import no_vector
from fusegen.lang.words import TopK, word


def _reduce(fold: g.Fold, x: Operand) -> Value:
    node = lift(x)
    if fold in (g.Fold.SUM, g.Fold.MEAN):
        node = counted(node)
    if fold in (g.Fold.ARGMAX, g.Fold.ARGMIN):
        no_vector(fold.value, node, "Make numbers of them: fg.inner, fg.dot, fg.sqdist.")
    if fold in (g.Fold.ARGMAX, g.Fold.ARGMIN) and g.extent(node) is g.Extent.LIST:
        raise TraceError(
            f"{fold.value} of a top-K list", where=here(),
            why="It finds columns of a row; an entry's place in a list is no column.",
            fix="max, min, sum, mean and prod work on lists; so does fg.take(x, indices).",
        )
    if g.extent(node) is g.Extent.ROW:
        raise TraceError(
            f"{fold.value} of a row value", where=here(),
            why="It has one value per row already: there is nothing to reduce.",
            fix="Reduce an element value or a top-K list; fg.length(x) counts the columns.",
        )
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


def max(x: Operand) -> Value:
    """Greatest value, of the type of x; NaN if any is NaN."""
    return _reduce(g.Fold.MAX, x)


def min(x: Operand) -> Value:
    """Least value, of the type of x; NaN if any is NaN."""
    return _reduce(g.Fold.MIN, x)


def sum(x: Operand) -> Value:
    """Sum, accumulated in float32 (float64 for float64 inputs, int64 for integers).

    Σ where(index = i, y, 0) with i an argmax or argmin is y at that column: nothing is summed.
    """
    picked = _picked(lift(x))
    return _reduce(g.Fold.SUM, x) if picked is None else builder().add(picked)


def prod(x: Operand) -> Value:
    """Product, in float32 (float64 for float64 inputs, int64 for integers); 1 for no elements."""
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
    ShapeError. TraceError for a list: an entry's place there is no column.
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
                         fix='Choose "int32" or "int64".')
    return found if dtype == INT64 else cast(found, dtype)


def count(condition: Value) -> Value:
    """How many elements satisfy the condition; int64."""
    return sum(where(condition, 1, 0))


def any(condition: Value) -> Value:
    """Does any element satisfy the condition? A condition per row."""
    return max(where(condition, 1, 0)) > 0


def all(condition: Value) -> Value:
    """Do all elements satisfy the condition? A condition per row."""
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
    no_vector("topk", lift(x), "Make numbers of them: fg.inner, fg.dot, fg.sqdist.")
    top = g.TopK(element_node("topk", x), whole("topk's k", k), here(), largest)
    node = builder().add(top).node
    assert isinstance(node, g.TopK)
    parts = (builder().add(g.Part(node, field, top.loc)) for field in ("values", "indices"))
    values, indices = parts
    return TopK(values, _columns(indices, index_dtype))


def logsumexp(x: Operand) -> Value:
    """log Σ exp(x), safely; −inf for a row of −inf, +inf for a row with +inf, NaN with NaN."""
    m = max(x)
    return where(isinf(m), m, m + log(sum(exp(apply("sub", x, m)))))


def var(x: Operand, *, correction: int | float = 0) -> Value:
    """Variance about the mean: Σ (x − mean x)² / (n_cols − correction), as torch's.

    correction: 0, or 1 for Bessel's; NumPy's ddof. Rows of no more columns than it have no
    variance: NaN, or inf where elements differ.
    """
    deviation = apply("sub", x, mean(x))
    if correction == 0:
        return mean(deviation**2)
    node = lift(x)
    listed = g.extent(node) is g.Extent.LIST
    count = next(iter(g.lists_of(node))).k if listed else length(x)
    return sum(deviation**2) / maximum(count - correction, 0)


for _name in WORDS & globals().keys():
    globals()[_name] = word(globals()[_name])
