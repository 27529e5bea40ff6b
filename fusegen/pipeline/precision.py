"""What a text and its call must be for `precision=` to mean something."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fusegen.ir.dtypes import DType
from fusegen.ir.errors import ArgumentError, DTypeError
from fusegen.ir.forms import check_precision
from fusegen.pipeline.variants import Choices

_WHY = "It says how dots of float32 vectors are made."


def without_vectors(name: str, precision: str) -> ArgumentError:
    """What is said of a text that has none."""
    return ArgumentError(
        f"{name} was called with precision={precision!r}, and multiplies no vectors", why=_WHY,
        fix="Leave it out, or annotate inputs fg.RowVector, fg.ColumnVector.")


def held(name: str, vectors: Collection[str], precision: str) -> dict[str, str]:
    """What calls get of a function or a layer that was given a precision. Raises ArgumentError."""
    if check_precision(precision) == "float32":
        return {}
    if not vectors:
        raise without_vectors(name, precision)
    return {"precision": precision}


def means_something(vectors: Mapping[str, DType]) -> bool:
    """Are some of these float32 vectors?"""
    return any(d.number.name == "float32" for d in vectors.values())


def check_use(name: str, choices: Choices, vectors: Mapping[str, DType]) -> None:
    """Raises ArgumentError, DTypeError where a precision that was asked for would mean nothing.
    vectors: types by the inputs' names."""
    asked, why = f"{name} was called with precision={choices.precision!r}", _WHY
    if not vectors:
        raise without_vectors(name, choices.precision)
    if not means_something(vectors):
        types = ", ".join(f"{n} {d.number.name}" for n, d in vectors.items())
        raise DTypeError(f"{asked}, and has no vectors of float32: {types}", why=why,
                         fix="Leave it out: products of 16-bit vectors are exact, others float64.")
    if choices.deterministic:
        raise ArgumentError("precision and deterministic exclude one another",
                            why="Few rows are multiplied in float32, many by tensor cores.")
