"""What row reductions on a CPU are compared with: torch, torch.compile, JAX and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

PACKAGES = {"torch": "torch", "compile": "torch", "jax": "jax", "numpy": "numpy"}

F = torch.nn.functional
Call = Callable[[], Any]
Functions = Mapping[str, Callable[[Any], Any]]


def entropy(t: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(t, -1)
    return -(p * torch.log(p)).sum(-1)


TORCHS: Functions = {
    "softmax": lambda t: torch.softmax(t, -1), "log_softmax": lambda t: torch.log_softmax(t, -1),
    "layer_norm": lambda t: F.layer_norm(t, t.shape[-1:]),
    "rms_norm": lambda t: F.rms_norm(t, t.shape[-1:]), "entropy": entropy,
    "logsumexp": lambda t: torch.logsumexp(t, -1),
    "var_mean": lambda t: torch.var_mean(t, -1, correction=0),
    "argmax": lambda t: t.argmax(-1), "topk": lambda t: torch.topk(t, 5),
    "softmax_topk": lambda t: torch.topk(torch.softmax(t, -1), 5),
}


def in_array_words(xp: Any, top: Callable[[Any], Any]) -> Functions:
    """The same over NumPy's functions, or JAX's of the same names."""

    def exps(x: Any) -> Any:
        return xp.exp(x - x.max(-1, keepdims=True))

    def softmax(x: Any) -> Any:
        e = exps(x)
        return e / e.sum(-1, keepdims=True)

    def log_softmax(x: Any) -> Any:
        d = x - x.max(-1, keepdims=True)
        return d - xp.log(xp.exp(d).sum(-1, keepdims=True))

    def entropy_of(x: Any) -> Any:
        p = softmax(x)
        return -(p * xp.log(p)).sum(-1)

    def layer_norm(x: Any) -> Any:
        d = x - x.mean(-1, keepdims=True)
        return d / xp.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)

    return {
        "softmax": softmax, "log_softmax": log_softmax, "entropy": entropy_of,
        "layer_norm": layer_norm,
        "rms_norm": lambda x: x / xp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5),
        "logsumexp": lambda x: x.max(-1) + xp.log(exps(x).sum(-1)),
        "var_mean": lambda x: (x.var(-1), x.mean(-1)), "argmax": lambda x: x.argmax(-1),
        "topk": top, "softmax_topk": lambda x: top(softmax(x)),
    }


def numpy_top(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The five greatest of each row, in order."""
    at = np.argpartition(x, -5, -1)[..., -5:]
    found = np.take_along_axis(x, at, -1)
    order = np.argsort(-found, -1)
    return np.take_along_axis(found, order, -1), np.take_along_axis(at, order, -1)


class Peers:
    """Those that are asked for and there; `missing` says why others are not."""

    def __init__(self, names: list[str]) -> None:
        self.missing: dict[str, str] = {}
        self.makers: dict[str, Callable[[str, torch.Tensor], Call]] = {}
        for name in names:
            try:
                self.makers[name] = getattr(self, f"_{name}")()
            except Exception as error:  # whatever keeps a peer away is not ours
                self.missing[name] = f"{type(error).__name__}: {error}"

    def _torch(self) -> Callable[[str, torch.Tensor], Call]:
        return lambda name, t: lambda: TORCHS[name](t)

    def _compile(self) -> Callable[[str, torch.Tensor], Call]:
        made: dict[str, Callable[[torch.Tensor], Any]] = {}

        def maker(name: str, t: torch.Tensor) -> Call:
            key = f"{name} {t.dtype}"
            if key not in made:
                made[key] = torch.compile(TORCHS[name], dynamic=True)
            return lambda: made[key](t)

        torch.compile(lambda t: t + 1, dynamic=True)(torch.ones(3))  # is there a compiler?
        return maker

    def _jax(self) -> Callable[[str, torch.Tensor], Call]:
        import jax
        import jax.numpy as jnp

        functions = in_array_words(jnp, lambda x: jax.lax.top_k(x, 5))
        made = {name: jax.jit(function) for name, function in functions.items()}

        def maker(name: str, t: torch.Tensor) -> Call:
            x = jnp.asarray(t.float().numpy()).astype(str(t.dtype)[6:]).block_until_ready()
            return lambda: jax.block_until_ready(made[name](x))

        return maker

    def _numpy(self) -> Callable[[str, torch.Tensor], Call]:
        functions = in_array_words(np, numpy_top)

        def maker(name: str, t: torch.Tensor) -> Call:
            x = t.numpy()  # raises for what NumPy has no type for
            return lambda: functions[name](x)

        return maker
