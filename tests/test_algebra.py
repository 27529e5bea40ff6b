"""What the algebra merges, and what it refuses with a reason."""

from __future__ import annotations

import pytest
from cases import covariance, kl_divergence, skewness_sum, weighted_variance

import fusegen as fg
from fusegen.derivation import Commuted, Dependent, RefusalKind


def _last(fn):
    """The derivation's entry for the last reduction of a function."""
    return fg.pipeline(fn).derivation().entries[-1]


def softmax_of(x):
    return fg.exp(x - fg.max(x)) / fg.sum(fg.exp(x - fg.max(x)))


MERGED = {
    "softmax normaliser": lambda x: fg.sum(fg.exp(x - fg.max(x))),
    "temperature": lambda x: fg.sum(fg.exp((x - fg.max(x)) / 0.7)),
    "base 2": lambda x: fg.sum(fg.exp2(x - fg.max(x))),
    "soft minimum": lambda x: fg.sum(fg.exp(fg.min(x) - x)),
    "entropy": lambda x: fg.sum(fg.xlogy(softmax_of(x), softmax_of(x))),
    "squared probabilities": lambda x: fg.sum(softmax_of(x) ** 2),
    "expected value": lambda x: fg.sum(softmax_of(x) * x),
    "expected index": lambda x: fg.sum(softmax_of(x) * fg.index(x)),
    "variance": lambda x: fg.sum((x - fg.mean(x)) ** 2),
    "third moment": lambda x: fg.sum((x - fg.mean(x)) ** 3),
    "fourth moment": lambda x: fg.sum((x - fg.mean(x)) ** 4),
    "mean of squares about the maximum": lambda x: fg.mean((x - fg.max(x)) ** 2),
    "scaled squares": lambda x: fg.sum((x / fg.max(fg.abs(x))) ** 2),
    "scaled magnitudes": lambda x: fg.sum(fg.abs(x) / fg.max(fg.abs(x))),
}


@pytest.mark.parametrize("fn", MERGED.values(), ids=MERGED.keys())
def test_sums_merge_with_every_obligation_proved(fn):
    def text(x):
        return fn(x)

    entry = _last(text)
    assert isinstance(entry, Dependent), str(entry)
    assert {o.name for o in entry.obligations} >= {
        "pointwise identity",
        "read-out",
        "cocycle",
        "unit",
    }
    assert all(o.status == "proved" for o in entry.obligations)


@pytest.mark.parametrize(
    "pipeline", [kl_divergence, covariance, weighted_variance, skewness_sum], ids=lambda p: p.name
)
def test_two_inputs_and_higher_moments_take_one_sweep(pipeline):
    assert pipeline.plan(form="online").sweeps == 1
    assert not pipeline.derivation().refusals


REFUSED = {
    "raw moments about a sum": (
        lambda x: fg.sum((x - fg.sum(fg.exp(x - fg.max(x)))) ** 2), RefusalKind.MIXED_SIGN),
    "threshold at the mean": (lambda x: fg.count(x > fg.mean(x)), RefusalKind.KINK),
    "relu about the mean": (lambda x: fg.sum(fg.maximum(x - fg.mean(x), 0)), RefusalKind.KINK),
    "absolute deviation": (lambda x: fg.sum(fg.abs(x - fg.mean(x))), RefusalKind.KINK),
    "gaussian": (lambda x: fg.sum(fg.exp(-((x - fg.mean(x)) ** 2))), None),
    "exp about the mean": (lambda x: fg.sum(fg.exp(x - fg.mean(x))), RefusalKind.UNBOUNDED),
    "data-dependent temperature": (
        lambda x: fg.sum(fg.exp((x - fg.max(x)) / fg.sqrt(fg.mean(x**2)))), RefusalKind.STUCK_ATOM),
    "sine of a product": (lambda x: fg.sum(fg.sin(x * fg.max(x))), None),
    "tanh about the mean": (lambda x: fg.sum(fg.tanh(x - fg.mean(x))), None),
    "cauchy": (lambda x: fg.sum(1 / (1 + (x - fg.mean(x)) ** 2)), None),
    "softplus": (lambda x: fg.sum(fg.log(1 + fg.exp(x - fg.max(x)))), None),
    "rounding by the maximum": (
        lambda x: fg.sum(fg.round(127 * x / fg.max(fg.abs(x)))), RefusalKind.STUCK_ATOM),
    "top-K of a kink": (lambda x: fg.topk(fg.abs(x - fg.mean(x)), 3), RefusalKind.NON_MONOTONE),
    "product of shifts": (lambda x: fg.prod(x - fg.max(x)), RefusalKind.UNPROVED),
}  # fmt: skip


@pytest.mark.parametrize(("fn", "kind"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_keep_a_sweep_and_say_why(fn, kind):
    def text(x):
        return fn(x)

    pipeline = fg.pipeline(text)
    found = pipeline.derivation()
    assert found.refusals, str(found)
    refusal = found.refusals[-1]
    assert kind is None or refusal.kind is kind
    assert refusal.loc.file == __file__
    assert refusal.why
    assert refusal.fix
    assert pipeline.plan(form="online").sweeps > 1


COMMUTED = {
    "topk of softmax": lambda x: fg.topk(softmax_of(x), 4),
    "topk of log-softmax": lambda x: fg.topk(x - fg.log(fg.sum(fg.exp(x))), 4),
    "max of sigmoid": lambda x: fg.max(fg.sigmoid(x - fg.max(x))),
    "argmax of tanh": lambda x: fg.argmax(fg.tanh(x - fg.mean(x))),
    "argmax of a reversed order": lambda x: fg.argmax(fg.sum(x) - x),
}


@pytest.mark.parametrize("fn", COMMUTED.values(), ids=COMMUTED.keys())
def test_ordered_reductions_commute_with_monotone_maps(fn):
    def text(x):
        return fn(x)

    assert isinstance(_last(text), Commuted)


@pytest.mark.parametrize("name", MERGED, ids=str)
def test_check_replays_every_merged_sum(name):
    fn = MERGED[name]

    def text(x):
        return fn(x)

    fg.check(fg.pipeline(text))
