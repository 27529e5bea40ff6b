"""Other people's kernels for the same works, on the same inputs, each with its own error."""

from __future__ import annotations

import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from streams.cells import Cell
from streams.texts import TEXTS, TOLERANCE, largest_error
from streams.timing import Timer

Inputs = tuple[torch.Tensor, ...]
Maker = Callable[[Cell], Callable[..., Any] | None]
SLACK = 10
"""A peer counts as right up to this many tolerances: eager bfloat16 rounds between functions."""


def eager(cell: Cell) -> Callable[..., Any]:
    """torch's own functions, one after another."""
    return partial(TEXTS[cell.work], axis=cell.axis)


def compiled(cell: Cell) -> Callable[..., Any]:
    """The same text through torch.compile, for these shapes."""
    torch._dynamo.reset()  # else it stops at its limit of recompilations
    text, axis = TEXTS[cell.work], cell.axis
    function: Callable[..., Any] = torch.compile(
        lambda *inputs: text(*inputs, axis=axis), dynamic=False)
    return function


def liger(cell: Cell) -> Callable[..., Any] | None:
    """Liger's forwards; not cross-entropy, whose forward waits for the host and makes gradients."""
    match cell.work, cell.axis:
        case "softmax", -1:
            function = _from("liger_kernel.ops.softmax", "LigerSoftmaxFunction")
            return partial(function.apply)
        case "layer_norm", -1:
            function = _from("liger_kernel.ops.layer_norm", "LigerLayerNormFunction")
            return lambda x, w, b: function.apply(x, w, b, 1e-5)
        case "rms_norm", -1:
            function = _from("liger_kernel.ops.rms_norm", "LigerRMSNormFunction")
            return lambda x, w: function.apply(x, w, 1e-6)
    return None


def quack(cell: Cell) -> Callable[..., Any] | None:
    """QuACK's forwards."""
    match cell.work, cell.axis:
        case "softmax", -1:
            return partial(_from("quack", "softmax"))
        case "cross_entropy", -1:
            return partial(_from("quack", "cross_entropy"), reduction="none")
        case "layer_norm", -1:
            return _with_wide_weights(partial(_from("quack.rmsnorm", "layernorm_fwd"), eps=1e-5))
        case "rms_norm", -1:
            return partial(_from("quack", "rmsnorm"), eps=1e-6)
    return None


def _from(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _with_wide_weights(function: Callable[..., Any]) -> Callable[..., Any]:
    """For a function that wants float32 weights: they are converted once, outside the timing."""
    known: dict[int, Inputs] = {}

    def call(x: torch.Tensor, *weights: torch.Tensor) -> Any:
        place = weights[0].data_ptr()
        if place not in known:
            known[place] = tuple(w.float() for w in weights)
        return function(x, *known[place])

    return call


PEERS: dict[str, tuple[str, Maker]] = {
    "torch": ("torch", eager),
    "compile": ("torch", compiled),
    "liger": ("liger_kernel", liger),
    "quack": ("quack", quack),
}
"""Name → the package it needs, and what makes its function (None: it has none for this cell)."""


def measured(name: str, cell: Cell, inputs: list[Inputs], timer: Timer) -> dict[str, Any]:
    """us, error and right of one peer on the cell's inputs; or `note`, why there are none.

    The peer works on inputs that fusegen has been measured on before: it may overwrite them.
    """
    package, maker = PEERS[name]
    if importlib.util.find_spec(package) is None:
        return {"note": "not installed"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            function = maker(cell)
            if function is None:
                return {"note": "has no such function"}
            found = _run(function, cell, inputs, timer)
        except Exception as error:  # a peer that refuses a shape must not stop the run
            return {"note": f"{type(error).__name__}: {str(error).strip()[:300]}"}
    if caught:
        found["warnings"] = sorted({str(w.message).strip()[:300] for w in caught})
    return found


def _run(
    function: Callable[..., Any], cell: Cell, inputs: list[Inputs], timer: Timer
) -> dict[str, Any]:
    start = time.perf_counter()
    got = function(*inputs[0])
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    error = largest_error(cell, tuple(got) if isinstance(got, tuple) else got, inputs[0])
    del got
    us = timer.microseconds([partial(function, *one) for one in inputs])
    return {"us": us, "error": error, "right": error <= SLACK * TOLERANCE[cell.dtype],
            "first_call_s": round(first, 3)}
