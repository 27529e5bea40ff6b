"""What calls over vectors leave for their gradients: see left.py.

The forward call gives what its gradient asks of whole rows beside its results, as FlashAttention-2
keeps a log-sum-exp: a few numbers a row. Of a call with lists the gradient finds them again, in a
sweep as the forward call would need for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusegen.backend.arrays.rows import Rows
from fusegen.ir import graph as g
from fusegen.ir.forms import check_precision
from fusegen.library.calls.backward import Call, moving_outputs
from fusegen.library.calls.framework import Framework, Like, types_in
from fusegen.library.calls.lists import Lists
from fusegen.library.gradient.grad import gradient_of
from fusegen.library.gradient.vectors.grad import VectorGradient
from fusegen.library.gradient.vectors.run import Run
from fusegen.pipeline.precision import check_use
from fusegen.pipeline.variants import Choices


class VectorLeft:
    """See `Left`. Behind `kept`, arrays that `made` gives are saved: `extra` of them."""

    def __init__(
        self, call: Call, like: Mapping[str, Like], wanted: tuple[str, ...], lists: Lists | None,
        framework: Framework,
    ) -> None:
        self._call, self._lists, self._framework = call, lists, framework
        own = call if lists is None else lists.call
        given = like if lists is None else {**like, **lists.like}
        asked = Choices(deterministic=call.deterministic, precision=check_precision(call.precision))
        if asked.precision != "float32":
            check_use(call.pipeline.name, asked, {
                n: d for n, d in types_in(call.pipeline.vectors, like, framework.dtype_in).items()
                if n in call.pipeline.vectors})
        found = gradient_of(own.pipeline, wanted, own.constants)
        assert isinstance(found, VectorGradient)
        self._gradient, self.wanted = found, found.wrt
        self._vectors = own.pipeline.vectors
        types = types_in(self._vectors, given, framework.dtype_in)
        self._text, _, stages = found.remembered.prepared(types, dict(own.constants))
        self._stage = stages.forward
        results = self._text.forward
        kept = () if lists is not None else stages.kept
        self._kept_outputs = tuple(i for i, n in enumerate(results) if n in kept)
        self._extra = tuple(n for n in self._stage.gives[len(results):]) if lists is None else ()
        self.kept: tuple[str | int, ...] = (*like, *self._kept_outputs)
        self.moving = moving_outputs(call.of(like).graph, wanted)

    @property
    def joint(self) -> bool:
        """Does a call leave more than its arrays and results?"""
        return bool(self._extra)

    def made(
        self, constants: Mapping[str, Any], present: Mapping[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        """The call's flat results, and what it leaves beside them."""
        call = self.making(constants)
        found = [*call.run([present[n] for n in call.pipeline.signature.arrays]).values()]
        return found[: -len(self._extra)], found[-len(self._extra):]

    def making(self, constants: Mapping[str, Any]) -> Call:
        """The call that `made` makes."""
        stage = self._stage.pipeline
        numbers = {n: constants[n] for n in stage.signature.constants}
        return replace(self._call, pipeline=stage, constants=numbers)

    def saved(
        self, constants: Mapping[str, Any], present: Mapping[str, Any], outputs: Sequence[Any]
    ) -> list[Any]:
        """The arrays of `kept`, then columns; what `made` gave is saved behind them."""
        found = [outputs[k] if isinstance(k, int) else present[k] for k in self.kept]
        columns = () if self._lists is None else self._lists.columns(constants, present, outputs)
        return [*found, *columns]

    def gradients(
        self, constants: Mapping[str, Any], arrays: Mapping[str, Any],
        outputs: Mapping[int, Any], columns: Sequence[Any], cotangents: Sequence[Any],
    ) -> dict[str, Any]:
        """By input; see `Left.gradients`."""
        cotangents, given = [*cotangents], {**arrays}
        if self._lists is not None:
            given |= self._lists.named(columns)
            cotangents = self._lists.cotangents(cotangents)
        call = self._call if self._lists is None else self._lists.call
        rows = self._framework.rows_in(call.of(given).graph.inputs, given, -1)
        nodes = self._text.forward
        for i, name in self._gradient.cotangents.items():
            given[name] = _of_rows(self._framework.packed(cotangents[i]), nodes[i], rows)
        kept = None
        if len(columns) == len(self._extra) and self._lists is None:
            kept = {nodes[i]: _of_rows(outputs[i], nodes[i], rows) for i in self._kept_outputs}
            kept |= {n: _of_rows(a, n, rows) for n, a in zip(self._extra, columns, strict=True)}
        types = types_in(self._gradient.vectors, given, self._framework.dtype_in)
        on_host = self._framework.is_on_host(next(iter(arrays.values())))
        numbers = {n: constants[n] for n in call.pipeline.signature.constants}
        run = Run(self._gradient.remembered, given, types, numbers, rows, on_host=on_host,
                  text=self._text, deterministic=call.deterministic, precision=call.precision)
        return run.gradients(kept)


def _of_rows(array: Any, node: g.Node, rows: Rows) -> Any:
    """A row value without the axis of columns, which keepdims leaves with size 1."""
    if g.extent(node) is not g.Extent.ROW:
        return array
    shape = (*rows.lead, array.shape[-1]) if g.is_vector(node) else rows.lead
    return array if tuple(array.shape) == shape else array.reshape(shape)
