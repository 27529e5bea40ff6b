"""Attention, neighbours, losses and kernel sums: rows that are never stored (docs/vectors.md).

Shapes: inputs annotated RowVector are (…rows, d), those annotated ColumnVector (…, n_cols, d);
leading axes broadcast as NumPy's, so that grouped queries (batch, 8, 4, rows, d) share the keys of
(batch, 8, 1, n_cols, d). Nothing of the size rows × n_cols is stored. Dots and sums are computed in
float32 (float64 for float64). Every one of these can be called inside another pipeline.
"""

from __future__ import annotations

import functools
import math
import operator

from fusegen.ir.errors import ArgumentError
from fusegen.lang import lang as fg
from fusegen.lang.annotations import Positive
from fusegen.lang.signature import check_flag
from fusegen.lang.value import ColumnVector, PerColumn, PerRow, RowVector, Value
from fusegen.library.texts import PIPELINES, cross_entropy, log_softmax, one_of, softmax
from fusegen.pipeline.decorator import pipeline
from fusegen.pipeline.pipeline import Pipeline


@pipeline
def attention(
    q: RowVector, k: ColumnVector, v: ColumnVector, bias: Value | None = None,
    lengths: PerRow | None = None, positions: PerRow | None = None, sinks: PerRow | None = None,
    mask: Value | None = None, valid: PerColumn | None = None, *,
    scale: float, causal: bool = False, window: int | None = None,
    softcap: Positive | None = None, with_lse: bool = False,
) -> Value | tuple[Value, Value]:
    """Σ softmax(scale · q·k) v, a vector of v's length per row.

    scale: 1 / sqrt(d) for most models. softcap: scores s become softcap · tanh(s / softcap); bias,
    broadcasting against (…rows, n_cols), is added after that (conditions as 0 and 1: for masks see
    mask). mask: conditions, broadcasting likewise, true where a pair counts; valid: (…, n_cols),
    true where a column counts in its batch. A row attends to its first `lengths`
    columns; causal: to those up to its own position; window: to those less than `window` from it
    (with causal, to the last `window`). positions: column numbers of the rows; left out, their own
    numbers, as torch's is_causal counts. sinks: a further score of each row, whose vector is 0.
    with_lse: (result, log Σ exp(scores)), without the sink.
    A row that attends to nothing is NaN, beside a sink 0, and its log-sum-exp −inf.
    As torch.nn.functional.scaled_dot_product_attention. Raises ArgumentError for a window
    below 1, and a softcap that is not above 0.

    Vaswani et al. 2017; in one sweep since Milakov & Gimelshein 2018 and Rabe & Staats 2021.
    """
    if window is not None and (not isinstance(window, int) or window < 1 or window is True):
        raise ArgumentError(f"window is {window!r}",
                            fix="Choose a whole number from 1 on, or None.")
    check_flag("causal", causal)
    check_flag("with_lse", with_lse)
    s = scale * fg.dot(q, k)
    s = s if softcap is None else softcap * fg.tanh(s / softcap)
    s = s if bias is None else s + bias
    s = s if lengths is None else fg.ragged(s, lengths)
    for counts in (mask, valid, _near(s, positions, causal, window)):
        s = s if counts is None else fg.where(counts, s, -math.inf)
    m = fg.max(s)
    p = fg.exp(s - m)
    o = fg.sum(p * v) / fg.sum(p) if sinks is None else _beside(sinks, m, p, v)
    return (o, fg.logsumexp(s)) if with_lse else o


def _near(s: Value, positions: Value | None, causal: bool, window: int | None) -> Value | None:
    """Which columns a row sees from where it stands; None: all."""
    at = fg.row(s) if positions is None else positions
    column = fg.index(s)
    seen = [column <= at] if causal else []
    if window is not None:
        seen += [column > at - window, *([] if causal else [column < at + window])]
    return functools.reduce(operator.and_, seen) if seen else None


def _beside(sinks: Value, m: Value, p: Value, v: Value) -> Value:
    """Σ p v / (Σ p + exp(sink − m)), for p = exp(s − m): the share that log Σ exp(s) has beside the
    sink, which no size of either overflows, of what the row is without it."""
    z = fg.sum(p)
    share = fg.sigmoid(m + fg.log(z) - sinks)
    return fg.where(m == -math.inf, 0, share * (fg.sum(p * v) / z))


@pipeline
def nearest(
    x: RowVector, y: ColumnVector, *, k: int = 10, metric: str = "sqdist",
    index_dtype: str = "int64",
) -> tuple[Value, Value]:
    """(distances, columns) of the K nearest of y to each x, nearest first; ties to the lowest.

    metric: "sqdist" |x − y|², "manhattan" Σ |x − y|, or the greatest "dot" x·y, best first.
    Exact, as the text in float32. Raises ArgumentError for another metric.
    """
    one_of("metric", metric, "sqdist manhattan dot")
    if metric == "dot":
        return fg.topk(fg.dot(x, y), k, index_dtype=index_dtype)
    distance = fg.sqdist(x, y) if metric == "sqdist" else fg.inner(fg.abs(x - y))
    return fg.topk(distance, k, largest=False, index_dtype=index_dtype)


@pipeline
def kmeans_assign(x: RowVector, y: ColumnVector, *, index_dtype: str = "int64") -> Value:
    """The column of the centre y nearest to each x, by |x − y|²: a step of Lloyd's algorithm."""
    return fg.argmin(fg.sqdist(x, y), index_dtype=index_dtype)


@pipeline
def linear_cross_entropy(
    h: RowVector, w: ColumnVector, labels: PerRow, bias: PerColumn | None = None, *,
    softcap: Positive | None = None,
) -> Value:
    """−log softmax(h·w + bias)[label] per row, of logits that are never stored.

    NaN for a label out of range. softcap: logits s become softcap · tanh(s / softcap). As
    torch.nn.functional.cross_entropy of torch.nn.functional.linear(h, w, bias), reduction="none".
    Wijmans et al. 2024 (arXiv 2411.09009).
    """
    loss: Value = cross_entropy(_logits(h, w, bias, softcap), labels)
    return loss


@pipeline
def head_topk(
    h: RowVector, w: ColumnVector, bias: PerColumn | None = None, *, k: int = 5,
    temperature: Positive = 1.0, softcap: Positive | None = None, log: bool = False,
    index_dtype: str = "int64",
) -> tuple[Value, Value]:
    """(probabilities, columns) of the K greatest of softmax((h·w + bias) / temperature).

    softcap: logits s become softcap · tanh(s / softcap). log: logarithms of probabilities.
    """
    check_flag("log", log)
    logits = _logits(h, w, bias, softcap) * (1 / temperature)
    shares = log_softmax(logits) if log else softmax(logits)
    return fg.topk(shares, k, index_dtype=index_dtype)


def _logits(h: Value, w: Value, bias: Value | None, softcap: Positive | None) -> Value:
    s = fg.dot(h, w)
    s = s if bias is None else s + bias
    return s if softcap is None else softcap * fg.tanh(s / softcap)


@pipeline
def contrastive(
    x: RowVector, y: ColumnVector, positives: PerRow | None = None, *,
    temperature: Positive = 0.07, normalize: bool = False,
) -> Value:
    """−log softmax(x·y / temperature) at each row's positive: InfoNCE, a loss per row.

    positives: their columns; left out, row i's is column i. normalize: cosines in place of dots
    (NaN of a vector of zeros). van den Oord et al. 2018; the other half of CLIP's loss is
    contrastive(y, x).
    """
    check_flag("normalize", normalize)
    s = fg.dot(x, y)
    if normalize:
        s = s * fg.rsqrt(fg.inner(x * x)) * fg.rsqrt(fg.inner(y * y))
    loss: Value = cross_entropy(s / temperature, fg.row(s) if positives is None else positives)
    return loss


@pipeline
def gaussian_sum(
    x: RowVector, y: ColumnVector, b: ColumnVector | None = None, *, bandwidth: Positive = 1.0
) -> Value:
    """Σ exp(−|x − y|² / (2 bandwidth²)) b, a vector of b's length per row.

    Without b a number: the kernel density of y, but for its factor.
    """
    p = fg.exp(-fg.sqdist(x, y) / (2 * bandwidth * bandwidth))
    return fg.sum(p if b is None else p * b)


OVER_VECTORS: dict[str, Pipeline] = {
    p.name: p for p in (attention, nearest, kmeans_assign, linear_cross_entropy, head_topk,
                        contrastive, gaussian_sum)
}
EVERY: dict[str, Pipeline] = {**PIPELINES, **OVER_VECTORS}
"""Rows that lie in memory, and rows that do not."""
