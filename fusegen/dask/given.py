"""The arrays of a call, as Dask's, checked before a graph is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dask.array as da
import numpy as np

from fusegen.backend.arrays.adopt import adopt
from fusegen.ir.errors import ArgumentError, ShapeError
from fusegen.pipeline.states.pieced import asked_pieces, check_pieces


def as_dask(pipeline: str, present: Mapping[str, Any]) -> dict[str, da.Array]:
    """Every array as one of Dask's. Raises ArgumentError, DTypeError, and ShapeError for chunks of
    unknown sizes."""
    if getattr(da, "array_expr_enabled", bool)():
        raise ArgumentError(
            "fg.dask.apply makes graphs, and Dask was told to plan queries of arrays",
            why="array.query-planning is on, an experiment of Dask's, whose arrays have none.",
            fix='Leave it off: dask.config.set({"array.query-planning": False}) before dask.array '
            "is imported.")
    if not any(isinstance(a, da.Array) for a in present.values()):
        kinds = ", ".join(f"{n} is {type(a).__name__}" for n, a in present.items())
        raise ArgumentError(
            "fg.dask.apply got no Dask array", why=f"{kinds}.",
            fix=f"Call {pipeline}(…) with arrays in memory; of what has labels give its .data.")
    return {name: _as_dask(name, given) for name, given in present.items()}


def _as_dask(name: str, given: Any) -> da.Array:
    if not isinstance(given, da.Array):
        held = adopt(name, given)  # refuses what calls refuse, by its name
        if held.family == "labelled":
            raise ArgumentError(
                f"{name} is {type(given).__name__}, which has labels that Dask's arrays lack",
                fix=f"Give its values: {name}.data.")
        return da.from_array(held.array, chunks=-1)
    unknown = [i for i, size in enumerate(given.shape) if np.isnan(size)]
    if unknown:
        raise ShapeError(
            f"{name} has chunks of unknown sizes along axis {unknown[0]}",
            why="Columns are numbered, and counted, before anything is computed.",
            fix=f"{name}.compute_chunk_sizes() finds them.")
    return given


def checked_pieces(deterministic: bool, pieces: int | None) -> dict[str, Any]:
    """What `Pipeline.states` is asked for; {} where bits may depend on chunks. Raises
    ArgumentError."""
    size = asked_pieces(deterministic, pieces)
    return {} if size is None else {"deterministic": True, "pieces": check_pieces(size)}


def shape_of(array: da.Array) -> tuple[int, ...]:
    return tuple(int(n) for n in array.shape)
