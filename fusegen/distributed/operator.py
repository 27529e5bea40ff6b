"""Calls that torch.compile reads: one operator, `fusegen::sharded`, no graph break.

A graph holds a word for the call, with the numbers that may vary beside it; graphs are of this
process, as its groups are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from fusegen.backend.arrays.results import result_shape
from fusegen.backend.arrays.rows import rows_of
from fusegen.distributed.gradients import backward_of
from fusegen.distributed.vector_gradients import Step
from fusegen.ir import graph as g
from fusegen.ir.dtypes import dtype_of
from fusegen.ir.nesting import flatten, nest
from fusegen.library.calls.framework import types_in
from fusegen.pipeline.variants import Choices

Entry = Callable[[Sequence[Any], Sequence[float]], Any]
_NUMBER = "number"  # in place of a float, which is an argument of the operator


class Called(Step, Protocol):
    """What is called: a Sharded."""

    def called(self, *arrays: Any, at: int | None, columns: int | None, **named: Any) -> Any: ...


@dataclass(frozen=True, eq=False)
class _Known:
    """What a word stands for."""

    step: Called
    structure: g.Structure
    constants: Mapping[str, Any]
    at: int | None
    columns: int | None

    def with_numbers(self, numbers: Sequence[float]) -> dict[str, Any]:
        given = iter(numbers)
        return {n: next(given) if v is _NUMBER else v for n, v in self.constants.items()}


class _Entries:
    """Functions for torch.compile, as attributes: it guards them by where it found them."""


_ENTRIES = _Entries()
_KNOWN: dict[str, _Known] = {}


def in_graph(
    step: Any, arrays: Sequence[Any], named: Mapping[str, Any], at: int | None, columns: int | None
) -> Any:
    """The call as torch.compile reads it."""
    names = step.names
    given = [*arrays, *[named.get(n) for n in names[len(arrays) :]]]
    rest = {n: v for n, v in named.items() if n not in names}
    there = [a is not None for a in given]
    values = [_NUMBER if type(v) is float else operator.index(v) if type(v) is int else v
              for v in rest.values()]
    word = step.graph_entry(step.identity, len(there), *there, at, columns, *rest, *values)
    return getattr(_ENTRIES, word)(given, [v for v in rest.values() if type(v) is float])


def entry_of(step: Called, n_arrays: int, told: Sequence[Any]) -> str:
    """The name in _ENTRIES of what makes calls like this one. told: which arrays are there; at and
    columns; names of constants; a value for each name."""
    there, (at, columns), rest = told[:n_arrays], told[n_arrays : n_arrays + 2], told[n_arrays + 2:]
    names, values = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    constants = dict(zip(names, values, strict=True))
    pipeline = step.pipeline
    present = frozenset(n for n, here in zip(pipeline.signature.arrays, there, strict=True) if here)
    usual = {n: 1.0 if v is _NUMBER else v for n, v in constants.items()}
    graph = pipeline.traced(present, pipeline.signature.bind_constants(usual)).graph
    word = f"call_{len(_KNOWN)}"
    _KNOWN[word] = _Known(step, graph.structure, constants, at, columns)
    structure, packet = graph.structure, torch.ops.fusegen.sharded.default

    def made(arrays: Sequence[Any], numbers: Sequence[float]) -> Any:
        return nest(structure, packet(arrays, numbers, word))

    setattr(_ENTRIES, word, made)
    return word


def _kernel(arrays: Sequence[Any], numbers: Sequence[float], word: str) -> list[Any]:
    known = _KNOWN[word]
    with torch.no_grad():
        found = known.step.called(*arrays, at=known.at, columns=known.columns,
                                  **known.with_numbers(numbers))
    n = 1 if isinstance(found, torch.Tensor) else _leaves(known.structure)
    return [f.contiguous() for f in flatten(known.structure, found, n)]


def _leaves(structure: g.Structure) -> int:
    if isinstance(structure, int):
        return 1
    return sum(map(_leaves, structure.values() if isinstance(structure, dict) else structure))


def _fake(arrays: Sequence[Any], numbers: Sequence[float], word: str) -> list[Any]:
    """Row values and lists of the rows; full rows as wide as the shard."""
    known = _KNOWN[word]
    pipeline = known.step.pipeline
    present = {n: a for n, a in zip(pipeline.signature.arrays, arrays, strict=False)
               if a is not None}
    constants = pipeline.signature.bind_constants(known.with_numbers(numbers))
    dtypes = types_in(pipeline.vectors, present,
                      lambda t: dtype_of(str(t.dtype).removeprefix("torch.")))
    variants = pipeline.of_types(dtypes, constants, Choices())
    shapes = {n: tuple(map(int, a.shape)) for n, a in present.items()}
    rows = rows_of(variants.graph.inputs, shapes, -1, piece=True)
    like = next(iter(present.values()))
    return [like.new_empty(result_shape(p, rows), dtype=getattr(torch, p.dtype.name))
            for p in variants.program.outputs]


# ---- its gradient, an operator too ----


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Any]) -> None:
    arrays, numbers, word = inputs
    ctx.save_for_backward(*arrays)
    ctx.rest = numbers, word, [(o.shape, o.dtype) for o in output]


def _backward(ctx: Any, cotangents: Sequence[Any]) -> Any:
    numbers, word, like = ctx.rest
    arrays = ctx.saved_tensors
    there = next(a for a in arrays if a is not None)
    given = [there.new_zeros(shape, dtype=dtype) if c is None else c
             for c, (shape, dtype) in zip(cotangents, like, strict=True)]
    asked = [a is not None and bool(n)
             for a, n in zip(arrays, ctx.needs_input_grad[0], strict=True)]
    found = iter(torch.ops.fusegen.sharded_backward.default(given, arrays, asked, numbers, word))
    return [next(found) if a else None for a in asked], [None] * len(numbers), None


def _gradients(
    cotangents: Sequence[Any], arrays: Sequence[Any], asked: Sequence[bool],
    numbers: Sequence[float], word: str,
) -> list[Any]:
    """Of the inputs asked for; 0 of those that nothing moves with."""
    known = _KNOWN[word]
    pipeline = known.step.pipeline
    names = pipeline.signature.arrays
    present = {n: a for n, a in zip(names, arrays, strict=False) if a is not None}
    constants = pipeline.signature.bind_constants(known.with_numbers(numbers))
    wanted = [n for n, a in zip(names, asked, strict=False) if a]
    with torch.no_grad():
        backward = backward_of(known.step, present, constants, wanted)
        found = backward.gradients([c.contiguous() for c in cotangents], present, constants,
                                   known.at, known.columns)
    return [found[n].contiguous() if n in found else torch.zeros_like(present[n]) for n in wanted]


def _fake_gradients(
    cotangents: Sequence[Any], arrays: Sequence[Any], asked: Sequence[bool],
    numbers: Sequence[float], word: str,
) -> list[Any]:
    return [a.new_empty(a.shape) for a, wanted in zip(arrays, asked, strict=True) if wanted]


_library = torch.library.Library("fusegen", "FRAGMENT")
_library.define("sharded(Tensor?[] arrays, float[] numbers, str call) -> Tensor[]",
                tags=(torch.Tag.pt2_compliant_tag,))
_library.impl("sharded", _kernel, "CompositeExplicitAutograd")
torch.library.register_fake("fusegen::sharded", _fake, lib=_library)
_library.define("sharded_backward(Tensor[] cotangents, Tensor?[] arrays, bool[] asked, "
                "float[] numbers, str call) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
_library.impl("sharded_backward", _gradients, "CompositeExplicitAutograd")
torch.library.register_fake("fusegen::sharded_backward", _fake_gradients, lib=_library)
torch.library.register_autograd("fusegen::sharded", _backward, setup_context=_remember,
                                lib=_library)
