"""fg.grad: the backward pipeline of a pipeline, derived; again row sums and elementwise text.

    dx = fg.grad(fg.library.softmax)(g, x)        # y·(g − Σ g·y), two reads of each element
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import Parameter
from types import MappingProxyType
from typing import Any

from fusegen.backend.cache.results import kept
from fusegen.backend.host.threads import load
from fusegen.ir import graph as g
from fusegen.ir.derivation import Obligation
from fusegen.ir.errors import ArgumentError, TraceError
from fusegen.ir.graph_text import formula
from fusegen.ir.kinds import assumed_dtypes, infer_kinds
from fusegen.ir.literals import constant, plain
from fusegen.ir.names import Taken
from fusegen.ir.nearest import nearest
from fusegen.ir.nesting import nest
from fusegen.ir.shared import Recent
from fusegen.ir.varying import Number, raw
from fusegen.lang.blame import blames
from fusegen.lang.signature import check_names, constants_key
from fusegen.lang.trace import inline, leaves, unique_names
from fusegen.lang.value import PerRow, RowVector, Value, builder, lift
from fusegen.library.gradient.columns import ColumnGradient
from fusegen.library.gradient.given_lists import Picked
from fusegen.library.gradient.open import OpenGradient
from fusegen.library.gradient.outputs import check_outputs, extents_of
from fusegen.library.gradient.vectors.grad import VectorGradient
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.traces import MOST
from fusegen.rewrite.adjoint.reverse import Reverse
from fusegen.rewrite.adjoint.transplant import Text, parameters_of, scalars_of, transplant


class Gradient(Pipeline):
    """The backward pipeline of `forward`; a Pipeline like any other.

    Positional parameters: one cotangent per float output of `forward` (`grad`, or `grad_<output>`
    where there are several), shaped like that output, then `forward`'s own arrays. Constants are
    `forward`'s, `defaults` among them. It returns the gradient with respect to `wrt`; several as a
    tuple in that order.
    A gradient has the type of its input, whatever the others have (sums are kept in float32, or
    float64), and the shape of the rows, also where its input was broadcast to them.
    """

    def __init__(
        self, forward: Pipeline, wrt: tuple[str, ...], base: g.Graph, defaults: Mapping[str, Any]
    ) -> None:
        self.forward, self.wrt, self._defaults = forward, wrt, defaults
        self.like, self._constants = wrt, dict(base.constants)
        self._proofs: Recent[Any, tuple[Obligation, ...]] = Recent(MOST)
        self._cotangents = _cotangents(forward, base)
        self._extents = extents_of(base.outputs)
        own = parameters_of(forward, defaults)
        head = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=shape)
                for name, shape in self._cotangents.values()]
        doc = f"Gradient of {forward.name} with respect to {', '.join(wrt)}."
        text = Text(f"{forward.name}_grad", doc, forward.fn, [*head, *own], self._text)
        super().__init__(text, allow_cancellation=forward.allow_cancellation)

    @property
    def cotangents(self) -> dict[int, str]:
        """The cotangents' names, by the positions of the outputs that have one."""
        return {position: name for position, (name, _) in self._cotangents.items()}

    def recipe(self) -> tuple[Any, ...]:
        return _again, (self.forward, self.wrt, self._constants, self._defaults)

    def formula(self, *, inputs: Collection[str] = (), **constants: Any) -> str:
        """The derived text, one line per value: `grad_x = y·(grad - Σ(grad·y))`."""
        return formula(self._variant(inputs, constants)[0])

    def proofs(self, *, inputs: Collection[str] = (), **constants: Any) -> tuple[Obligation, ...]:
        """Why a maximum or minimum sends no gradient back: proofs that the outputs do not move
        with it. `inputs` names optional inputs to include."""
        return self._variant(inputs, constants)[1]

    def _variant(
        self, inputs: Collection[str], constants: dict[str, Any]
    ) -> tuple[g.Graph, tuple[Obligation, ...]]:
        """The text for these optional inputs and constants, and what was proved to write it."""
        arrays = self.signature.arrays
        present = frozenset(n for n in arrays if n not in self.signature.optional or n in inputs)
        bound = self.signature.bind_constants(constants)
        key = (present, constants_key(bound))
        graph, proofs = self.traced(present, bound).graph, self._proofs.get(key)
        if proofs is None:  # put out of the table: writing the text proves it
            self.traces.forget(*key)
            graph, proofs = self.traced(present, bound).graph, self._proofs.get(key)
        assert proofs is not None
        return graph, proofs

    def _text(self, *arrays: Value | None, **constants: Any) -> Any:
        """The backward text, written while it is traced."""
        given = dict(zip(self.signature.arrays, arrays, strict=True))
        own = [given[n] for n in self.forward.signature.arrays]
        result = list(leaves(inline(self.forward.fn, own, constants)))
        outputs = [lift(v) for v in result]
        check_outputs(self.forward.name, outputs, self._extents)
        wanted = [self._wanted(name, given[name]) for name in self.wrt]
        reverse = Reverse(wanted, self._prover(own, constants, tuple(outputs)))
        names = self.cotangents
        for positions in _together(self.forward, names):
            pairs = [(outputs[p], lift(given[names[p]])) for p in positions]
            reverse.add(*pairs, alike=len(pairs) > 1)
        found = [_written(reverse, node, f"grad_{name}")
                 for node, name in zip(wanted, self.wrt, strict=True)]
        present = frozenset(n for n, v in given.items() if v is not None)
        self._proofs.put((present, constants_key(constants)), tuple(reverse.proofs))
        return found[0] if len(found) == 1 else tuple(found)

    def _prover(
        self, own: Sequence[Value | None], constants: dict[str, Any], outputs: tuple[g.Node, ...]
    ) -> Callable[[g.Node, g.Reduce], Obligation]:
        """`stationary` for this forward text, its answers kept on disk."""
        arrays = self.forward.signature.arrays
        present = frozenset(n for n, v in zip(arrays, own, strict=True) if v is not None)
        numbers = {n: raw(v) for n, v in constants.items()}
        digest = self.forward.traces.varied(present, numbers).digest
        names = unique_names(g.topological(outputs), builder())
        varying = sorted(n for n, v in constants.items() if type(v) is Number)

        def prove(output: g.Node, pivot: g.Reduce) -> Obligation:
            load("sympy")
            from fusegen.algebra.stationary import stationary

            return stationary(output, pivot, names)

        def prover(output: g.Node, pivot: g.Reduce) -> Obligation:
            key = ("stationary", digest, names[output], names[pivot], repr(varying))
            return kept(key, functools.partial(prove, output, pivot), _settled, Obligation,
                        self.name)

        return prover

    def _wanted(self, name: str, value: Value | None) -> g.Input:
        if value is None:
            raise ArgumentError(
                f"{self.name} misses {name}", why="It is the gradient with respect to this input.",
                fix=f"Gradients of results come first: {', '.join(self.signature.arrays)}.")
        assert isinstance(value.node, g.Input)  # the tracer's own: see _inline
        return value.node

    def _inline(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Inside another pipeline: derived on its own first, so that arguments which are equal, or
        equal to something in the text, are told apart."""
        present, constants = self.bind(arrays, named)
        graph = self.traced(frozenset(present), constants).graph
        given: dict[g.Node, g.Node] = {i: lift(present[i.name]) for i in graph.inputs}
        given |= scalars_of(graph, constants)
        moved = transplant(graph.outputs, given, graph)
        return nest(graph.structure, [Value(node) for node in moved])


def _together(forward: Pipeline, positions: Collection[int]) -> list[tuple[int, ...]]:
    """Outputs that go back in one sweep: the entries of a list are alike, and one sweep for each
    would write as many times what all of them send through."""
    if isinstance(forward, Picked):
        return forward.together
    return [(position,) for position in positions]


def _written(reverse: Reverse, node: g.Input, name: str) -> Value:
    found = Value(reverse.write(node))
    builder().labels.setdefault(found.node, name)
    return found


def _settled(proof: Obligation) -> bool:
    return proof.status == "proved" or proof.seconds < 1  # a longer search may have been cut off


@blames
def grad(
    pipeline: Pipeline, wrt: str | Sequence[str] | None = None, **constants: Any
) -> Gradient | ColumnGradient | VectorGradient | OpenGradient:
    """The backward pipeline: grad(p)(cotangents…, arrays…) → gradients.

    wrt: one input or several; by default every element input of floats. Per-row inputs get one
    value per row. A per-column input (a weight) alone gives a `ColumnGradient`, which sums over
    all rows. Texts over vectors give a `VectorGradient`, by default with respect to all vectors and
    elements that are not optional, and to inputs of rows and columns together. constants: defaults
    of what is returned; where `pipeline` has no default for one, it may also come at the call (an
    `OpenGradient`). Those that decide which outputs there are come here.

    Rules are those of reverse mode, and of torch where a derivative jumps: max and min share
    evenly between ties; abs has 0 at 0. A maximum that is proved to cancel (softmax, logsumexp,
    norm2) sends nothing back; `.proofs()` has the proof. Integers, comparisons and rounding have
    no gradient. One that vanishes (a weight of 0.0 holds the input, it is only rounded, it takes
    no part) is zeros of the shape of any other. Raises ArgumentError, and TraceError for fg.prod
    and top-K values.
    """
    if not isinstance(pipeline, Pipeline):
        raise ArgumentError(f"grad takes a pipeline, got {type(pipeline).__name__}",
                            fix="Give the inner fg.grad all constants."
                            if isinstance(pipeline, OpenGradient)
                            else "Decorate the function with @fg.pipeline.")
    asked = wrt if wrt is None or isinstance(wrt, str) else check_names("wrt", wrt)
    defaults = {n: plain(v) if type(v) is Number else constant(v) for n, v in constants.items()}
    pipeline.signature.known_constants(defaults)
    if pipeline.signature.missing(defaults):
        for name in (asked,) if isinstance(asked, str) else asked or ():
            _check_array(pipeline, name, pipeline.signature.arrays)
        return OpenGradient(pipeline, asked, defaults, gradient_of)
    return gradient_of(pipeline, asked, defaults, defaults)


def gradient_of(
    pipeline: Pipeline, wrt: str | tuple[str, ...] | None, constants: Mapping[str, Any],
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> Gradient | ColumnGradient | VectorGradient:
    """The gradient for constants like these, which calls give again, but for `defaults`."""
    bound = pipeline.signature.bind_constants(constants)
    base = pipeline.traces.varied(frozenset(pipeline.signature.arrays), bound)
    rest = {n: v for n, v in bound.items() if n not in base.graph.varying}
    key = ("grad", wrt, constants_key(rest), base.digest, base.graph.guards,
           constants_key(defaults))
    found: Gradient | ColumnGradient | VectorGradient = pipeline.derived.get_or_make(
        key, lambda: _gradient(pipeline, wrt, base.graph, defaults))
    return found


def _again(
    forward: Pipeline, wrt: tuple[str, ...], constants: dict[str, Any], defaults: dict[str, Any]
) -> Gradient:
    """What a pickled gradient is made from."""
    found = gradient_of(forward, wrt, constants, defaults)
    made = found.contributions if isinstance(found, ColumnGradient) else found
    assert isinstance(made, Gradient)
    return made


def _gradient(
    pipeline: Pipeline, wrt: str | tuple[str, ...] | None, base: g.Graph,
    defaults: Mapping[str, Any],
) -> Gradient | ColumnGradient | VectorGradient:
    inputs = {i.name: i for i in base.inputs}
    names = _named(pipeline, base, wrt)
    if pipeline.vectors:
        return VectorGradient(pipeline, names, _cotangents(pipeline, base), defaults,
                              extents_of(base.outputs))
    columns = [n for n in names if inputs[n].axis is g.Axis.PER_COLUMN]
    if not columns:
        return Gradient(pipeline, names, base, defaults)
    if len(names) > 1:
        raise ArgumentError(f"{columns[0]} is per column: its gradient is a sum over all rows",
                            fix=f"Ask for it alone: wrt={columns[0]!r}.")
    return ColumnGradient(Gradient(pipeline, names, base, defaults))


def _named(
    pipeline: Pipeline, base: g.Graph, wrt: str | tuple[str, ...] | None
) -> tuple[str, ...]:
    """The inputs to differentiate by. Raises ArgumentError for unknown or whole-number ones."""
    dtypes = assumed_dtypes(base, "float32")
    floats = [i for i in base.inputs if dtypes[i.name].kind == "float"]
    if wrt is None:
        optional = pipeline.signature.optional if pipeline.vectors else ()
        found = tuple(i.name for i in floats if i.axis in (g.Axis.ELEMENT, *g.VECTORS)
                      and i.name not in optional)
        if not found:
            raise ArgumentError(f"{pipeline.name} has no element input of floats")
        return found
    names = (wrt,) if isinstance(wrt, str) else wrt
    for name in names:
        _check_array(pipeline, name, dtypes)
        if name not in {i.name for i in floats}:
            raise ArgumentError(f"{name} holds {dtypes[name]} values: it has no gradient")
    if not names or len(set(names)) < len(names):
        raise ArgumentError("wrt names one input or several, each once")
    return names


def _check_array(pipeline: Pipeline, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise ArgumentError(f"{pipeline.name} has no array {name!r}", fix=nearest(name, known))


def _cotangents(pipeline: Pipeline, base: g.Graph) -> dict[int, tuple[str, type]]:
    """(name, annotation) of the cotangent by output position."""
    kinds = infer_kinds(base, assumed_dtypes(base, "float32"))
    floats = [i for i, n in enumerate(base.outputs) if kinds[n] == "float"]
    if not floats:
        raise TraceError(f"{pipeline.name} returns whole numbers and conditions only",
                         where=base.loc, why="They have no gradient.")
    taken = Taken((*pipeline.signature.arrays, *pipeline.signature.constants))
    found: dict[int, tuple[str, type]] = {}
    for i in floats:
        extent = g.extent(base.outputs[i])
        name = "grad" if len(floats) == 1 else f"grad_{base.output_names[i]}"
        of_row = RowVector if g.is_vector(base.outputs[i]) else PerRow
        found[i] = (taken.free(name), of_row if extent is g.Extent.ROW else Value)
    return found
