"""fusegen: write the safe text of a row reduction, get the one-sweep kernel and its proof.

import fusegen as fg

@fg.pipeline
def softmax_topk(x, *, k=5):
    m = fg.max(x)
    y = fg.exp(x - m) / fg.sum(fg.exp(x - m))
    return fg.topk(y, k)

values, indices = softmax_topk(x, k=5)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fusegen import library
from fusegen.backend.emit.headers import include_dir
from fusegen.ir.errors import (
    ArgumentError,
    BackendError,
    CompilerError,
    DTypeError,
    ExchangeError,
    FusegenError,
    InternalError,
    LawViolation,
    PipelineError,
    ShapeError,
    TraceError,
    UnknownName,
    UnprovedLaw,
)
from fusegen.ir.version import __version__
from fusegen.lang.advice import instead
from fusegen.lang.annotations import Constant, Positive
from fusegen.lang.blame import callers_line
from fusegen.lang.lang import (
    abs,
    all,
    any,
    argmax,
    argmin,
    cast,
    ceil,
    cos,
    count,
    dot,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    index,
    inner,
    isfinite,
    isinf,
    isnan,
    length,
    log,
    log1p,
    log2,
    logsumexp,
    max,
    maximum,
    mean,
    min,
    minimum,
    prod,
    ragged,
    round,
    row,
    rsqrt,
    sections,
    sigmoid,
    sign,
    sin,
    sqdist,
    sqrt,
    sum,
    take,
    tanh,
    topk,
    var,
    where,
    xlogy,
)
from fusegen.lang.own import OwnMonoid, monoid, product, reduce
from fusegen.lang.value import ColumnVector, PerColumn, PerRow, RowVector
from fusegen.pipeline import by_jax, by_torch
from fusegen.pipeline.compiled import Compiled, Spec
from fusegen.pipeline.decorator import pipeline
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.states.accumulator import Accumulator
from fusegen.pipeline.states.pieced import PiecedStates, merge
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.runs import merge_gathered

by_torch.serve(lambda: import_module("fusegen.torch.calls"))
by_jax.serve(lambda: import_module("fusegen.jax.calls"))

if TYPE_CHECKING:
    from fusegen import dask as dask
    from fusegen import distributed as distributed
    from fusegen import jax as jax
    from fusegen import torch as torch
    from fusegen.library.check import Report, check
    from fusegen.library.gradient.columns import ColumnGradient
    from fusegen.library.gradient.grad import Gradient, grad
    from fusegen.library.stabilize import stabilize
    from fusegen.pipeline.loaded import Loaded, load
else:  # what a type checker knows is all there is

    _LATER = {
        "check": "library.check", "Report": "library.check", "stabilize": "library.stabilize",
        "grad": "library.gradient.grad", "Gradient": "library.gradient.grad",
        "ColumnGradient": "library.gradient.columns",
        "load": "pipeline.loaded", "Loaded": "pipeline.loaded",
    }
    """What few programs use, by its module: loaded when it is asked for."""
    _FRAMEWORKS = ("dask", "distributed", "jax", "torch")

    def __getattr__(name: str) -> object:
        """What is loaded later. Of what fusegen does not have: where it is, or what to write."""
        if name in _LATER:
            found = getattr(import_module(f"fusegen.{_LATER[name]}"), name)
            return globals().setdefault(name, found)
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _FRAMEWORKS:  # an import of which is an attribute from then on
            return import_module(f"fusegen.{name}")
        fix = f"Write fg.library.{name}." if name in library.EVERY else instead(name)
        raise UnknownName(f"fusegen has no {name}", where=callers_line(), fix=fix)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER, *_FRAMEWORKS})


__all__ = [
    "Accumulator", "ArgumentError", "BackendError", "ColumnGradient", "ColumnVector", "Compiled",
    "CompilerError", "Constant", "DTypeError", "ExchangeError", "FusegenError", "Gradient",
    "InternalError", "LawViolation", "Loaded", "OwnMonoid", "PerColumn", "PerRow", "PiecedStates",
    "Pipeline", "PipelineError", "Positive", "Report", "RowVector", "ShapeError", "Spec", "States",
    "TraceError", "UnknownName", "UnprovedLaw", "__version__", "abs", "all", "any", "argmax",
    "argmin", "cast", "ceil", "check", "cos", "count", "dot", "erf", "exp", "exp2", "expm1",
    "floor", "grad", "include_dir", "index", "inner", "isfinite", "isinf", "isnan", "length",
    "library", "load", "log", "log1p", "log2", "logsumexp", "max", "maximum", "mean", "merge",
    "merge_gathered", "min", "minimum", "monoid", "pipeline", "prod", "product", "ragged", "reduce",
    "round", "row", "rsqrt", "sections", "sigmoid", "sign", "sin", "sqdist", "sqrt", "stabilize",
    "sum", "take", "tanh", "topk", "var", "where", "xlogy",
]
