"""Pipelines as layers of a model, and layers of a model swapped for pipelines."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fusegen.ir.errors import ArgumentError
from fusegen.lang.blame import blames
from fusegen.lang.signature import REQUIRED
from fusegen.pipeline.decorator import check_pipeline
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.precision import held as precise
from fusegen.torch import nn
from fusegen.torch.attention import MultiheadAttention

_LOG = logging.getLogger("fusegen")


class PipelineModule(torch.nn.Module):  # type: ignore[misc]
    """A pipeline with parameters of its own and constants that are fixed; made by `module`.

    Called with the arrays that it does not hold, and those options of a call.
    """

    def __init__(
        self, pipeline: Pipeline, held: Mapping[str, Any], constants: Mapping[str, Any],
        options: Mapping[str, str],
    ) -> None:
        super().__init__()
        self.pipeline, self.constants, self.options = pipeline, dict(constants), dict(options)
        self.free = tuple(n for n in pipeline.signature.arrays if n not in held)
        for name, tensor in held.items():
            if isinstance(tensor, torch.nn.Parameter) or tensor.is_floating_point():
                self.register_parameter(name, torch.nn.Parameter(tensor.detach()))
            else:
                self.register_buffer(name, tensor)
        self.held = tuple(held)

    def forward(self, *arrays: Any, **options: Any) -> Any:
        if len(arrays) > len(self.free):
            raise ArgumentError(f"{self.pipeline.name} takes {', '.join(self.free)} here, "
                                f"got {len(arrays)} arrays",
                                why=f"It holds {', '.join(self.held)}.")
        given = dict(zip(self.free, arrays, strict=False))
        own = {name: getattr(self, name) for name in self.held}
        return self.pipeline(**given, **own, **self.constants, **{**self.options, **options})

    def extra_repr(self) -> str:
        told = {**self.constants, **self.options}
        return ", ".join([self.pipeline.name, *(f"{n}={v!r}" for n, v in told.items())])


@blames
def module(pipeline: Pipeline, *, precision: str = "float32", **given: Any) -> PipelineModule:
    """A layer: tensors given by name become its parameters (whole numbers: buffers), the rest its
    constants. `fg.torch.module(fg.library.rms_norm, weight=torch.ones(512), eps=1e-5)(x)`.

    Names of parameters are the pipeline's. precision: of dots, for calls that do not give it.
    Raises ArgumentError for names that it does not have.
    """
    check_pipeline("module", pipeline)
    signature = pipeline.signature
    held = {n: t for n, t in given.items() if n in signature.arrays}
    for name, tensor in held.items():
        if not isinstance(tensor, torch.Tensor):
            raise ArgumentError(f"{name} is {type(tensor).__name__}, no tensor",
                                why="A layer holds what torch can train and move.")
    constants = {n: v for n, v in given.items() if n not in held}
    defaults = {n: v for n, v in signature.constants.items() if v is not REQUIRED}
    signature.bind_constants({**{n: 0 for n in signature.constants if n not in defaults},
                              **constants})
    return PipelineModule(pipeline, held, constants,
                          precise(pipeline.name, pipeline.vectors, precision))


# ---- layers swapped ----

SWAPS: Mapping[type, type] = {
    torch.nn.Softmax: nn.Softmax, torch.nn.LogSoftmax: nn.LogSoftmax,
    torch.nn.LayerNorm: nn.LayerNorm, torch.nn.RMSNorm: nn.RMSNorm,
    torch.nn.CrossEntropyLoss: nn.CrossEntropyLoss,
    torch.nn.MultiheadAttention: MultiheadAttention,
}


@dataclass(frozen=True, slots=True)
class Swap:
    """One layer that was swapped: where it stands in the model, what it was and is."""

    name: str
    before: type
    after: type

    def __str__(self) -> str:
        return f"{self.name or 'the model'}: torch.nn.{self.before.__name__}"


@blames
def patch(model: Any) -> list[Swap]:
    """Let pipelines do what layers of torch.nn do in a model; say which.

    Softmax, LogSoftmax, LayerNorm, RMSNorm, CrossEntropyLoss and MultiheadAttention, of exactly
    these classes, become fusegen's in place: parameters, hooks and whoever holds them stay.
    Functions that a model calls (torch.softmax) are not seen. The logger `fusegen` lists the swaps
    as well.
    """
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(f"patch takes a torch.nn.Module, got {type(model).__name__}")
    found = []
    for name, layer in model.named_modules():
        before = type(layer)
        if before in SWAPS:
            layer.__class__ = SWAPS[before]
            found.append(Swap(name, before, SWAPS[before]))
    _LOG.info("swapped %d layers of %s: %s", len(found), type(model).__name__,
              "; ".join(map(str, found)) or "it has none that pipelines can do")
    return found
