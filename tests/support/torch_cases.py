"""Library calls as torch meets them: arguments, torch's own way to the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusegen as fg

torch = pytest.importorskip("torch", reason="torch is not installed")
L = fg.library
F = torch.nn.functional
ROWWISE = sorted({*L.PIPELINES} - {"argmax", "topk", "softmax_topk", "moe_gate"})
DIFFERENTIABLE = sorted({*L.PIPELINES} - {"argmax"})
for _one in L.PIPELINES.values():  # names of operators are the first one's who asks
    fg.torch.op(_one)

PEERS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "naive_softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "topk": lambda x: tuple(torch.topk(x, 5)),
    "argmax": lambda x: torch.argmax(x, -1),
    "softmax_topk": lambda x: tuple(torch.topk(torch.softmax(x, -1), 5)),
    "entropy": lambda x: -(torch.softmax(x, -1) * torch.log_softmax(x, -1)).sum(-1),
    "cross_entropy": lambda x, labels: F.cross_entropy(
        x.reshape(-1, x.shape[-1]), labels.reshape(-1), reduction="none").reshape(labels.shape),
    "var_mean": lambda x: torch.var_mean(x, -1, correction=0),
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "rms_norm": lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6),
    "norm2": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "absmax_quantize": lambda x: (
        torch.round(x / (x.abs().amax(-1, True) / 127)).to(torch.int8), x.abs().amax(-1) / 127),
    "moe_gate": lambda x, b: _gate(x, b),
    "weighted_mean": lambda s, v: (torch.softmax(s, -1) * v).sum(-1),
}


def _gate(x: Any, bias: Any) -> Any:
    scores = torch.softmax(x, -1)
    experts = torch.topk(scores + bias, 2).indices
    gates = scores.gather(-1, experts)
    return gates / gates.sum(-1, keepdim=True), experts


def tensors(name: str, shape: tuple[int, ...] = (5, 33), dtype: Any = torch.float32,
            grad: bool = False, seed: int = 0) -> tuple[Any, ...]:
    """Arguments for a library pipeline, optional ones among them."""
    source = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Any:
        made = torch.randn(size, generator=source, dtype=torch.float64).to(dtype)
        return made.requires_grad_(grad)

    x = normal(*shape)
    match name:
        case "cross_entropy":
            return x, torch.randint(0, shape[-1], shape[:-1], generator=source)
        case "weighted_mean":
            return x, normal(*shape)
        case "layer_norm":
            return x, normal(shape[-1]), normal(shape[-1])
        case "rms_norm" | "moe_gate":
            return x, normal(shape[-1])
        case _:
            return (x,)


def floats(result: Any) -> list[Any]:
    """Results that may have a gradient."""
    flat = result if isinstance(result, tuple) else (result,)
    return [r for r in flat if r.is_floating_point()]


def graph_of(function: Callable[..., Any], dynamic: bool | None = None) -> Callable[..., Any]:
    """The function compiled as one graph, without a code generator behind it."""
    compiled: Callable[..., Any] = torch.compile(function, fullgraph=True, backend="aot_eager",
                                                 dynamic=dynamic)
    return compiled
