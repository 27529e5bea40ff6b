"""Ranks with a GPU each: `python -m support.gpu_ranks DIR` starts one for every GPU; with
`RANK SIZE` behind it, it is one.

What becomes of each case on each rank is a JSON file in DIR: {case: "" or a traceback}."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fusegen as fg
from fusegen.pipeline.remembered import MISS

torch = pytest.importorskip("torch", reason="torch is not installed")
dist = torch.distributed
SECONDS, LIMIT = 100, 2.0
"""For all of them; that a group waits for who does not come."""
L = fg.library.PIPELINES
K = {"k": 7}


def step_of(name: str, exchange: str = "symmetric", group: Any = None) -> Any:
    return fg.distributed.sharded(L[name], group, exchange=exchange)


def shard(x: Any, rank: int) -> Any:
    width = x.shape[-1] // dist.get_world_size()
    return x[..., rank * width : (rank + 1) * width].contiguous()


def drawn(seed: int, *shape: int) -> Any:
    """The same on every rank."""
    source = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(*shape, device="cuda", generator=source)


def same(found: Any, want: Any, rtol: float = 0.0) -> None:
    pairs = [(found, want)] if torch.is_tensor(found) else zip(found, want, strict=True)
    for f, w in pairs:
        assert f.shape == w.shape
        torch.testing.assert_close(f, w.to(f.dtype), rtol=rtol, atol=rtol, equal_nan=True)


def raises(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(fg.ExchangeError, match=words):
        call()


ORACLES: dict[str, Callable[[Any], Any]] = {
    "softmax_topk": lambda x: torch.topk(torch.softmax(x, -1), 7),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "argmax": lambda x: torch.argmax(x, -1),
    "var_mean": lambda x: torch.var_mean(x, -1, correction=0),
}


def like_collectives(rank: int) -> None:
    """Of several rows, several times, remembered or not; as an all-gather, and right."""
    size = dist.get_world_size()
    for name, oracle in ORACLES.items():
        more = K if name == "softmax_topk" else {}
        step, other = step_of(name), step_of(name, "collective")
        for turn in range(6):
            for rows in (1, 5, 700, 3000):
                x = drawn(turn * 10 + rows, rows, 1000 * size)
                mine = shard(x, rank)
                found = step(mine, **more)
                same(found, other(mine, **more), 1e-6)
                same(found, oracle(x.double()), 1e-5)
                assert turn == 0 or step._again((mine,), more, None, None) is not MISS
        step.verify()
        (once,) = step._ways.values()
        assert not once.why, once.why


def full_rows(rank: int) -> None:
    """A map behind the meeting; gradients."""
    step = step_of("cross_entropy")
    softmax = step_of("softmax")
    label = torch.arange(6, device="cuda") * 7
    for turn in range(3):
        x = drawn(turn, 6, 1500 * dist.get_world_size())
        mine = shard(x, rank)
        same(softmax(mine), shard(torch.softmax(x.double(), -1), rank), 1e-5)
        mine.requires_grad_()
        exact = x.double().requires_grad_()
        want = torch.nn.functional.cross_entropy(exact, label, reduction="none")
        found = step(mine, label)
        same(found, want, 1e-5)
        found.sum().backward()
        want.sum().backward()
        same(mine.grad, shard(exact.grad, rank), 1e-5)


def streams(rank: int) -> None:
    """Calls of several streams, without a wait between them; ranks at different speeds."""
    step, kept = step_of("softmax_topk"), []
    other = [torch.cuda.Stream() for _ in range(3)]
    xs = [drawn(i, 40, 4000) for i in range(30)]
    wants = [torch.topk(torch.softmax(x.double(), -1), 7) for x in xs]
    mine = [shard(x, rank) for x in xs]
    torch.cuda.synchronize()
    for i, x in enumerate(mine):
        with torch.cuda.stream(other[i % 3]):
            if i % 7 == rank:
                torch.cuda._sleep(2_000_000)
            kept.append(step(x, **K))
    torch.cuda.synchronize()
    for found, want in zip(kept, wants, strict=True):
        same(found, want, 1e-5)
    step.verify()


def graphs(rank: int) -> None:
    """Replays, and calls between them."""
    step, x = step_of("softmax_topk"), drawn(0, 3, 5000)
    mine = shard(x, rank)
    for _ in range(2):
        step(mine, **K)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(mine, **K)
    for turn in range(1, 40):
        x = drawn(turn, 3, 5000)
        mine.copy_(shard(x, rank))
        graph.replay()
        want = torch.topk(torch.softmax(x.double(), -1), 7)
        same(found, want, 1e-5)
        if turn % 3 == 0:
            same(step(mine, **K), want, 1e-5)
    step.verify()


def other_calls(rank: int) -> None:
    """Ranks whose calls cross: nothing of them is a result, and the next ones are right."""
    first, second = step_of("logsumexp"), step_of("argmax")
    x = drawn(0, 900, 4000)
    mine = shard(x, rank)
    for _ in range(2):
        first(mine), second(mine)
    torch.cuda.synchronize()
    a, b = (first(mine), second(mine)) if rank else (second(mine), first(mine))[::-1]
    assert bool(a.isnan().all())
    assert bool((b == -1).all())
    raises(first.verify, "met states of another call")
    dist.barrier()
    same(first(mine), torch.logsumexp(x.double(), -1), 1e-5)
    first.verify()


def lost(rank: int) -> None:
    """The last rank does not come: an error within bounded time, and nothing that looks like a
    result."""
    few = dist.new_group(timeout=timedelta(seconds=LIMIT))
    step, x = step_of("softmax_topk", group=few), drawn(0, 300, 4000)
    mine = shard(x, rank)
    for _ in range(3):
        step(mine, **K)
    torch.cuda.synchronize()
    if rank == dist.get_world_size() - 1:
        time.sleep(3 * LIMIT)
        return
    began = time.monotonic()
    values, at = step(mine, **K)
    assert bool(values.isnan().all())
    assert bool((at == -1).all())
    assert LIMIT / 2 < time.monotonic() - began < 3 * LIMIT
    for call in (lambda: step(mine, **K), step.verify):
        raises(call, "did not get states")


CASES: dict[str, Callable[[int], None]] = {f.__name__.replace("_", " "): f for f in (
    like_collectives, full_rows, streams, graphs, other_calls, lost)}


def rank_of(folder: Path, rank: int, size: int) -> None:
    """Every case, up to the first that fails."""
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=size,
        timeout=timedelta(seconds=30), device_id=torch.device("cuda", rank))
    found: dict[str, str] = {}
    for name, case in CASES.items():
        try:
            case(rank)
            torch.cuda.synchronize()
            found[name] = ""
        except BaseException:
            found[name] = traceback.format_exc()
        (folder / f"{rank}.json").write_text(json.dumps(found))
        if found[name]:
            break
    os._exit(0)  # a group that lost a rank waits for it


def run(folder: Path) -> dict[str, dict[int, str]]:
    """What became of each case on each rank; ranks are killed when their time is over."""
    size = torch.cuda.device_count()
    ranks = [subprocess.Popen([sys.executable, "-m", "support.gpu_ranks", str(folder), str(rank),
                               str(size)]) for rank in range(size)]
    until = time.monotonic() + SECONDS
    for one in ranks:
        try:
            one.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
    files = [folder / f"{rank}.json" for rank in range(size)]
    every = [json.loads(f.read_text()) if f.exists() else {} for f in files]
    return {name: {rank: one.get(name, "not reached") for rank, one in enumerate(every)}
            for name in CASES}


if __name__ == "__main__":
    where = Path(sys.argv[1])
    if len(sys.argv) > 2:
        rank_of(where, int(sys.argv[2]), int(sys.argv[3]))
    for case_name, outcomes in run(where).items():
        bad = {rank: text for rank, text in outcomes.items() if text}
        print(f"{case_name}: {bad or 'ok'}")
