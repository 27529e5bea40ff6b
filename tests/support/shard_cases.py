"""Rows sharded over four ranks: each case makes its calls on every rank, then looks at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fusegen as fg
from support import state_cases as cases
from support import vector_library

torch = pytest.importorskip("torch", reason="torch is not installed")
placed = pytest.importorskip("torch.distributed.tensor", reason="torch has no processes")
DTensor, Partial, Replicate, Shard = (
    placed.DTensor, placed.Partial, placed.Replicate, placed.Shard)
distribute_tensor = placed.distribute_tensor
RANKS = 4
Call = Callable[[], Any]
L = fg.library.PIPELINES
PIPELINES = {n: fg.Pipeline(t) for n, t in cases.TEXTS.items()}
STEPS = {n: fg.distributed.sharded(p) for n, p in PIPELINES.items()}
ONCE = {n: fg.distributed.sharded(p, checks="once") for n, p in PIPELINES.items()}


# ---- oracles: from the definitions, in float64 ----


def softmax(x: Any) -> Any:
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def best(x: Any, k: int) -> Any:
    """(values, columns) of the K greatest, NaN first, ties to the lowest column."""
    keys = np.where(np.isnan(x), np.inf, x)
    order = np.lexsort((np.broadcast_to(np.arange(x.shape[-1]), x.shape), -keys, ~np.isnan(x)), -1)
    order = order[..., :k]
    return np.take_along_axis(x, order, -1), order


def entropy(x: Any) -> Any:
    p = softmax(x)
    return -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), -1)


ORACLES: dict[str, Callable[..., Any]] = {
    "logsumexp": lambda x: x.max(-1) + np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1)),
    "topk": lambda x: best(x, 5),
    "argmax": lambda x: best(x, 1)[1][..., 0],
    "softmax_topk": lambda x: best(softmax(x), 5),
    "entropy": entropy,
    "var_mean": lambda x: (x.var(-1), x.mean(-1)),
    "norm2": lambda x: np.sqrt((x * x).sum(-1)),
    "weighted_mean": lambda s, v: (softmax(s) * v).sum(-1),
    "moe_gate": lambda x: (lambda found: (found[0] / found[0].sum(-1, keepdims=True), found[1]))(
        best(softmax(x), 2)),
    "tempered": lambda x: best(softmax(0.7 * x), 2),
    "labelled": lambda x, i: -np.log(np.take_along_axis(softmax(x), i, -1)[..., 0]),
}


def wanted(name: str, given: Sequence[np.ndarray]) -> Any:
    """In float64; by the text as written where it is none of textbooks'."""
    if name not in ORACLES:
        return PIPELINES[name].reference(*given)
    return ORACLES[name](*[a if a.dtype.kind == "i" else a.astype("f8") for a in given])


# ---- shards ----


def tensor(array: np.ndarray) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array))


def shard(given: Sequence[np.ndarray], i: int, j: int) -> list[Any]:
    """Columns i to j of those that have columns."""
    whole = given[0].shape[-1]
    return [tensor(a[..., i:j] if a.shape[-1] == whole > 1 else a) for a in given]


def cuts(rng: np.random.Generator, n: int, size: int = RANKS) -> list[int]:
    """Shards of any width, none too."""
    return [0, *sorted(map(int, rng.integers(0, n + 1, size - 1))), n]


def same_everywhere(found: Any) -> None:
    """Bits that every rank has."""
    mine = [(a.dtype.str, a.shape, a.tobytes()) for a in cases.flat(found)]
    every: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(every, mine)
    assert all(one == every[0] for one in every)


def raises(call: Call, kind: type[Exception], words: str) -> None:
    """At the line that called."""
    with pytest.raises(kind, match=f"(?s)shard_.*{words}"):
        call()


# ---- what is asked of every pipeline ----


def any_split(name: str) -> Callable[[int], None]:
    def case(rank: int) -> None:
        rng = np.random.default_rng(len(name))
        for trial in range(4):
            n = int(rng.integers(20, 90))
            x = rng.normal(0, 3, (3, n)).astype("f4")
            x = np.round(x) if trial % 2 else x  # ties
            given, at = cases.arguments(name, x), cuts(rng, n)
            step = (STEPS, ONCE)[trial // 2][name]
            found = step(*shard(given, at[rank], at[rank + 1]))
            same_everywhere(found)
            cases.near(found, wanted(name, given))
    return case


def special_rows(rank: int) -> None:
    x = cases.hard_rows()
    for name in cases.HARD_TEXTS:
        with np.errstate(all="ignore"):
            cases.near(STEPS[name](tensor(x[:, 2 * rank : 2 * rank + 2])),
                       L[name](x))  # as of whole rows
    nan = np.full((1, 40), 1.0, "f4")
    nan[0, [13, 27]] = np.nan
    values, at = STEPS["topk"](tensor(nan[:, 10 * rank : 10 * rank + 10]))
    assert at.tolist() == [[13, 27, 0, 1, 2]]
    assert values.isnan().tolist() == [[True, True, False, False, False]]


def ties_across_shards(rank: int) -> None:
    x = np.zeros((2, 40), "f4")
    x[1, [11, 12, 29, 30]] = 1
    values, at = STEPS["topk"](tensor(x[:, 10 * rank : 10 * rank + 10]))
    assert at.tolist() == [[0, 1, 2, 3, 4], [11, 12, 29, 30, 0]]
    assert STEPS["argmax"](tensor(x[:, 10 * rank : 10 * rank + 10])).tolist() == [0, 11]
    assert values[1].tolist() == [1, 1, 1, 1, 0]


def ordered_monoids(rank: int) -> None:
    step = fg.distributed.sharded(fg.Pipeline(cases.ends))
    x = np.arange(24, dtype="f4").reshape(2, 12)
    at = (0, 5, 5, 9, 12)
    cases.near(step(tensor(x[:, at[rank] : at[rank + 1]])), (x[:, 0], x[:, -1]))
    backwards = (9, 5, 2, 0, 12)  # rank 0 has the last columns
    i, j = backwards[rank], (12, 9, 5, 2)[rank]
    cases.near(step(tensor(x[:, i:j]), at=i), (x[:, 0], x[:, -1]))


def places_of_shards(rank: int) -> None:
    """Told, not told, and told otherwise in the next call."""
    x = np.random.default_rng(3).normal(size=(2, 30)).astype("f4")
    step, want = fg.distributed.sharded(PIPELINES["topk"]), wanted("topk", [x])
    for at in ((0, 9, 9, 30, 30), (0, 0, 0, 0, 30), (0, 8, 15, 23, 30), (0, 9, 9, 30, 30)):
        mine = tensor(x[:, at[rank] : at[rank + 1]])
        cases.near(step(mine), want)
        cases.near(step(mine, at=at[rank]), want)
        cases.near(step(mine, columns=30), want)
        cases.near(step(mine, at=at[rank], columns=30), want)
    assert step.states(tensor(x[:, at[rank] : at[rank + 1]])).n_cols == 30


def many_rows(rank: int) -> None:
    """More bytes than the first block holds."""
    x = np.random.default_rng(1).normal(size=(5, 121, 41)).astype("f4")
    at = (0, 11, 20, 20, 41)
    for steps in (STEPS, ONCE):
        found = steps["softmax_topk"](tensor(x[..., at[rank] : at[rank + 1]]))
        same_everywhere(found)
        cases.near(found, wanted("softmax_topk", [x]))
    none = STEPS["softmax_topk"](tensor(x[:, :0, at[rank] : at[rank + 1]]))
    assert [tuple(f.shape) for f in none] == [(5, 0, 5), (5, 0, 5)]


def kinds_and_types(rank: int) -> None:
    x = np.random.default_rng(2).normal(size=(3, 20))
    part = slice(5 * rank, 5 * rank + 5)
    step = STEPS["logsumexp"]
    mine = step(x[:, part])
    assert isinstance(mine, np.ndarray)
    assert mine.dtype == np.float64
    np.testing.assert_allclose(mine, wanted("logsumexp", [x]), rtol=1e-14)
    half = torch.from_numpy(x).bfloat16()
    found = step(half[:, part])
    assert found.dtype is torch.bfloat16
    np.testing.assert_allclose(found.float(), wanted("logsumexp", [half.double().numpy()]), 1e-2)


def groups_of_some(rank: int) -> None:
    x = np.random.default_rng(6).normal(size=(2, 12)).astype("f4")
    pairs = [torch.distributed.new_group([0, 2]), torch.distributed.new_group([1, 3])]
    step = fg.distributed.sharded(PIPELINES["softmax_topk"], pairs[rank % 2])
    place = rank // 2
    cases.near(step(tensor(x[:, 6 * place : 6 * place + 6])), wanted("softmax_topk", [x]))
    mesh = torch.distributed.init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    step = fg.distributed.sharded(PIPELINES["softmax_topk"], mesh["columns"])
    place = rank % 2
    cases.near(step(tensor(x[:, 6 * place : 6 * place + 6])), wanted("softmax_topk", [x]))
    alone = [torch.distributed.new_group([r]) for r in range(RANKS)][rank]
    for checks in ("every", "once"):
        step = fg.distributed.sharded(PIPELINES["softmax_topk"], alone, checks=checks)
        cases.near(step(tensor(x)), wanted("softmax_topk", [x]))
    mesh = torch.distributed.init_device_mesh("cpu", (2, 2, 1))
    raises(lambda: fg.distributed.sharded(PIPELINES["topk"], mesh)(tensor(x)), fg.ArgumentError,
           "3 dimensions")


# ---- what ranks must not do, said on every rank ----


def calls_that_differ(rank: int) -> None:
    odd, x = rank == 1, torch.zeros(3, 8)
    ours = ((lambda s: s["topk"](x[: 2 + odd]), r"ranks 0, 2, 3: topk.*rank 1: .* rows \(3,\)"),
            (lambda s: s["topk"](x.double() if odd else x), "x float64"),
            (lambda s: s["topk"](x, k=3 + odd), "k=4"),
            (lambda s: s["topk"](x, k=65 if odd else 3), "k=65"),
            (lambda s: s["argmax" if odd else "logsumexp"](x), "rank 1: argmax"),
            (lambda s: s["tempered"](x, t=0.5 + odd), "t=1.5"),
            (lambda s: s["topk"](torch.zeros(3000 if odd else 3, 8)), r"rows \(3000,\)"),
            (lambda s: s["topk"](x, columns=32 + odd), "columns=33"),
            (lambda s: s["topk"](x, columns=31), r"not one row.*columns=31"),
            (lambda s: s["topk"](x, at=8 * rank + odd), r"not one row.*rank 1: 9 … 16"),
            (lambda s: s["topk"](x, at=9 * rank), "not one row"))
    new = {n: fg.distributed.sharded(p, checks="once") for n, p in PIPELINES.items()}
    for steps in (STEPS, new):
        for call, words in ours:
            raises(lambda c=call, s=steps: c(s), fg.ExchangeError, words)
        raises(lambda s=steps: s["topk"](x, at=None if odd else 8 * rank), fg.ExchangeError,
               "not on 1")
        cases.near(steps["topk"](x), (np.zeros((3, 5)), np.tile(np.arange(5), (3, 1))))


@fg.pipeline
def apart(x: Any) -> Any:
    return fg.sum(fg.where(x > fg.mean(x), fg.exp(x), 0.0))


def a_call_that_fails_on_one_rank(rank: int) -> None:
    x = torch.zeros(3, 8)
    for checks in ("every", "once"):
        step = fg.distributed.sharded(PIPELINES["topk"], checks=checks)
        raises(lambda s=step: s(x, k=0 if rank == 2 else 3),
               fg.PipelineError if rank == 2 else fg.ExchangeError,
               "got 0" if rank == 2 else "failed on rank 2.*got 0")
        raises(lambda s=step: s(x, at=-1), fg.ArgumentError, "at")
        raises(lambda s=step: s([[1.0]] if rank == 1 else x),
               fg.ArgumentError if rank == 1 else fg.ExchangeError, "x is list, no array")
    raises(lambda: fg.distributed.sharded(apart)(x), fg.PipelineError, "keeps a sweep of its own")
    raises(lambda: STEPS["topk"](x[:, :0]), fg.ShapeError, "seen no column")
    raises(lambda: fg.distributed.sharded(len), fg.ArgumentError, "takes a pipeline")
    raises(lambda: fg.distributed.sharded(L["topk"], checks="never"), fg.ArgumentError, "never")


def orders_that_differ(rank: int) -> None:
    """Both calls are known on every rank; then their states meet: nothing looks like a result."""
    p = fg.Pipeline(cases.TEXTS["topk"])
    step = fg.distributed.sharded(p, checks="once")
    a, b = torch.zeros(2, 8), torch.ones(2, 9)
    step(a), step(b)
    step.verify()
    values, at = step(b if rank == 3 else a)
    assert values.isnan().all()
    assert (at == -1).all()
    raises(step.verify, fg.ExchangeError, "met states of another call")
    assert step(a)[1].tolist() == [[0, 1, 2, 3, 4]] * 2
    step.verify()


def bytes_of_exchanges(rank: int) -> None:
    plan = STEPS["softmax_topk"].plan(64, 128_256, dtype="bfloat16", k=64)
    assert plan.state_bytes == 2 * 4 + 64 * (4 + 8)
    assert plan.exchanged_bytes == RANKS * 64 * plan.state_bytes
    assert plan.gathered_bytes == 64 * 128_256 * 2
    assert "one all-gather of 198,656 bytes (776 a row and rank); of the rows themselves " \
        "16,416,768, 82.6 × as many" in str(plan)
    states = STEPS["softmax_topk"].states(torch.zeros(3, 8), k=4)
    plan = STEPS["softmax_topk"].plan(3, 32, k=4)
    assert plan.exchanged_bytes == RANKS * states.array.numel()


def same_bits_for_any_number_of_ranks(rank: int) -> None:
    """Of sums that round, in forward and backward; cut where pieces are, the last one anywhere."""
    x = np.random.default_rng(2).normal(0, 3, (3, 1000)).astype("f4")
    weights = np.cos(x)
    steps = {n: fg.distributed.sharded(PIPELINES[n], deterministic=True, pieces=64)
             for n in ("logsumexp", "var_mean", "weighted_mean", "softmax_topk")}
    once = fg.distributed.sharded(PIPELINES["var_mean"], deterministic=True, pieces=64,
                                  checks="once")
    gradient = fg.distributed.sharded(L["softmax"], deterministic=True, pieces=64)
    bits: dict[str, set[bytes]] = {}
    for at in ((0, 1000, 1000, 1000, 1000), (0, 64, 192, 512, 1000), (0, 256, 512, 768, 1000),
               (0, 0, 320, 960, 1000)):
        mine = slice(at[rank], at[rank + 1])
        agreed = [("once", once)] if at[3] in (512, 768) else []  # new to every rank
        for name, step in (*steps.items(), *agreed):
            given = [x, weights] if name == "weighted_mean" else [x]
            found = step(*[tensor(a[:, mine]) for a in given])
            same_everywhere(found)
            cases.near(found, wanted("var_mean" if name == "once" else name, given))
            bits.setdefault(name, set()).add(b"".join(f.tobytes() for f in cases.flat(found)))
        part = tensor(x[:, mine]).requires_grad_()
        gradient(part).square().sum().backward()
        every: list[Any] = [None] * RANKS
        torch.distributed.all_gather_object(every, part.grad.numpy())
        bits.setdefault("gradient", set()).add(np.concatenate(every, -1).tobytes())
    assert {n: len(b) for n, b in bits.items()} == dict.fromkeys(bits, 1)
    step = steps["logsumexp"]
    raises(lambda: step(tensor(x[:, 250 * rank : 250 * rank + 250])),
           fg.ExchangeError if rank == 0 else fg.ArgumentError, "inside a piece of 64")
    plan = step.plan(3, 1000)
    assert (plan.states, plan.exchanged_bytes) == (1, RANKS * 3 * 8)
    assert step.plan(3, 1600).states == 3
    raises(lambda: fg.distributed.sharded(L["topk"], pieces=64), fg.ArgumentError, "deterministic")


def dtensors(rank: int) -> None:
    """Columns along one dimension of a mesh, rows or copies along the other; uneven chunks."""
    mesh = torch.distributed.init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    x = np.random.default_rng(8).normal(size=(2, 3, 13)).astype("f4")
    label = np.arange(6).reshape(2, 3) * 2
    for rows in (Shard(1), Replicate(), Shard(0)):
        given = distribute_tensor(tensor(x), mesh, [rows, Shard(2)])
        found = STEPS["softmax_topk"](given)
        for f, w in zip(found, wanted("softmax_topk", [x]), strict=True):
            assert f.placements == (rows, Replicate())
            assert f.shape == w.shape
            cases.near(f.full_tensor(), w)
        loss = STEPS["labelled"](given, distribute_tensor(tensor(label), mesh, [rows, Replicate()]))
        assert loss.placements == (rows, Replicate())
        cases.near(loss.full_tensor(), wanted("labelled", [x, label[..., None]]))
    given, step = given.requires_grad_(), fg.distributed.sharded(L["softmax"])
    (found,) = torch.autograd.grad(step(given).square().sum(), given)
    exact = tensor(x.astype("f8")).requires_grad_()
    (want,) = torch.autograd.grad(torch.softmax(exact, -1).square().sum(), exact)
    assert found.placements == given.placements
    cases.near(found.full_tensor(), want)
    whole = distribute_tensor(tensor(x), mesh, [Shard(0), Replicate()])
    cases.near(STEPS["logsumexp"](whole).full_tensor(), wanted("logsumexp", [x]))
    q, k, v = (np.random.default_rng(1).normal(size=s).astype("f4")
               for s in ((2, 4, 8), (2, 9, 8), (2, 9, 8)))
    attention = fg.distributed.sharded(fg.library.attention)
    found = attention(distribute_tensor(tensor(q), mesh, [Shard(0), Replicate()]),
                      *(distribute_tensor(tensor(a), mesh, [Shard(0), Shard(1)]) for a in (k, v)),
                      scale=0.3)
    assert found.placements == (Shard(0), Replicate())
    cases.near(found.full_tensor(), vector_library.attention(
        *(a.astype("f8") for a in (q, k, v)), scale=0.3), 2e-5)


PEERS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "norm2": lambda x: x.norm(dim=-1),
    "cross_entropy": lambda x, i: torch.nn.functional.cross_entropy(x, i, reduction="none"),
    "layer_norm": lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[-1:], w, b),
}


def differentiated(f: Callable[..., Any], given: list[Any], cotangent: Any) -> list[Any]:
    """The result, then gradients of the inputs of floats."""
    floats = [a.requires_grad_() for a in given if a.is_floating_point()]
    result = f(*given)
    return [result.detach(), *torch.autograd.grad(result, floats, cotangent)]


def gradient_of(name: str) -> Callable[[int], None]:
    """Forward and backward beside torch's own in float64, on whole rows."""
    def case(rank: int) -> None:
        rng = np.random.default_rng(12)
        x, at = rng.normal(0, 3, (5, 22)), cuts(rng, 22)
        more = {"cross_entropy": [np.arange(5) * 5], "layer_norm": list(rng.normal(size=(2, 22)))}
        whole = [x, *more.get(name, [])]
        mine = slice(at[rank], at[rank + 1])
        full = name in ("softmax", "log_softmax", "layer_norm")
        cotangent = rng.normal(size=x.shape if full else x.shape[:1])
        parts = [a[..., mine] if a.shape[-1] == 22 else a for a in (*whole, cotangent)]
        *given, mine_of_it = [tensor(a.astype("f4") if a.dtype.kind == "f" else a) for a in parts]
        found = differentiated(fg.distributed.sharded(L[name]), given, mine_of_it)
        want = differentiated(PEERS[name], [*map(tensor, whole)], tensor(cotangent))
        for f, w in zip(found, want, strict=True):
            cases.near(f, w[..., mine] if w.shape[-1] == 22 else w, 1e-5)
    return case


def full_rows(rank: int) -> None:
    """This shard's part, and row values beside it; a shard without columns has none."""
    x = np.random.default_rng(3).normal(size=(3, 26)).astype("f4")
    at = (0, 9, 9, 20, 26)
    mine = slice(at[rank], at[rank + 1])
    step = fg.distributed.sharded(L["absmax_quantize"])
    found, scale = step(tensor(x[:, mine]))
    want = np.abs(x).max(-1) / 127
    np.testing.assert_allclose(scale, want, rtol=1e-6)
    assert found.dtype is torch.int8
    assert np.abs(found.numpy() * want[:, None] - x[:, mine]).max(initial=0) <= want.max() * 0.51
    same_everywhere(scale)


def training_in_one_graph(rank: int) -> None:
    """A vocabulary-parallel loss: the head is sharded, and so is its gradient."""
    rng = np.random.default_rng(5)
    hidden, head, labels = rng.normal(size=(6, 8)), rng.normal(size=(20, 8)), np.arange(6) * 3
    step, mine = fg.distributed.sharded(L["cross_entropy"]), slice(5 * rank, 5 * rank + 5)

    def loss(h: Any, w: Any, labels: Any) -> Any:
        return step(h @ w.T, labels).mean()

    w = tensor(head[mine].astype("f4")).requires_grad_()
    given = tensor(hidden.astype("f4")), w, tensor(labels)
    exact = [tensor(a).requires_grad_(a is head) for a in (hidden, head, labels)]
    want = PEERS["cross_entropy"](exact[0] @ exact[1].T, exact[2]).mean()
    want.backward()
    for f in (loss, torch.compile(loss, backend="aot_eager", fullgraph=True)):
        w.grad = None
        found = f(*given)
        found.backward()
        cases.near(found, want, 1e-6)
        cases.near(w.grad, exact[1].grad[mine], 1e-5)


def gradients_that_are_not(rank: int) -> None:
    x = torch.zeros(3, 8, requires_grad=True)
    raises(lambda: STEPS["topk"](x), fg.TraceError, "top-K|topk")
    raises(lambda: STEPS["topk"](x if rank == 1 else x.detach()),
           fg.TraceError if rank == 1 else fg.ExchangeError, "topk")
    q, k = torch.zeros(3, 4, requires_grad=True), torch.zeros(5, 4)
    bias = torch.zeros(3, 5, requires_grad=True)
    attention = fg.distributed.sharded(fg.library.attention)
    raises(lambda: attention(q, k, k, bias, scale=1.0), fg.ArgumentError, "bias of attention")


def graphs(rank: int) -> None:
    """torch.compile, in one graph; numbers that vary are arguments of it."""
    x = np.random.default_rng(9).normal(size=(2, 24)).astype("f4")
    step = STEPS["tempered"]

    def decode(y: Any, t: float) -> Any:
        values, at = step(2 * y, t=t)
        return values.sum(-1), at + 1

    compiled = torch.compile(decode, backend="aot_eager", fullgraph=True)
    for t in (0.7, 0.9, 1.1):
        values, at = compiled(tensor(x[:, 6 * rank : 6 * rank + 6]), t)
        want = best(softmax(2 * t * x.astype("f8")), 2)
        cases.near((values, at), (want[0].sum(-1), want[1] + 1), 1e-5)


def dtensors_that_are_no_rows(rank: int) -> None:
    mesh = torch.distributed.init_device_mesh("cpu", (2, 2))
    x = torch.zeros(4, 8)
    step, two = STEPS["topk"], STEPS["weighted_mean"]
    parts = DTensor.from_local(x, mesh, [Replicate(), Partial()])
    columns = distribute_tensor(x, mesh, [Replicate(), Shard(1)])
    copies = distribute_tensor(x, mesh, [Replicate(), Replicate()])
    twice = distribute_tensor(x, mesh, [Shard(1), Shard(1)])
    raises(lambda: step(parts), fg.ArgumentError, "x is Partial.*redistribute")
    raises(lambda: step(twice), fg.ArgumentError, "columns of topk are sharded along several")
    raises(lambda: step(columns, at=0), fg.ArgumentError, "DTensors say where")
    raises(lambda: two(columns, copies), fg.ArgumentError, "cut apart differently along dim")
    raises(lambda: two(columns, x), fg.ArgumentError, "values, which is Tensor")


CASES: dict[str, Callable[[int], None]] = {
    **{f"any split of {n}": any_split(n) for n in cases.TEXTS},
    **{f"gradient of {n}": gradient_of(n) for n in PEERS},
    **{f.__name__.replace("_", " "): f for f in (
        special_rows, ties_across_shards, ordered_monoids, places_of_shards, many_rows,
        kinds_and_types, groups_of_some, calls_that_differ, a_call_that_fails_on_one_rank,
        orders_that_differ, bytes_of_exchanges, same_bits_for_any_number_of_ranks,
        dtensors,
        dtensors_that_are_no_rows, graphs, full_rows, training_in_one_graph,
        gradients_that_are_not)},
}
