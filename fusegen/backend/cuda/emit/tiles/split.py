"""What templates/cuda/tiles/split.cuh.j2 prints: float32 vectors as parts of 16 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusegen.backend.cuda.emit.places import declared
from fusegen.backend.cuda.schedule.launch import Launch
from fusegen.backend.cuda.schedule.tiles.parts import COUNT, Parts


@dataclass(frozen=True)
class SplitArray:
    """Vectors that are split, and the numbers of one part of them."""

    name: str
    column: bool
    length: int
    width: int


@dataclass(frozen=True)
class SplitView:
    """The launch."""

    symbol: str
    params: tuple[str, ...]
    arrays: tuple[SplitArray, ...]
    count: int
    split: str  # C++: the function that splits a vector
    unusual: str  # rows whose vectors are not the sums of their parts


def split_view(launched: Sequence[Launch], parts: Parts) -> SplitView:
    """Of the first launch."""
    count = COUNT[parts]
    launch = launched[0]
    params = {p.name: p for p in launch.params}
    (unusual,) = (p.name for p in launch.params if p.shape == "row")
    arrays = [SplitArray(p.name, p.shape == "column_vector", p.k,
                         params[f"{p.name}_parts"].k // count)
              for p in launch.params if not p.output]
    return SplitView(
        launch.symbol,
        (*(declared(p, " __restrict__ ") for p in launch.params),
         *(f"float* __restrict__ {s.name}" for s in launch.scratch),
         *(f"long long {n}" for n in launch.scalars)),
        tuple(arrays), count, "round_vector" if parts == "tf32" else f"split_vector<{count}>",
        unusual)
