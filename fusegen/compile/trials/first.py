"""Before a merge is first used: once along the bank, in the kernel's floats.

What the proofs and their rule about floats let pass, and is wrong here, is a defect of ours. It is
not used: the sum keeps its own sweep, so results are right, and the user is told.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

from fusegen.algebra.refusals import ROUNDED, refused
from fusegen.compile.trials.floats import Alarm, shortest, try_floats
from fusegen.compile.trials.orders_in_floats import refused_orders
from fusegen.compile.trials.short_lists import with_short_lists
from fusegen.ir import graph as g
from fusegen.ir.conditions import asks_of_rows
from fusegen.ir.derivation import Commuted, Dependent, Derivation, Refusal, RefusalKind, Refused
from fusegen.ir.dtypes import BOOL, FLOAT32, INT64, DType
from fusegen.ir.witness import Stray, told_apart
from fusegen.oracle.bank import bank_of
from fusegen.oracle.replay import chain

N_COLS = 24
_WIDE = {"float": FLOAT32, "int": INT64, "bool": BOOL}


def tried_types(dtypes: Mapping[str, DType]) -> dict[str, DType]:
    """The types that a trial tells apart. A merge for 16-bit rows alone keeps fewer sums; the rule
    about floats knows no type, so float64 is as float32, whose range ends sooner."""
    narrow = all(d.kind == "float" and d.itemsize < 4 for d in dtypes.values())
    return {n: d if narrow else _WIDE[d.kind] for n, d in sorted(dtypes.items())}


def tried(graph: g.Graph, derivation: Derivation, dtypes: Mapping[str, DType]) -> Derivation:
    """The derivation of the text `graph`, with its repairs, without the merges that are wrong in
    floats; warns of each, but where only some values of constants may be to blame. A repair that is
    wrong is none, and the sum is refused as it was."""
    from fusegen.rewrite.repair.search import with_repairs
    from fusegen.rewrite.rounds import derived

    types, defects = tried_types(dtypes), _disorders(graph, derivation, dtypes)
    unfit: set[str] = set()
    if defects:
        derivation = with_repairs(graph, derived(graph, defects), dtypes, unfit, defects)
    while alarms := _alarms(graph, derivation, types):
        repaired = {r.name for r in derivation.repairs}
        for alarm in alarms:
            if alarm.name in repaired:
                unfit.add(alarm.name)
                continue
            entry = derivation[alarm.name]
            assert isinstance(entry, Dependent)
            defects[alarm.name] = found = _refused(graph, entry, alarm)
            defect = found.refusal.kind is RefusalKind.DEFECT
            if defect and not graph.scalars:  # of which some may be hard: each may do better alone
                warnings.warn(f"{graph.name}: {found.refusal}", RuntimeWarning, stacklevel=2)
        derivation = with_repairs(graph, derived(graph, defects), dtypes, unfit, defects)
    return derivation


def in_order(graph: g.Graph, derivation: Derivation, dtypes: Mapping[str, DType]) -> Derivation:
    """The derivation without the orders that floats do not keep."""
    from fusegen.rewrite.rounds import derived

    disorders = _disorders(graph, derivation, dtypes)
    return derived(graph, disorders) if disorders else derivation


def _disorders(
    graph: g.Graph, derivation: Derivation, dtypes: Mapping[str, DType]
) -> dict[str, Refused]:
    if not any(isinstance(e, Commuted) for e in derivation):
        return {}
    text, types = with_short_lists(graph), tried_types(dtypes)
    bank = bank_of(text, types, max(N_COLS, least_columns(text)))
    return {r.name: r for r in refused_orders(text, derivation, types, bank)}


def _alarms(
    graph: g.Graph, derivation: Derivation, dtypes: Mapping[str, DType]
) -> list[Alarm]:
    if not derivation.repairs and not any(isinstance(e, Dependent) for e in derivation):
        return []
    # Where the work is, not above: whoever finds a merge on disk needs none of it.
    from fusegen.compile.lower.online import online_kernel

    text = with_short_lists(graph)
    kernel = online_kernel(text, derivation, dtypes)
    least = least_columns(text)
    bank = bank_of(text, dtypes, max(N_COLS, least))
    tree = chain(1)
    found = try_floats(text, kernel, derivation, dtypes, bank, tree)
    return [shortest(text, kernel, derivation, dtypes, alarm, tree, least) for alarm in found]


def least_columns(graph: g.Graph) -> int:
    """The shortest row that the pipeline takes."""
    return max((n.k for n in graph.nodes if isinstance(n, g.TopK)), default=1)


def _refused(graph: g.Graph, entry: Dependent, alarm: Alarm) -> Refused:
    node = graph[entry.name]
    if isinstance(node, g.Reduce) and asks_of_rows(node.arg):
        switch = refused(graph, node, entry.depends_on, RefusalKind.KINK, ROUNDED)
        return replace(switch, refusal=replace(switch.refusal, witness=stray(alarm)))
    error, allowed = told_apart((alarm.error, alarm.allowed), 3)
    found = "it is not finite where the text is." if alarm.error == float("inf") else (
        f"it is wrong by {error}, where rounding explains {allowed}."
    )
    why = f"its merge is proved over the real numbers, but in {alarm.floats}, one element at a " \
          f"time,\n{found}"
    what = f"the merge of {entry.name} is not used: {RefusalKind.DEFECT.value}"
    fix = "It keeps a sweep of its own; the result is the same." if graph.scalars else \
          "This is a defect of fusegen, not of the text: please report it.\n" \
          "The sum keeps a sweep of its own; the result is right."
    return Refused(entry.name, entry.depends_on, Refusal(
        RefusalKind.DEFECT, node.loc, what, why, fix, stray(alarm)
    ))


def stray(alarm: Alarm) -> Stray:
    """The row of an alarm as plain data."""
    values = tuple((n, tuple(float(v) for v in a[0])) for n, a in alarm.bank.inputs.items())
    return Stray(values, alarm.bank.label(0), alarm.merged, alarm.text)
