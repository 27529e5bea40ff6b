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

from typing import TYPE_CHECKING, NoReturn

from fusegen import library
from fusegen.advice import instead
from fusegen.blame import callers_line
from fusegen.check import Report, check
from fusegen.compiled import Compiled, Spec
from fusegen.errors import (
    ArgumentError,
    BackendError,
    CompilerError,
    DTypeError,
    FusegenError,
    InternalError,
    LawViolation,
    PipelineError,
    ShapeError,
    TraceError,
    UnknownName,
    UnprovedLaw,
)  # fmt: skip
from fusegen.grad import Gradient, grad
from fusegen.grad_columns import ColumnGradient
from fusegen.lang import (
    abs,
    all,
    any,
    argmax,
    argmin,
    cast,
    ceil,
    cos,
    count,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    index,
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
    rsqrt,
    sections,
    sigmoid,
    sign,
    sin,
    sqrt,
    sum,
    take,
    tanh,
    topk,
    var,
    where,
    xlogy,
)  # fmt: skip
from fusegen.own import OwnMonoid, monoid, product, reduce
from fusegen.pipeline import Pipeline, pipeline
from fusegen.stabilize import stabilize
from fusegen.value import PerColumn, PerRow
from fusegen.version import __version__

if not TYPE_CHECKING:  # what a type checker knows is all there is

    def __getattr__(name: str) -> NoReturn:
        """What fusegen does not have: where it is, or what to write instead."""
        if name.startswith("__"):
            raise AttributeError(name)
        fix = f"Write fg.library.{name}." if name in library.PIPELINES else instead(name)
        raise UnknownName(f"fusegen has no {name}", where=callers_line(), fix=fix)


__all__ = [
    "ArgumentError", "BackendError", "ColumnGradient", "Compiled", "CompilerError", "DTypeError",
    "FusegenError", "Gradient", "InternalError", "LawViolation", "OwnMonoid", "PerColumn",
    "PerRow", "Pipeline", "PipelineError", "Report", "ShapeError", "Spec", "TraceError",
    "UnknownName", "UnprovedLaw", "__version__", "abs", "all", "any", "argmax", "argmin", "cast",
    "ceil", "check", "cos", "count", "erf", "exp", "exp2", "expm1", "floor", "grad", "index",
    "isfinite", "isinf", "isnan", "length", "library", "log", "log1p", "log2", "logsumexp", "max",
    "maximum", "mean", "min", "minimum", "monoid", "pipeline", "prod", "product", "ragged",
    "reduce", "round", "rsqrt", "sections", "sigmoid", "sign", "sin", "sqrt", "stabilize", "sum",
    "take", "tanh", "topk", "var", "where", "xlogy",
]  # fmt: skip
