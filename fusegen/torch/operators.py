"""Pipelines in torch's registry: operators `fusegen::name`, with all that torch asks of its own.

    kernel            the pipeline itself, on CPUs and GPUs
    without memory    shapes and types from the pipeline's own inference, sizes may be symbols
    gradient          fg.grad's pipelines, which are operators too
    vmap              one more axis of rows
    autocast          fusegen.torch.policy
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fusegen.backend.registry import memories
from fusegen.ir.errors import ArgumentError
from fusegen.ir.names import Taken, identifier
from fusegen.ir.nesting import flatten
from fusegen.ir.shared import Lock
from fusegen.lang.signature import REQUIRED
from fusegen.library.calls.backward import Call
from fusegen.library.calls.batched import batched
from fusegen.pipeline.pipeline import Pipeline
from fusegen.torch import shapes
from fusegen.torch.overloads import NAMESPACE, Kind, axis_in, axis_out, schema, suffix, words
from fusegen.torch.policy import widened
from fusegen.torch.recorded import is_recorded, recorded
from fusegen.torch.reverse import Dispatched, computing, register_backward, register_with_more
from fusegen.torch.shapes import results

LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_LOCK = Lock()
_NAMES: dict[str, Pipeline] = {}  # whose an operator's name is, for as long as the process lives
_OPERATORS: dict[Pipeline, dict[Any, Operator]] = {}


class Operator:
    """One entry of torch's registry: a pipeline, for calls of one kind."""

    def __init__(self, pipeline: Pipeline, kind: Kind, name: str) -> None:
        self.pipeline, self.kind, self.name = pipeline, kind, name
        self.words = {n: w for n, w in words(pipeline).items() if n in dict(kind.classes)}
        _register(self)
        register_backward(LIBRARY, self)
        if pipeline.vectors:
            register_with_more(LIBRARY, self)
        self.packet = getattr(getattr(torch.ops, NAMESPACE), name).default

    def named(self, call: Call) -> dict[str, Any]:
        """The operator's keyword arguments for a call."""
        return {w: call.constants[n] for n, w in self.words.items()} | {
            "axis": axis_in(call.axis), "keepdims": call.keepdims, "form": call.form,
            "deterministic": call.deterministic} | (
            {"precision": call.precision} if self.pipeline.vectors else {})

    def call(self, named: Mapping[str, Any]) -> Call:
        """The call that keyword arguments ask for."""
        constants = dict(self.pipeline.signature.constants) | dict(self.kind.fixed)
        constants |= {n: named[w] for n, w in self.words.items() if w in named}
        return Call(self.pipeline, constants, axis_out(named.get("axis", [-1])),
                    named.get("keepdims", False), named.get("form", "auto"),
                    named.get("deterministic", False), named.get("precision", "float32"))


def _register(operator: Operator) -> None:
    name, n_outputs = operator.name, operator.kind.n_outputs
    qualified = f"{NAMESPACE}::{name}"

    def kernel(*arrays: Any, **named: Any) -> Any:
        call = operator.call(named)
        with computing():
            found = call.run(arrays)
        return _flat(call, arrays, found, n_outputs)

    def fake(*arrays: Any, **named: Any) -> Any:
        call = operator.call(named)
        present = {n: a for n, a in zip(call.pipeline.signature.arrays, arrays, strict=False)
                   if a is not None}
        found = results(call, present)
        return found[0] if n_outputs == 1 else tuple(found)

    def mapped(info: Any, in_dims: Any, *arrays: Any, **named: Any) -> Any:
        found, dims = batched(operator.call(named), info.batch_size, in_dims, arrays, shapes)
        return (found[0], dims[0]) if n_outputs == 1 else (tuple(found), tuple(dims))

    LIBRARY.define(f"{name}{schema(operator.pipeline, operator.kind)}",
                   tags=(torch.Tag.pt2_compliant_tag,))
    for device in (memory.name.upper() for memory in memories()):
        LIBRARY.impl(name, kernel, device)
        LIBRARY.impl(name, _Autocast(operator, f"Autocast{device}"), f"Autocast{device}")
    torch.library.register_fake(qualified, fake, lib=LIBRARY)
    LIBRARY.impl(name, _Autograd(operator), "Autograd", with_keyset=True)
    torch.library.register_vmap(qualified, mapped, lib=LIBRARY)


def operator_for(pipeline: Pipeline, constants: Mapping[str, Any], n_outputs: int) -> Operator:
    """The operator for calls of this kind; registered when it is first asked for."""
    with _LOCK.held():
        known = _OPERATORS.setdefault(pipeline, {})
        kind = Kind.of(constants, n_outputs)
        found = known.get(kind.key())
        if found is None:
            name = _named(pipeline) + suffix(kind, _usual(pipeline, kind))
            found = known[kind.key()] = Operator(pipeline, kind, name)
        return found


def name_it(pipeline: Pipeline, name: str) -> None:
    """What the pipeline's operators are called. Raises ArgumentError for what is taken."""
    plain = name.removeprefix(f"{NAMESPACE}::")
    if identifier(plain) != plain:
        raise ArgumentError(f"{name!r} is no name of an operator",
                            fix=f"Letters, digits and underscores: {identifier(plain)!r}.")
    with _LOCK.held():
        if _NAMES.setdefault(plain, pipeline) is not pipeline:
            raise ArgumentError(f"another pipeline has the name {NAMESPACE}::{plain}",
                                why="torch's registry keeps it as long as the process lives.",
                                fix="Choose another name=.")
        mine = next((n for n, p in _NAMES.items() if p is pipeline), plain)
        if mine != plain:
            raise ArgumentError(f"{pipeline.name} is registered as {NAMESPACE}::{mine}")


def _named(pipeline: Pipeline) -> str:
    """The name that it was given, or else its own, told apart by a number."""
    mine = next((n for n, p in _NAMES.items() if p is pipeline), None)
    if mine is None:
        mine = Taken(_NAMES).free(identifier(pipeline.name))
        _NAMES[mine] = pipeline
    return mine


def _usual(pipeline: Pipeline, kind: Kind) -> Kind:
    """The kind of calls that leave every constant at its default."""
    defaults = {n: v for n, v in pipeline.signature.constants.items() if v is not REQUIRED}
    return Kind.of(defaults, kind.n_outputs)


class _Autograd:
    """An operator's part in torch's autograd."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def __call__(self, keys: Any, *arrays: Any, **named: Any) -> Any:
        operator = self.operator
        given = [*arrays, *[None] * (len(operator.pipeline.signature.arrays) - len(arrays))]

        made = Dispatched(operator, keys, named)
        found = recorded(operator.call(named), made, given) if is_recorded(given) else \
            made.run(*given)
        return found[0] if operator.kind.n_outputs == 1 else tuple(found)


class _Autocast:
    """An operator's part in torch's autocast: see fusegen.torch.policy."""

    def __init__(self, operator: Operator, key: str) -> None:
        self.operator = operator
        self.keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        operator = self.operator
        pipeline, call = widened(operator.pipeline, arrays), operator.call(named)
        with torch._C._ExcludeDispatchKeyGuard(self.keys):
            if pipeline is operator.pipeline:
                return operator.packet(*arrays, **named)
            wide = operator_for(pipeline, call.constants, operator.kind.n_outputs)
            return wide.packet(*arrays, **wide.named(call))


def _flat(call: Call, arrays: Sequence[Any], found: Any, n_outputs: int) -> Any:
    graph = call.traced([*arrays, *[None] * (len(call.pipeline.signature.arrays) - len(arrays))])
    outputs = [o.contiguous() for o in flatten(graph.structure, found, len(graph.outputs))]
    if len(outputs) != n_outputs:
        raise RuntimeError(f"{call.pipeline.name} has {len(outputs)} results here, "
                           f"its operator {n_outputs}")
    return outputs[0] if n_outputs == 1 else tuple(outputs)
