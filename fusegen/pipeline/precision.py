"""What a text and its call must be for `precision=` to mean something."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.ir.dtypes import DType
from fusegen.ir.errors import ArgumentError, DTypeError
from fusegen.pipeline.variants import Choices


def check_use(name: str, choices: Choices, vectors: Mapping[str, DType]) -> None:
    """Raises ArgumentError, DTypeError where a precision that was asked for would mean nothing.
    vectors: types by the inputs' names."""
    asked = f"{name} was called with precision={choices.precision!r}"
    why = "It says how dots of float32 vectors are made."
    if not vectors:
        raise ArgumentError(f"{asked}, and multiplies no vectors", why=why,
                            fix="Leave it out, or annotate inputs fg.RowVector, fg.ColumnVector.")
    if all(d.number.name != "float32" for d in vectors.values()):
        types = ", ".join(f"{n} {d.number.name}" for n, d in vectors.items())
        raise DTypeError(f"{asked}, and has no vectors of float32: {types}", why=why,
                         fix="Leave it out: products of 16-bit vectors are exact, others float64.")
    if choices.deterministic:
        raise ArgumentError("precision and deterministic exclude one another",
                            why="Few rows are multiplied in float32, many by tensor cores.")
