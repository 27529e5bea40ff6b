"""What the lists of a program need between them: orders, keys, functions."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.emit.cuda.dialect import C_TYPES, PAIR_TYPES
from fusegen.emit.cuda.views import SweepView
from fusegen.schedule.topk import FULLEST_BIN


def list_facts(sweeps: Sequence[SweepView]) -> dict[str, object]:
    """What the lists of all sweeps need between them."""
    found = [c for v in sweeps for c in v.lists]
    plans = [c.plan for c in found if c.way == "streamed"]
    short = [c for c in found if c.way != "streamed"]
    pairs = {c.short.plan.pair for c in short if c.short and c.short.items}
    counted = {c.short.plan.mine for c in short if c.way == "counted" and c.short}
    return {
        "list_ways": {c.way for c in found},
        "short_lists": bool(short),
        "single_keys": any(c.keys.startswith("LaneKeys") for c in short),
        "pair_types": [(C_TYPES[p], PAIR_TYPES[p]) for p in sorted(pairs)],
        "pruned_pairs": any(c.short.items and c.short.plan.pruned for c in short if c.short),
        "one_candidate": any(m == 1 for m in counted),
        "many_candidates": any(m > 1 for m in counted),
        "orders": {p.key.order for p in plans}
        | {c.plan.key.order for c in short if c.keys.startswith("LaneKeys")},
        "layouts": {"WideKeys" if p.key.wide else "PackedKeys" for p in plans},
        "bin_bits": max((p.bin_bits for p in plans), default=0),
        "fullest_bin": FULLEST_BIN,
        "long_lists": any(p.crowd > p.few for p in plans),
        "edges_of_items": any(
            c.plan.groups == v.items and not c.plan.guess for v in sweeps for c in v.streamed_lists
        ),
        "guesses": any(v.guesses for v in sweeps),
        "spilled": any(c.spilled for c in found if c.way == "streamed"),
        "look_ahead": any(p.samples for p in plans),
    }
