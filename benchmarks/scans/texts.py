"""The works as users write them for fusegen, as torch has them, and their inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

import fusegen as fg
from scans.draws import WORKS, Cell

EPS = 1e-6


@fg.pipeline
def statistics(x):  # type: ignore[no-untyped-def]
    total = fg.logsumexp(x)
    return total, total - fg.sum(fg.exp(x - total) * x), fg.var(x), fg.argmax(x)


@fg.pipeline
def add_rms_norm(x, residual):  # type: ignore[no-untyped-def]
    s = x + residual
    return s, s / fg.sqrt(fg.mean(s * s) + EPS)


@fg.pipeline
def softmax_backward(y, dy):  # type: ignore[no-untyped-def]
    return y * (dy - fg.sum(y * dy))


OURS: dict[str, fg.Pipeline] = {
    **{name: getattr(fg.library, name) for name in (
        "softmax", "softmax_topk", "topk", "rms_norm", "layer_norm")},
    "statistics": statistics, "add_rms_norm": add_rms_norm, "softmax_backward": softmax_backward,
}


def _statistics(x: torch.Tensor) -> Any:
    logs = torch.log_softmax(x, -1)
    return (torch.logsumexp(x, -1), -(logs.exp() * logs).sum(-1), x.var(-1, correction=0),
            x.argmax(-1))


def _add_rms_norm(x: torch.Tensor, residual: torch.Tensor) -> Any:
    s = x + residual
    return s, F.rms_norm(s, s.shape[-1:], eps=EPS)


EAGER: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax_topk": lambda x, k: torch.topk(torch.softmax(x, -1), k),
    "topk": lambda x, k: torch.topk(x, k),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:], eps=EPS),
    "statistics": _statistics,
    "add_rms_norm": _add_rms_norm,
    "softmax_backward": lambda y, dy: torch._softmax_backward_data(dy, y, -1, y.dtype),
    "layer_norm": lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias),
}


def named(cell: Cell) -> dict[str, Any]:
    """Constants of the call."""
    return {"k": cell.k} if cell.k else {}


def peer_of(
    name: str, cell: Cell, inputs: tuple[torch.Tensor, ...]
) -> Callable[[], Any] | None:
    """A call of torch's, or of what torch.compile makes of it for this shape alone, that has run
    once. None where the peer cannot."""
    text = EAGER[cell.work]
    if name == "compile":
        torch._dynamo.reset()
        text = torch.compile(text, dynamic=False)
    call = partial(text, *inputs, **named(cell))
    try:
        call()
    except Exception:
        return None
    return call


# ---- inputs ----


def memory_of(cell: Cell, device: str) -> tuple[torch.Tensor, ...]:
    """Inputs as they lie, of zeros."""
    dtype = getattr(torch, cell.dtype)
    whole = torch.zeros(cell.rows * cell.row_stride + 1, dtype=dtype, device=device)
    first = whole[1:] if cell.layout == "shifted" else whole[:-1]
    first = first.view(cell.rows, cell.row_stride)[:, : cell.cols]
    work = WORKS[cell.work]
    others = [(cell.rows, cell.cols)] * (work.inputs - 1) + [(cell.cols,)] * work.columns
    return first, *(torch.zeros(shape, dtype=dtype, device=device) for shape in others)


def inputs_of(cell: Cell, device: str) -> tuple[torch.Tensor, ...]:
    """Fresh ones: normal numbers, for softmax's gradient a softmax's result first."""
    found = memory_of(cell, device)
    for x in found:
        x.copy_(torch.randn(x.shape, device=device).mul_(3))
    if cell.work == "softmax_backward":
        found[0].copy_(torch.softmax(found[0].float(), -1))
    return found


# ---- what is right ----

TOLERANCE = {"float32": 5e-5, "bfloat16": 2e-2, "float16": 3e-3}
"""float32: sums of a million squares, exponentials of arguments near -30."""
_SMALL = {"softmax": 1e-4, "softmax_topk": 1e-4, "softmax_backward": 0.1}
"""What is added to a value that an error is beside: numbers of a row that sum to 1 are small;
differences of such have the errors of what they are made of."""
_CHECKED = 1 << 22  # elements


def error_of(cell: Cell, inputs: tuple[torch.Tensor, ...], got: Any) -> float:
    """Greatest difference of some rows from the values in float64."""
    step = max(1, cell.rows * cell.cols // _CHECKED)
    some = tuple((x[::step] if x.ndim == 2 else x).double() for x in inputs)
    want = EAGER[cell.work](*some, **named(cell))
    got = got if isinstance(got, tuple) else (got,)
    want = tuple(want) if isinstance(want, tuple) else (want,)
    source = torch.softmax(some[0], -1) if cell.work == "softmax_topk" else some[0]
    small = _SMALL.get(cell.work, 1.0)
    return max(difference(g[::step], w, source, small) for g, w in zip(got, want, strict=True))


def difference(
    got: torch.Tensor, want: torch.Tensor, source: torch.Tensor, small: float = 1.0
) -> float:
    """Greatest one, beside `small` and the value; infinity for NaN. Indices are held to the values
    of `source` that they name."""
    if got.dtype == torch.int64:
        got, want = (source.gather(-1, i.view(len(source), -1)) for i in (got, want))
    assert got.shape == want.shape, f"{tuple(got.shape)}, not {tuple(want.shape)}"
    off = ((got.double() - want).abs() / (small + want.abs())).max()
    return float(off.nan_to_num(float("inf")))
