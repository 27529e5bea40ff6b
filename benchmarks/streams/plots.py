"""Pictures of a result: shares of the limit by row length, and the paper's two figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from streams.cells import FIGURES, PAPER
from streams.summary import Record, best_peer, grouped

# Okabe and Ito's palette: told apart by colour-blind readers; markers tell them apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v")
BY_SHARE = {
    "one read": "One read: share of the time of a plain read",
    "full rows": "Full rows: share of the time of a plain copy",
    "norms": "Norms: share of the time of a plain copy",
    "unaligned": "Rows of any length, softmax: share of the time of a plain copy",
}
TEXT = "#333333"


def draw(report: Record, folder: Path) -> list[Path]:
    """Write every picture that the report has cells for, as SVG and PNG; their paths."""
    done = [r for r in report["cells"] if r["status"] == "ok"]
    groups = grouped(done)
    figures = {group.replace(" ", "_"): shares(groups[group], title)
               for group, title in BY_SHARE.items() if group in groups}
    figures |= {group.replace(" ", "_"): paper(groups[group], rows)
                for group, rows in FIGURES.items() if group in groups}
    return save_all(figures, report, folder)


def save_all(figures: Mapping[str, Figure], report: Record, folder: Path) -> list[Path]:
    """Write pictures as SVG and PNG, each with a line that says where its figures come from."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name, figure in figures.items():
        figure.text(0.005, 0.005, _source(report), va="bottom", fontsize=6, color=TEXT)
        for ending in (".svg", ".png"):
            path = folder / f"{name}{ending}"
            metadata = {"Date": None} if ending == ".svg" else None
            figure.savefig(path, dpi=110, metadata=metadata)
            found.append(path)
    return found


def _source(report: Record) -> str:
    runs = {(run["date"][:10], str(run["commit"])[:10]): None for run in report["runs"]}
    return ", ".join([report["environment"]["gpu"], *(f"{d}, commit {c}" for d, c in runs)])


def shares(records: Sequence[Record], title: str) -> Figure:
    """Share of the limit against columns: a panel per dtype, a line per work, best peer dotted."""
    dtypes = list(dict.fromkeys(r["dtype"] for r in records))
    series = list(dict.fromkeys(map(_series, records)))
    figure = Figure(figsize=(4.3 * len(dtypes) + 2, 3.9), layout="constrained")
    panels = figure.subplots(1, len(dtypes), sharey=True, squeeze=False)[0]
    known: dict[str, Any] = {}
    for axes, dtype in zip(panels, dtypes, strict=True):
        here = sorted((r for r in records if r["dtype"] == dtype), key=lambda r: r["cols"])
        for name, colour, marker in zip(series, COLOURS, MARKERS, strict=False):
            members = [r for r in here if _series(r) == name]
            line(axes, [(r["cols"], 100 * r["share"]) for r in members], name, colour, marker)
            _dotted(axes, members, colour)
        for target in {r["target"] for r in here}:
            axes.axhline(100 * target, label=f"target: {100 * target:.0f} %", color=TEXT,
                         linewidth=0.8, linestyle=(0, (6, 3)))
        frame(axes, dtype, {r["cols"] for r in here})
        known |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    panels[0].set_ylim(0, 100 * max(1.0, *(r["share"] for r in records)) + 6)
    panels[0].set_ylabel("share of the limit, %", fontsize=9)
    if any(best_peer(r)[1] for r in records):
        known["best peer, same colour"] = Line2D([], [], color=TEXT, linestyle=":")
    figure.legend(known.values(), known.keys(), fontsize=8, loc="outside right center")
    figure.suptitle(title, fontsize=11)
    return figure


def _series(record: Record) -> str:
    """The line that a cell is a point of."""
    odd = ", odd columns" if record["cols"] % 2 else ""
    return f"{record['work']}{odd}"


def paper(records: Sequence[Record], rows: int) -> Figure:
    """Elements per second against columns, for the naive, safe and online softmax."""
    figure = Figure(figsize=(6.2, 3.9), layout="constrained")
    axes = figure.subplots()
    for (label, work, form), colour, marker in zip(PAPER, COLOURS, MARKERS, strict=False):
        members = sorted((r for r in records if (r["work"], r["form"]) == (work, form)),
                         key=lambda r: r["cols"])
        points = [(r["cols"], r["elements_per_s"] * 1e-9) for r in members]
        line(axes, points, label, colour, marker)
    frame(axes, f"softmax, {rows} rows, float32", {r["cols"] for r in records})
    axes.set_ylabel("10⁹ elements per second", fontsize=9)
    axes.set_ylim(bottom=0)
    figure.legend(fontsize=8, loc="outside right center")
    return figure


def line(
    axes: Axes, points: Sequence[tuple[int, float]], label: str, colour: str, marker: str
) -> None:
    """A series, if it has points."""
    if points:
        axes.plot(*zip(*points, strict=True), label=label, color=colour, marker=marker,
                  markersize=4, linewidth=1.6)


def _dotted(axes: Axes, members: Iterable[Record], colour: str) -> None:
    peers = [(r["cols"], 100 * r["share"] / peer["times"])
             for r in members if (peer := best_peer(r)[1])]
    if peers:
        axes.plot(*zip(*peers, strict=True), color=colour, linestyle=":", linewidth=1.4)


def frame(axes: Axes, title: str, columns: set[int], label: str = "columns") -> None:
    """Title, a logarithmic axis along `columns` with its label, a grid."""
    axes.set_title(title, fontsize=10)
    axes.set_xscale("log", base=2)
    ticks = _spread(sorted(columns))
    axes.set_xticks(ticks, [f"{c:,}" for c in ticks], fontsize=7, rotation=45)
    axes.set_xticks([], minor=True)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel(label, fontsize=9)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _spread(columns: Sequence[int]) -> list[int]:
    """Columns for ticks, none within a factor of 1.4 of the one before."""
    found: list[Any] = []
    for c in columns:
        if not found or c >= 1.4 * found[-1]:
            found.append(c)
    return found
