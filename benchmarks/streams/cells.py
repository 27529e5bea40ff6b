"""What is measured: works by shapes by dtypes, with the share of the limit each is held to."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, Protocol, TypeVar

ITEMSIZE = {"float32": 4, "bfloat16": 2}
Kind = Literal["read", "copy"]
"""What a work's least time is: reading its bytes, or reading and writing as many."""
BOTH = ("float32", "bfloat16")
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Work:
    """A pipeline of fusegen.library on random data."""

    full: bool  # stores an element for each it reads: held against a copy, else against a read
    side: tuple[str, ...] = ()  # inputs besides x: weight and bias per column, labels per row
    outputs: int = 1


WORKS = {
    "logsumexp": Work(full=False),
    "var_mean": Work(full=False, outputs=2),
    "cross_entropy": Work(full=False, side=("labels",)),
    "entropy": Work(full=False),
    "norm2": Work(full=False),
    "softmax": Work(full=True),
    "naive_softmax": Work(full=True),
    "log_softmax": Work(full=True),
    "layer_norm": Work(full=True, side=("weight", "bias")),
    "rms_norm": Work(full=True, side=("weight",)),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of the table: a work on a (rows, cols) array, reduced along `axis`."""

    group: str
    work: str
    rows: int
    cols: int
    dtype: str
    target: float | None  # least share of the limit; None: for the figures only
    axis: int = -1
    form: str = "auto"

    @property
    def name(self) -> str:
        axis = "" if self.axis == -1 else f" axis {self.axis}"
        form = "" if self.form == "auto" else f" {self.form}"
        return f"{self.work} {self.rows}x{self.cols} {self.dtype}{axis}{form}"

    @property
    def key(self) -> str:
        """What tells it from every other cell."""
        return f"{self.group}: {self.name}"

    @property
    def limit(self) -> Kind:
        return "copy" if WORKS[self.work].full else "read"

    @property
    def input_bytes(self) -> int:
        """Bytes of x: what the limit reads, and writes if it is a copy."""
        return self.rows * self.cols * ITEMSIZE[self.dtype]

    @property
    def least_bytes(self) -> int:
        """Bytes of every input read once and every output written once."""
        work, size = WORKS[self.work], ITEMSIZE[self.dtype]
        reduced = (self.rows, self.cols)[self.axis]
        others = self.rows * self.cols // reduced
        per = {"weight": reduced * size, "bias": reduced * size, "labels": others * 8}
        stored = self.input_bytes if work.full else others * size * work.outputs
        return self.input_bytes + sum(per[s] for s in work.side) + stored


def rows_for(cols: int, dtype: str, least: int, fewest: int = 1) -> int:
    """Rows that make the input at least `least` bytes, and at least `fewest` of them."""
    row = cols * ITEMSIZE[dtype]
    return max(fewest, -(-least // row))


# ---- the table ----


@dataclass(frozen=True, slots=True)
class Line:
    """Every work with every dtype and shape. A shape is (rows, cols), or cols alone: then there
    are as many rows as make `least` bytes of input, but not fewer than `fewest`."""

    group: str
    works: tuple[str, ...]
    shapes: tuple[int | tuple[int, int], ...]
    target: float | None
    dtypes: tuple[str, ...] = BOTH
    least: int = 512 * MIB
    fewest: int = 1
    axis: int = -1
    form: str = "auto"

    def cells(self) -> Iterator[Cell]:
        for work, dtype, shape in product(self.works, self.dtypes, self.shapes):
            rows, cols = shape if isinstance(shape, tuple) else (
                rows_for(shape, dtype, self.least, self.fewest), shape)
            yield Cell(self.group, work, rows, cols, dtype, self.target, self.axis, self.form)


STATISTICS = ("logsumexp", "var_mean", "cross_entropy", "entropy", "norm2")
SEVENTH = tuple(63 << k for k in range(16))
"""The paper's row lengths: 63, 126 … 2,064,384."""
FIGURES = {"figure 1": 4000, "figure 2": 10}
"""Rows of the paper's figures."""
PAPER = (("naive", "naive_softmax", "safe"), ("safe", "softmax", "safe"),
         ("online", "softmax", "online"))
"""The paper's algorithms: name, work, form."""
LONGEST_FIGURE_BYTES = 4 << 30  # of input

TABLE = (
    Line("one read", STATISTICS, (256, 1024, 4096, 16384, 32256, 129024), 0.95, least=256 * MIB),
    Line("one read", STATISTICS, ((256, 1_000_000),), 0.95),
    Line("full rows", ("softmax", "log_softmax"),
         (256, 1024, 4032, 4096, 16384, 25000, 32256, 65536, 129024, 262144), 0.95),
    Line("norms", ("layer_norm", "rms_norm"),
         (256, 1024, 4096, 16384, 32256, 65536, 129024), 0.93),
    Line("unaligned", ("softmax",),
         (1008, 2016, 4032, 8064, 16128, 32256, 64512, 129024, 1009, 4033, 16127, 64513, 129023),
         0.92),
    Line("long rows", ("softmax",), (524_288, 1_000_000, 2_000_000), 0.80, fewest=256),
    Line("long rows", ("layer_norm", "rms_norm"), (1_000_000,), 0.80, fewest=256),
    Line("few rows", ("softmax", "logsumexp"),
         ((1, 129024), (10, 1008), (10, 32256), (10, 129024), (10, 1_032_192)), 1 / 1.2,
         dtypes=("float32",)),
    Line("axis 0", ("softmax", "logsumexp"), ((4096, 4096),), 0.88, dtypes=("float32",), axis=0),
    Line("axis 0", ("softmax", "logsumexp"), ((32768, 1024),), 0.80, dtypes=("float32",), axis=0),
    *(Line(group, (work,), tuple((rows, cols) for cols in SEVENTH
                                 if rows * cols * 4 <= LONGEST_FIGURE_BYTES),
           None, dtypes=("float32",), form=form)
      for group, rows in FIGURES.items() for _, work, form in PAPER),
)


def cells() -> list[Cell]:
    """Every cell, in the order of the table."""
    return [cell for line in TABLE for cell in line.cells()]


class Keyed(Protocol):
    """A line of this table, or of another."""

    @property
    def group(self) -> str: ...

    @property
    def key(self) -> str: ...


AnyKeyed = TypeVar("AnyKeyed", bound=Keyed)


def chosen(every: Sequence[AnyKeyed], patterns: Iterable[str], quick: bool) -> list[AnyKeyed]:
    """Cells whose key contains or matches one of the patterns; a few per group if quick.

    Raises ValueError naming a pattern that no cell matches.
    """
    patterns = list(patterns)
    for pattern in patterns:
        if not any(_matches(c, pattern) for c in every):
            raise ValueError(f"no cell matches {pattern!r}; --list shows them all")
    found = [c for c in every if not patterns or any(_matches(c, p) for p in patterns)]
    if not quick:
        return found
    groups = {c.group: [d for d in found if d.group == c.group] for c in found}
    return [c for group in groups.values() for c in group[:: max(1, len(group) // 4)]]


def _matches(cell: Keyed, pattern: str) -> bool:
    return pattern in cell.key or fnmatch.fnmatchcase(cell.key, pattern)
