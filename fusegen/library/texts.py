"""Pipelines as a textbook writes them; fusegen derives the one-sweep kernels.

Shapes: x is (…, n_cols), reduced along one axis; results are as torch's where torch has the
function. Float inputs of any precision give results of that precision, accumulated in float32
(float64 for float64). Every one of these can be called inside another pipeline.
"""

from __future__ import annotations

import functools
import math
import operator

from fusegen.ir.errors import ArgumentError
from fusegen.lang import lang as fg
from fusegen.lang.own import monoid, reduce
from fusegen.lang.signature import check_flag, check_whole
from fusegen.lang.value import PerColumn, PerRow, Value
from fusegen.pipeline.decorator import pipeline
from fusegen.pipeline.pipeline import Pipeline


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
    """log Σ exp(x) per row; −inf for a row of −inf, +inf for a row with +inf.

    As torch.logsumexp. Where the greatest element is 0 and all others vanish beside it, the result
    is 0: SciPy's takes log1p of the others' sum, and keeps their share (4.2e-18 for [0, −40]).
    """
    return fg.logsumexp(x)


@pipeline
def topk(
    x: Value, *, k: int = 5, largest: bool = True, index_dtype: str = "int64"
) -> tuple[Value, Value]:
    """(values, indices) of the K greatest (or least), best first, K in place of the reduced axis.

    NaN is greatest, ties go to the lowest index. As torch.topk.
    """
    return fg.topk(x, k, largest, index_dtype=index_dtype)


@pipeline
def argmax(x: Value, *, index_dtype: str = "int64") -> Value:
    """Column of the greatest value per row: NaN is greatest, ties to the lowest index."""
    return fg.argmax(x, index_dtype=index_dtype)


@pipeline
def softmax_topk(x: Value, *, k: int = 5, index_dtype: str = "int64") -> tuple[Value, Value]:
    """(values, indices) of the K greatest probabilities of softmax(x).

    Milakov & Gimelshein 2018, section 4 and algorithm 4: one read of x per element.
    """
    return fg.topk(softmax(x), k, index_dtype=index_dtype)


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
def moe_gate(
    x: Value, bias: PerColumn | None = None, *, k: int = 2, score: str = "softmax",
    renormalize: bool = True, scale: float = 1.0, groups: int = 1, groups_kept: int = 1,
    group_score: str = "max", index_dtype: str = "int64",
) -> tuple[Value, Value]:
    """(gates, experts) of K experts per token: the router of mixture-of-experts models.

    x is (tokens, experts), any number of them; both results are (tokens, K), best expert first.
    score: "softmax" or "sigmoid" of x. bias, (experts,): added for the selection only; gates are
    the scores themselves, divided by their sum if renormalize (NaN where it is 0), times scale.
    groups: that many equal runs of neighbouring experts, of which the groups_kept of highest
    group_score ("max", or "top2": the sum of the two best, for groups of two and more) compete; K
    is at most the number of their experts. NaN is greatest, ties go to the lowest group and expert.
    Raises ArgumentError for other words or numbers, ShapeError where experts do not divide, or
    groups have too few of them.

    Shazeer et al. 2017; DeepSeek-V3 (arXiv 2412.19437, section 2.1.2) is score="sigmoid", bias,
    k=8, groups=8, groups_kept=4, group_score="top2", scale=2.5; DeepSeek-V2 (arXiv 2405.04434) is
    groups=8, groups_kept=3, k=6, renormalize=False, scale=16.
    """
    one_of("score", score, "softmax sigmoid")
    check_flag("renormalize", renormalize)
    check_whole("k", k)
    check_whole("groups", groups)
    one_of("group_score", group_score, "max top2")
    check_whole("groups_kept", groups_kept)
    if groups_kept > groups:
        raise ArgumentError(f"groups_kept is {groups_kept!r}",
                            fix=f"Choose a whole number from 1 to {groups}.")
    scores = softmax(x) if score == "softmax" else fg.sigmoid(x)
    rated = scores if bias is None else scores + bias
    if groups != 1:
        kept = _in_kept_groups(rated, groups, groups_kept, group_score, k)
        rated = fg.where(kept, rated, -math.inf)
    _, experts = fg.topk(rated, k, index_dtype=index_dtype)
    gates = fg.take(scores, experts)
    gates = gates / fg.sum(gates) if renormalize else gates
    return gates if scale == 1 else gates * scale, experts


_TWO_BEST = monoid(
    (-math.inf, -math.inf), lambda x: (x, -math.inf),
    lambda a, b: (fg.maximum(a[0], b[0]),
                  fg.maximum(fg.minimum(a[0], b[0]), fg.maximum(a[1], b[1]))),
    lambda s: s[0] + s[1], name="two_best",
)
"""The sum of the two greatest. Their columns are not asked for: numbers merge sooner than lists."""


def _in_kept_groups(rated: Value, groups: int, kept: int, group_score: str, k: int) -> Value:
    """Which elements are in one of the `kept` best groups; there are K among them."""
    rates = 1 if group_score == "max" else 2  # elements of a group
    members = fg.sections(rated, groups, least=max(rates, -(-k // kept)))
    rows = [fg.where(inside, rated, -math.inf) for inside in members]
    if group_score == "max":
        best = [fg.max(row) for row in rows]
    else:
        best = [reduce(_TWO_BEST, row) for row in rows]
    ahead = {(a, b): (best[a] > best[b]) | (fg.isnan(best[a]) & ~fg.isnan(best[b]))
             for a in range(groups) for b in range(groups) if a > b}
    found: Value | None = None
    for group, inside in enumerate(members):
        beaten_by = [fg.where(ahead[group, b], 0, 1) for b in range(group)]  # ties: the lower wins
        beaten_by += [fg.where(ahead[a, group], 1, 0) for a in range(group + 1, groups)]
        wins = inside & (functools.reduce(operator.add, beaten_by) < kept)
        found = wins if found is None else found | wins
    assert found is not None
    return found


def one_of(what: str, word: str, words: str) -> None:
    """Raises ArgumentError for a word that is none of these."""
    if word not in words.split():
        raise ArgumentError(f"{what} is {word!r}",
                            fix=f"Choose {' or '.join(map(repr, words.split()))}.")


@pipeline
def weighted_mean(scores: Value, values: Value) -> Value:
    """Σ softmax(scores) · values per row: attention for one query and one value column."""
    m = fg.max(scores)
    return fg.sum(fg.exp(scores - m) * values) / fg.sum(fg.exp(scores - m))


PIPELINES: dict[str, Pipeline] = {
    name: found for name, found in list(globals().items()) if isinstance(found, Pipeline)
}
