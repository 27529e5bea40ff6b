"""What one call leaves for its gradient, and the gradient from that: what is saved is in the
framework's care."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusegen.library.backward import Call, backward_of, gradients, moving_inputs
from fusegen.library.framework import Framework
from fusegen.library.lists import lists_of


@dataclass(frozen=True, eq=False)
class Left:
    """Of a call: what its gradient by the inputs `wanted` reads."""

    wanted: tuple[str, ...]
    kept: tuple[str | int, ...]  # inputs, and positions of outputs
    saved: list[Any]  # their arrays; behind them are the columns of lists


def left_by(
    call: Call, present: Mapping[str, Any], outputs: Sequence[Any], asked: Collection[str],
    framework: Framework,
) -> Left | None:
    """For gradients by those of the inputs `asked` that have one; None where none of them does.
    Raises what fg.grad raises."""
    if not moving_inputs(call, frozenset(present)) & {*asked}:
        return None
    differentiated, given, columns = call, present, []
    lists = lists_of(call, present, framework)
    if lists is not None:
        columns = lists.columns(present, outputs)
        differentiated, given = lists.call, {**present, **lists.named(columns, present)}
    same = lists is None and all(o.dtype == present[n].dtype for n in asked for o in outputs)
    backward = backward_of(differentiated, frozenset(given), tuple(asked), outputs=same)
    kept: tuple[str | int, ...] = (
        *(n for n in present if n in backward.inputs), *sorted(backward.outputs))
    saved = [outputs[k] if isinstance(k, int) else present[k] for k in kept]
    return Left(backward.wanted, kept, saved + columns)


@dataclass(frozen=True, eq=False)
class Task:
    """A gradient to be found: by these inputs, from what a call left."""

    call: Call
    wanted: tuple[str, ...]
    kept: frozenset[str]  # the inputs whose values are there
    arrays: Mapping[str, Any]  # all inputs; of those that are not kept, shape and type
    outputs: Mapping[int, Any]  # results that are kept
    columns: Sequence[Any]  # of the call's top-Ks
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
        call, arrays, cotangents = self.call, dict(self.arrays), self.cotangents
        lists = lists_of(call, arrays, framework)
        if lists is not None:
            cotangents = lists.cotangents(cotangents, arrays)
            arrays |= lists.named(self.columns, arrays)
            call = lists.call
        backward = backward_of(call, frozenset(arrays), self.wanted, outputs=bool(self.outputs))
        if not (backward.inputs & {*self.arrays} <= self.kept
                and backward.outputs <= {*self.outputs}):
            raise RuntimeError(f"the text of {self.call.pipeline.name} has changed between a call "
                               "and its gradient")
        return gradients(call, backward, arrays, self.outputs, cotangents, framework)
