"""Cells drawn from a seed: works × shapes × types × layouts × K."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2}
LAYOUTS = ("packed", "wider", "shifted")
"""Rows one after the other; with a gap between them; all of them one element off a vector."""
MIB = 1 << 20
MOST_BYTES = 256 * MIB  # of an array
WARM_BYTES = 12 * MIB  # of an array: two of them and their results lie in a cache of 50 MB
HOST_BYTES = 128 * MIB  # of an array that processors reduce
VECTOR = 16  # bytes
ITEM_OF_LIST = 8  # bytes of an index


@dataclass(frozen=True, slots=True)
class Work:
    """What is drawn for a work. inputs, results: arrays of x's shape that are read and written;
    columns: arrays of one row that all rows share; values: numbers of a row that are written, of
    x's type; indices: of eight bytes."""

    inputs: int = 1
    columns: int = 0
    results: int = 0
    values: int = 0
    indices: int = 0
    lists: bool = False  # of K values and K indices

    def bytes(self, rows: int, cols: int, k: int, size: int) -> tuple[int, int]:
        """(read, written) at least."""
        each = self.values * size + self.indices * ITEM_OF_LIST
        each += k * (size + ITEM_OF_LIST) if self.lists else 0
        read = (rows * self.inputs + self.columns) * cols * size
        return read, rows * (cols * size * self.results + each)


WORKS = {
    "softmax": Work(results=1),
    "softmax_topk": Work(lists=True),
    "topk": Work(lists=True),
    "rms_norm": Work(results=1),
    "statistics": Work(values=3, indices=1),
    "add_rms_norm": Work(inputs=2, results=2),
    "softmax_backward": Work(inputs=2, results=1),
    "layer_norm": Work(columns=2, results=1),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A work on (rows, cols) elements. layout: of the first input, the others are packed."""

    work: str
    rows: int
    cols: int
    dtype: str
    layout: str
    k: int = 0

    @property
    def key(self) -> str:
        k = f" K {self.k}" if self.k else ""
        return f"{self.work} {self.rows}x{self.cols} {self.dtype} {self.layout}{k}"

    @property
    def moved(self) -> tuple[int, int]:
        """Bytes that are read and written at least."""
        return WORKS[self.work].bytes(self.rows, self.cols, self.k, ITEMSIZE[self.dtype])

    @property
    def row_stride(self) -> int:
        """Elements from one row of the first input to the next."""
        if self.layout != "wider":
            return self.cols
        lanes = VECTOR // ITEMSIZE[self.dtype]
        return -(-self.cols // lanes) * lanes + lanes


def drawn(seed: int, count: int, works: Sequence[str], most: int) -> list[Cell]:
    """So many cells of each work: columns, bytes of an array and K evenly on a logarithmic scale,
    32 to 10^6, 2 MiB to `most`, and 1 to 1024 or all columns."""
    found = []
    for name in works:
        random = Random(f"{seed} {name}")
        for _ in range(count):
            cols = int(2 ** random.uniform(5, math.log2(1_000_000)))
            dtype, layout = random.choice([*ITEMSIZE]), random.choice(LAYOUTS)
            size = 2 ** random.uniform(21, math.log2(most))
            rows = max(1, int(size / ITEMSIZE[dtype] / cols))
            k = int(2 ** random.uniform(0, math.log2(min(cols, 1024)))) if WORKS[name].lists else 0
            found.append(Cell(name, rows, cols, dtype, layout, k))
    return found


def most_bytes(target: str, warm: bool) -> int:
    """Of an array that a scan draws."""
    if warm:
        return WARM_BYTES
    return {"gpu": MOST_BYTES, "cpu": HOST_BYTES}[target]


def cells_of_run(run: Mapping[str, Any]) -> list[Cell]:
    """Every cell that a saved run may have measured."""
    return drawn(run["seed"], run["cells"], [*WORKS], most_bytes(run["target"], run["warm"]))
