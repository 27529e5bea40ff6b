"""Stages of a gradient over vectors, each a pipeline that every kernel serves.

  forward  what later stages ask of whole rows and no cotangent takes part in: the maximum and the
           sum of a softmax, attention's result. Made where a vector of a finished row is gone on
           with, or kept from the forward call.
  numbers  sums over the index of vectors that rows have (δ = Σ dO·O), of stored rows
  rows     gradients of what a row has, and what the columns ask of whole rows
  columns  gradients of what a column has: the same pairs seen from the other side
           (rewrite/transposed.py), once for columns that vary along the same leading axes

Elements are made again in each. Nothing is stored but rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import PipelineError
from fusegen.ir.kinds import kinds_of
from fusegen.ir.names import Taken
from fusegen.ir.shared import lazy
from fusegen.ir.vectors import lengths_of
from fusegen.lang import lang as fg
from fusegen.lang.value import ColumnVector, PerRow, RowVector, Value, lift
from fusegen.library.gradient.vectors.adjoint import Adjoint
from fusegen.library.gradient.vectors.cuts import cuts_of, numbers_of
from fusegen.library.gradient.vectors.numbers import inners_of, summed, vectors_of
from fusegen.library.gradient.vectors.parts import Columns, Stage, axis_of, parameter_of
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.variants import Choices
from fusegen.rewrite.adjoint import terms as tm
from fusegen.rewrite.adjoint.text import Writer
from fusegen.rewrite.adjoint.transplant import (
    Text,
    scalars_of,
    transplant,
    varying_parameters,
)
from fusegen.rewrite.transposed import AXES, asked_of_rows, seen_terms, transposed

LEAST_LENGTH = 257  # numbers of a long vector


class Stages:
    """Of one backward text. origin: the forward pipeline; types: of inputs and cotangents;
    precision: of sums."""

    def __init__(
        self, adjoint: Adjoint, origin: Pipeline, types: Mapping[str, DType], precision: str
    ) -> None:
        self.adjoint, self.graph = adjoint, adjoint.graph
        self.origin, self.precision = origin, precision
        self._constants = varying_parameters(self.graph)
        vectors = [types[n] for n, i in adjoint.inputs.items() if i.axis in g.VECTORS]
        narrow = all(d.number.itemsize == 2 for d in vectors)
        self.terms = adjoint.narrow if narrow else adjoint.columns  # of gradients of columns
        self._asked: dict[tuple[str, ...], tuple[g.Node, ...]] = {}
        self._types, self._lengths = types, lengths_of(self.graph, types)
        self._kinds = kinds_of(self.graph.nodes, {n: d.number for n, d in types.items()})

    def asked_by(self, wanted: Iterable[str]) -> tuple[g.Node, ...]:
        """Inputs, and values of rows, that gradients of columns are made of."""
        wanted = tuple(wanted)
        found = self._asked.get(wanted)
        if found is None:
            roots = [n for name in wanted for n in self.factors(name)]
            likes = [self.adjoint.inputs[name] for name in wanted]
            found = self._asked[wanted] = tuple(
                dict.fromkeys((*asked_of_rows(roots, self.held), *likes)))
        return found

    def held(self, node: g.Node) -> bool:
        """Is there an array that holds it? Vectors are of floats: a condition on each of a vector's
        numbers is asked again where it is needed."""
        again = g.is_vector(node) and isinstance(node, g.Map | g.Cast)
        return not again or self._kinds[node] == "float"

    @lazy
    def numbered(self) -> frozenset[str]:
        """Gradients of columns that ask for rows' numbers where those meet columns."""
        return frozenset(
            name for name in self.terms
            if any(isinstance(n, g.RowNumber) for n in g.topological(
                self.factors(name), {*self.asked_by([name])}.__contains__)))

    def factors(self, name: str) -> list[g.Node]:
        """Elements that the gradient of a column's input is made of, in the order of the text."""
        return sorted({node for product in self.terms[name] for node, _ in product},
                      key=self._places.__getitem__)

    @lazy
    def _places(self) -> Mapping[g.Node, int]:
        return {node: i for i, node in enumerate(self.graph.nodes)}

    # ---- rows ----

    def rows(self, types: Mapping[str, str], *, kept: bool) -> tuple[Stage, ...]:
        """Stages of rows; the last gives the gradients, of these types, and what columns ask for.

        kept: is the first stage what a forward call keeps?"""
        outputs = [*self.adjoint.rows.values(), *self._asked_of_rows]
        cuts = cuts_of(outputs, self.adjoint.backwards, self.held, kept=kept)
        found = self._in_order(cuts, outputs, types)
        try:
            self._check(found)
        except PipelineError:  # sums of vectors are made by one sweep: numbers come before
            known = {n for cut in cuts for n in cut}
            found = self._in_order([*cuts, numbers_of(outputs, known)], outputs, types)
            self._check(found)
        return found

    def numbers(self, wanted: Iterable[str], *, kept: bool) -> tuple[Stage, ...]:
        """Stages of what gradients of columns ask of rows, without those of the rows."""
        outputs: list[g.Node] = [n for n in self.asked_by(wanted) if not isinstance(n, g.Input)]
        found: list[Stage] = []
        done: dict[g.Node, None] = {}
        for cut in (*cuts_of(outputs, self.adjoint.backwards, self.held, kept=kept), outputs):
            if left := [n for n in cut if n not in done]:
                found.append(self._rows(left, done, {}))
                done |= dict.fromkeys(left)
        return tuple(found)

    @lazy
    def forward(self) -> Stage:
        """The forward call, which gives what later stages keep of it beside its results."""
        made = self.adjoint.forward
        names = [*self.adjoint.origin.output_names]
        return self._rows((*made, *(n for n in self.kept if n not in made)), (), {}, names)

    @lazy
    def kept(self) -> tuple[g.Node, ...]:
        """What later stages ask of the forward call."""
        outputs = [*self.adjoint.rows.values(), *self._asked_of_rows]
        (found,) = cuts_of(outputs, self.adjoint.backwards, self.held, kept=True)[:1] or [[]]
        # Sums of long vectors take far longer than a forward call has.
        long = any(self._types[i.name].length >= LEAST_LENGTH
                   for i in self.adjoint.inputs.values() if i.axis in g.VECTORS)
        results = {*self.adjoint.forward}
        return tuple(n for n in found if not (long and g.is_vector(n)) or n in results)

    @property
    def _asked_of_rows(self) -> list[g.Node]:
        asked = self.asked_by(self.terms)
        return [n for n in asked if not isinstance(n, g.Input)]

    def _in_order(
        self, cuts: Sequence[Sequence[g.Node]], outputs: Sequence[g.Node], types: Mapping[str, str]
    ) -> tuple[Stage, ...]:
        found, done = [], dict[g.Node, None]()
        for cut in cuts:
            found.append(self._rows(cut, done, {}))
            done |= dict.fromkeys(cut)
        n = len(self.adjoint.rows)
        last = [*outputs[:n], *(n for n in outputs[n:] if n not in done)]
        arrays = [*self.adjoint.cotangents.values(), *done]
        for inners in inners_of(last, arrays, self._lengths):
            found.append(self._numbers(inners, vectors_of(inners, arrays)))
            done |= dict.fromkeys(inners)
            last = [*outputs[:n], *(n for n in outputs[n:] if n not in done)]
        if last:
            own = {i: types[n] for i, n in enumerate(self.adjoint.rows)}
            found.append(self._rows(last, done, own, [f"grad_{n}" for n in self.adjoint.rows]))
        return tuple(found)

    def _numbers(self, inners: tuple[g.Inner, ...], vectors: Sequence[g.Node]) -> Stage:
        """The pipeline of numbers that are sums over the index of vectors of rows."""
        text = summed(inners, vectors, self.graph, self.precision, self.given)
        parameters = [parameter_of(self.graph.names[v], g.Axis.ELEMENT) for v in vectors]
        return Stage(self.pipeline_of("numbers", parameters, text), tuple(vectors), inners)

    def _check(self, stages: Sequence[Stage]) -> None:
        """Raises PipelineError for what no kernel does: the last one has all that there may be."""
        if not stages:
            return
        stage = stages[-1]
        names = stage.pipeline.signature.arrays
        types = {name: self.type_of(node) for name, node in zip(names, stage.takes, strict=True)}
        constants = stage.pipeline.signature.bind_constants({})
        stage.pipeline.of_types(types, constants, Choices())

    def type_of(self, node: g.Node) -> DType:
        """Of an array that holds the value."""
        if isinstance(node, g.Input):
            return self._types[node.name]
        if node in self._lengths:
            return dtype_of(self.precision).vector(self._lengths[node])
        kinds = {"float": self.precision, "int": "int64", "bool": "bool"}
        return dtype_of(kinds[self._kinds[node]])

    def given(self, nodes: Iterable[g.Node], arrays: Iterable[Value]) -> dict[g.Node, g.Node]:
        """What stands for these nodes in a text that takes such arrays. Vectors are of floats, also
        those that hold whole numbers, as of how many columns exceed each of a vector's."""
        return {
            node: fg.cast(value, "int64").node if self._is_whole_vector(node) else lift(value)
            for node, value in zip(nodes, arrays, strict=True)}

    def _is_whole_vector(self, node: g.Node) -> bool:
        return g.is_vector(node) and self._kinds[node] == "int"

    def _rows(
        self, outputs: Sequence[g.Node], done: Iterable[g.Node], types: Mapping[int, str],
        names: Sequence[str] = (),
    ) -> Stage:
        """The pipeline of these outputs. done: what earlier stages have made; types: of outputs
        that have another than sums have; names: of the first outputs. Without types, those that are
        named have what their text gives them."""
        made, own = {*done}, 0 if types else len(names)
        taken = Taken()
        called = [*map(taken.free, (*names, *(self.graph.names[n] for n in outputs[len(names):])))]
        read = g.topological(outputs, made.__contains__)
        met = {a for n in (*read, *outputs) for a in (n, *g.operands(n))}
        takes = [n for n in self.adjoint.cotangents.values() if n in met]
        takes += [*self.adjoint.inputs.values()]  # all of them say what the rows are
        before = [n for n in done if n in met]

        def text(*arrays: Value, **numbers: Any) -> dict[str, Value]:
            given = scalars_of(self.graph, numbers)
            given |= self.given((*takes, *before), arrays)
            moved = transplant(outputs, given, self.graph)
            made = enumerate(zip(outputs, map(Value, moved), strict=True))
            found = [now if i < own else self._typed(now, was, types.get(i, self.precision))
                     for i, (was, now) in made]
            return dict(zip(called, found, strict=True))

        parameters = [parameter_of(n.name, n.axis) for n in takes]
        parameters += [parameter_of(self.graph.names[n], axis_of(n)) for n in before]
        what = "rows" if self.adjoint.backwards & {*outputs} else "forward"
        return Stage(self.pipeline_of(what, parameters, text), (*takes, *before), tuple(outputs))

    def _typed(self, value: Value, node: g.Node, dtype: str) -> Value:
        """Floats, and vectors, as this type; numbers and conditions as they are."""
        cast = self._kinds[node] == "float" or self._is_whole_vector(node)
        return fg.cast(value, dtype) if cast else value

    def pipeline_of(
        self, what: str, parameters: Sequence[Parameter], text: Callable[..., Any]
    ) -> Pipeline:
        name = f"{self.graph.name}_{what}"
        made = Text(name, f"{what.capitalize()} of the gradient of {self.origin.name}.",
                    self.origin.fn, [*parameters, *self._constants], text)
        return Pipeline(made, allow_cancellation=self.origin.allow_cancellation)

    # ---- columns ----

    def columns(
        self, wanted: Sequence[str], types: Mapping[str, str], *, of_part: bool = False
    ) -> Columns:
        """The stage that gives these gradients, of these types. of_part: are there columns of other
        numbers elsewhere? Then their own come as the last array."""
        roots = [*dict.fromkeys(n for name in wanted for n in self.factors(name))]
        likes = [self.adjoint.inputs[n] for n in wanted]
        takes = self.asked_by(wanted)
        taken = Taken(self.graph.names.values())
        more = [("each_row", RowVector), ("each_column", ColumnVector)]
        more += [("number", PerRow)] if of_part else []
        last = [Parameter(taken.free(word), Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
                for word, kind in more]

        def text(*arrays: Value, **numbers: Any) -> dict[str, Value]:
            given = scalars_of(self.graph, numbers)
            given |= self.given(takes, arrays[: len(takes)])
            known = transposed(roots, given, arrays[-1].node if of_part else None)
            writer = Writer()
            found = {}
            for name, like in zip(wanted, likes, strict=True):
                total = writer.write(writer.row_sum(seen_terms(self.terms[name], known)))
                if g.is_vector(like) and not g.is_vector(total):
                    total = tm.filled(Value(total), known[like]).node
                found[f"grad_{name}"] = fg.cast(Value(total), types[name])
            return found

        parameters = [parameter_of(self.graph.names[n], AXES[axis_of(n)]) for n in takes]
        made = self.pipeline_of("columns", [*parameters, *last], text)
        return Columns(made, takes)
