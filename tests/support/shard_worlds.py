"""Of tests/test_distributed.py: a world of ranks that live, others of ranks that are lost."""

from __future__ import annotations

import os
import time

import fusegen as fg
from support.shard_cases import CASES, PIPELINES, RANKS, raises, torch
from support.worlds import World

LIMIT = 4.0  # seconds that a group waits for who does not come
X = torch.zeros(2, 8)


def killed(rank: int) -> None:
    """Rank 1 ends between two calls."""
    step = fg.distributed.sharded(PIPELINES["logsumexp"])
    step(X)
    if rank == 1:
        os._exit(9)
    for _ in range(2):
        in_time(lambda: raises(lambda: step(X), fg.ExchangeError, "did not get states"))


def absent(rank: int) -> None:
    """Rank 1 does not come."""
    step = fg.distributed.sharded(PIPELINES["logsumexp"])
    step(X)
    if rank == 1:
        time.sleep(LIMIT + 4)
        return
    in_time(lambda: raises(lambda: step(X), fg.ExchangeError, "did not get states"))


def new_on_one(rank: int) -> None:
    """Checked once, rank 1 makes a call that is new to it, the others one that they know."""
    from datetime import timedelta

    step = fg.distributed.sharded(PIPELINES["logsumexp"], checks="once",
                                  timeout=timedelta(seconds=LIMIT))
    step(X)
    what = "their headers" if rank == 1 else "states"
    in_time(lambda: raises(lambda: step(X[:1] if rank == 1 else X), fg.ExchangeError,
                           f"did not get {what}"))


def in_time(call) -> None:
    began = time.monotonic()
    call()
    assert time.monotonic() - began < LIMIT + 3


WORLDS = [
    World("living", RANKS, CASES),
    *(World(f.__name__, 3, {"it": f}, LIMIT) for f in (killed, absent, new_on_one)),
]
