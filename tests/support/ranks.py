"""One of two processes that train, as torch distributes it: RANK and the file they meet at.

Every pipeline of the library behind a layer, and a model whose layers were swapped; each beside
torch's own, whose losses and parameters must be the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import fusegen as fg

from . import light  # noqa: F401
from .torch_cases import PEERS, L, floats, tensors, torch

ROWS, COLS, STEPS = 8, 33, 3


class Every(torch.nn.Module):  # type: ignore[misc]
    """All pipelines of one layer's results. Their weights are parameters, and sharded too."""

    def __init__(self, pipelines: dict[str, Callable[..., Any]]) -> None:
        super().__init__()
        self.first, self.pipelines = torch.nn.Linear(9, COLS), pipelines
        self.weights = torch.nn.ParameterDict({
            f"{name}_{i}": weight for name in sorted(pipelines)
            for i, weight in enumerate(tensors(name, (1, COLS))[1:]) if weight.is_floating_point()})
        self.weights["moe_gate_0"].requires_grad_(False)  # which only chooses

    def forward(self, x: Any) -> Any:
        y, total = self.first(x), 0.0
        for name, pipeline in self.pipelines.items():
            more = [self.weights[f"{name}_{i}"] for i in range(2) if f"{name}_{i}" in self.weights]
            if name == "cross_entropy":
                more = [x.argmax(-1)]
            for result in floats(pipeline(y, *more)):
                total = total + (1 + result.abs()).log().mean()
        return total


class Swapped(torch.nn.Module):  # type: ignore[misc]
    """Layers of torch's, and a loss."""

    def __init__(self, patched: bool) -> None:
        super().__init__()
        nn = torch.nn
        self.layers = nn.Sequential(nn.Linear(9, 16), nn.LayerNorm(16), nn.GELU(),
                                    nn.Linear(16, 9), nn.RMSNorm(9, eps=1e-6))
        self.loss = nn.CrossEntropyLoss()
        assert not patched or len(fg.torch.patch(self)) == 3

    def forward(self, x: Any) -> Any:
        return self.loss(self.layers(x), x.argmax(-1))


def fully_sharded(model: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model, mesh=init_device_mesh("cpu", (2,)))


def trained(model: Any, rank: int) -> list[Any]:
    """Losses, and what this process has of the parameters."""
    source, losses = torch.Generator().manual_seed(rank), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(STEPS):
        loss = model(torch.randn(ROWS, 9, generator=source))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *(p.to_local() if hasattr(p, "to_local") else p for p in model.parameters())]


def main(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank,
                                         world_size=2)
    pairs = ((lambda: Every(L.PIPELINES), lambda: Every(PEERS)),
             (lambda: Swapped(True), lambda: Swapped(False)))
    for shard in (torch.nn.parallel.DistributedDataParallel, fully_sharded):
        for pair in pairs:
            found = []
            for make in pair:
                torch.manual_seed(0)
                found.append(trained(shard(make()), rank))
            torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5,
                                       msg=lambda m, s=shard, p=pair: f"{s} {p}: {m}")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
