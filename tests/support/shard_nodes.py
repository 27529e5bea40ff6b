"""Ranks in nodes, two of two: states meet inside a node first, then across nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fusegen as fg
from fusegen.distributed import levels, ranks
from support import state_cases as cases
from support import vector_library
from support.shard_cases import (
    PIPELINES,
    RANKS,
    L,
    cuts,
    differentiated,
    raises,
    same_everywhere,
    shard,
    tensor,
    torch,
    wanted,
)

STEPS = {n: fg.distributed.sharded(p, per_node=2) for n, p in PIPELINES.items()}
ONCE = {n: fg.distributed.sharded(p, per_node=2, checks="once") for n, p in PIPELINES.items()}


@contextmanager
def counted() -> Iterator[list[tuple[int, int]]]:
    """(members, bytes received from each) of this rank's exchanges."""
    found: list[tuple[int, int]] = []
    usual = ranks.Ranks.gathered

    def gathered(self: Any, mine: Any, what: str) -> Any:
        if self.size > 1:
            found.append((self.size, mine.numel() * mine.element_size()))
        return usual(self, mine, what)

    ranks.Ranks.gathered = gathered  # type: ignore[method-assign]
    try:
        yield found
    finally:
        ranks.Ranks.gathered = usual  # type: ignore[method-assign]


def nodes_of_any_split(name: str) -> Callable[[int], None]:
    """Uneven shards, empty ones, ties, and nodes without a column."""
    def case(rank: int) -> None:
        rng = np.random.default_rng(len(name) + 1)
        for trial in range(6):
            n = int(rng.integers(20, 90))
            x = rng.normal(0, 3, (3, n)).astype("f4")
            x = np.round(x) if trial % 2 else x
            at = cuts(rng, n)
            at = [0, 0, 0, n // 3, n] if trial == 4 else [0, n // 3, n, n, n] if trial == 5 else at
            given, step = cases.arguments(name, x), STEPS[name]
            if trial % 3 == 2:
                step = fg.distributed.sharded(PIPELINES[name], per_node=2, checks="once")
            found = step(*shard(given, at[rank], at[rank + 1]))
            same_everywhere(found)
            cases.near(found, wanted(name, given))
    return case


def hard_rows_by_nodes(rank: int) -> None:
    x = cases.hard_rows()
    for name in cases.HARD_TEXTS:
        for steps in (STEPS, ONCE):
            with np.errstate(all="ignore"):
                cases.near(steps[name](tensor(x[:, 2 * rank : 2 * rank + 2])), L[name](x))
    none = STEPS["logsumexp"](torch.zeros(0, 8))
    assert none.shape == (0,)
    for steps in (STEPS, ONCE):
        assert steps["logsumexp"](torch.zeros(0, 4)).shape == (0,)


def order_is_kept_by_nodes(rank: int) -> None:
    """Of a row, at both levels; nodes may come in any order, but each in one run."""
    x, p = np.arange(24, dtype="f4").reshape(2, 12), fg.Pipeline(cases.ends)
    for checks in ("every", "once"):
        step = fg.distributed.sharded(p, per_node=2, checks=checks)
        at = (0, 5, 5, 9, 12)
        cases.near(step(tensor(x[:, at[rank] : at[rank + 1]])), (x[:, 0], x[:, -1]))
        backwards, ends = (9, 5, 2, 0), (12, 9, 5, 2)
        i, j = backwards[rank], ends[rank]
        cases.near(step(tensor(x[:, i:j]), at=i), (x[:, 0], x[:, -1]))
        turns = (0, 6, 3, 9)[rank]
        raises(lambda s=step, i=turns: s(tensor(x[:, i : i + 3]), at=i), fg.ExchangeError,
               r"columns of ranks 0 … 1 are no run.*\(6, 9\)")


def nodes_of_meshes_and_hosts(rank: int) -> None:
    x = np.random.default_rng(6).normal(size=(2, 12)).astype("f4")
    mine, p = tensor(x[:, 3 * rank : 3 * rank + 3]), PIPELINES["softmax_topk"]
    mesh = torch.distributed.init_device_mesh("cpu", (2, 2), mesh_dim_names=("node", "gpu"))
    for step in (fg.distributed.sharded(p, mesh), fg.distributed.sharded(p, mesh, checks="once")):
        with counted() as sent:
            cases.near(step(mine), wanted("softmax_topk", [x]))
        assert {size for size, _ in sent} == {2}
    raises(lambda: fg.distributed.sharded(p, mesh, per_node=2)(mine), fg.ArgumentError,
           "beside a mesh")
    crossed = torch.distributed.DeviceMesh("cpu", [[1, 0], [2, 3]])
    raises(lambda: fg.distributed.sharded(p, crossed)(mine), fg.ArgumentError, "do not rise")
    usual = levels.host_name
    for names, size in (("aabb", 2), ("aaaa", 4), ("abcd", 4)):
        levels.host_name = lambda names=names: names[rank]
        levels._MADE.clear()
        with counted() as sent:
            cases.near(fg.distributed.sharded(p, per_node="host")(mine), wanted(
                "softmax_topk", [x]))
        assert {s for s, n in sent if n != levels._NAME} == {size}
    for names in ("aaab", "abab"):
        levels.host_name = lambda names=names: names[rank]
        levels._MADE.clear()
        raises(lambda: fg.distributed.sharded(p, per_node="host")(mine), fg.ArgumentError,
               "not the same number of neighbours")
    levels.host_name = usual
    raises(lambda: fg.distributed.sharded(p, per_node=3)(mine), fg.ArgumentError,
           "4 ranks are no whole nodes of 3")
    for wrong in (0, True, "rack"):
        raises(lambda w=wrong: fg.distributed.sharded(p, per_node=w), fg.ArgumentError, "per_node")


def the_same_bits_by_nodes(rank: int) -> None:
    """Of pieces, whoever holds them and wherever they meet; uneven, with an empty node, too."""
    x = np.random.default_rng(2).normal(0, 3, (3, 1000)).astype("f4")
    for name in ("logsumexp", "var_mean", "softmax_topk"):
        p = PIPELINES[name]
        alone = p.finish(p.states(x, at=0, deterministic=True, pieces=64))
        for at in ((0, 256, 512, 768, 1000), (0, 64, 64, 896, 1000), (0, 1000, 1000, 1000, 1000),
                   (0, 192, 448, 704, 1000), (0, 0, 0, 320, 1000)):
            for checks in ("every", "once"):
                step = fg.distributed.sharded(p, per_node=2, deterministic=True, pieces=64,
                                              checks=checks)
                found = step(tensor(x[:, at[rank] : at[rank + 1]]))
                for f, w in zip(cases.flat(found), cases.flat(alone), strict=True):
                    np.testing.assert_array_equal(f, w)


def gradients_by_nodes(rank: int) -> None:
    rng = np.random.default_rng(3)
    x, g = rng.normal(size=(2, 3, 40))
    step = fg.distributed.sharded(L["softmax"], per_node=2)
    p = np.exp(x - x.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    at = (0, 7, 7, 30, 40)
    mine = slice(at[rank], at[rank + 1])
    *_, found = differentiated(step, [tensor(x[:, mine])], tensor(g[:, mine]))
    np.testing.assert_allclose(found, (p * (g - (p * g).sum(-1, keepdims=True)))[:, mine],
                               rtol=1e-10, atol=1e-12)
    q, k, v = (rng.normal(size=s) for s in ((9, 8), (26, 8), (26, 8)))
    at = (0, 3, 3, 20, 26)
    mine = slice(at[rank], at[rank + 1])
    attention = fg.distributed.sharded(fg.library.attention, per_node=2)
    found = attention(tensor(q), tensor(k[mine]), tensor(v[mine]), None, None,
                      tensor(np.arange(17, 26)), scale=0.3, causal=True)
    same_everywhere(found)
    cases.near(found, vector_library.attention(q, k, v, positions=np.arange(17, 26), scale=0.3,
                                               causal=True), 1e-12)


def what_differs_in_another_node(rank: int) -> None:
    """Every rank hears of it; checked once, nothing looks like a result on any."""
    odd, x = rank == 1, torch.zeros(3, 8)
    for steps in (STEPS, {n: fg.distributed.sharded(p, per_node=2, checks="once")
                          for n, p in PIPELINES.items()}):
        raises(lambda s=steps: s["topk"](x[: 2 + odd]), fg.ExchangeError,
               r"ranks 0, 2, 3: topk.*rank 1: .* rows \(3,\)")
        raises(lambda s=steps: s["topk"](x, k=True if odd else 3),
               Exception, "" if odd else "the call failed on rank 1")
        cases.near(steps["topk"](x), (np.zeros((3, 5)), np.tile(np.arange(5), (3, 1))))
    p = fg.Pipeline(cases.TEXTS["topk"])
    step = fg.distributed.sharded(p, per_node=2, checks="once")
    a, b = torch.zeros(2, 8), torch.ones(2, 9)
    step(a), step(b)
    step.verify()
    for stray in range(RANKS):
        values, at = step(b if rank == stray else a)
        assert values.isnan().all()
        assert (at == -1).all()
        with pytest.raises(fg.ExchangeError, match="met states of another call"):
            step.verify()
        assert step(a)[1].tolist() == [[0, 1, 2, 3, 4]] * 2
        step.verify()


def bytes_by_level(rank: int) -> None:
    """What the plan says, and what is sent: across nodes one state, whatever a node's ranks."""
    step = fg.distributed.sharded(PIPELINES["softmax_topk"], per_node=2)
    plan = step.plan(64, 128_256, dtype="bfloat16", k=64)
    assert (plan.per_node, plan.inside_bytes, plan.across_bytes) == (2, 99_328, 99_328)
    assert plan.exchanged_bytes == 2 * 99_328
    assert "one all-gather inside nodes of 2, of 99,328 bytes (776 a row and rank), and one " \
        "across 2 nodes, of 99,328 (776 a row and node)" in str(plan)
    x, plan = torch.zeros(3, 8), step.plan(3, 32, k=4)
    step(x, k=4)
    with counted() as sent:
        step(x, k=4)
    assert [size for size, _ in sent] == [2] * 4  # headers, then states
    assert [size * n for size, n in sent[2:]] == [plan.inside_bytes, plan.across_bytes]
    pieced = fg.distributed.sharded(PIPELINES["logsumexp"], per_node=2, deterministic=True,
                                    pieces=64)
    plan = pieced.plan(3, 1600)
    assert (plan.states, plan.node_states) == (3, 3)
    assert fg.distributed.sharded(PIPELINES["topk"]).plan(3, 32).across_bytes == 0


NODE_CASES: dict[str, Callable[[int], None]] = {
    **{f"nodes: any split of {n}": nodes_of_any_split(n) for n in (
        "logsumexp", "softmax_topk", "var_mean", "many", "weighted_mean")},
    **{f.__name__.replace("_", " "): f for f in (
        hard_rows_by_nodes, order_is_kept_by_nodes, nodes_of_meshes_and_hosts,
        the_same_bits_by_nodes, gradients_by_nodes, what_differs_in_another_node, bytes_by_level)},
}
