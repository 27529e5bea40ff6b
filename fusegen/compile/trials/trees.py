"""The bank along every kind of tree: the lengths, chunks and associations of `fg.check`."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.compile.lower.online import online_kernel
from fusegen.compile.trials.first import least_columns, stray, tried_types
from fusegen.compile.trials.floats import shortest, try_floats
from fusegen.ir import graph as g
from fusegen.ir.derivation import Dependent, Derivation
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import LawViolation
from fusegen.oracle.bank import bank_of
from fusegen.oracle.replay import Split, balanced, chain

_TREES: tuple[tuple[int, str, Split], ...] = (
    (1, "alone", chain(1)),
    (2, "one after another", chain(1)),
    (3, "in pairs of pairs", balanced(1)),
    (24, "one after another", chain(1)),
    (24, "one after another from the right", chain(1, forward=False)),
    (24, "in pairs of pairs", balanced(1)),
    (37, "in chunks of 7", chain(7)),
    (37, "in chunks of 7, in pairs of pairs", balanced(7)),
    (1300, "in chunks of 256", chain(256)),
    (1300, "in chunks of 256 from the right", chain(256, forward=False)),
    (1300, "in chunks of 256, in pairs of pairs", balanced(256)),
)
_MOST = 64  # rows of the longest


def try_trees(
    graph: g.Graph, derivation: Derivation, dtypes: Mapping[str, DType]
) -> int:
    """Every merged sum on every row of the bank, along every kind of tree: how many rows it were.

    Raises LawViolation with the shortest row found where it is not the text to rounding.
    """
    if not any(isinstance(e, Dependent) for e in derivation):
        return 0
    types, least = tried_types(dtypes), least_columns(graph)
    kernel = online_kernel(graph, derivation, types)
    rows = 0
    for n_cols, how, tree in _TREES:
        bank = bank_of(graph, types, max(n_cols, least))
        bank = bank.thinned(_MOST) if n_cols > 100 else bank
        rows += len(bank)
        for alarm in try_floats(graph, kernel, derivation, types, bank, tree):
            found = shortest(graph, kernel, derivation, types, alarm, tree, least)
            raise LawViolation(
                f"{graph.name}: {alarm.name} is not the text in {alarm.floats}",
                where=graph[alarm.name].loc,
                why=f"Merged {how}: {stray(found)}\nRounding explains {found.allowed:.3g}.",
                fix="Please report this: its merge is proved over the real numbers.",
            )
    return rows
