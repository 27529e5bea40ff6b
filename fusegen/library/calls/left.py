"""What calls leave for their gradients, and the gradients from that: what is saved is in the
framework's care.

All of it is found once for calls of a kind: arrays of the same shapes and types, constants that
differ in no more than what varies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusegen.ir.shared import lazy
from fusegen.library.calls.backward import (
    Backward,
    Call,
    backward_of,
    moving_outputs,
    needed_numbers,
    reaching,
)
from fusegen.library.calls.framework import Framework, Like
from fusegen.library.calls.lists import Lists, lists_of
from fusegen.library.calls.vector_left import VectorLeft
from fusegen.library.gradient.column_sums import Summing
from fusegen.library.gradient.columns import ColumnGradient


class Left:
    """Of calls of one kind: what their gradients by the inputs `wanted` read, and these.

    kept: inputs by name and outputs by position; the columns of lists are saved behind them.
    moving: of every output, does one of these inputs take part in it?
    """

    joint = False  # what is saved is arrays and results, or found from them

    def __init__(
        self, call: Call, like: Mapping[str, Like], backward: Backward, lists: Lists | None,
        framework: Framework,
    ) -> None:
        self.backward, self._lists, self._framework = backward, lists, framework
        self.wanted = backward.wanted
        self.moving = moving_outputs(call.of(like).graph, self.wanted)
        self.kept: tuple[str | int, ...] = (
            *(n for n in like if n in backward.inputs), *sorted(backward.outputs))
        self._call = call if lists is None else lists.call
        self._like = {**like} if lists is None else {**like, **lists.like}

    def saved(
        self, constants: Mapping[str, Any], present: Mapping[str, Any], outputs: Sequence[Any]
    ) -> list[Any]:
        """The arrays of `kept`, then columns."""
        found = [outputs[k] if isinstance(k, int) else present[k] for k in self.kept]
        return found if self._lists is None else [
            *found, *self._lists.columns(constants, present, outputs)]

    def gradients(
        self, constants: Mapping[str, Any], arrays: Mapping[str, Any],
        outputs: Mapping[int, Any], columns: Sequence[Any], cotangents: Sequence[Any],
    ) -> dict[str, Any]:
        """By input. arrays: those that are kept; of the others, something of their shape and type.
        outputs: those that are kept."""
        cotangents = [None if c is None else self._framework.packed(c) for c in cotangents]
        if self._lists is not None:
            cotangents = self._lists.cotangents(cotangents)
            arrays = {**arrays, **self._lists.named(columns)}
        found: dict[str, Any] = {}
        lean, call = self.backward.rowwise, self._call
        if lean is not None:
            given = [*(cotangents[i] for i in lean.cotangents), *(outputs[i] for i in lean.outputs),
                     *(arrays[n] for n in (*lean.inputs, *lean.shapes))]
            numbers = {n: constants[n] for n in lean.varying}
            made = lean(*given, axis=call.axis, deterministic=call.deterministic, **numbers)
            every = made if isinstance(made, tuple) else (made,)
            found = {n: self._as_given(value, self._like[n].shape)
                     for n, value in zip(lean.wrt, every, strict=True)}
        if self.backward.columns:
            found |= self._by_column(constants, arrays, cotangents)
        return found

    def _as_given(self, value: Any, shape: Any) -> Any:
        """A gradient in the shape of its input, which may have been broadcast to the rows, or have
        kept the reduced axes."""
        if value.shape == shape:
            return value
        if value.ndim < len(shape):
            return value.reshape(shape)
        return self._framework.summed_to(value, shape)

    def _by_column(
        self, constants: Mapping[str, Any], arrays: Mapping[str, Any], cotangents: Sequence[Any]
    ) -> dict[str, Any]:
        """The gradients of per-column inputs, in their shapes."""
        framework, found = self._framework, {}
        flat = framework.flat(next(iter(arrays.values())))
        for name, (column, summing) in self._sums.items():
            if summing is None:
                found[name] = framework.zeros_in(arrays[name])
                continue
            named = {n: cotangents[i] for i, n in column.cotangents.items()}
            total = summing.run({**named, **arrays}, constants, flat)
            shape = self._like[name].shape
            found[name] = total if len(shape) == 1 else total.reshape(shape)
        return found

    @lazy
    def _sums(self) -> dict[str, tuple[ColumnGradient, Summing | None]]:
        """(the gradient, what sums for it) by per-column input; None: there are no rows."""
        call, like, framework = self._call, self._like, self._framework
        rows = framework.rows_in(call.of(like).graph.inputs, like, call.axis)
        wide = any(framework.dtype_in(a).name == "float64" for a in like.values())
        found: dict[str, tuple[ColumnGradient, Summing | None]] = {}
        for name, column in self.backward.columns.items():
            every = frozenset({*like, *column.cotangents.values()})
            found[name] = column, None if rows.n_rows == 0 else column.summing(
                every, call.constants, rows, "float64" if wide else "float32",
                framework.dtype_in(like[name]).name)
        return found


def left_by(
    call: Call, present: Mapping[str, Any], asked: Collection[str], *, outputs: bool,
    framework: Framework,
) -> Left | VectorLeft | None:
    """For gradients by those of the inputs `asked` that have one; None where none of them does.

    present: arrays, or what is like them. outputs: may results stand for inputs? They have the
    inputs' types then. Raises what fg.grad raises."""
    like = {n: Like(a.shape, a.dtype) for n, a in present.items()}
    reached = reaching(call.of(like).graph)
    wanted = tuple(n for n in asked if n in reached)
    if not wanted:
        return None
    lists = lists_of(call, like, framework)
    if call.pipeline.vectors:
        return VectorLeft(call, like, wanted, lists, framework)
    differentiated, given = (call, like) if lists is None else (lists.call, {**like, **lists.like})
    backward = backward_of(differentiated, frozenset(given), wanted,
                           outputs=outputs and lists is None)
    graph = call.of(like).graph
    needed = needed_numbers(graph, backward, frozenset(given), differentiated)
    if needed:  # what is remembered of calls is for all numbers alike
        call.pipeline.traces.settle(dict.fromkeys(needed, "its gradient needs its number"))
        return left_by(call, present, asked, outputs=outputs, framework=framework)
    return Left(call, like, backward, lists, framework)


def left_of(
    call: Call, arrays: Mapping[str, Any], wanted: tuple[str, ...], *, outputs: bool,
    framework: Framework,
) -> Left | VectorLeft | None:
    """As `left_by`, found for the first call of its kind."""
    traces = call.pipeline.traces
    traces.are_stale()
    shapes = tuple([(n, a.shape, a.dtype) for n, a in arrays.items()])
    rest = (left_of, framework, wanted, outputs, shapes, call.axis, call.keepdims, call.form,
            call.deterministic, call.precision)
    known = framework.is_known(shapes)
    left: Left | VectorLeft | None = None if not known else traces.kinds.find(
        (*rest, traces.alike(call.constants)), call.constants)
    if left is None:
        left = left_by(call, arrays, wanted, outputs=outputs, framework=framework)
        if known:  # now that constants are settled
            traces.kinds.put((*rest, traces.alike(call.constants)), call.of(arrays), left)
    return left


@dataclass(frozen=True, eq=False)
class Task:
    """A gradient to be found: by these inputs, from what a call left."""

    call: Call
    wanted: tuple[str, ...]
    kept: frozenset[str]  # the inputs whose values are there
    arrays: Mapping[str, Any]  # all inputs; of those that are not kept, shape and type
    outputs: Mapping[int, Any]  # results that are kept
    columns: Sequence[Any]  # of the call's top-Ks, and what else was saved behind
    cotangents: Sequence[Any]

    @staticmethod
    def of(
        call: Call, wanted: tuple[str, ...], kept: Sequence[str | int], saved: Sequence[Any],
        like: Mapping[str, Any], cotangents: Sequence[Any],
    ) -> Task:
        """From what `Left` has; like: something of the shape and type of each input."""
        there = dict(zip(kept, saved, strict=False))
        inputs = {k: v for k, v in there.items() if isinstance(k, str)}
        return Task(call, wanted, frozenset(inputs), {**like, **inputs},
                    {k: v for k, v in there.items() if isinstance(k, int)}, saved[len(kept) :],
                    cotangents)

    def found(self, framework: Framework) -> dict[str, Any]:
        """Gradients by input. Raises RuntimeError where a text, that has changed since the call,
        needs what was not kept."""
        left = left_of(self.call, self.arrays, self.wanted, outputs=bool(self.outputs),
                       framework=framework)
        if left is None or not {*left.kept} <= self.kept | {*self.outputs}:
            raise RuntimeError(f"the text of {self.call.pipeline.name} has changed between a call "
                               "and its gradient")
        return left.gradients(self.call.constants, self.arrays, self.outputs, self.columns,
                              self.cotangents)
