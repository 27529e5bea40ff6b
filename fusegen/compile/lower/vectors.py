"""Vectors back into a program of numbers: see rewrite/scalar_text.py.

Inputs that stood for sums over the vectors' index are made by `FromVectors`, or before any sweep by
`InnerStep`; components, row values and results that stood for one number of a vector hold all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fusegen.compile.lower.masks import narrowed
from fusegen.compile.lower.told import Told, number_inside
from fusegen.ir import graph as g
from fusegen.ir.dtypes import FLOAT64, DType
from fusegen.ir.errors import PipelineError
from fusegen.ir.expr import Expr, Var, variables
from fusegen.ir.expressions import Names, expression
from fusegen.ir.kernel import FromVectors, InnerStep, Kernel, Param, Program, Source, Step
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.kinds import compute_dtype, infer_kinds
from fusegen.ir.vectors import lengths_of


def with_vectors(
    program: Program, graph: g.Graph, inners: Mapping[str, g.Inner], dtypes: Mapping[str, DType],
    late: frozenset[str],
) -> Program:
    """The program for the user's text, whose numbers stood for vectors. inners: inputs of the
    program that are sums over an index; late: lines of it that are such sums. Raises PipelineError
    for what no kernel does."""
    lengths = lengths_of(graph, dtypes)
    if not lengths:
        return program
    return _Vectors(program, graph, inners, dtypes, lengths, late).run()


@dataclass(frozen=True)
class _Vectors:
    program: Program
    graph: g.Graph
    inners: Mapping[str, g.Inner]
    dtypes: Mapping[str, DType]
    lengths: Mapping[g.Node, int]
    late: frozenset[str]

    def run(self) -> Program:
        names = Names(self.graph, infer_kinds(self.graph, self.dtypes))
        made = {n: self._inner(n, node, names) for n, node in self.inners.items()}
        kernels = tuple(self._kernel(k, made) for k in self.program.kernels)
        inputs = {p.name: p for k in kernels for p in k.params if not p.output}
        work = tuple(map(self._param, self.program.workspace))
        between = {p.name for p in work}
        return replace(
            self.program, kernels=kernels, workspace=work,
            inputs=tuple(p for n, p in inputs.items() if n not in between),
            outputs=tuple(map(self._param, self.program.outputs)),
        )

    @property
    def called(self) -> Mapping[g.Node, str]:
        """What the program calls a sum over an index."""
        return {node: name for name, node in self.inners.items()}

    # ---- arrays ----

    def _param(self, param: Param) -> Param:
        if param.shape == "per_column":
            return replace(param, shape="columns")
        node = self._node(param)
        if node is None or node not in self.lengths:
            return replace(param, dtype=self._result(node, param)) if param.output else param
        rows = g.extent(node) is g.Extent.ROW
        dtype = self._result(node, param) if param.output else param.dtype
        return replace(param, dtype=dtype, shape="row_vector" if rows else "column_vector",
                       k=self.lengths[node])

    def _node(self, param: Param) -> g.Node | None:
        """What of the user's text the array holds; None for what else there is."""
        outputs = dict(zip(self.graph.output_names, self.graph.outputs, strict=True))
        if param.output and param.name in outputs:
            return outputs[param.name]
        name = param.name.removesuffix("_kept").removesuffix("_stored")
        return self.graph.by_name.get(param.name) or self.graph.by_name.get(name)

    def _result(self, node: g.Node | None, param: Param) -> DType:
        """Floats have the type of all the float inputs of rows and vectors, if that is one."""
        outputs = {*self.graph.output_names}
        kept = param.name not in outputs or param.dtype.kind != "float"
        if kept or isinstance(node, g.Cast) or param.dtype == FLOAT64:
            return param.dtype
        of = (g.Axis.ELEMENT, *g.VECTORS)
        found = {self.dtypes[i.name].number for i in self.graph.inputs
                 if i.axis in of and self.dtypes[i.name].kind == "float"}
        return found.pop() if len(found) == 1 else param.dtype

    # ---- sums over the index ----

    def _inner(self, name: str, node: g.Inner, names: Names) -> FromVectors | InnerStep:
        over = _Over(names, self.called, node)
        value, note = expression(node.arg, names, over.leaf), names.note(node)
        if g.extent(node) is g.Extent.ELEMENT:
            over.check_columns()
            return FromVectors(name, value, tuple(over.rows), tuple(over.columns), note)
        return InnerStep(name, value, tuple(over.rows), tuple(over.at.items()), note)

    # ---- kernels ----

    def _kernel(self, kernel: Kernel, made: Mapping[str, FromVectors | InnerStep]) -> Kernel:
        used = dict.fromkeys(p.name for p in kernel.params)
        needed = self._needed(used, made)
        steps = [one for name, one in made.items()  # operands first, as the text has them
                 if isinstance(one, InnerStep) and name in needed]
        params = [self._param(p) for p in kernel.params if p.name not in self.inners]
        params += self._read_by([*steps, *(made[n] for n in used if n in made)], params)
        vectors = {p.name: p for p in params if p.shape.endswith("_vector") and not p.output}
        alone = [_only_number(p) for p in vectors.values()
                 if p.shape == "row_vector" and p.k == 1 and p.name in used]
        told = Told(vectors, made, self.late)  # from step to step, in the order of the kernel
        prelude = told.steps(kernel.prelude, {})
        # Row values that earlier sweeps have made, in this kernel or before it: which columns a
        # sweep goes over may depend on these, and on no others.
        finished = {p.name for p in self.program.workspace}
        for step in kernel.prelude:
            finished |= {step.name} if finished & names_in(step) else set()
        sweeps = []
        for sweep in kernel.sweeps:
            sweeps.append(narrowed(told.sweep(sweep), finished))
            finished |= {step.name for step in sweep.steps}
        return replace(kernel, params=tuple(params), prelude=(*alone, *steps, *prelude),
                       sweeps=tuple(sweeps))

    def _needed(
        self, used: Iterable[str], made: Mapping[str, FromVectors | InnerStep]
    ) -> set[str]:
        """The sums that a kernel with these arrays needs, also those within others."""
        found, todo = set(used), [n for n in used if n in made]
        while todo:
            for name in variables(made[todo.pop()].value):
                if name in made and name not in found:
                    found.add(name)
                    todo.append(name)
        return found

    def _read_by(
        self, sums: Iterable[Step | Source], params: Iterable[Param]
    ) -> Iterator[Param]:
        """Arrays and numbers that sums over an index need, and nothing else of the kernel."""
        have = {p.name for p in params}
        compute = compute_dtype(self.graph, self.dtypes)
        for one in sums:
            assert isinstance(one, FromVectors | InnerStep)
            at = one.at if isinstance(one, InnerStep) else ()
            names = [*variables(one.value), *(n for n, _ in at),
                     *(v for _, index in at for v in variables(index))]
            for name in names:
                node = self.graph.by_name.get(name)
                if name in have or not isinstance(node, g.Input):
                    continue
                have.add(name)
                yield self._input(node, name, compute)

    def _input(self, node: g.Input, name: str, compute: DType) -> Param:
        match node:
            case g.Input(axis=g.Axis.SCALAR, magnitude=magnitude):
                return Param(name, compute, "scalar", magnitude=magnitude)
            case g.Input(axis=g.Axis.ROW_VECTOR | g.Axis.COLUMN_VECTOR as axis):
                dtype = self.dtypes[node.name]
                rows = axis is g.Axis.ROW_VECTOR
                return Param(name, dtype.number, "row_vector" if rows else "column_vector",
                             k=dtype.length)
            case _:
                return Param(name, self.dtypes[node.name].number, "row")


@dataclass
class _Over:
    """What a sum over an index is made of: vectors of the row, of every column, of one column each.

    An array has a name, so that its vectors are those of every column, or of one."""

    names: Names
    called: Mapping[g.Node, str]
    node: g.Inner
    rows: dict[str, None] = field(default_factory=dict)
    columns: dict[str, None] = field(default_factory=dict)
    at: dict[str, Expr] = field(default_factory=dict)

    def leaf(self, n: g.Node, column: Expr | None = None) -> Expr | None:
        """See `expressions.Leaf`. column: of which vectors of columns are taken."""
        names = self.names
        match n:
            case g.Input(axis=g.Axis.ROW_VECTOR):
                self.rows[names.of(n)] = None
            case g.Input(axis=g.Axis.COLUMN_VECTOR) if column is not None:
                if self.at.setdefault(names.of(n), column) != column:
                    raise self._meet(f"of two columns of {n.name}")
            case g.Input(axis=g.Axis.COLUMN_VECTOR):
                self.columns[names.of(n)] = None
            case g.Inner() if n in self.called and g.extent(n) is g.Extent.ROW:
                return Var(self.called[n], names.kinds[n])
            case g.Input() if g.extent(n) is g.Extent.ROW:
                return Var(names.of(n), names.kinds[n])
            case g.Take(arg=arg, index=index) if g.is_vector(n) and column is None:
                taken = expression(index, names, self.leaf)
                return expression(arg, names, lambda m: self.leaf(m, taken))
            case g.Map() | g.Cast() | g.Literal() | g.Length():
                return None
            case _:
                raise number_inside(f"the one of {n.loc}", self.node.loc)
        return Var(names.of(n), names.kinds[n], varying=True)

    def check_columns(self) -> None:
        """Raises PipelineError for elements made of vectors of one column."""
        if self.at:
            raise self._meet(f"of one column of {next(iter(self.at))} and of every column")

    def _meet(self, what: str) -> PipelineError:
        return PipelineError(
            f"a sum over a vector's index has vectors {what}", where=self.node.loc,
            why="Kernels have one vector of an array at a time.",
            fix="Give the vectors that are taken to the pipeline as an input: "
            "fg.RowVector, of y[label].")


def _only_number(param: Param) -> InnerStep:
    """What a vector of one number is to all that is no sum over an index."""
    return InnerStep(param.name, Var(param.name, "float", varying=True), (param.name,))
