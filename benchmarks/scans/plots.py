"""A picture of scans: the share of the limit over the bytes that are moved, one point a cell."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from streams.plots import COLOURS, MARKERS, TEXT, frame, save_all

from scans.draws import LAYOUTS, MIB, WORKS, cells_of_run

Record = dict[str, Any]
Point = tuple[float, float, str, str]  # MiB, share in %, type, layout
TYPES = ("float32", "bfloat16", "float16")


def draw(reports: Sequence[Record], name: str, folder: Path) -> list[Path]:
    """Write the picture as SVG and PNG; the paths."""
    runs = [run for report in reports for run in report["runs"]]
    return save_all({name: scattered(reports)}, {**reports[0], "runs": runs}, folder)


def scattered(reports: Sequence[Record]) -> Figure:
    """The cells of all reports, a panel a work."""
    found = {work: [p for report in reports for p in _points(report, work)] for work in WORKS}
    return _figure({work: points for work, points in found.items() if points})


def _points(report: Record, work: str) -> list[Point]:
    """The work's cells, known again by their keys among those that the run has drawn."""
    drawn = {c.key: c for run in report["runs"] for c in cells_of_run(run)}
    found = [(drawn[r["key"]], r) for r in report["cells"] if r["work"] == work and "share" in r]
    return [(sum(c.moved) / MIB, 100 * r["share"], c.dtype, c.layout) for c, r in found]


def _figure(points: dict[str, list[Point]]) -> Figure:
    figure = Figure(figsize=(12.5, 5.6), layout="constrained")
    across = -(-len(points) // 2)
    panels = figure.subplots(2, across, sharey=True, squeeze=False).flatten()
    for axes, (work, found) in zip(panels, points.items(), strict=False):
        _panel(axes, work, found)
    for axes in panels[len(points):]:
        axes.set_axis_off()
    for axes in panels[::across]:
        axes.set_ylabel("share of the limit, %", fontsize=9)
    figure.legend(handles=_legend(), fontsize=8, loc="outside lower right", ncols=6)
    return figure


def _panel(axes: Axes, work: str, points: list[Point]) -> None:
    for dtype, colour in zip(TYPES, COLOURS, strict=False):
        for layout, marker in zip(LAYOUTS, MARKERS, strict=False):
            here = [(x, y) for x, y, *kind in points if kind == [dtype, layout]]
            if here:
                axes.scatter(*zip(*here, strict=True), color=colour, marker=marker, s=14,
                             alpha=0.8, linewidths=0)
    shares = [y for _, y, *_ in points]
    frame(axes, f"{work}\nmedian {statistics.median(shares):.0f} %, worst {min(shares):.0f} %",
          {2**n for n in range(1, 11, 2)}, "MiB moved")
    axes.set_ylim(0, 108)


def _legend() -> list[Line2D]:
    types = [Line2D([], [], color=colour, marker="o", linestyle="", markersize=4, label=dtype)
             for dtype, colour in zip(TYPES, COLOURS, strict=False)]
    layouts = [Line2D([], [], color=TEXT, marker=marker, linestyle="", markersize=4, label=layout)
               for layout, marker in zip(LAYOUTS, MARKERS, strict=False)]
    return [*types, *layouts]
