"""What is measured of softmax_topk: shapes, K, types, and rows made to be hard for it."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streams.cells import ITEMSIZE, LONGEST_FIGURE_BYTES, SEVENTH

MANY = tuple((4000, cols, k, dtype) for cols in (1008, 4032, 25_000, 129_024)
             for dtype in ("float32", "bfloat16") for k in (5, 10, 64, 256, 1024)
             if k < cols)  # fmt: skip
FEW = tuple((rows, cols, k, "float32") for rows, cols in
            ((256, 129_024), (64, 129_024), (10, 129_024), (1, 129_024), (10, 1_032_192))
            for k in (5, 64, 256, 1024))  # fmt: skip
EXPERTS = tuple((65_536, cols, 8, "bfloat16") for cols in (64, 128, 256, 512))
HARD = ("ascending", "descending", "equal", "few values", "outlier", "mostly -inf", "stairs")
HARD_SHAPES = tuple((4000, cols, k, dtype) for cols, dtype in
                    ((4032, "float32"), (25_000, "float32"), (129_024, "float32"),
                     (129_024, "bfloat16")) for k in (5, 64, 256, 1024))  # fmt: skip
FORMS = {"safe, unfused": "unfused", "safe, fused": "safe", "online, fused": "online"}
"""The paper's ways to softmax and top-K, and the forms that are them."""
FIGURES = {"figure 3": 4000, "figure 4": 10}
"""Rows of the paper's figures of softmax + top 5."""
SWEEP, SWEPT = "K sweep", (5, 10, 15, 30, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class ListCell:
    """One line of the table."""

    group: str
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


def list_cells() -> list[ListCell]:
    """Every cell, those on the same array together."""
    found = [ListCell("many rows", *shape) for shape in MANY]
    found += [ListCell("few rows", *shape) for shape in FEW]
    found += [ListCell("experts", *shape) for shape in EXPERTS]
    found += [ListCell("hard rows", *shape, data)  # next to random rows in the same run
              for data in ("random", *HARD) for shape in HARD_SHAPES]  # fmt: skip
    found += [ListCell(group, rows, cols, 5, "float32", form=form)
              for group, rows in FIGURES.items() for cols in SEVENTH
              if rows * cols * 4 <= LONGEST_FIGURE_BYTES for form in FORMS.values()]  # fmt: skip
    found += [ListCell(SWEEP, 4000, 25_000, k, "float32", form=form)
              for k in SWEPT for form in FORMS.values()]  # fmt: skip
    return found


def chosen_lists(patterns: Iterable[str]) -> list[ListCell]:
    """Cells whose key contains or matches one of the patterns; all if there are none. Raises
    ValueError naming a pattern that no cell matches."""
    every, patterns = list_cells(), list(patterns)
    for pattern in patterns:
        if not any(_matches(c, pattern) for c in every):
            raise ValueError(f"no cell matches {pattern!r}; --list shows them all")
    found = [c for c in every if not patterns or any(_matches(c, p) for p in patterns)]
    order = {shape: n for n, shape in enumerate(dict.fromkeys(_array(c) for c in found))}
    return sorted(found, key=lambda c: order[_array(c)])


def _array(cell: ListCell) -> tuple[str, int, int, str, str]:
    return cell.group, cell.rows, cell.cols, cell.dtype, cell.data


def _matches(cell: ListCell, pattern: str) -> bool:
    return pattern in cell.key or fnmatch.fnmatchcase(cell.key, pattern)


def line(record: dict[str, object]) -> str:
    """A record as a short line."""
    start = f"{record['key']!s:52s}"
    if record["status"] == "ERROR":
        return f"{start}ERROR {record['message']}"
    us, limit = float(str(record["us"])), float(str(record["limit_us"]))
    peer = record.get("torch_us")
    torch = f"{float(str(peer)) / us:6.1f}× torch" if peer else ""
    wrong = "" if record["status"] == "ok" else f"  WRONG: {record['wrong']}"
    share = f"{us:9.1f} µs {100 * limit / us:5.0f}% of a read"
    others = "".join(f"\n{'':54s}{us:9.1f} µs  {shape}{'  WRONG' if bad else ''}"
                     for shape, us, bad in record.get("variants", ()))  # type: ignore[attr-defined]
    return f"{start}{share}{torch}  {record['shape']}{wrong}{others}"


def ratios(records: Sequence[dict[str, object]]) -> list[str]:
    """Hard rows beside random ones of the same shape: the worst of each."""
    timed = {str(r["key"]): float(str(r["us"])) for r in records if "us" in r}
    lines = []
    for rows, cols, k, dtype in HARD_SHAPES:
        base = timed.get(ListCell("hard rows", rows, cols, k, dtype).key)
        found = {d: timed.get(ListCell("hard rows", rows, cols, k, dtype, d).key) for d in HARD}
        known = {d: us for d, us in found.items() if us}
        if base and known:
            shown = "  ".join(f"{d} {us / base:.2f}" for d, us in known.items())
            lines.append(f"{rows}x{cols} {dtype} k={k}: {shown}")
    return lines
