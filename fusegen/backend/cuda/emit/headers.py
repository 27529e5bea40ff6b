"""Which fixed headers a program uses: <fusegen/…>, see backend/emit/headers.py."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fusegen.backend.cuda.emit.dialect import PAIR_TYPES
from fusegen.backend.cuda.emit.views import ListView, SweepView
from fusegen.backend.cuda.schedule.band_entries import waiting_lists
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.ir.kernel import Program

MATHS = (
    "divisor", "exp_term", "exp2_term", "exp_narrow", "exp2_narrow", "tanh_narrow", "exp_times",
    "exp_times_term", "exp_times_narrow", "greater_of", "lesser_of", "zero_wins", "zeros_win",
    "square", "xlogy", "sign", "sigmoid", "to_int", "clamped", "clamped_real", "shift_anchor",
    "scale_anchor", "above", "below", "mirror", "over_count",
)
"""C++ functions that a program gets if it calls them, one header each."""

_TOOLKIT = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}
_PAIRS = {"float16": "fusegen/pairs/half.cuh", "bfloat16": "fusegen/pairs/bfloat16.cuh"}


def toolkit_headers(program: Program) -> tuple[str, ...]:
    """What the program's types include."""
    names = {p.dtype.name for k in program.kernels for p in k.params}
    return tuple(h for d, h in _TOOLKIT.items() if d in names)


def maths(used: Collection[str]) -> tuple[str, ...]:
    """Of the functions that a program's expressions call."""
    return tuple(f"fusegen/math/{name}.cuh" for name in MATHS if name in used)


def row_headers(sweeps: Sequence[SweepView], schedule: CudaSchedule) -> tuple[str, ...]:
    """How rows come to registers, by way of shared memory or not, and go back."""
    loaders = {ld.loader for v in sweeps for ld in v.loads}
    found = ["fusegen/walk.cuh"] if any(v.visits for v in sweeps) else []
    if found and schedule.home.walk:
        found.append(schedule.home.walk)
    if found and schedule.has_edges:
        found.append("fusegen/edges.cuh")
    if schedule.load == "shifted" or "load_shifted" in loaders:
        found.append("fusegen/shift.cuh")
    if "load_within" in loaders:
        found.append("fusegen/around.cuh")
    if schedule.home.band_rows:
        found.append("fusegen/band.cuh")
    if "fetch_slice" in loaders:
        found.append("fusegen/slice.cuh")
        if schedule.load == "shifted":
            found.append("fusegen/slice_shifted.cuh")
    if "fetch_chunk" in loaders:
        found.append("fusegen/ring.cuh")
    if any(v.ahead for v in sweeps):
        found.append("fusegen/early.cuh")
    if any(v.stores for v in sweeps) and schedule.home.store == "store_items":
        found.append("fusegen/store.cuh")
    return (*found, *_search_headers(sweeps))


def _search_headers(sweeps: Sequence[SweepView]) -> list[str]:
    asked = {"first_item": any(not s.pairs for v in sweeps for s in v.searches),
             "none_better": any(v.seeks_last for v in sweeps)}
    return [f"fusegen/{name}.cuh" for name, used in asked.items() if used]


def strip_headers(sweeps: Sequence[SweepView], schedule: CudaSchedule) -> tuple[str, ...]:
    """Likewise, of rows that lie side by side."""
    tiers = schedule.tiers
    asked = {"walk": True, "held": tiers.held, "stash": tiers.stashed,
             "store": any(v.stores for v in sweeps)}
    found = [f"fusegen/strip/{n}.cuh" for n, used in asked.items() if used]
    return (*found, *_search_headers(sweeps))


def pair_headers(program: Program, sweeps: Sequence[SweepView]) -> tuple[str, ...]:
    """Where sweeps or lists work on elements of 16 bits two at a time."""
    lists = [c for v in sweeps for c in v.lists]
    listed = any((c.pairs and c.way == "streamed") or (c.short and c.short.items) for c in lists)
    sought = any(s.pairs for v in sweeps for s in v.searches)
    if not listed and not sought and not any(v.fold_pairs for v in sweeps):
        return ()
    read = {p.dtype.name for p in program.inputs if p.dtype.name in PAIR_TYPES}
    return (*(_PAIRS[n] for n in sorted(read)), "fusegen/pairs/items.cuh")


def list_headers(
    program: Program, sweeps: Sequence[SweepView], schedule: CudaSchedule
) -> tuple[str, ...]:
    """How K-best lists are kept: streamed, or in lanes."""
    lists = [c for v in sweeps for c in v.lists]
    names = dict.fromkeys(n for c in lists for n in (
        _of_streamed(c, schedule) if c.way == "streamed" else _of_lanes(c, schedule)))
    if any(waiting_lists(k, schedule) for k in program.kernels):
        names["band_entries"] = None
    return tuple(f"fusegen/topk/{name}.cuh" for name in names)


def meet_headers(sweeps: Sequence[SweepView], schedule: CudaSchedule) -> tuple[str, ...]:
    """How the states of a team's threads become one."""
    return (schedule.merge.header,) if any(v.state for v in sweeps) else ()


def _of_streamed(top: ListView, schedule: CudaSchedule) -> list[str]:
    plan = top.plan
    if schedule.home.notes:
        return ["packed_keys", *(["slices"] if schedule.split else []), "noted"]
    asked = {
        "wide_keys": plan.key.wide, "packed_keys": not plan.key.wide,
        "first_threshold": plan.groups > 0, "guess": plan.guess, "look_ahead": plan.samples > 0,
        "tile": True, "slices": schedule.split, "gather": schedule.clustered, "finish": True,
    }
    return [name for name, wanted in asked.items() if wanted]


def _of_lanes(top: ListView, schedule: CudaSchedule) -> list[str]:
    assert top.short is not None
    if top.way == "collected":
        kind = "pair" if top.short.items else "item"
        keys = "pair_keys" if top.short.items else "lane_keys"
        team = "_slices" if schedule.split else "_cluster" if schedule.clustered else ""
        return [keys, f"each_{kind}", f"{top.way}{team}"]
    return ["pair_keys" if top.short.items else "lane_keys", top.way]
