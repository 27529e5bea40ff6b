"""What torch's autocast does with a pipeline.

Sums are kept in float32 whatever the inputs are, so nothing has to be converted before a call. What
is left to choose is the type of the results:

    "float32"   results of floats are float32 (float64 stays): what torch does with its softmax,
                norms and losses. Inputs are read as they are, no wider copy is made.
    "inputs"    results have the types that they have without autocast.

The library's pipelines have torch's choice for its function of that name; users' have "inputs",
unless `fg.torch.op(p, autocast="float32")` says otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch

from fusegen import library
from fusegen.ir.errors import ArgumentError
from fusegen.ir.kinds import assumed_dtypes, infer_kinds
from fusegen.ir.nesting import flatten, nest
from fusegen.lang import lang as fg
from fusegen.lang.value import Value
from fusegen.pipeline.pipeline import Pipeline
from fusegen.rewrite.adjoint.transplant import Text

POLICIES = ("float32", "inputs")
_LIBRARY = (
    "softmax", "naive_softmax", "log_softmax", "cross_entropy", "layer_norm", "rms_norm", "norm2",
    "logsumexp", "entropy", "linear_cross_entropy", "contrastive",
)
_CHOSEN: dict[Pipeline, str] = {getattr(library, name): "float32" for name in _LIBRARY}


def policy_of(pipeline: Pipeline) -> str:
    """What autocast does with calls of it."""
    return _CHOSEN.get(pipeline, "inputs")


def choose(pipeline: Pipeline, policy: str) -> None:
    """Raises ArgumentError for a word that is no policy."""
    if policy not in POLICIES:
        raise ArgumentError(f"autocast is {policy!r}",
                            fix=f"Choose {' or '.join(map(repr, POLICIES))}.")
    _CHOSEN[pipeline] = policy


def widened(pipeline: Pipeline, arrays: Iterable[Any]) -> Pipeline:
    """What autocast makes of a call with these tensors: the pipeline itself, or one like it whose
    results are float32."""
    if policy_of(pipeline) == "inputs":
        return pipeline
    tensors = [a for a in arrays if isinstance(a, torch.Tensor) and a.is_floating_point()]
    narrow = any(t.dtype.itemsize == 2 for t in tensors)
    if not narrow or not torch.is_autocast_enabled(tensors[0].device.type):
        return pipeline
    return with_wide_results(pipeline)


def with_wide_results(pipeline: Pipeline) -> Pipeline:
    """The same text, with results of floats in float32."""
    found: Pipeline | None = pipeline.derived.get("float32 results")
    return found if found is not None else \
        pipeline.derived.put("float32 results", _wide_text(pipeline))


def _wide_text(pipeline: Pipeline) -> Pipeline:
    names = pipeline.signature.arrays

    def wide(*arrays: Value | None, **constants: Any) -> Any:
        present = frozenset(n for n, a in zip(names, arrays, strict=True) if a is not None)
        graph = pipeline.traced(present, constants).graph
        kinds = infer_kinds(graph, assumed_dtypes(graph, "float32"))
        found = flatten(graph.structure, pipeline(*arrays, **constants), len(graph.outputs))
        cast = [fg.cast(v, "float32") if kinds[n] == "float" else v
                for v, n in zip(found, graph.outputs, strict=True)]
        return nest(graph.structure, cast)

    parameters = [*inspect.signature(pipeline.fn).parameters.values()]
    text = Text(f"{pipeline.name}_float32", pipeline.__doc__ or "", pipeline.fn, parameters, wide)
    return Pipeline(text, allow_cancellation=pipeline.allow_cancellation)
