"""The works as torch writes them: the eager peer, what torch.compile gets, and in float64 the
reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from streams.cells import WORKS, Cell

Text = Callable[..., Any]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def entropy(x: torch.Tensor, axis: int) -> torch.Tensor:
    logs = torch.log_softmax(x, axis)
    return -(logs.exp() * logs).sum(axis)


TEXTS: dict[str, Text] = {
    "logsumexp": lambda x, axis: torch.logsumexp(x, axis),
    "var_mean": lambda x, axis: torch.var_mean(x, axis, correction=0),
    "cross_entropy": lambda x, labels, axis: F.cross_entropy(x, labels, reduction="none"),
    "entropy": entropy,
    "norm2": lambda x, axis: torch.linalg.vector_norm(x, dim=axis),
    "softmax": lambda x, axis: torch.softmax(x, axis),
    "naive_softmax": lambda x, axis: torch.softmax(x, axis),
    "log_softmax": lambda x, axis: torch.log_softmax(x, axis),
    "layer_norm": lambda x, w, b, axis: F.layer_norm(x, x.shape[-1:], w, b, 1e-5),
    "rms_norm": lambda x, w, axis: F.rms_norm(x, x.shape[-1:], w, 1e-6),
}
"""By work: x, side inputs, axis → a tensor, or a tuple of them. Norms and cross-entropy along the
last axis only."""
RELATIVE = ("softmax", "naive_softmax")
"""Works whose every element is held to its own size; the others to 1 + |value|."""
TOLERANCE = {"float32": 3e-5, "bfloat16": 6e-3}
"""float32: exp of arguments near −30 loses that many units; bfloat16: one rounding is 2⁻⁸."""
_ELEMENTS = 1 << 27  # that are made, or compared in float64, at a time


# ---- data ----


def inputs_of(cell: Cell) -> tuple[torch.Tensor, ...]:
    """Fresh x (normal, scaled by 3) and side inputs (normal weights, any labels) on the GPU."""
    x, *side = memory_of(cell)
    rows = max(1, _ELEMENTS // x.shape[1])
    for start in range(0, x.shape[0], rows):
        part = x[start : start + rows]
        part.copy_(torch.randn(part.shape, device="cuda").mul_(3))
    for one, name in zip(side, WORKS[cell.work].side, strict=True):
        if name == "labels":
            one.random_((cell.rows, cell.cols)[cell.axis])
        else:
            one.normal_()
    return x, *side


def memory_of(cell: Cell) -> tuple[torch.Tensor, ...]:
    """x and side inputs as `inputs_of` makes them, but never written to."""
    dtype, shape = DTYPES[cell.dtype], (cell.rows, cell.cols)
    reduced = shape[cell.axis]
    others = cell.rows * cell.cols // reduced
    sides = {"weight": (reduced, dtype), "bias": (reduced, dtype), "labels": (others, torch.int64)}
    x = torch.empty(shape, dtype=dtype, device="cuda")
    return x, *(torch.empty(size, dtype=kind, device="cuda")
                for size, kind in (sides[name] for name in WORKS[cell.work].side))


def outputs_of(cell: Cell) -> Any:
    """Memory for the results, NaN all over: a tensor, or a tuple of them."""
    work, shape = WORKS[cell.work], (cell.rows, cell.cols)
    if not work.full:
        shape = (cell.rows * cell.cols // shape[cell.axis],)  # type: ignore[assignment]
    made = tuple(torch.full(shape, float("nan"), dtype=DTYPES[cell.dtype], device="cuda")
                 for _ in range(work.outputs))
    return made[0] if work.outputs == 1 else made


def poison(out: Any) -> None:
    """Fill results with NaN, so that what is not written is seen."""
    for one in out if isinstance(out, tuple) else (out,):
        one.fill_(float("nan"))


# ---- comparison ----


def largest_error(cell: Cell, got: Any, inputs: tuple[torch.Tensor, ...]) -> float:
    """Greatest error of whole results against the text in float64; NaN and inf count as inf.

    Relative to |value| for softmax, to 1 + |value| elsewhere. Raises ValueError for wrong shapes.
    """
    work = WORKS[cell.work]
    got = got if isinstance(got, tuple) else (got,)
    x, *side = inputs
    rows = x.movedim(cell.axis, -1)
    results = [g.movedim(cell.axis, -1) if work.full else g for g in got]
    _check_shapes(cell, rows, results)
    per_row = [name == "labels" for name in work.side]
    floor = 1e-30 if cell.work in RELATIVE else 1.0
    step = max(1, _ELEMENTS // rows.shape[1])
    worst = []
    for start in range(0, rows.shape[0], step):
        part = slice(start, start + step)
        others = [s[part] if each else s.double() for s, each in zip(side, per_row, strict=True)]
        want = TEXTS[cell.work](rows[part].double(), *others, axis=-1)
        for g, w in zip(results, want if isinstance(want, tuple) else (want,), strict=True):
            worst.append(((g[part].double() - w).abs() / (w.abs() + floor)).max())
    error = float(torch.stack(worst).max())
    return error if error < float("inf") else float("inf")


def _check_shapes(cell: Cell, rows: torch.Tensor, results: list[torch.Tensor]) -> None:
    wanted = rows.shape if WORKS[cell.work].full else rows.shape[:1]
    for got in results:
        if got.shape != wanted:
            raise ValueError(f"the result has shape {tuple(got.shape)}, not {tuple(wanted)}")
