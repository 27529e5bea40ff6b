"""The oracle: the text as written, in NumPy, with nothing merged and nothing reordered by rules.

Element values are (rows, cols) arrays, row values (rows, 1), lists (rows, K); inputs that are the
same for every row, and constants, stay smaller and broadcast. Floats are kept in `float_dtype`,
integers in int64. Special values follow the text under IEEE arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, assert_never

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, Kind
from fusegen.ir.expr import evaluate as evaluate_expr
from fusegen.ir.kinds import infer_kinds
from fusegen.ir.ops import OPS
from fusegen.oracle.rows import REDUCTIONS, Array, cast, least_columns, take, top_columns, widened
from fusegen.oracle.vectors import Vectors


def evaluate(
    graph: g.Graph,
    inputs: Mapping[str, Array],
    dtypes: Mapping[str, DType],
    n_cols: int,
    float_dtype: type[np.floating[Any]] = np.float64,
    numbers: Array | None = None,
) -> tuple[Array, ...]:
    """The graph's outputs over a block of rows, one per `graph.outputs`, in compute types.

    inputs: by parameter name, shaped (rows, cols) for elements, (1, cols) per column, (rows, 1)
    per row, (rows, d) and (cols, d) for vectors. numbers: those of the rows, (rows, 1), where the
    text asks for them. Results broadcast against (rows, cols), (rows, 1), (rows, K) or (rows, d).
    """
    run = _Interpreter(graph, inputs, infer_kinds(graph, dtypes), n_cols, float_dtype)
    run.numbers = numbers
    # Infinities and NaN are legitimate values of the text, not accidents.
    with np.errstate(all="ignore"):
        return tuple(run.value(node) for node in graph.outputs)


def every_value(
    graph: g.Graph, inputs: Mapping[str, Array], dtypes: Mapping[str, DType], n_cols: int,
    float_dtype: type[np.floating[Any]] = np.float64,
) -> Mapping[g.Node, Array]:
    """The value of every node (of a state of one's own: nothing); arguments as for `evaluate`."""
    run = _Interpreter(graph, inputs, infer_kinds(graph, dtypes), n_cols, float_dtype, keep=True)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            run.value(node)
    return run.known


class _Interpreter:
    def __init__(
        self, graph: g.Graph, inputs: Mapping[str, Array], kinds: Mapping[g.Node, Kind],
        n_cols: int, float_dtype: type[np.floating[Any]], *, keep: bool = False,
    ) -> None:
        # Every value, not only those that something still needs: vectors are looked at repeatedly.
        self.keep = keep or g.have_vectors(graph.inputs)
        self.numbers: Array | None = None  # of the rows
        self.vectors = Vectors(self.value, self._mapped, self._cast, n_cols)
        self.inputs, self.kinds, self.n_cols = inputs, kinds, n_cols
        self.float = np.dtype(float_dtype)
        self.known: dict[g.Node, Array] = {}
        self.states: dict[g.Own, Mapping[str, Array]] = {}
        outputs = Counter(graph.outputs)
        uses: dict[g.Node, int] = {n: outputs[n] for n in graph.nodes}
        for node in graph.nodes:
            for arg in _inputs_of(node):
                uses[arg] += 1
        self.uses = uses

    def value(self, node: g.Node) -> Array:
        if node not in self.known:
            for needed in g.topological((node,), self.known.__contains__):
                self.known[needed] = self._compute(needed)
                self._release(needed)
        return self.known[node]

    def _release(self, node: g.Node) -> None:
        """Drop operands that nothing needs any more: a block's memory stays in the cache."""
        for arg in _inputs_of(node):
            self.uses[arg] -= 1
            if self.uses[arg] == 0 and not self.keep:
                self.known[arg] = np.empty(0)

    def _as(self, value: Any, kind: Kind) -> Array:
        array = np.asarray(value)
        match kind:
            case "float":
                return array.astype(self.float, copy=False)
            case "int":
                return array.astype(np.int64, copy=False)
            case "bool":
                return array.astype(np.bool_, copy=False)
            case _:
                assert_never(kind)

    def _compute(self, node: g.Node) -> Array:
        match node:
            case g.Input(name=name):
                return self._as(self.inputs[name], self.kinds[node])
            case g.Literal(value=value):
                return self._as(value, self.kinds[node])
            case g.Length() | g.Index() | g.RowNumber():
                return self._number(node)
            case _ if g.is_vector(node) or isinstance(node, g.Inner):
                return self._as(self.vectors.value(node), self.kinds[node])
            case g.Map():
                return self._mapped(node, [self.known[a] for a in node.args])
            case g.Cast(arg=arg):
                return self._cast(node, self.known[arg])
            case g.Reduce(fold=fold, arg=arg):
                return REDUCTIONS[fold](self._reducible(arg))
            case g.TopK(arg=arg, k=k, largest=largest):
                best = top_columns if largest else least_columns
                return best(self._reducible(arg), k)
            case g.Part(top=top, field=field):
                columns = self.known[top]
                if field == "indices":
                    return columns
                return np.take_along_axis(self._reducible(top.arg), columns, axis=1)
            case g.Take(arg=arg, index=index):
                return take(self._reducible(arg), self.known[index])
            case g.Own():
                self.states[node] = self._own(node)
                return np.empty(0)  # a state is read field by field
            case g.Field(own=own, name=name):
                return self.states[own][name]
            case g.Inner():
                raise AssertionError(node)  # see above
            case _:
                assert_never(node)

    def _number(self, node: g.Length | g.Index | g.RowNumber) -> Array:
        match node:
            case g.Length():
                return np.asarray(self.n_cols, np.int64)
            case g.Index():
                return np.arange(self.n_cols, dtype=np.int64)[None, :]
            case g.RowNumber():
                return np.asarray(0 if self.numbers is None else self.numbers, np.int64)

    def _cast(self, node: g.Cast, array: Array) -> Array:
        return cast(array, node.dtype, self.float)

    def _own(self, node: g.Own) -> Mapping[str, Array]:
        """identity ⊕ lift(x₀) ⊕ lift(x₁) ⊕ …, from left to right, for all rows at once."""
        fields = node.operator.fields
        lifted = {f.name: self._as(self.known[a], f.kind)
                  for f, a in zip(fields, node.args, strict=True)}
        state = {f.name: self._as([[f.identity.value]], f.kind) for f in fields}
        for column in range(self.n_cols):
            here = {n: v[:, column : column + 1] if v.ndim and v.shape[-1] > 1 else v
                    for n, v in lifted.items()}
            merged = node.operator.merge(state, here, evaluate_expr)
            state = {f.name: self._as(merged[f.name], f.kind) for f in fields}
        return state

    def _reducible(self, node: g.Node) -> Array:
        """An operand of a reduction with its last axis at full length."""
        array = self.known[node]
        return widened(array, self.n_cols) if g.extent(node) is g.Extent.ELEMENT else array

    def _mapped(self, node: g.Map, args: list[Array]) -> Array:
        """The operation over the values of its operands."""
        op = OPS[node.op]
        if node.op == "pow" and isinstance(node.args[1], g.Literal) and node.args[1].value == 2:
            return np.square(self._as(args[0], self.kinds[node]))
        wanted = _operand_kind(node, self.kinds)
        if wanted is not None:
            start = 1 if op.rule == "select" else 0
            args[start:] = [self._as(a, wanted) for a in args[start:]]
        return self._as(op.numpy(*args), self.kinds[node])


def _inputs_of(node: g.Node) -> tuple[g.Node, ...]:
    """What computing the node looks at: a top-K's values are gathered from its element again."""
    if isinstance(node, g.Part) and node.field == "values":
        return (node.top, node.top.arg)
    return g.operands(node)


def _operand_kind(node: g.Map, kinds: Mapping[g.Node, Kind]) -> Kind | None:
    """What the operands are converted to first; None for operations that say it themselves."""
    match OPS[node.op].rule:
        case "arith" | "select" | "float":
            return kinds[node]
        case "bool":
            return "float" if any(kinds[a] == "float" for a in node.args) else "int"
        case "logic" | "to_float" | "to_int" | "to_bool":
            return None
