"""Drawings of a pipeline's graph: text, Graphviz, Mermaid, and SVG or PNG through matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusegen.ir.errors import ArgumentError, BackendError
from fusegen.ir.nearest import nearest

if TYPE_CHECKING:
    import networkx as nx

_SHAPES = {"element": "box", "row value": "ellipse", "list": "hexagon"}
_COLOURS = {"element": "#cfe2f3", "row value": "#fff2cc", "list": "#d9ead3"}
ENDINGS = (".svg", ".png", ".dot", ".mmd")


def _caption(graph: nx.DiGraph, name: str) -> str:
    label = graph.nodes[name]["label"]
    return name if label in (name, "input") else f"{name} = {label}"


def as_text(graph: nx.DiGraph) -> str:
    """One line per node: name, operation, operands, extent, the user's line."""
    lines = []
    for name, data in graph.nodes(data=True):
        operands = ", ".join(graph.predecessors(name))
        mark = "→ " if data["output"] else "  "
        where = data["loc"].rsplit("/", 1)[-1]
        lines.append(f"{mark}{name:<16} {data['label']}({operands})".ljust(56)
                     + f" {data['extent']:<10} {where}")
    return "\n".join(lines)


def as_dot(graph: nx.DiGraph) -> str:
    """Graphviz: `dot -Tsvg`."""
    lines = [f'digraph "{graph.name}" {{', "  rankdir=TB; node [style=filled];"]
    for name, data in graph.nodes(data=True):
        shape, colour = _SHAPES[data["extent"]], _COLOURS[data["extent"]]
        bold = ", penwidth=2" if data["output"] else ""
        lines.append(f'  "{name}" [label="{_caption(graph, name)}", shape={shape}, '
                     f'fillcolor="{colour}"{bold}];')
    lines += [f'  "{a}" -> "{b}";' for a, b in graph.edges]
    return "\n".join([*lines, "}"]) + "\n"


def as_mermaid(graph: nx.DiGraph) -> str:
    """Mermaid: GitHub and many editors draw it."""
    brackets = {"element": '["{}"]', "row value": '("{}")', "list": '{{{{"{}"}}}}'}
    lines = ["flowchart TD"]
    for name, data in graph.nodes(data=True):
        lines.append(f"  n_{name}{brackets[data['extent']].format(_caption(graph, name))}")
    lines += [f"  n_{a} --> n_{b}" for a, b in graph.edges]
    return "\n".join(lines) + "\n"


def write(graph: nx.DiGraph, path: Path) -> None:
    """Write by file ending. Raises ArgumentError, or BackendError without matplotlib."""
    match path.suffix:
        case ".dot":
            path.write_text(as_dot(graph), encoding="utf-8")
        case ".mmd":
            path.write_text(as_mermaid(graph), encoding="utf-8")
        case ".svg" | ".png":
            _picture(graph, path)
        case other:
            raise ArgumentError(f"cannot draw a graph as {other or 'a file without ending'}",
                                why=f"Endings: {', '.join(ENDINGS)}.",
                                fix=nearest(other, ENDINGS))


def _places(graph: nx.DiGraph) -> dict[str, tuple[float, float]]:
    """Layers by the longest path from an input; nodes come in topological order."""
    layer: dict[str, int] = {}
    for name in graph:
        layer[name] = 1 + max((layer[p] for p in graph.predecessors(name)), default=-1)
    rows: dict[int, list[str]] = {}
    for name, depth in layer.items():
        rows.setdefault(depth, []).append(name)
    return {
        n: (i - (len(row) - 1) / 2, -float(d)) for d, row in rows.items() for i, n in enumerate(row)
    }


def _picture(graph: nx.DiGraph, path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BackendError('pictures need matplotlib: pip install matplotlib; '
                           ".dot and .mmd files do not") from error
    places = _places(graph)
    wide = max(x for x, _ in places.values()) - min(x for x, _ in places.values()) + 1
    tall = -min(y for _, y in places.values()) + 1
    figure = Figure(figsize=(max(4, 2.2 * wide), max(3, 0.9 * tall)))
    axes: Any = figure.add_subplot()
    axes.axis("off")
    for a, b in graph.edges:
        axes.annotate("", places[b], places[a],
                      arrowprops={"arrowstyle": "->", "shrinkA": 12, "shrinkB": 12})
    for name, data in graph.nodes(data=True):
        box = {"boxstyle": "round", "facecolor": _COLOURS[data["extent"]],
               "linewidth": 2 if data["output"] else 0.8}
        axes.text(*places[name], _caption(graph, name), ha="center", va="center", bbox=box)
    axes.set_xlim(-wide / 2 - 0.5, wide / 2 + 0.5)
    axes.set_ylim(-tall, 0.8)
    figure.savefig(
        path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None
    )
