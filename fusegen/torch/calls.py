"""Calls that torch has to see, made: recorded in eager mode, by operators wherever torch traces.

In eager mode without gradients there is nothing here: `Pipeline.__call__` runs the kernel, past
torch's dispatcher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fusegen.backend.arrays.adopt import check_places
from fusegen.backend.host.readers import torch_watcher
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError
from fusegen.ir.nesting import nest
from fusegen.lang.words import TopK
from fusegen.library.calls.backward import Call
from fusegen.pipeline.by_torch import ARRAY, NUMBER, Entry, Rest, is_disguised
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.precision import without_vectors
from fusegen.pipeline.remembered import MISS
from fusegen.torch.operators import operator_for
from fusegen.torch.overloads import axis_in
from fusegen.torch.policy import widened
from fusegen.torch.recorded import is_recorded, record
from fusegen.torch.tape import Tape

_PLAIN = (torch.Tensor, torch.nn.Parameter)
register_namedtuple = torch.utils._pytree._register_namedtuple
register_namedtuple(TopK, serialized_type_name="fusegen.TopK")  # exported programs return it


def call(
    pipeline: Pipeline, arrays: Sequence[Any], named: dict[str, Any], out: Any, rest: Rest
) -> Any:
    """The results; MISS where eager mode has nothing to record."""
    if torch._C._is_any_autocast_enabled() and not torch._C._len_torch_dispatch_stack():
        tensors = [a for a in (*arrays, *named.values()) if isinstance(a, torch.Tensor)]
        if not any(map(is_disguised, tensors)):
            asked = widened(pipeline, tensors)
            with torch._C._DisableAutocast():  # it has been done: calls are remembered from here
                return asked(*arrays, **named, **_options(out, rest))
    eager = out is None and torch.is_grad_enabled() and not _is_watched()
    key = _spelled(pipeline, arrays, named, rest) if eager else None
    tape = None if key is None else pipeline.traces.kinds.find(
        key, {**pipeline.signature.constants, **named})
    if tape is not None:
        return record(tape, tape.constants(named), _in_order(pipeline, arrays, named))
    present, constants = pipeline.bind(tuple(arrays), named)
    tensors = [a for a in present.values() if isinstance(a, torch.Tensor)]
    traced = any(map(is_disguised, tensors)) or torch._C._len_torch_dispatch_stack() > 0 \
        or torch._C._is_tracing()
    if not traced and not is_recorded(tensors):
        return MISS
    traced = traced or torch._C._are_functorch_transforms_active()  # recorded further out
    given = [_tensor(n, present.get(n), tensors[0]) for n in pipeline.signature.arrays]
    if traced:
        _, made = entry(pipeline, [None if a is None else ARRAY for a in given], constants)
        return made(given, constants, out, rest)
    if out is not None:
        raise ArgumentError("out= has no gradient", why="A tensor requires one.",
                            fix="Leave out= away, or call under torch.no_grad().")
    axis, form, _, deterministic, keepdims, precision = rest
    asked_for = Call(pipeline, constants, axis, keepdims, form, deterministic, precision)
    tape = Tape(asked_for, given, [isinstance(a, torch.Tensor) and a.requires_grad
                                   for a in given], again=key is not None)
    found = record(tape, constants, given)
    key = _spelled(pipeline, arrays, named, rest) if key is not None else None  # constants settle
    if key is not None:
        pipeline.traces.kinds.put(key, asked_for.of(present), tape)
    return found


def _is_watched() -> bool:
    """Do modes, autocast or transforms have to see operations of this thread?"""
    return torch_watcher()() or torch._C._are_functorch_transforms_active()


def _spelled(
    pipeline: Pipeline, arrays: Sequence[Any], named: Mapping[str, Any], rest: Rest
) -> Any:
    """All that the recording of a call depends on; None where only a full look can tell."""
    names = pipeline.signature.arrays
    key: list[Any] = [rest]
    constants = named
    if any(n in names for n in named):
        arrays = _in_order(pipeline, arrays, named)
        constants = {n: v for n, v in named.items() if n not in names}
    for array in arrays:
        if array is None:
            key.append(None)
        elif type(array) in _PLAIN:
            key.append((array.shape, array.dtype, array.device, array.requires_grad))
        else:
            return None
    try:
        key += pipeline.traces.alike(constants)
        found = tuple(key)
        hash(found)
    except TypeError:  # a constant that cannot be a key: the full look says which
        return None
    return found


def _in_order(
    pipeline: Pipeline, arrays: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """Every array of the signature, None for those that are not there."""
    names = pipeline.signature.arrays
    return [*arrays, *[named.get(n) for n in names[len(arrays) :]]]


def _options(out: Any, rest: Rest) -> dict[str, Any]:
    words = ("axis", "form", "device", "deterministic", "keepdims", "precision")
    return {"out": out, **dict(zip(words, rest, strict=True))}


def _tensor(name: str, array: Any, like: Any) -> Any:
    """Other arrays beside tensors, as tensors."""
    return array if array is None or isinstance(array, torch.Tensor) else \
        torch.as_tensor(array, device=like.device)


# ---- by operators ----


def entry(
    pipeline: Pipeline, arrays: Sequence[Any], named: Mapping[str, Any]
) -> tuple[str, Entry]:
    """What makes calls with these arrays there and these constants: see `by_torch.Helper.entry`.

    A NUMBER counts as its default, or 1.0: only how results are nested may not depend on it."""
    told = {n: v for n, v in named.items() if v is not NUMBER}
    numbers = {n for n, v in named.items() if v is NUMBER}
    usual = pipeline.signature.constants
    told |= {n: usual[n] if type(usual.get(n)) is float else 1.0 for n in numbers}
    for name, value in told.items():
        if value == ARRAY and name in usual and not isinstance(usual[name], str):
            raise pipeline.signature.array_as_constant(name, "Tensor")
    present, constants = pipeline.bind(tuple(arrays), told)
    traced = pipeline.traced(frozenset(present), constants)
    graph, text = traced.graph, traced.digest[:16]
    operator = operator_for(pipeline, constants, len(graph.outputs))
    names = pipeline.signature.arrays
    packet, words, structure = operator.packet, operator.words, graph.structure
    has_vectors = bool(pipeline.vectors)
    no_vectors = str(without_vectors(pipeline.name, "…"))

    def made(arrays: Sequence[Any], named: dict[str, Any], out: Any, rest: Rest) -> Any:
        axis, form, _, deterministic, keepdims, precision = rest
        given = [*arrays, *[named.get(n) for n in names[len(arrays):]]]
        keywords = {words[n]: v for n, v in named.items() if n in words}
        if has_vectors:
            keywords["precision"] = precision
        elif precision != "float32":
            raise RuntimeError(no_vectors)
        found = packet(*given, **keywords, axis=axis_in(axis), keepdims=keepdims, form=form,
                       deterministic=deterministic, text=text)
        results = nest(structure, list(found) if isinstance(found, tuple | list) else [found])
        return results if out is None else _written(structure, results, out)

    shown = "".join("01"[n in present] for n in names)
    return f"{operator.name}_{shown}_{_shape_of(structure)}_{text}", made


def _shape_of(structure: g.Structure) -> str:
    return f"{hash(repr(structure)) & 0xFFFFFFFF:x}"


def _written(structure: g.Structure, results: Any, out: Any) -> Any:
    """Results in the caller's memory, which is what the call returns."""
    if isinstance(structure, int):
        check_places({"out": out.device, "the result": results.device})
        return out.copy_(results)
    keys = structure if isinstance(structure, dict) else range(len(structure))
    for key in keys:
        if out[key] is not None:
            _written(structure[key], results[key], out[key])
    return out
