"""What the algebra must merge and what it must refuse, as a user would write it."""

from __future__ import annotations

import fusegen as fg
from fusegen.ir.derivation import RefusalKind
from support import accepted

# By the name of the text.
ACCEPTED: dict[str, fg.Pipeline] = dict(accepted.ACCEPTED)
REFUSED: dict[str, tuple[fg.Pipeline, RefusalKind]] = {}


def also_accepted(fn):
    ACCEPTED[fn.__name__] = fg.pipeline(fn)
    return fn


def refused(kind):
    def note(fn):
        REFUSED[fn.__name__] = (fg.pipeline(fn), kind)
        return fn

    return note


def softmax_of(x):
    m = fg.max(x)
    return fg.exp(x - m) / fg.sum(fg.exp(x - m))


# ---- one sweep ----


@also_accepted
def normaliser_at_a_temperature(x):
    m = fg.max(x)
    return fg.sum(fg.exp((x - m) / 0.7))


@also_accepted
def entropy(x):
    return -fg.sum(fg.xlogy(softmax_of(x), softmax_of(x)))


@also_accepted
def focal(x):
    p = softmax_of(x)
    return fg.sum(p * p * (x - fg.max(x)))


@also_accepted
def moment_2(x):
    mu = fg.mean(x)
    return fg.mean((x - mu) ** 2)


@also_accepted
def two_norm(x):
    a = fg.max(fg.abs(x))
    return a * fg.sqrt(fg.sum((x / a) ** 2))


@also_accepted
def cosine_similarity(x, y):
    return fg.sum(x * y) / fg.sqrt(fg.sum(x * x) * fg.sum(y * y))


@also_accepted
def softmax_weighted_variance(x):
    y = softmax_of(x)
    nu = fg.sum(y * x)
    return fg.sum(y * (x - nu) ** 2)


@also_accepted
def squares_between_the_extremes(x):
    lo, hi = fg.min(x), fg.max(x)
    return fg.sum(((x - lo) / (hi - lo)) ** 2)


@refused(RefusalKind.RANGE)
def standardised_third_moment(x):
    mu = fg.mean(x)
    s = fg.sqrt(fg.mean((x - mu) ** 2))
    return fg.mean(((x - mu) / s) ** 3)


@also_accepted
def row_sum_of_softmax(x):
    return fg.sum(softmax_of(x))


@also_accepted
def rotation_about_the_mean(x):
    return fg.sum(fg.cos(x - fg.mean(x)))


@also_accepted
def independent_terms(x, y):
    return fg.sum((x - fg.mean(x)) ** 2 + fg.exp(y - fg.max(y)) + fg.maximum(x, 0.0))


@also_accepted
def value_beside_its_weight(x):
    return fg.sum(fg.exp(x - fg.max(x)) * fg.cos(x))


@also_accepted
def relu_below_the_maximum(x):
    return fg.sum(fg.maximum(x - fg.max(x), 0) + fg.abs(x))


@also_accepted
def tie_count(x):
    return fg.count(x == fg.max(x))


@also_accepted
def count_below_the_maximum(x):
    return fg.sum(fg.where(x < fg.max(x), 1.0, 0.0))


@also_accepted
def sum_unless_the_row_is_low(x):
    return fg.sum(fg.where(fg.mean(x) > 0, fg.exp(x), 0.0))


@also_accepted
def sum_of_either(x, y):
    low, high = fg.mean(y) < 0, fg.max(y) > 1
    return fg.sum(fg.where(low, x, fg.where(high, fg.exp(x), 1.0)))


@also_accepted
def softmax_sum_unless_few(x, y):
    p = fg.exp(x - fg.max(x))
    return fg.sum(fg.where(fg.count(y > 0) > 1, p * y, 0.0)) / fg.sum(p)


@also_accepted
def sum_where_greatest(x, y):
    return fg.sum(fg.where(x >= fg.max(x), y, 0.0))


@also_accepted
def pick_at_the_greatest(x, y):
    return fg.sum(fg.where(fg.index(y) == fg.argmax(x), y, 0.0))


@also_accepted
def topk_of_softmax(x):
    return fg.topk(softmax_of(x), 3)


@also_accepted
def topk_of_a_cube(x):
    return fg.topk((x - fg.mean(x)) ** 3, 3)


@also_accepted
def topk_of_silu_above_the_minimum(x):
    t = x - fg.min(x)
    return fg.topk(t * fg.sigmoid(t), 3)


@also_accepted
def topk_values_of_relu(x):
    values, _ = fg.topk(fg.maximum(x - fg.mean(x), 0.0), 3)
    return values


@also_accepted
def max_of_relu(x):
    return fg.max(fg.maximum(x - fg.mean(x), 0.0))


@also_accepted
def argmax_of_scaled(x):
    return fg.argmax(fg.exp(x / fg.sum(fg.abs(x))))


# ---- one sweep, about another pivot than the text's ----


@also_accepted
def exp_about_the_mean(x):
    return fg.sum(fg.exp(x - fg.mean(x)))


@also_accepted
def variance_with_weights_of_any_sign(x, w):
    nu = fg.sum(w * x) / fg.sum(w)
    return fg.sum(w * (x - nu) ** 2) / fg.sum(w)


@also_accepted
def squares_about_a_sum(x):
    return fg.sum((x - fg.sum(fg.exp(x - fg.max(x)))) ** 2)


# ---- a sweep of its own ----


@refused(RefusalKind.KINK)
def relu_about_the_mean(x):
    return fg.sum(fg.maximum(x - fg.mean(x), 0))


@refused(RefusalKind.KINK)
def absolute_deviation(x):
    return fg.sum(fg.abs(x - fg.mean(x)))


@refused(RefusalKind.KINK)
def count_above_the_mean(x):
    return fg.count(x > fg.mean(x))


@refused(RefusalKind.KINK)
def count_of_likely(x):
    y = softmax_of(x)
    return fg.count(y > fg.mean(y))


@refused(RefusalKind.STUCK_ATOM)
def rounding_by_the_greatest(x):
    return fg.sum(fg.round(4 * x / fg.max(fg.abs(x))))


@refused(RefusalKind.ORDER)
def count_near_the_second_greatest(x):
    values, _ = fg.topk(x, 2)
    return fg.count(x > fg.min(values) - 2)


@refused(RefusalKind.STUCK_ATOM)
def gaussian_about_the_mean(x):
    return fg.sum(fg.exp(-((x - fg.mean(x)) ** 2)))


@refused(RefusalKind.STUCK_ATOM)
def tanh_about_the_mean(x):
    return fg.sum(fg.tanh(x - fg.mean(x)))


@refused(RefusalKind.STUCK_ATOM)
def softplus_below_the_maximum(x):
    return fg.sum(fg.log1p(fg.exp(x - fg.max(x))))


@refused(RefusalKind.STUCK_ATOM)
def temperature_from_the_data(x):
    return fg.sum(fg.exp((x - fg.max(x)) / fg.sqrt(fg.mean(x * x))))


@refused(RefusalKind.STUCK_ATOM)
def softmax_of_softmax(x):
    return fg.sum(fg.exp(softmax_of(x)))


@refused(RefusalKind.STUCK_ATOM)
def softmax_of_layer_norm(x):
    mu = fg.mean(x)
    y = (x - mu) * fg.rsqrt(fg.mean((x - mu) ** 2) + 1e-5)
    return fg.sum(fg.exp(y - fg.max(y)))


@refused(RefusalKind.STUCK_ATOM)
def cauchy_about_the_mean(x):
    return fg.sum(1 / (1 + (x - fg.mean(x)) ** 2))


@refused(RefusalKind.STUCK_ATOM)
def sine_of_a_product(x):
    return fg.sum(fg.sin(x * fg.max(x)))


@refused(RefusalKind.NON_MONOTONE)
def topk_of_squares(x):
    return fg.topk((x - fg.mean(x)) ** 2, 2)


@refused(RefusalKind.NON_MONOTONE)
def topk_of_relu(x):
    return fg.topk(fg.maximum(x - fg.mean(x), 0.0), 2)


@refused(RefusalKind.NON_MONOTONE)
def topk_of_silu_below_the_maximum(x):
    t = x - fg.max(x)
    return fg.topk(t * fg.sigmoid(t), 2)


@refused(RefusalKind.MIXED_SIGN)
def spread_of_probabilities(x):
    return fg.sum((softmax_of(x) - 1.0 / fg.length(x)) ** 2)


@refused(RefusalKind.UNPROVED)
def product_of_shifts(x):
    return fg.prod(x - fg.max(x))
