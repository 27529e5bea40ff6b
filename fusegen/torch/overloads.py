"""What torch's registry knows of a pipeline: names, schemas, and what a call fixes beside them.

Tensors stand first, `Tensor?` where a pipeline can do without. Constants that are numbers, words
and flags are arguments of the operator, by keyword; others (tuples, enumerations) are part of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusegen.ir.names import Taken, identifier
from fusegen.lang.signature import REQUIRED, constants_key
from fusegen.pipeline.pipeline import Pipeline

NAMESPACE = "fusegen"
_WORDS = {bool: "bool", int: "int", float: "float", str: "str"}
OPTIONS = ("axis", "keepdims", "form", "deterministic", "precision", "text")
_OPTIONS = ("int[1] axis=-1", "bool keepdims=False", "str form='auto'",
            "bool deterministic=False")
_OF_VECTORS = "str precision='float32'"  # of pipelines that multiply some
_TEXT = "str text=''"
"""text: what the pipeline's text was when a graph was made, which torch keeps on disk under all
that stands in it; nothing else reads it."""


@dataclass(frozen=True)
class Kind:
    """What calls of one operator have in common: the classes of its arguments, what is fixed, and
    how many results there are."""

    classes: tuple[tuple[str, type], ...]  # of the constants that are arguments
    fixed: tuple[tuple[str, Any], ...]
    n_outputs: int

    @staticmethod
    def of(constants: Mapping[str, Any], n_outputs: int) -> Kind:
        passed = {n: type(v) for n, v in constants.items() if type(v) in _WORDS}
        fixed = {n: v for n, v in constants.items() if n not in passed}
        return Kind(tuple(passed.items()), tuple(fixed.items()), n_outputs)

    def key(self) -> tuple[Any, ...]:
        return self.classes, constants_key(dict(self.fixed)), self.n_outputs


def words(pipeline: Pipeline) -> dict[str, str]:
    """Names of constants as a schema can have them: ASCII, and each once."""
    taken = Taken((*pipeline.signature.arrays, *OPTIONS))
    return {n: taken.free(identifier(n)) for n in pipeline.signature.constants}


def schema(pipeline: Pipeline, kind: Kind) -> str:
    """`(Tensor x, Tensor? weight=None, *, float eps=1e-05, …) -> Tensor`."""
    signature, taken = pipeline.signature, Taken()
    tensors = [
        f"Tensor? {taken.free(identifier(n))}=None" if n in signature.optional
        else f"Tensor {taken.free(identifier(n))}" for n in signature.arrays
    ]
    results = ["Tensor"] * kind.n_outputs
    returned = results[0] if kind.n_outputs == 1 else f"({', '.join(results)})"
    return f"({', '.join([*tensors, '*', *_keywords(pipeline, kind)])}) -> {returned}"


def backward_schema(pipeline: Pipeline, kind: Kind) -> str:
    """Cotangents of all outputs, all inputs (of those not in `kept` only shape and type), outputs
    at `positions`, columns of lists, to gradients of `wanted`."""
    tensors = ("Tensor[] cotangents, Tensor?[] arrays, Tensor[] outputs, Tensor[] columns",
               "str[] wanted", "str[] kept", "int[] positions", "*")
    return f"({', '.join([*tensors, *_keywords(pipeline, kind)])}) -> Tensor[]"


def with_more_schema(pipeline: Pipeline, kind: Kind) -> str:
    """All inputs and those that gradients are wanted by, to flat results and what these ask for."""
    words = ("Tensor?[] arrays", "str[] wanted", "*", *_keywords(pipeline, kind))
    return f"({', '.join(words)}) -> Tensor[]"


def _keywords(pipeline: Pipeline, kind: Kind) -> list[str]:
    spelled, defaults = words(pipeline), pipeline.signature.constants
    own = [_argument(spelled[n], cls, defaults[n]) for n, cls in kind.classes]
    return [*own, *_OPTIONS, *([_OF_VECTORS] if pipeline.vectors else []), _TEXT]


def _argument(word: str, cls: type, default: Any) -> str:
    shown = f"{_WORDS[cls]} {word}"
    if default is REQUIRED or type(default) is not cls:
        return shown
    plain = r"[\w .-]*" if cls is str else r"True|False|[-\w.+]*\d[-\w.+]*"
    text = str(default)
    return f"{shown}={default!r}" if re.fullmatch(plain, text, re.ASCII) else shown


def suffix(kind: Kind, usual: Kind) -> str:
    """What tells an operator from the one for the defaults; the same in all processes."""
    if kind.key() == usual.key():
        return ""
    told = [(n, c.__name__) for n, c in kind.classes], kind.key()[1], kind.n_outputs
    return f"_{hashlib.sha256(repr(told).encode()).hexdigest()[:8]}"


def axis_in(axis: Any) -> list[int]:
    """axis= as the operator takes it: none at all stands for all of them."""
    return [] if axis is None else list(axis) if isinstance(axis, tuple | list) else [axis]


def axis_out(axis: list[int]) -> int | tuple[int, ...] | None:
    return None if not axis else axis[0] if len(axis) == 1 else tuple(axis)
