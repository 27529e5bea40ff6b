"""Pipelines as a textbook writes them; fusegen derives the one-sweep kernels.

Shapes: x is (…, n_cols), reduced along one axis; results are as torch's where torch has the
function. Float inputs of any precision give results of that precision, accumulated in float32
(float64 for float64). Every one of these can be called inside another pipeline.
"""

from __future__ import annotations

from fusegen import lang as fg
from fusegen.pipeline import Pipeline, pipeline
from fusegen.value import PerColumn, PerRow, Value


@pipeline
def softmax(x: Value) -> Value:
    """exp(x − max) / Σ exp(x − max), shape of x. NaN for a row with +inf or NaN, or all −inf.

    Milakov & Gimelshein 2018, algorithm 2; its online form is their algorithm 3.
    """
    m = fg.max(x)
    return fg.exp(x - m) / fg.sum(fg.exp(x - m))


@pipeline
def naive_softmax(x: Value) -> Value:
    """exp(x) / Σ exp(x), shape of x: overflows from x ≈ 88 in float32, as the text does.

    Milakov & Gimelshein 2018, algorithm 1.
    """
    return fg.exp(x) / fg.sum(fg.exp(x))


@pipeline
def log_softmax(x: Value) -> Value:
    """log(softmax(x)) without losing small probabilities; shape of x. As torch.log_softmax."""
    m = fg.max(x)
    return x - m - fg.log(fg.sum(fg.exp(x - m)))


@pipeline
def logsumexp(x: Value) -> Value:
    """log Σ exp(x) per row; −inf for a row of −inf, +inf for a row with +inf. As SciPy's."""
    return fg.logsumexp(x)


@pipeline
def topk(x: Value, *, k: int = 5) -> tuple[Value, Value]:
    """(values, indices) of the K greatest, best first, K in place of the reduced axis.

    NaN is greatest, ties go to the lowest index. indices are int64. As torch.topk.
    """
    return fg.topk(x, k)


@pipeline
def argmax(x: Value) -> Value:
    """Column of the greatest value per row, int64: NaN is greatest, ties to the lowest index."""
    return fg.argmax(x)


@pipeline
def softmax_topk(x: Value, *, k: int = 5) -> tuple[Value, Value]:
    """(values, indices) of the K greatest probabilities of softmax(x).

    Milakov & Gimelshein 2018, section 4 and algorithm 4: one read of x per element.
    """
    return fg.topk(softmax(x), k)


@pipeline
def entropy(x: Value) -> Value:
    """Entropy of softmax(x) from logits x, in nats, per row; probabilities of 0 count as 0."""
    p = softmax(x)
    return -fg.sum(fg.xlogy(p, p))


@pipeline
def cross_entropy(x: Value, labels: PerRow) -> Value:
    """−log softmax(x)[label] per row; labels are integers, NaN where one is out of range.

    As torch.nn.functional.cross_entropy(reduction="none"). Not logsumexp(x) − x[label], which
    loses the digits of an offset common to all logits.
    """
    m = fg.max(x)
    return fg.log(fg.sum(fg.exp(x - m))) - (fg.take(x, labels) - m)


@pipeline
def var_mean(x: Value) -> tuple[Value, Value]:
    """(variance, mean) per row, divided by the number of columns.

    As torch.var_mean(correction=0). Online it is the pairwise update of Chan, Golub & LeVeque 1979.
    """
    return fg.var(x), fg.mean(x)


@pipeline
def layer_norm(
    x: Value, weight: PerColumn | None = None, bias: PerColumn | None = None, *, eps: float = 1e-5
) -> Value:
    """(x − mean) / sqrt(variance + eps) · weight + bias, shape of x; weight and bias (n_cols,).

    Ba, Kiros & Hinton 2016; as torch.nn.functional.layer_norm.
    """
    y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@pipeline
def rms_norm(x: Value, weight: PerColumn | None = None, *, eps: float = 1e-6) -> Value:
    """x / sqrt(mean(x²) + eps) · weight, shape of x; weight (n_cols,). Zhang & Sennrich 2019."""
    y = x * fg.rsqrt(fg.mean(x**2) + eps)
    return y if weight is None else y * weight


@pipeline
def norm2(x: Value) -> Value:
    """Euclidean norm per row, scaled so that neither 1e25 nor 1e-25 over- or underflows.

    As BLAS nrm2: 0 for a row of zeros, inf for a row with an infinity.
    """
    a = fg.max(fg.abs(x))
    scaled = a * fg.sqrt(fg.sum((x / a) ** 2))
    return fg.where((a == 0) | fg.isinf(a), a, scaled)


@pipeline
def absmax_quantize(x: Value) -> tuple[Value, Value]:
    """(int8 values, scale per row) with values · scale ≈ x and the greatest |x| at ±127.

    A row of zeros gives zeros and scale 0.
    """
    scale = fg.max(fg.abs(x)) / 127
    return fg.cast(fg.round(x / fg.where(scale == 0, 1, scale)), "int8"), scale


@pipeline
def moe_gate(x: Value, *, k: int = 2) -> tuple[Value, Value]:
    """(gates, experts): the K likeliest experts by softmax(x), gates renormalised to sum to 1.

    As the router of mixture-of-experts models; x is (tokens, experts).
    """
    p, experts = fg.topk(softmax(x), k)
    return p / fg.sum(p), experts


@pipeline
def weighted_mean(scores: Value, values: Value) -> Value:
    """Σ softmax(scores) · values per row: attention for one query and one value column."""
    m = fg.max(scores)
    return fg.sum(fg.exp(scores - m) * values) / fg.sum(fg.exp(scores - m))


PIPELINES: dict[str, Pipeline] = {
    name: found for name, found in list(globals().items()) if isinstance(found, Pipeline)
}
