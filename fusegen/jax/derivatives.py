"""Gradients of calls under JAX's transforms, by the pipelines that fg.grad derives.

A call's tangents are those of one linear operation: what it reads of the call is what JAX keeps for
the backward pass. Its transpose is made of calls again, so that second derivatives, and tangents
themselves, are had in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import jax
from jax import numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from fusegen.ir.errors import ArgumentError
from fusegen.jax import shapes
from fusegen.jax.asked import Asked
from fusegen.jax.operators import CALL, bind
from fusegen.jax.parted import ASKING, aligned, spec_of, typed_like, zeros_in_parts
from fusegen.lang.signature import constants_key
from fusegen.library.calls.left import Task, left_by
from fusegen.library.calls.vector_left import VectorLeft

TANGENTS = Primitive("fusegen_tangents")
TANGENTS.multiple_results = True

Kind = tuple[tuple[int, ...], Any]  # shape and type of an array


@dataclass(frozen=True)
class Linear:
    """Of one call: which of its inputs have tangents, and what is kept of it."""

    asked: Asked
    wanted: tuple[str, ...]
    kept: tuple[str | int, ...]
    n_saved: int  # operands before the tangents
    like: tuple[Kind, ...]  # inputs
    outputs: tuple[Kind, ...]
    floats: tuple[int, ...]  # positions of the outputs that have tangents
    numbers: tuple[Any, ...]  # of the call
    parts: tuple[Any, ...]  # of the outputs, on a mesh whose axes are explicit

    def __repr__(self) -> str:
        return f"{self.asked} by {', '.join(self.wanted)}"


def _differentiated(
    primals: Sequence[Any], tangents: Sequence[Any], *, asked: Asked
) -> tuple[list[Any], list[Any]]:
    """The rule of jvp: results and their tangents."""
    given, moves = asked.named(primals), asked.named(tangents)
    names = tuple(n for n, t in moves.items() if not isinstance(t, ad.Zero))
    joint = left_by(asked.call, given, names, outputs=True, framework=shapes) \
        if asked.pipeline.vectors else None
    extra: Sequence[Any] = ()
    if isinstance(joint, VectorLeft) and joint.joint:
        outputs, extra = joint.made(asked.call.constants, given)
    else:
        outputs = bind(asked, primals[: len(asked.names)])
    found: list[Any] = [ad.Zero(jax.typeof(o).to_tangent_aval()) for o in outputs]
    floats = tuple(i for i, o in enumerate(outputs) if jnp.issubdtype(o.dtype, jnp.floating))
    same = all(o.dtype == given[n].dtype for n in names for o in outputs)
    left = joint or (left_by(asked.call, given, names, outputs=same, framework=shapes)
                     if floats and names else None)
    if left is None:
        return outputs, found
    saved = [*left.saved(asked.call.constants, given, outputs), *extra]
    inputs = tuple(map(_kind, primals[: len(asked.names)]))
    linear = Linear(asked, left.wanted, left.kept, len(saved), inputs, tuple(map(_kind, outputs)),
                    floats, constants_key(asked.call.constants),
                    tuple(spec_of(jax.typeof(o)) for o in outputs))
    operands = aligned([*saved, *(moves[n] for n in left.wanted)])
    made = TANGENTS.bind(*operands, linear=linear)
    for i, tangent in zip(floats, made, strict=True):
        found[i] = tangent
    return outputs, found


def _kind(array: Any) -> Kind:
    return tuple(array.shape), array.dtype


def _abstract(*operands: Any, linear: Linear) -> list[Any]:
    return [typed_like(operands[0], *linear.outputs[i], linear.parts[i]) for i in linear.floats]


# ---- reverse mode ----


def _transposed(cotangents: Sequence[Any], *operands: Any, linear: Linear) -> list[Any]:
    """Gradients by the inputs, None for what was saved."""
    saved = operands[: linear.n_saved]
    found = _gradients([ad.instantiate_zeros(c) for c in cotangents], saved, linear)
    return [*[None] * len(saved), *found]


def _gradients(cotangents: Sequence[Any], saved: Sequence[Any], linear: Linear) -> list[Any]:
    """By the inputs that are wanted, from the cotangents of the outputs of floats."""
    every: list[Any] = [None] * len(linear.outputs)
    for i, cotangent in zip(linear.floats, cotangents, strict=True):
        every[i] = cotangent
    like = {n: jnp.zeros(*kind) for n, kind in zip(linear.asked.names, linear.like, strict=True)
            if n not in linear.kept}
    task = Task.of(linear.asked.call, linear.wanted, linear.kept, saved, like, every)
    found = task.found(shapes)
    return [found[n] for n in linear.wanted]


# ---- forward mode: what takes cotangents to gradients is linear, and its transpose takes tangents
# to tangents ----


def _tangents(*operands: Any, linear: Linear) -> list[Any]:
    saved = operands[: linear.n_saved]

    def backwards(*cotangents: Any) -> tuple[Any, ...]:
        return tuple(_gradients(cotangents, saved, linear))

    zeros = [zeros_in_parts(*linear.outputs[i], linear.parts[i]) for i in linear.floats]
    _, forwards = jax.vjp(backwards, *zeros)
    return list(forwards(operands[linear.n_saved :]))


@partial(jax.jit, static_argnums=0)
def _run(linear: Linear, *operands: Any) -> list[Any]:
    return _tangents(*operands, linear=linear)


def _eager(*operands: Any, linear: Linear) -> list[Any]:
    with jax.disable_jit(False):
        return _run(linear, *operands)  # type: ignore[no-any-return]


def _tangents_mapped(operands: Sequence[Any], dims: Sequence[Any], *, linear: Linear) -> Any:
    found = jax.vmap(partial(_tangents, linear=linear), tuple(dims))(*operands)
    return found, [0] * len(found)


def _tangents_differentiated(
    primals: Sequence[Any], tangents: Sequence[Any], *, linear: Linear
) -> Any:
    moves = tuple(map(ad.instantiate_zeros, tangents))
    return jax.jvp(partial(_tangents, linear=linear), tuple(primals), moves)


def _not_linear(*_: Any, asked: Asked) -> NoReturn:
    raise ArgumentError(f"{asked.pipeline.name} is not linear, as JAX's transpose takes it to be",
                        fix="Take jax.vjp of the function, not linear_transpose of its jvp.")


ASKING.add(TANGENTS)
TANGENTS.def_abstract_eval(_abstract)
TANGENTS.def_impl(_eager)
ad.primitive_jvps[CALL] = _differentiated
ad.primitive_transposes[CALL] = _not_linear
ad.primitive_transposes[TANGENTS] = _transposed
ad.primitive_jvps[TANGENTS] = _tangents_differentiated
batching.primitive_batchers[TANGENTS] = _tangents_mapped
mlir.register_lowering(TANGENTS, mlir.lower_fun(_tangents, multiple_results=True))
