"""Steps that are remembered, beside those that are looked at each time: the same bits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fusegen as fg
from fusegen.pipeline.remembered import MISS
from support import state_cases as cases
from support.shard_cases import (
    PEERS,
    PIPELINES,
    RANKS,
    STEPS,
    L,
    differentiated,
    raises,
    shard,
    tensor,
    torch,
    wanted,
)

SCALE, COUNT = 1.0, 3
"""What `scaled` uses besides its parameters."""


@fg.pipeline
def scaled(x: Any) -> Any:
    return fg.topk(SCALE * x, COUNT)


def fresh(name: str) -> Any:
    """A step without memories."""
    return fg.distributed.sharded(PIPELINES[name], checks="once")


def is_remembered(step: Any, *arrays: Any, **named: Any) -> bool:
    """Is such a call served at once? It is made, on every rank."""
    with torch.no_grad():
        return step._again(arrays, named, None, None) is not MISS


def same(found: Any, want: Any) -> None:
    """Bit for bit."""
    for f, w in zip(cases.flat(found), cases.flat(want), strict=True):
        assert f.dtype == w.dtype
        np.testing.assert_array_equal(f, w)


def repeated(name: str) -> Callable[[int], None]:
    """Rounds of calls of several kinds: other values each time; results outlive later calls."""
    def case(rank: int) -> None:
        rng, step, kept = np.random.default_rng(7), fresh(name), []
        for turn in range(3):
            for n_rows, width in ((3, 9), (1, 9), (3, 12)):
                x = rng.normal(0, 3, (n_rows, RANKS * width)).astype("f4")
                given = cases.arguments(name, x)
                mine = [a.clone() for a in shard(given, rank * width, rank * width + width)]
                found = step(*mine)
                kept.append((found, STEPS[name](*mine)))
                cases.near(found, wanted(name, given))
                assert turn == 0 or is_remembered(step, *mine)
        for found, want in kept:
            same(found, want)
        step.verify()
    return case


def lying_otherwise(rank: int) -> None:
    """Arrays that look alike: other strides, other places in memory, no memory of their own."""
    rng, step = np.random.default_rng(rank), fresh("softmax_topk")
    room = torch.from_numpy(rng.normal(size=(8, 40)).astype("f4"))
    ways: dict[str, Callable[[Any], Any]] = {
        "packed": lambda r: r[:4, :16].contiguous(), "apart": lambda r: r[:4, :16],
        "other rows": lambda r: r[::2, :16], "shifted": lambda r: r[:4, 1:17],
        "columns apart": lambda r: r[:4, :32:2], "one row": lambda r: r[:1, :16].expand(4, 16),
        "turned": lambda r: r[:, :4].T.contiguous().T[:4].expand(4, 4).repeat(1, 4)}
    for turn in range(3):
        room = room.roll(1, 0)
        for name, way in ways.items():
            mine = way(room)
            same(step(mine, k=5), STEPS["softmax_topk"](mine, k=5))
            assert is_remembered(step, mine, k=5) == (name != "columns apart") or not turn, name


def constants_and_places(rank: int) -> None:
    x = np.random.default_rng(1).normal(size=(2, 32)).astype("f4")
    mine, step, tempered = tensor(x[:, 8 * rank : 8 * rank + 8]), fresh("topk"), fresh("tempered")
    for _ in range(3):
        for k in (2, 5):
            for more in ({}, {"at": 8 * rank}, {"at": 8 * (3 - rank)}, {"columns": 32}):
                same(step(mine, k=k, **more), STEPS["topk"](mine, k=k, **more))
        for t in (0.7, 0.9, 1.5):
            same(tempered(mine, t=t), STEPS["tempered"](mine, t=t))
    raises(lambda: step(mine, k=5, at=8.0 * rank), fg.ArgumentError, "at")
    same(step(x=mine, k=2), step(mine, k=2))


def texts_that_change(rank: int) -> None:
    """A global of the text has another value on every rank: nothing of the old text is used."""
    global SCALE, COUNT
    x = np.random.default_rng(5).normal(size=(2, 32)).astype("f4")
    mine, step = tensor(x[:, 8 * rank : 8 * rank + 8]), fg.distributed.sharded(
        scaled, checks="once")
    for SCALE, COUNT in ((1.0, 3), (2.0, 3), (2.0, 6), (1.0, 3)):
        for _ in range(3):
            values, at = step(mine)
            order = np.argsort(-x, kind="stable")[:, :COUNT]
            np.testing.assert_array_equal(at, order)
            np.testing.assert_array_equal(values, SCALE * np.take_along_axis(x, order, -1))
        assert is_remembered(step, mine)


def errors_behind_steps(rank: int) -> None:
    x, step = torch.zeros(2, 8), fresh("topk")
    for _ in range(2):
        step(x, k=3)
    assert is_remembered(step, x, k=3)
    raises(lambda: step([[1.0]], k=3), fg.ArgumentError, "x is list, no array")
    raises(lambda: step(x, k=0), fg.PipelineError, "got 0")
    raises(lambda: step(x, 3), fg.ArgumentError, "topk")
    raises(lambda: step(x.requires_grad_(), k=3), fg.TraceError, "top-K|topk")
    x = x.detach()
    raises(lambda: step(x, k=3, at=-1), fg.ArgumentError, "at")
    for _ in range(2):  # of other kinds, which the ranks know
        step(torch.ones(2, 9)), step(x)
    values, at = step(torch.ones(2, 9) if rank == 3 else x)
    assert values.isnan().all()
    assert (at == -1).all()
    raises(step.verify, fg.ExchangeError, "met states of another call")
    assert step(x, k=3)[1].tolist() == [[0, 1, 2]] * 2
    step.verify()


def gradients_again(rank: int) -> None:
    """Forward and backward of full rows, several times."""
    rng = np.random.default_rng(8)
    step = fg.distributed.sharded(L["softmax"], checks="once")
    mine = slice(6 * rank, 6 * rank + 6)
    for _ in range(3):
        x, c = rng.normal(size=(2, 3, 24))
        part, cotangent = (tensor(a[:, mine].astype("f4")) for a in (x, c))
        found = differentiated(step, [part], cotangent)
        want = differentiated(PEERS["softmax"], [tensor(x)], tensor(c))
        for f, w in zip(found, want, strict=True):
            cases.near(f, w[:, mine], 1e-5)
    assert is_remembered(step, part.detach())


NAMES: Sequence[str] = ("softmax_topk", "weighted_mean", "places", "many", "labelled", "var_mean")
def python_of_a_step(rank: int) -> None:
    """What a remembered call asks of the host: functions of fusegen, each a fraction of a
    microsecond."""
    step, x = fresh("softmax_topk"), torch.zeros(1, 64)
    for _ in range(2):
        step(x, k=8)
    found: list[str] = []

    def see(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "/fusegen/" in frame.f_code.co_filename:
            found.append(frame.f_code.co_name)

    sys.setprofile(see)
    try:
        step(x, k=8)
    finally:
        sys.setprofile(None)
    assert 10 < len(found) <= 42, found


STEP_CASES: dict[str, Callable[[int], None]] = {
    **{f"repeated {n}": repeated(n) for n in NAMES},
    **{f.__name__.replace("_", " "): f for f in (
        lying_otherwise, constants_and_places, texts_that_change, errors_behind_steps,
        gradients_again, python_of_a_step)},
}
