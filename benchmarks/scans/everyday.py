"""Reductions that people write beside those of libraries: each once, for fusegen and for torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import fusegen as fg
from scans.texts import difference

BYTES = 64 << 20  # of the first array, where rows are many


class Rows:
    """What texts use of fusegen, of the last axis of torch's tensors."""

    exp, log, tanh, erf, sigmoid = torch.exp, torch.log, torch.tanh, torch.erf, torch.sigmoid
    sqrt, rsqrt, abs, where = torch.sqrt, torch.rsqrt, torch.abs, torch.where

    @staticmethod
    def max(x: Any) -> Any:
        return x.amax(-1, keepdim=True)

    @staticmethod
    def min(x: Any) -> Any:
        return x.amin(-1, keepdim=True)

    @staticmethod
    def sum(x: Any) -> Any:
        return x.sum(-1, keepdim=True)

    @staticmethod
    def mean(x: Any) -> Any:
        return x.mean(-1, keepdim=True)

    @staticmethod
    def var(x: Any) -> Any:
        return x.var(-1, correction=0, keepdim=True)

    @staticmethod
    def logsumexp(x: Any) -> Any:
        return x.logsumexp(-1, keepdim=True)

    @staticmethod
    def argmax(x: Any) -> Any:
        return x.argmax(-1, keepdim=True)

    @staticmethod
    def argmin(x: Any) -> Any:
        return x.argmin(-1, keepdim=True)


def _shares(m: Any, y: Any) -> Any:
    e = m.exp(y - m.max(y))
    return e / m.sum(e)


def _normed(m: Any, y: Any) -> Any:
    return (y - m.mean(y)) * m.rsqrt(m.var(y) + 1e-5)


def _rms(m: Any, y: Any) -> Any:
    return y * m.rsqrt(m.mean(y * y) + 1e-6)


def _gelu(m: Any, x: Any) -> Any:
    return 0.5 * x * (1 + m.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _moments(m: Any, x: Any) -> tuple[Any, ...]:
    d = x - m.mean(x)
    v = m.mean(d * d)
    return m.mean(x), v, m.mean(d**3) * m.rsqrt(v) ** 3


def _correlation(m: Any, x: Any, y: Any) -> Any:
    a, b = x - m.mean(x), y - m.mean(y)
    return m.sum(a * b) * m.rsqrt(m.sum(a * a) * m.sum(b * b))


def _divergence(m: Any, x: Any, y: Any) -> Any:
    a, b = x - m.logsumexp(x), y - m.logsumexp(y)
    return m.sum(m.exp(a) * (a - b))


def _huber(m: Any, x: Any, y: Any) -> Any:
    d = m.abs(x - y)
    return m.mean(m.where(d < 1, 0.5 * d * d, d - 0.5))


ONE: dict[str, Callable[[Any, Any], Any]] = {
    "z scores": lambda m, x: (x - m.mean(x)) / m.sqrt(m.var(x)),
    "layer norm": _normed,
    "rms norm": _rms,
    "unit length": lambda m, x: x * m.rsqrt(m.sum(x * x)),
    "unit sum": lambda m, x: x / m.sum(m.abs(x)),
    "unit range": lambda m, x: (x - m.min(x)) / (m.max(x) - m.min(x)),
    "centred": lambda m, x: x - m.mean(x),
    "softmax": _shares,
    "softmax, tempered": lambda m, x: _shares(m, x / 0.7),
    "softmax, capped": lambda m, x: _shares(m, 30 * m.tanh(x / 30)),
    "softmin": lambda m, x: _shares(m, -x),
    "log softmax": lambda m, x: x - m.logsumexp(x),
    "sigmoids, shared": lambda m, x: m.sigmoid(x) / m.sum(m.sigmoid(x)),
    "rms norm of silu": lambda m, x: _rms(m, x * m.sigmoid(x)),
    "layer norm of gelu": lambda m, x: _normed(m, _gelu(m, x)),
    "softmax of logs": lambda m, x: _shares(m, m.log(m.abs(x) + 0.1)),
    "by the greatest": lambda m, x: x / (m.max(m.abs(x)) / 127),
    "mean": lambda m, x: m.mean(x),
    "variance": lambda m, x: (m.var(x), m.mean(x)),
    "moments": _moments,
    "kurtosis": lambda m, x: m.mean((x - m.mean(x)) ** 4) / m.var(x) ** 2,
    "mean deviation": lambda m, x: m.mean(m.abs(x - m.mean(x))),
    "entropy": lambda m, x: m.logsumexp(x) - m.sum(_shares(m, x) * x),
    "greatest share": lambda m, x: m.exp(m.max(x) - m.logsumexp(x)),
    "extremes": lambda m, x: (m.max(x), m.argmax(x), m.min(x), m.argmin(x)),
    "statistics": lambda m, x: (m.logsumexp(x), m.mean(x), m.var(x), m.max(x)),
}
TWO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "layer norm of a sum": lambda m, x, y: (x + y, _normed(m, x + y)),
    "softmax of a sum": lambda m, x, y: _shares(m, x + y),
    "rms norm of swiglu": lambda m, x, y: _rms(m, x * y * m.sigmoid(x)),
    "rms norm of geglu": lambda m, x, y: _rms(m, x * 0.5 * y * (1 + m.erf(y * 0.70710678118))),
    "correlation": _correlation,
    "cosine": lambda m, x, y: m.sum(x * y) * m.rsqrt(m.sum(x * x) * m.sum(y * y)),
    "divergence": _divergence,
    "squared error": lambda m, x, y: m.mean((x - y) ** 2),
    "huber": _huber,
}


def _ours(name: str) -> fg.Pipeline:
    if name in ONE:
        one = ONE[name]
        return fg.pipeline(lambda x: one(fg, x))
    two = TWO[name]
    return fg.pipeline(lambda x, y: two(fg, x, y))


OURS: dict[str, fg.Pipeline] = {name: _ours(name) for name in (*ONE, *TWO)}


@dataclass(frozen=True)
class Cell:
    """A text on arrays of this shape, along this axis."""

    work: str
    shape: tuple[int, int]
    axis: int
    dtype: str

    @property
    def key(self) -> str:
        rows, cols = self.shape
        return f"{self.work}: {rows} × {cols} {self.dtype}{'' if self.axis else ', along axis 0'}"


def cells() -> list[Cell]:
    """Every text on every shape: many rows, a few, and rows side by side."""
    many = [((BYTES // (n * size), n), 1, dtype) for dtype, size, columns in (
        ("bfloat16", 2, (160, 1000, 4096, 8191, 12_000, 33_000, 200_000)),
        ("float32", 4, (1000, 8192, 50_000))) for n in columns]
    few = [((16, n), 1, "bfloat16") for n in (4096, 33_000, 200_000)]
    few += [((16, 1_000_000), 1, "float32"), ((1, 2_000_000), 1, "bfloat16")]
    down = [((n, BYTES // 2 // n), 0, "bfloat16") for n in (64, 1024, 8192)]
    down += [((1024, BYTES // 4 // 1024), 0, "float32")]
    return [Cell(name, *one) for name in OURS for one in (*many, *few, *down)]


def inputs_of(cell: Cell, device: str) -> tuple[torch.Tensor, ...]:
    kind = getattr(torch, cell.dtype)
    names = OURS[cell.work].signature.arrays
    return tuple(torch.randn(cell.shape, device=device).to(kind) for _ in names)


def error_of(cell: Cell, inputs: tuple[torch.Tensor, ...], found: Any) -> float:
    """Greatest difference from what torch makes of the text in float64."""
    text: Callable[..., Any] = ONE[cell.work] if cell.work in ONE else TWO[cell.work]
    rows = [x.double().movedim(cell.axis, -1) for x in inputs]
    want = text(Rows, *rows)
    got = found if isinstance(found, tuple) else (found,)
    want = want if isinstance(want, tuple) else (want,)
    lying = [g.movedim(cell.axis, -1) if g.ndim == len(cell.shape) else g for g in got]
    return max(difference(g, w.reshape(g.shape), rows[0]) for g, w in zip(lying, want, strict=True))
