"""Steps over NCCL, on one GPU: one rank, whose packets take the way of all others' to itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fusegen as fg

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch", reason="torch is not installed")
L = fg.library.PIPELINES


@pytest.fixture(scope="module", autouse=True)
def group() -> Iterator[None]:
    if not torch.cuda.is_available() or not torch.distributed.is_nccl_available():
        pytest.skip("this torch has no NCCL")
    from fusegen.distributed import ranks

    def gathered(self: Any, mine: Any, what: str) -> Any:
        found = torch.empty_like(mine)
        ranks._all_gather(found, mine, group=self.group)
        return found.view(1, -1)

    torch.cuda.set_device(0)
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0,
                                         world_size=1, device_id=torch.device("cuda", 0))
    usual = ranks.Ranks.gathered
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks.Ranks, "gathered", lambda self, mine, what: (
            gathered if mine.is_cuda else usual)(self, mine, what))
        yield
    torch.distributed.destroy_process_group()


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, device="cuda")


def same(found: Any, want: Any) -> None:
    """Bit for bit, of one result or a tuple of them."""
    pairs = [(found, want)] if torch.is_tensor(found) else zip(found, want, strict=True)
    for f, w in pairs:
        assert f.dtype == w.dtype
        torch.testing.assert_close(f, w, rtol=0, atol=0, equal_nan=True)


def is_remembered(step: Any, *arrays: Any, **named: Any) -> bool:
    from fusegen.pipeline.remembered import MISS

    return step._again(arrays, named, None, None) is not MISS


EXCHANGES = pytest.mark.parametrize("exchange", ["collective", "symmetric"])


@EXCHANGES
@pytest.mark.parametrize("name", ["softmax_topk", "logsumexp", "softmax", "layer_norm"])
def test_steps_are_as_those_looked_at_in_full(name: str, exchange: str) -> None:
    """Of row values, lists and full rows; other values each time, and others' streams."""
    step = fg.distributed.sharded(L[name], checks="once", exchange=exchange)
    looked = fg.distributed.sharded(L[name], checks="every")
    more = [drawn(2000), drawn(2000)] if name == "layer_norm" else []
    constants = {"k": 7} if name == "softmax_topk" else {}
    for turn in range(3):
        for rows in (1, 5, 700):
            given = [drawn(rows, 2000), *more]
            same(step(*given, **constants), looked(*given, **constants))
            with torch.cuda.stream(torch.cuda.Stream()):
                torch.cuda.synchronize()
                found = step(*given, **constants)
            torch.cuda.synchronize()
            same(found, looked(*given, **constants))
            assert turn == 0 or is_remembered(step, *given, **constants)
    step.verify()


@EXCHANGES
def test_in_a_graph(exchange: str) -> None:
    step = fg.distributed.sharded(L["softmax_topk"], exchange=exchange)
    x = drawn(3, 5000)
    for _ in range(2):
        step(x, k=5)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(x, k=5)
    for _ in range(3):
        x.copy_(drawn(3, 5000))
        graph.replay()
        values, at = torch.topk(torch.softmax(x.double(), -1), 5)
        assert torch.equal(found[1], at)
        torch.testing.assert_close(found[0].double(), values, rtol=1e-5, atol=0)
    step.verify()


def test_a_wrong_seal() -> None:
    """Another rank's packet is of another call: what is wrong looks like nothing, until it is
    verified."""
    step = fg.distributed.sharded(L["topk"], exchange="collective")
    x = drawn(300, 400)
    want = [f.clone() for f in step(x, k=5)]
    assert is_remembered(step, x, k=5)
    (once,) = step._ways.values()
    (known,) = once.steps._ready.values()
    packet = known.kept[0]
    packet[:4] = torch.roll(packet[:4], 1)
    values, at = step(x, k=5)
    assert values.isnan().all()
    assert bool((at == -1).all())
    with pytest.raises(fg.ExchangeError, match="met states of another call"):
        step.verify()
    packet[:4] = torch.roll(packet[:4], -1)
    same(step(x, k=5), want)
    step.verify()


def test_gradients() -> None:
    step = fg.distributed.sharded(L["cross_entropy"])
    label = torch.arange(6, device="cuda") * 7
    for _ in range(3):
        x = drawn(6, 3000).requires_grad_()
        exact = x.detach().double().requires_grad_()
        want = torch.nn.functional.cross_entropy(exact, label, reduction="none")
        found = step(x, label)
        torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-5)
        found.sum().backward()
        want.sum().backward()
        torch.testing.assert_close(x.grad.double(), exact.grad, rtol=1e-5, atol=1e-7)
