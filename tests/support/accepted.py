"""User texts, outside the library, that fusegen merges into fewer sweeps: one of every kind.

`tests/test_merged_specials.py`, `tests/test_accuracy.py` and `benchmarks/accuracy.py` take them by
themselves.
"""

from __future__ import annotations

import fusegen as fg
from fusegen.lang.value import Value


@fg.pipeline
def attention(x: Value, y: Value) -> Value:
    """Σ exp(x − max x) · y: an attention numerator."""
    return fg.sum(fg.exp(x - fg.max(x)) * y)


@fg.pipeline
def softmax_moments(x: Value, y: Value) -> tuple[Value, Value]:
    """Mean of y and mean of y² under softmax(x)."""
    p = fg.library.softmax(x)
    return fg.sum(p * y), fg.sum(p * y**2)


@fg.pipeline
def softmax_squares(x: Value) -> Value:
    """Σ softmax(x)²: the collision probability."""
    return fg.sum(fg.library.softmax(x) ** 2)


@fg.pipeline
def expected_logit(x: Value) -> Value:
    """Σ softmax(x) · x."""
    return fg.sum(fg.library.softmax(x) * x)


@fg.pipeline
def kl_divergence(x: Value, y: Value) -> Value:
    """KL(softmax(x), softmax(y)) from logits."""
    p, q = fg.library.log_softmax(x), fg.library.log_softmax(y)
    return fg.sum(fg.exp(p) * (p - q))


@fg.pipeline
def third_moment(x: Value) -> Value:
    """Σ (x − mean)³."""
    return fg.sum((x - fg.mean(x)) ** 3)


@fg.pipeline
def fourth_moment(x: Value) -> Value:
    """Σ (x − mean)⁴."""
    return fg.sum((x - fg.mean(x)) ** 4)


@fg.pipeline
def fifth_moment(x: Value) -> Value:
    """Σ (x − mean)⁵."""
    return fg.sum((x - fg.mean(x)) ** 5)


@fg.pipeline
def sixth_moment(x: Value) -> Value:
    """Σ (x − mean)⁶."""
    return fg.sum((x - fg.mean(x)) ** 6)


@fg.pipeline
def softmax_variance(x: Value, y: Value) -> Value:
    """Variance of y under softmax(x), about their own mean."""
    p = fg.library.softmax(x)
    mu = fg.sum(p * y)
    return fg.sum(p * (y - mu) ** 2)


@fg.pipeline
def logit_skewness(x: Value) -> Value:
    """Third moment of x under softmax(x), about their own mean."""
    p = fg.library.softmax(x)
    mu = fg.sum(p * x)
    return fg.sum(p * (x - mu) ** 3)


@fg.pipeline
def ties(x: Value, y: Value) -> tuple[Value, Value]:
    """How often the maximum of x occurs, and the mean of y there."""
    at_top = x == fg.max(x)
    return fg.count(at_top), fg.sum(fg.where(at_top, y, 0)) / fg.count(at_top)


@fg.pipeline
def distance_to_maximum(x: Value) -> Value:
    """Σ |x − max|."""
    return fg.sum(fg.abs(x - fg.max(x)))


@fg.pipeline
def kurtosis(x: Value) -> Value:
    """Fourth moment over the square of the second."""
    u = x - fg.mean(x)
    return fg.mean(u**4) / fg.mean(u**2) ** 2


@fg.pipeline
def covariance(x: Value, y: Value) -> Value:
    """Mean of (x − mean x)(y − mean y)."""
    return fg.mean((x - fg.mean(x)) * (y - fg.mean(y)))


@fg.pipeline
def correlation(x: Value, y: Value) -> Value:
    """Covariance over both standard deviations."""
    u, v = x - fg.mean(x), y - fg.mean(y)
    return fg.sum(u * v) * fg.rsqrt(fg.sum(u**2)) * fg.rsqrt(fg.sum(v**2))


@fg.pipeline
def weighted_variance(x: Value, w: Value) -> Value:
    """Variance of x under the weights exp(w), about their own mean."""
    e = fg.exp(w)
    mu = fg.sum(e * x) / fg.sum(e)
    return fg.sum(e * (x - mu) ** 2) / fg.sum(e)


@fg.pipeline
def squares_below_maximum(x: Value) -> Value:
    """Σ (x − max)²."""
    return fg.sum((x - fg.max(x)) ** 2)


@fg.pipeline
def minmax_sum(x: Value) -> Value:
    """Σ (x − min) / (max − min)."""
    low, high = fg.min(x), fg.max(x)
    return fg.sum((x - low) / (high - low))


@fg.pipeline
def scaled_magnitudes(x: Value) -> Value:
    """Σ |x| / max |x|."""
    return fg.sum(fg.abs(x) / fg.max(fg.abs(x)))


@fg.pipeline
def lp_norm(x: Value) -> Value:
    """(Σ |x|^2.5)^(1 / 2.5), scaled by the greatest magnitude."""
    a = fg.max(fg.abs(x))
    return a * fg.sum((fg.abs(x) / a) ** 2.5) ** 0.4


@fg.pipeline
def layer_norm_backward(x: Value, g: Value) -> tuple[Value, Value]:
    """Σ g and Σ g · x̂, the row values of layer norm's gradient."""
    xhat = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + 1e-5)
    return fg.sum(g), fg.sum(g * xhat)


@fg.pipeline
def rms_norm_backward(x: Value, g: Value) -> Value:
    """Σ g · x · rsqrt(mean x²): the row value of RMS norm's gradient."""
    return fg.sum(g * x * fg.rsqrt(fg.mean(x**2) + 1e-6))


@fg.pipeline
def masked_normaliser(x: Value, y: Value) -> Value:
    """Σ exp(x − max) of the elements that y selects, about their own maximum."""
    kept = y > 0
    m = fg.max(fg.where(kept, x, float("-inf")))
    return fg.sum(fg.where(kept, fg.exp(x - m), 0))


@fg.pipeline
def squares_about_another_mean(x: Value, y: Value) -> Value:
    """Mean of (x − mean y)²: kept about the mean of x."""
    return fg.mean((x - fg.mean(y)) ** 2)


@fg.pipeline
def squares_over_another_scale(x: Value, y: Value) -> Value:
    """Σ (x / max |y|)²: kept over max |x|."""
    return fg.sum((x / fg.max(fg.abs(y))) ** 2)


@fg.pipeline
def sum_over_the_range(x: Value) -> Value:
    """Σ x / (max − min): Σ x, divided when the row is finished."""
    return fg.sum(x / (fg.max(x) - fg.min(x)))


ACCEPTED = {p.name: p for p in list(globals().values()) if isinstance(p, fg.Pipeline)}
