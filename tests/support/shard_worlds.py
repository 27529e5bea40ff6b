"""Of tests/test_distributed.py: a world of ranks that live, others of ranks that are lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import fusegen as fg
from support.shard_cases import CASES, PIPELINES, RANKS, raises, torch
from support.shard_meetings import MEETING_CASES, shared_memory
from support.shard_nodes import NODE_CASES
from support.shard_steps import STEP_CASES
from support.shard_vectors import VECTOR_CASES
from support.worlds import World

LIMIT = 4.0  # seconds that a group waits for who does not come
X = torch.zeros(2, 8)


def known(checks: str, per_node: int | None = None, exchange: str = "auto") -> Any:
    """A call that all ranks have made, over a group that waits for LIMIT seconds: when kernels are
    there, and none of them is late for another reason."""
    p, limit = PIPELINES["logsumexp"], timedelta(seconds=LIMIT)
    fg.distributed.sharded(p)(X)
    few = torch.distributed.new_group(timeout=limit)
    limit = None if per_node else limit  # nodes wait as the group does
    step = fg.distributed.sharded(p, few, checks=checks, timeout=limit, per_node=per_node,
                                  exchange=exchange)
    step(X)
    return step


def killed(rank: int) -> None:
    """Rank 1 ends between two calls."""
    step = known("every")
    if rank == 1:
        os._exit(9)
    for _ in range(2):
        in_time(lambda: raises(lambda: step(X), fg.ExchangeError, "did not get states"))


def absent(rank: int) -> None:
    """Rank 1 does not come."""
    step = known("every")
    if rank == 1:
        time.sleep(LIMIT + 4)
        return
    in_time(lambda: raises(lambda: step(X), fg.ExchangeError, "did not get states"))


def absent_in_a_node(rank: int) -> None:
    """Rank 1 does not come; ranks of the other node hear of it, too."""
    step = known("every", per_node=2)
    if rank == 1:
        time.sleep(LIMIT + 4)
        return
    in_time(lambda: raises(lambda: step(X), fg.ExchangeError, "did not get states"))


def lost_in_memory(rank: int) -> None:
    """Rank 1 does not come to a meeting: the others have no results, and hear of it at their next
    call."""
    with shared_memory():
        step = known("once", exchange="symmetric")
        for _ in range(2):
            step(X)
        if rank == 1:
            time.sleep(LIMIT + 4)
            return
        assert step(X).isnan().all()
        for _ in range(2):
            in_time(lambda: raises(lambda: step(X), fg.ExchangeError, "did not get states"))
        raises(step.verify, fg.ExchangeError, "did not get states")


def new_on_one(rank: int) -> None:
    """Checked once, rank 1 makes a call that is new to it, the others one that they know."""
    step, what = known("once"), "their headers" if rank == 1 else "states"
    in_time(lambda: raises(lambda: step(X[:1] if rank == 1 else X), fg.ExchangeError,
                           f"did not get {what}"))


def in_time(call: Callable[[], None]) -> None:
    began = time.monotonic()
    call()
    assert time.monotonic() - began < 4 * LIMIT


WORLDS = [
    World("living", RANKS, {**CASES, **STEP_CASES, **VECTOR_CASES, **NODE_CASES,
                              **MEETING_CASES}),
    *(World(f.__name__, 3, {"it": f}) for f in (killed, absent, new_on_one,
                                                    lost_in_memory)),
    World("absent_in_a_node", RANKS, {"it": absent_in_a_node}),
]
