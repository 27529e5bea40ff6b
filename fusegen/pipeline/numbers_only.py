"""What is made for inputs of numbers alone, and refused where a pipeline has vectors."""

from __future__ import annotations

from typing import Any

from fusegen.ir.errors import PipelineError


def check_numbers(pipeline: Any, what: str, instead: str = "") -> None:
    """Raises PipelineError for a pipeline that has inputs of vectors."""
    if pipeline.vectors:
        names = ", ".join(sorted(pipeline.vectors))
        raise PipelineError(
            f"there is no {what} of {pipeline.name}", fix=instead,
            why=f"Its inputs {names} hold vectors, for which there are calls on the CPU alone.",
        )
