"""Pictures of softmax + top-K: the paper's figures 3 and 4, and its sweep over K."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from streams.lists import FIGURES, FORMS, SWEEP
from streams.plots import COLOURS, MARKERS, frame, line, save_all
from streams.summary import Record, grouped


def draw(report: Record, folder: Path) -> list[Path]:
    """Write every picture that the report has cells for, as SVG and PNG; their paths."""
    groups = grouped([r for r in report["cells"] if r["status"] == "ok"])
    figures = {group.replace(" ", "_"): by_columns(groups[group], rows)
               for group, rows in FIGURES.items() if group in groups}
    if SWEEP in groups:
        figures["k_sweep"] = by_k(groups[SWEEP])
    return save_all(figures, report, folder)


def by_columns(records: Sequence[Record], rows: int) -> Figure:
    """Elements per second against columns, a line per form."""
    k = records[0]["k"]
    return _lines(records, "cols", "columns", f"softmax + top {k}, {rows} rows, float32")


def by_k(records: Sequence[Record]) -> Figure:
    """Elements per second against K, a line per form."""
    one = records[0]
    return _lines(records, "k", "K", f"softmax + top K, {one['rows']} × {one['cols']}, float32")


def _lines(records: Sequence[Record], along: str, label: str, title: str) -> Figure:
    figure = Figure(figsize=(6.6, 3.9), layout="constrained")
    axes = figure.subplots()
    for (name, form), colour, marker in zip(FORMS.items(), COLOURS, MARKERS, strict=False):
        members = sorted((r for r in records if r["form"] == form), key=lambda r: r[along])
        points = [(r[along], r["rows"] * r["cols"] / r["us"] * 1e-3) for r in members]
        line(axes, points, name, colour, marker)
    limits = {r[along]: r["rows"] * r["cols"] / r["limit_us"] * 1e-3 for r in records}
    axes.plot(*zip(*sorted(limits.items()), strict=True), label="a plain read", color="#333333",
              linewidth=0.8, linestyle=(0, (6, 3)))
    frame(axes, title, {r[along] for r in records}, label)
    axes.set_ylabel("10⁹ elements per second", fontsize=9)
    axes.set_ylim(bottom=0)
    figure.legend(fontsize=8, loc="outside right center")
    return figure
