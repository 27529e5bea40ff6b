"""Elements made of a row's vector and a column's vector: scores, distances, whatever is summed over
the vectors' index. They are never stored: a kernel makes them where it folds them.

q stands for a vector of d numbers per row (`fg.RowVector`, or what is made of such), k and v for
one per column (`fg.ColumnVector`), x for any element value. Vectors and numbers mix in elementwise
maths, number by number; so do vectors of the same length. A sum over columns of vectors,
fg.sum(p * v), is a vector per row. Each raises TraceError for what is no vector.
"""

from __future__ import annotations

from fusegen.ir import graph as g
from fusegen.ir.errors import TraceError
from fusegen.lang.advice import WORDS
from fusegen.lang.lines import here
from fusegen.lang.value import Operand, Value, apply, builder, lift
from fusegen.lang.words import word


def inner(x: Operand) -> Value:
    """Σ over the index of a vector, one number per row or per element, in float32 (float64 for
    float64 vectors): fg.inner(fg.abs(q - k)) is the Manhattan distance."""
    node = lift(x)
    if not g.is_vector(node):
        raise TraceError(
            f"inner of {_article(node)}", where=here(), why="It has no vector's index to sum over.",
            fix="Annotate inputs with fg.RowVector, of shape (…rows, d), and fg.ColumnVector, "
            "(…, n_cols, d); fg.sum sums over columns.",
        )
    return builder().add(g.Inner(node, here()))


def dot(q: Operand, k: Operand) -> Value:
    """Σ_i q[i]·k[i]: of a row's and a column's vector an element, as attention's scores are."""
    return inner(apply("mul", _vector("dot", q), _vector("dot", k)))


def sqdist(q: Operand, k: Operand) -> Value:
    """Σ_i (q[i] − k[i])², the squared Euclidean distance."""
    difference = apply("sub", _vector("sqdist", q), _vector("sqdist", k))
    return inner(apply("mul", difference, difference))


def row(x: Operand) -> Value:
    """The row's own number, from 0, among those of its last axis, as a row value of whole numbers:
    fg.where(fg.index(s) <= fg.row(s), s, -math.inf) are causal scores."""
    lift(x)
    return builder().add(g.RowNumber(here()))


def no_vector(what: str, node: g.Node, fix: str) -> None:
    """Raises TraceError for a vector."""
    if g.is_vector(node):
        raise TraceError(f"{what} of vectors", where=here(), fix=fix,
                         why=f"{what} works on one number per column, a vector has several.")


def _vector(what: str, x: Operand) -> Value:
    node = lift(x)
    if not g.is_vector(node):
        raise TraceError(
            f"{what} needs two vectors, got {_article(node)}", where=here(),
            fix="Annotate inputs with fg.RowVector or fg.ColumnVector; for two inputs of the same "
            "rows, fg.sum(a * b) is their dot product." if what == "dot" else
            "Annotate inputs with fg.RowVector or fg.ColumnVector.",
        )
    return Value(node)


def _article(node: g.Node) -> str:
    extent = g.extent(node).value
    return f"{'an' if extent[0] in 'aeiou' else 'a'} {extent}"


for _name in WORDS & globals().keys():
    globals()[_name] = word(globals()[_name])
