"""States of several ranks in one table: packed before an exchange, merged behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fusegen.distributed.calls import Call
from fusegen.distributed.packets import Header, poison
from fusegen.distributed.pieces import runs_of
from fusegen.distributed.ranks import Members
from fusegen.pipeline.states.columns import Spans
from fusegen.pipeline.states.pieced import PiecedStates, merge, whole_of
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.runs import merge_gathered


@dataclass(frozen=True, eq=False)
class Met:
    """States of every rank, in the order of their columns; `like`: one of this rank's."""

    like: States
    table: Any  # uint8 (states, rows · bytes), packed: torch's memory, also while a graph is made
    columns: Spans  # of each of them
    first: int  # of this rank's columns
    wrong: Any = None  # bool (), where the states are: is one of another call? None: of none


def met_of(
    like: States, table: Any, shards: Sequence[Spans], ranks: Members, wrong: Any = None
) -> Met:
    """table: uint8 (ranks, bytes), each as many states as the rank has, and what fills it up."""
    size = math.prod(like.array.shape)
    parts = sorted((span, rank, i) for rank, spans in enumerate(shards)
                   for i, span in enumerate(spans))
    columns, first = tuple(span for span, _, _ in parts), shards[ranks.rank][0][0]
    if [(rank, i) for _, rank, i in parts] == [(rank, 0) for rank in range(ranks.size)]:
        return Met(like, table[:, :size], columns, first, wrong)
    found = [table[rank, i * size : (i + 1) * size] for _, rank, i in parts]
    return Met(like, torch.stack(found), columns, first, wrong)  # no host's list goes to a device


def shards_of(starts: list[int], headers: list[Header], pieces: int | None) -> list[Spans]:
    """The columns of every state that every rank has."""
    return [runs_of(s, s + h.n_cols, pieces) for s, h in zip(starts, headers, strict=True)]


def padded(runs: Sequence[States], n_bytes: int) -> Any:
    """As a tensor, uint8 (n_bytes,): one after the other, then 0."""
    parts = [torch.as_tensor(s.array).reshape(-1) for s in runs]
    left = n_bytes - sum(p.numel() for p in parts)
    return torch.cat([*parts, parts[0].new_zeros(left)]) if left or len(parts) > 1 else parts[0]


def merged(call: Call, met: Met) -> States:
    """⊕ of all ranks' states."""
    runs = merged_runs(call, met)
    whole = runs[0] if call.pieces is None else whole_of(
        call.pipeline, PiecedStates(runs, call.pieces))
    if met.wrong is not None:
        poison(torch.as_tensor(whole.array), met.wrong)
    return whole


def merged_runs(call: Call, met: Met) -> tuple[States, ...]:
    """The same of states of some of the ranks: one, or runs of pieces that the row's own tree has
    not brought together yet."""
    mine = met.like.array
    table = _of_kind(mine, met.table.view(len(met.columns), *mine.shape))
    if call.pieces is None:
        return (merge_gathered(call.pipeline, met.like, table, met.columns),)
    parts = []
    for one, (first, end) in zip(table, met.columns, strict=True):
        seen = ((first, end),) if end > first else ()
        states = replace(met.like, array=one, n_cols=end - first, columns=seen)
        parts.append(PiecedStates((states,), call.pieces))
    return merge(call.pipeline, *parts).runs


def _of_kind(mine: Any, tensor: Any) -> Any:
    return tensor if isinstance(mine, torch.Tensor) else tensor.numpy()
