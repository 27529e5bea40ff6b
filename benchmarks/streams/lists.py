"""What is measured of lists: shapes, K, types, and rows made to be hard for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streams.cells import ITEMSIZE, LONGEST_FIGURE_BYTES, SEVENTH, chosen

FUSED, ALONE = "softmax_topk", "topk"
"""Works: pipelines of fusegen.library. Groups of top-K alone have names that begin with "alone"."""
MANY = tuple((4000, cols, k, dtype) for cols in (1008, 4032, 25_000, 129_024)
             for dtype in ("float32", "bfloat16") for k in (5, 10, 64, 256, 1024)
             if k < cols)
FEW = tuple((rows, cols, k, "float32") for rows, cols in
            ((256, 129_024), (64, 129_024), (10, 129_024), (1, 129_024), (10, 1_032_192))
            for k in (5, 64, 256, 1024))
EXPERTS = tuple((65_536, cols, 8, "bfloat16") for cols in (64, 128, 256, 512))
ALONE_MANY = (*((4000, cols, k, "float32") for cols in (1008, 4032, 25_000, 129_024)
                for k in (5, 64, 256, 1024) if k < cols),
              *((4000, 129_024, k, "bfloat16") for k in (5, 64, 1024)))
RANDOM_ROWS = (("many rows", FUSED, MANY), ("few rows", FUSED, FEW), ("experts", FUSED, EXPERTS),
               ("alone many rows", ALONE, ALONE_MANY), ("alone few rows", ALONE, FEW))
HARD = ("ascending", "descending", "equal", "few values", "outlier", "mostly -inf", "stairs")
HARD_PEER_K = 64  # the K at which hard rows are timed on torch as well, to keep a run short
HARD_SHAPES = tuple((4000, cols, k, dtype) for cols, dtype in
                    ((4032, "float32"), (25_000, "float32"), (129_024, "float32"),
                     (129_024, "bfloat16")) for k in (5, 64, 256, 1024)) + tuple(
    (10, 129_024, k, "float32") for k in (5, 64, 1024))
ALONE_HARD = tuple((4000, cols, HARD_PEER_K, "float32") for cols in (25_000, 129_024))
HARD_ROWS = (("hard rows", FUSED, HARD_SHAPES), ("alone hard rows", ALONE, ALONE_HARD))
FORMS = {"safe, unfused": "unfused", "safe, fused": "safe", "online, fused": "online"}
"""The paper's ways to softmax and top-K, and the forms that are them."""
FIGURES = {"figure 3": 4000, "figure 4": 10}
"""Rows of the paper's figures of softmax + top 5."""
SWEEP, SWEPT = "K sweep", (5, 10, 15, 30, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class ListCell:
    """One line of the table: the K best of each row of what the work makes of it."""

    group: str
    work: str
    rows: int
    cols: int
    k: int
    dtype: str
    data: str = "random"
    form: str = "auto"

    @property
    def name(self) -> str:
        data = "" if self.data == "random" else f" {self.data}"
        form = "" if self.form == "auto" else f" {self.form}"
        return f"{self.rows}x{self.cols} {self.dtype} k={self.k}{data}{form}"

    @property
    def key(self) -> str:
        """What tells it from every other cell."""
        return f"{self.group}: {self.name}"

    @property
    def input_bytes(self) -> int:
        return self.rows * self.cols * ITEMSIZE[self.dtype]

    @property
    def beside_torch(self) -> bool:
        """Is torch timed on the same array?"""
        return self.form == "auto" and (self.data == "random" or self.k == HARD_PEER_K)


def list_cells() -> list[ListCell]:
    """Every cell, those on the same array together."""
    found = [ListCell(group, work, *shape) for group, work, shapes in RANDOM_ROWS
             for shape in shapes]
    found += [ListCell(group, work, *shape, data) for group, work, shapes in HARD_ROWS
              for data in ("random", *HARD)  # next to random rows in the same run
              for shape in shapes]
    found += [ListCell(group, FUSED, rows, cols, 5, "float32", form=form)
              for group, rows in FIGURES.items() for cols in SEVENTH
              if rows * cols * 4 <= LONGEST_FIGURE_BYTES for form in FORMS.values()]
    found += [ListCell(SWEEP, FUSED, 4000, 25_000, k, "float32", form=form)
              for k in SWEPT for form in FORMS.values()]
    return found


def chosen_lists(patterns: Iterable[str]) -> list[ListCell]:
    """Cells whose key contains or matches one of the patterns; all if there are none. Raises
    ValueError naming a pattern that no cell matches."""
    found = chosen(list_cells(), patterns, quick=False)
    order = {shape: n for n, shape in enumerate(dict.fromkeys(_array(c) for c in found))}
    return sorted(found, key=lambda c: order[_array(c)])


def _array(cell: ListCell) -> tuple[str, int, int, str, str]:
    return cell.group, cell.rows, cell.cols, cell.dtype, cell.data
