"""What is built on pipelines: the library's texts, gradients, safe texts, checks."""

from typing import TYPE_CHECKING, NoReturn

from fusegen.ir.errors import UnknownName
from fusegen.lang.advice import instead
from fusegen.lang.blame import callers_line
from fusegen.library.texts import (
    PIPELINES,
    absmax_quantize,
    argmax,
    cross_entropy,
    entropy,
    layer_norm,
    log_softmax,
    logsumexp,
    moe_gate,
    naive_softmax,
    norm2,
    rms_norm,
    softmax,
    softmax_topk,
    topk,
    var_mean,
    weighted_mean,
)
from fusegen.library.vectors import (
    EVERY,
    OVER_VECTORS,
    attention,
    contrastive,
    gaussian_sum,
    head_topk,
    kmeans_assign,
    linear_cross_entropy,
    nearest,
)

if not TYPE_CHECKING:  # what a type checker knows is all there is

    def __getattr__(name: str) -> NoReturn:
        """What to write for a text that is not there."""
        if name.startswith("__"):  # a protocol that someone asks after
            raise AttributeError(name)
        raise UnknownName(f"fusegen.library has no {name}", where=callers_line(), fix=instead(name))


__all__ = [
    "EVERY",
    "OVER_VECTORS",
    "PIPELINES",
    "absmax_quantize",
    "argmax",
    "attention",
    "contrastive",
    "cross_entropy",
    "entropy",
    "gaussian_sum",
    "head_topk",
    "kmeans_assign",
    "layer_norm",
    "linear_cross_entropy",
    "log_softmax",
    "logsumexp",
    "moe_gate",
    "naive_softmax",
    "nearest",
    "norm2",
    "rms_norm",
    "softmax",
    "softmax_topk",
    "topk",
    "var_mean",
    "weighted_mean",
]
