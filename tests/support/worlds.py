"""Processes over gloo, forked from one that has imported all: `python -m support.worlds DIR`.

A world is a number of ranks that run its cases in order, all ranks the same ones. What becomes of
each case on each rank is a JSON file in DIR: {case: "" or a traceback}.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from support.forked import child

SECONDS = 200.0  # for a world; it is killed then


@dataclass(frozen=True)
class World:
    """Ranks, and what they do; each case gets its rank."""

    name: str
    size: int
    cases: Mapping[str, Callable[[int], object]]
    timeout: float = 60.0  # of the group
    seconds: dict[str, float] = field(default_factory=dict)


def rank_of(world: World, rank: int, folder: Path) -> None:
    """One rank: every case, up to the first that fails, behind which the group may be out of
    step."""
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / world.name}.meeting", rank=rank,
        world_size=world.size, timeout=timedelta(seconds=world.timeout))
    found: dict[str, str] = {}
    for name, case in world.cases.items():
        began = time.monotonic()
        try:
            case(rank)
            found[name] = ""
        except BaseException:
            found[name] = traceback.format_exc()
        world.seconds[name] = time.monotonic() - began
        (folder / f"{world.name}.{rank}.json").write_text(json.dumps(found))
        if found[name]:
            break
    if rank == 0 and "SHOW_SECONDS" in os.environ:
        print({n: round(s, 2) for n, s in world.seconds.items()}, file=sys.stderr)


def run(worlds: list[World], folder: Path) -> None:
    """All worlds, side by side; each rank is a child of a child that watches it."""
    watchers = []
    for world in worlds:
        for rank in range(world.size):
            pid = os.fork()
            if pid == 0:
                child(lambda w=world, r=rank: rank_of(w, r, folder), SECONDS)
                os._exit(0)
            watchers.append(pid)
    for pid in watchers:
        os.waitpid(pid, 0)


def outcomes(folder: Path, name: str, size: int) -> list[dict[str, Any]]:
    """By rank; of a rank that wrote nothing nothing."""
    files = [folder / f"{name}.{rank}.json" for rank in range(size)]
    return [json.loads(f.read_text()) if f.exists() else {} for f in files]


if __name__ == "__main__":
    from support import light  # noqa: F401
    from support.shard_worlds import PIPELINES, WORLDS

    PIPELINES["logsumexp"].source("cpu")  # all that fusegen loads when it is needed
    run(WORLDS, Path(sys.argv[1]))
