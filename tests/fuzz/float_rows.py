"""Merged sums executed in float32 on hard rows, along every kind of tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fusegen.compile.lower.online import online_kernel
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.dtypes import BFLOAT16, FLOAT32, DType
from fusegen.oracle.bank import Bank, bank_of
from fusegen.oracle.replay import RowsReplay, Split, balanced, chain

from .float_yardstick import Text, Worst

TREES: dict[str, tuple[int, Split]] = {
    "one by one": (24, chain(1)), "one by one from the right": (11, chain(1, forward=False)),
    "pairs of pairs": (24, balanced(1)), "chunks of 7": (61, chain(7)),
    "chunks of 7 in pairs": (61, balanced(7)), "chunks of 256": (1300, chain(256)),
    "chunks of 256 in pairs": (1300, balanced(256)), "one element": (1, chain(1)),
    "two elements": (2, chain(1)), "three elements": (3, balanced(1)),
}
LONG: dict[str, tuple[int, Split]] = {
    "one by one, other draws": (25, chain(1)), "150 one by one": (150, chain(1)),
}
_ROWS = {11: 300, 24: 700, 25: 700, 61: 120, 150: 60, 1300: 30}  # at most, evenly out of the bank


def execute(
    graph: g.Graph, derivation: Derivation, sums: list[str],
    trees: Mapping[str, tuple[int, Split]], seed: int, counted: list[int],
) -> dict[str, Worst]:
    """The worst of every sum over rows and trees; `counted` adds up the rows executed."""
    found = dict.fromkeys(sums, Worst())
    if not sums:
        return found
    kernels = _kernels(graph, derivation)
    texts: dict[tuple[int, str], Text] = {}
    moved = {r.name for r in derivation.repairs}
    for label, (n_cols, tree) in trees.items():
        for type_name, (kernel, dtypes) in kernels.items():
            if type_name != "float32" and not label.startswith("one by one"):
                continue
            key = (n_cols, type_name)
            if key not in texts:
                texts[key] = Text(graph, sums, rows_for(graph, dtypes, n_cols, seed),
                                  _WRITTEN[type_name], moved)
            text = texts[key]
            replay = RowsReplay(kernel, text.bank.named(graph), n_cols)
            replay.run(tree)
            counted[0] += len(text.bank)
            for name in sums:
                if name not in replay.env:  # what nothing reads any more is not computed
                    continue
                worst = text.worst(name, replay.env[name], f"{label}, {type_name}")
                found[name] = found[name].beside(worst)
    return found


def _kernels(
    graph: g.Graph, derivation: Derivation
) -> dict[str, tuple[Any, dict[str, DType]]]:
    """The kernel for float32, and the one for 16-bit rows where that keeps fewer sums."""
    kinds = {"float32": FLOAT32}
    if derivation.without_zeros != derivation:
        kinds["bfloat16"] = BFLOAT16
    found = {}
    for type_name, dtype in kinds.items():
        dtypes = dict.fromkeys((i.name for i in graph.inputs), dtype)
        found[type_name] = (online_kernel(graph, derivation, dtypes), dtypes)
    return found


def rows_for(graph: g.Graph, dtypes: Mapping[str, DType], n_cols: int, seed: int) -> Bank:
    """Draws of its own of the bank's patterns: not those that the product itself has met."""
    bank = bank_of(graph, dtypes, n_cols, seed=1_000_000 + seed % 50)
    step = max(1, -(-len(bank) // _ROWS.get(n_cols, 200)))
    every = slice(seed % step, None, step)
    return replace(bank, inputs={n: a[every] for n, a in bank.inputs.items()},
                   picks=bank.picks[every])


_WRITTEN = {"float32": 0.0, "bfloat16": 2.0**-8}
"""What writing a result costs of it."""
